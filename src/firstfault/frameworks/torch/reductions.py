# SPDX-License-Identifier: Apache-2.0
"""Statistics and histograms of torch tensors, held to the numpy reference in `statistics/`. Runs in training.

All take tensors of any dtype, layout and size, and none of them changes a tensor, a random state or a graph.
Which reduction is used is a matter of cost: on CPU `aminmax` costs a ninth of `norm(inf)`, and mean and
standard deviation come from the sum and the L2 norm; `count_nonzero` mispredicts its branches on the output of a
ReLU and takes five times as long as comparing with 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from firstfault.records.series import Histogram, Series, TensorStatistics

_HALF = (torch.float16, torch.bfloat16)


def dense_values(tensor: Tensor) -> Tensor | None:
    """The tensor's own values as one dense real tensor fit for reductions, or None where it has none to read.

    Half precision becomes float32; complex numbers become pairs of real ones; a sparse tensor gives its
    explicit values, duplicates summed.
    """
    tensor = tensor.detach()
    if tensor.is_meta or tensor.is_quantized or tensor.is_nested:
        return None
    if tensor.layout is torch.sparse_coo:
        tensor = tensor.coalesce().values()
    elif tensor.layout is not torch.strided:
        tensor = tensor.values()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    if tensor.dtype in _HALF or not tensor.is_floating_point():
        tensor = tensor.to(torch.float32 if tensor.dtype in _HALF else torch.float64)
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.to(torch.float32)


def statistics_of(tensor: Tensor, series: Series, call: int = 0) -> TensorStatistics:
    """All statistics of one tensor; of an empty or unreadable one only `numel`."""
    values = dense_values(tensor)
    numel = tensor.numel()
    if values is None or values.numel() == 0:
        return TensorStatistics(series=series, call=call, numel=numel, zeros=numel if values is not None else None)
    low_tensor, high_tensor = torch.aminmax(values)
    low, high = float(low_tensor), float(high_tensor)
    total = float(values.sum())
    l2 = float(torch.linalg.vector_norm(values))
    if not math.isfinite(l2 + total) and math.isfinite(low + high):  # float32 overflowed, no element did
        wide = values.double()
        total, l2 = float(wide.sum()), float(torch.linalg.vector_norm(wide))
    implicit = max(numel * (2 if tensor.is_complex() else 1) - values.numel(), 0)
    count = values.numel() + implicit
    mean = total / count
    nans = infs = 0
    if not (math.isfinite(low) and math.isfinite(high)):
        nans = int(torch.isnan(values).sum())
        infs = int(torch.isinf(values).sum())
    if implicit:
        low, high = min(low, 0.0), max(high, 0.0)
    return TensorStatistics(
        series=series,
        call=call,
        numel=numel,
        mean=mean,
        std=math.sqrt(max(l2 * l2 / count - mean * mean, 0.0)) if math.isfinite(l2) else math.nan,
        min=low,
        max=high,
        absmax=max(abs(low), abs(high)) if not math.isnan(low) else math.nan,
        l2=l2,
        zeros=int((values == 0).sum()) + implicit,
        nans=nans,
        infs=infs,
    )


def histogram_of(tensor: Tensor, series: Series, call: int = 0, most: int = 1 << 14) -> Histogram | None:
    """Counts by sign and power of two, exact over the first `most` elements; None where there are none.

    The first elements of an activation are the first samples of the batch. All of a large tensor would cost
    some 40 times its L2 norm.
    """
    tensor = tensor.detach()
    if tensor.numel() > most and tensor.layout is torch.strided and tensor.dim() > 0:
        rows = max(most * tensor.shape[0] // tensor.numel(), 1)
        tensor = tensor[:rows].reshape(-1)[:most]
    values = dense_values(tensor)
    if values is None or values.numel() == 0:
        return None
    values = values.reshape(-1)
    exponents = torch.frexp(values).exponent - 1
    counted = torch.isfinite(values) & (values != 0)
    nans = int(torch.isnan(values).sum())
    infs = int(torch.isinf(values).sum())
    num_counted = int(counted.sum())
    zeros = values.numel() - num_counted - nans - infs
    if num_counted == 0:
        return Histogram(
            series=series,
            call=call,
            first_exponent=0,
            negative=(),
            positive=(),
            zeros=zeros,
            nans=nans,
            infs=infs,
        )
    if num_counted < values.numel():
        values, exponents = values[counted], exponents[counted]
    first, last = (int(bound) for bound in torch.aminmax(exponents))
    width = last - first + 1
    buckets = (exponents - first).to(torch.int64) + (values > 0).to(torch.int64) * width
    counts = torch.bincount(buckets, minlength=2 * width).tolist()
    return Histogram(
        series=series,
        call=call,
        first_exponent=first,
        negative=tuple(counts[:width]),
        positive=tuple(counts[width:]),
        zeros=zeros,
        nans=nans,
        infs=infs,
    )


def norms_of(gradients: Sequence[Tensor]) -> list[float]:
    """The L2 norm of every gradient, at the cost of one fused pass where all are dense and of one kind."""
    if not gradients:
        return []
    first = gradients[0]
    plain = all(
        g.layout is torch.strided and g.dtype is first.dtype and g.device == first.device for g in gradients
    )
    if plain and first.is_floating_point():
        dtype = torch.float32 if first.dtype in _HALF else None
        norms = torch._foreach_norm(list(gradients), 2, dtype=dtype)
        return torch.stack(norms).tolist() if len(norms) > 1 else [float(norms[0])]
    return [_norm_of(gradient) for gradient in gradients]


def _norm_of(gradient: Tensor) -> float:
    values = dense_values(gradient)
    if values is None:
        return math.nan
    return float(torch.linalg.vector_norm(values))


def has_non_finite(tensor: Tensor) -> bool:
    """Whether any element is NaN or infinite (an L2 norm can overflow where none is)."""
    values = dense_values(tensor)
    if values is None or values.numel() == 0:
        return False
    low, high = torch.aminmax(values)
    return not (math.isfinite(float(low)) and math.isfinite(float(high)))


def non_finite_rows(tensor: Tensor, limit: int = 16) -> tuple[int, ...]:
    """Indices along the first dimension whose elements are not all finite, the first `limit` of them."""
    values = dense_values(tensor)
    if values is None or values.dim() == 0 or values.numel() == 0:
        return ()
    bad = ~torch.isfinite(values)
    rows = bad.reshape(bad.shape[0], -1).any(dim=1).nonzero().reshape(-1)
    return tuple(rows[:limit].tolist())
