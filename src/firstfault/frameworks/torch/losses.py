# SPDX-License-Identifier: Apache-2.0
"""The loss as the user means it: without the scaler's factor and the divisor of accumulation. Runs in training."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import _disable_current_modes

from firstfault.frameworks.torch.patches import Patches

#: functional losses whose second argument is the target
FUNCTIONAL_LOSSES = (
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "gaussian_nll_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "multilabel_margin_loss",
    "multi_margin_loss",
    "nll_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
)
_LONGEST_HEAD = 4  # factors that are undone at most


def loss_value(loss: Tensor, scale: Tensor | None = None) -> float:
    """What `backward` was called on, as a number; the mean of a tensor that is not a scalar.

    Args:
        loss: any tensor with a graph.
        scale: the loss scaler's factor, a scalar, where one is in use.
    """
    value = float(loss.detach()) if loss.numel() == 1 else float(loss.detach().float().mean())
    node = loss.grad_fn
    for _ in range(_LONGEST_HEAD):
        factor, node = _constant_factor(node, scale)
        if node is None:
            break
        value /= factor
    return value


def _constant_factor(node: Any, scale: Tensor | None) -> tuple[float, Any]:
    """The factor that a graph's head multiplies by, and the node below; (1, None) where it is no such head."""
    name = "" if node is None else node.name()
    if name not in ("MulBackward0", "DivBackward0"):
        return 1.0, None
    (left, _), (right, _) = node.next_functions
    if (left is None) == (right is None):
        return 1.0, None
    if name == "DivBackward0":
        return _divisor(node._saved_other, left)
    constant = node._saved_other if right is None else node._saved_self
    if constant is None or constant.numel() != 1:
        return 1.0, None
    below = left if right is None else right
    if scale is not None and constant.data_ptr() == scale.data_ptr():
        return float(scale), below
    # `loss * 0.25` is a division by 4; `0.3 * loss` is a weight, and part of what the user calls the loss
    factor = _number(constant)
    return (factor, below) if factor > 0 and _is_count(1 / factor) else (1.0, None)


def _divisor(constant: Tensor | None, below: Any) -> tuple[float, Any]:
    if constant is None or constant.numel() != 1 or below is None or not _is_count(_number(constant)):
        return 1.0, None
    return 1 / _number(constant), below


def _number(constant: Tensor) -> float:
    """The value of a constant that a graph holds; a dispatch mode (a counter of operations) fails on these."""
    if torch._C._len_torch_dispatch_stack() == 0:
        return float(constant)
    with _disable_current_modes():
        return float(constant)


def _is_count(number: float) -> bool:
    return math.isfinite(number) and number >= 2 and abs(number - round(number)) < 1e-9


class Targets:
    """The latest target that a functional loss was called with, as long as the script holds it."""

    def __init__(self) -> None:
        self._latest: weakref.ref[Tensor] | None = None
        self._kept: Tensor | None = None
        self.keeps = False  #: hold on to the target (in a second run, where memory matters less than the answer)
        self._is_on = True

    def install(self, patches: Patches) -> None:
        for name in FUNCTIONAL_LOSSES:
            patches.wrap(functional, name, self._watch)
        patches.on_removal(self.switch_off)

    def switch_off(self) -> None:
        self._is_on = False

    def _watch(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self._is_on and not torch.compiler.is_compiling():
            target = args[1] if len(args) > 1 else kwargs.get("target")
            if isinstance(target, Tensor):
                self._latest = weakref.ref(target)
                self._kept = target if self.keeps else None
        return original(*args, **kwargs)

    def latest(self) -> Tensor | None:
        return None if self._latest is None else self._latest()
