# SPDX-License-Identifier: Apache-2.0
"""How often a step may be looked at in full, so that watching keeps to its share of the time. Runs in training."""

from __future__ import annotations

import math

#: steps looked at in full whatever they cost: mistakes in the code show in them. Their cost is told apart.
NUM_FIRST_STEPS = 3


class Budget:
    """Times what full and plain steps cost and sets the stride between full ones accordingly.

    With a share `b` of the time to spend, plain steps costing `p` and full ones `f` more, and the rest of a
    step taking `t` seconds, one step in `k` may be full where `p + f/k <= b·t`.
    """

    def __init__(self, share: float, *, least_stride: int = 10, greatest_stride: int = 10_000) -> None:
        self._share = share
        self._least = least_stride
        self._greatest = greatest_stride
        self._plain: float | None = None
        self._full: float | None = None
        self._rest: float | None = None
        self.stride = least_stride
        self._last_full = 0

    def is_full(self, step: int, *, after_full: bool = False) -> bool:
        """Whether the step is to be looked at in full.

        Args:
            after_full: the step before it, which is not accounted for yet, is.
        """
        return step < NUM_FIRST_STEPS or (not after_full and step - self._last_full >= self.stride)

    def account(self, step: int, *, full: bool, ours: float, rest: float) -> None:
        """A step has closed: seconds inside our callbacks, and all its other seconds."""
        if full:
            self._last_full = step
        if step == 0:
            return  # imports, name resolution, warm caches: tells nothing about later steps
        if full:
            self._full = ours if self._full is None or step < NUM_FIRST_STEPS else _ease(self._full, ours)
        else:
            self._plain = _ease(self._plain, ours)
            self._rest = _ease(self._rest, rest)
        self.stride = self._affordable_stride()

    def _affordable_stride(self) -> int:
        if self._full is None or self._plain is None or self._rest is None:
            return self._least
        left = self._share * self._rest - self._plain
        extra = max(self._full - self._plain, 0.0)
        # plain steps that cost the whole share by themselves still leave a full one now and then
        left = max(left, 0.1 * self._share * self._rest, 1e-9)
        return min(max(math.ceil(extra / left), self._least), self._greatest)


def _ease(old: float | None, new: float) -> float:
    return new if old is None else 0.9 * old + 0.1 * new
