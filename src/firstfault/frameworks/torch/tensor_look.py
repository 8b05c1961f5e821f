# SPDX-License-Identifier: Apache-2.0
"""Is a tensor bad, and how? Runs inside the training process, during replay; draws no random numbers.

Covers what `isfinite` alone does not: complex, sparse, nested, 8-bit, empty, sharded and storage-less tensors.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import torch

from firstfault.frameworks.torch.bad_operation import TensorSummary

NUM_SAMPLES = 16
_COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


@dataclass(slots=True)
class Look:
    """Whether a tensor holds NaN or infinities; `mask` only where asked for and the tensor is bad."""

    tensor: Any
    has_nan: bool = False
    has_inf: bool = False  #: not looked for where there is NaN
    low: float | None = None  #: least element; NaN if there is one; None where nothing can be bad
    high: float | None = None
    mask: Any = None  #: where it is not finite
    summary: TensorSummary | None = None  #: taken at once where the tensor is about to be overwritten

    @property
    def bad(self) -> bool:
        return self.has_nan or self.has_inf


def look(tensor: Any, *, keep_mask: bool = False) -> Look:
    """One reduction over the tensor, and one read of two numbers."""
    values = numbers(tensor)
    if values is None:
        return Look(tensor)
    low, high = torch.stack(torch.aminmax(values)).tolist()
    has_inf = math.isinf(low) or math.isinf(high)
    answer = Look(tensor, has_nan=math.isnan(low), has_inf=has_inf, low=low, high=high)
    if keep_mask and answer.bad and values.shape == tensor.shape:
        answer.mask = ~torch.isfinite(values)
    return answer


def look_before_writing(tensor: Any, *, keep_mask: bool) -> Look:
    """A look at a tensor that is about to be overwritten."""
    answer = look(tensor, keep_mask=keep_mask)
    answer.summary = summary(tensor) if answer.bad else _clean_summary(tensor, answer.low, answer.high)
    return answer


def carrier(tensor: Any) -> Any | None:
    """The plain tensor that holds the numbers of `tensor`, or None where there is none to read."""
    tensor = getattr(tensor, "_local_tensor", tensor)  # of a sharded tensor, this worker's part
    if tensor.device.type == "meta" or type(tensor).__name__ in ("FakeTensor", "FunctionalTensor"):
        return None
    if tensor.layout is torch.sparse_coo:
        return tensor._values()
    if tensor.layout in _COMPRESSED or tensor.layout is torch.jagged:
        return tensor.values()
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
        return None
    return tensor


def numbers(tensor: Any) -> Any | None:
    """The elements of `tensor` in a real floating type, or None where nothing in it can be bad."""
    plain = carrier(tensor)
    if plain is None or plain.numel() == 0:
        return None
    if plain.is_complex():
        plain = torch.view_as_real(plain.resolve_conj().resolve_neg())
    if not plain.is_floating_point():
        return None
    return plain.float() if plain.element_size() == 1 else plain


def summary(tensor: Any) -> TensorSummary:
    """What to show of a tensor."""
    values = numbers(tensor)
    if values is None:
        return _clean_summary(tensor, None, None)
    finite = values[torch.isfinite(values)]
    low, high = torch.stack(torch.aminmax(finite)).tolist() if finite.numel() else (None, None)
    return dataclasses.replace(
        _clean_summary(tensor, low, high),
        num_nonfinite=values.numel() - finite.numel(),
        num_nan=int(torch.isnan(values).sum()),
    )


def _clean_summary(tensor: Any, low: float | None, high: float | None) -> TensorSummary:
    return TensorSummary(
        shape=tuple(int(size) for size in tensor.shape),
        dtype=str(tensor.dtype).removeprefix("torch."),
        min=low,
        max=high,
        num_nonfinite=0,
        num_nan=0,
    )


def only_negative_infinity(tensor: Any) -> bool:
    """Whether all that is bad in it is minus infinity, as in a mask."""
    values = numbers(tensor)
    return values is not None and not bool((torch.isnan(values) | torch.isposinf(values)).any())


def bad_rows(tensor: Any, batch_size: int | None) -> tuple[int, ...] | None:
    """Indices along the first dimension that hold a bad value, if that dimension is the batch."""
    if batch_size is None or tensor.dim() == 0 or tensor.shape[0] != batch_size:
        return None
    values = numbers(tensor)
    if values is None or values.shape[:1] != tensor.shape[:1]:
        return None
    rows = (~torch.isfinite(values)).flatten(1).any(1) if values.dim() > 1 else ~torch.isfinite(values)
    return tuple(rows.nonzero().flatten()[:NUM_SAMPLES].tolist())
