# SPDX-License-Identifier: Apache-2.0
"""Histograms drawn in characters, one line a layer, all on one scale. Runs outside training.

From left to right: negative values from large to small, exact zeros, positive values from small to large, in
buckets of powers of two; so under- and overflow of a number format is seen as a wall at either side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from firstfault.records.series import Histogram

_BLOCKS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Scale:
    """The powers of two that all histograms of a drawing share."""

    low: int  #: least exponent
    high: int  #: greatest exponent
    merged: int  #: buckets that are drawn as one

    @property
    def cells(self) -> int:
        """Characters for each sign."""
        return math.ceil((self.high - self.low + 1) / self.merged)

    @property
    def width(self) -> int:
        return 2 * self.cells + 3


def common_scale(histograms: Sequence[Histogram], width: int) -> Scale:
    """The scale on which all of these fit into so many characters."""
    exponents = [
        histogram.first_exponent + index
        for histogram in histograms
        for index, counts in enumerate(zip(histogram.negative, histogram.positive, strict=True))
        if any(counts)
    ] or [0]
    low, high = min(exponents), max(exponents)
    most = max((width - 3) // 2, 1)
    return Scale(low, high, math.ceil((high - low + 1) / most))


def draw_histogram(histogram: Histogram, scale: Scale) -> str:
    """One line of `scale.width` characters."""
    negative = _merge(histogram.negative, histogram.first_exponent, scale)
    positive = _merge(histogram.positive, histogram.first_exponent, scale)
    tallest = max(*negative, *positive, histogram.zeros, 1)
    left = "".join(_block(count, tallest) for count in reversed(negative))
    right = "".join(_block(count, tallest) for count in positive)
    return f"{left}│{_block(histogram.zeros, tallest)}│{right}"


def draw_axis(scale: Scale) -> str:
    """The labels under the histograms of this scale."""
    ends = f"-2^{scale.high + 1}", f"2^{scale.high + 1}"
    middle = "0"
    left = ends[0].ljust(scale.cells + 1)
    inner = f"2^{scale.low}"
    if len(ends[0]) + len(inner) + 3 <= scale.cells:
        left = ends[0] + f"-{inner}".rjust(scale.cells - len(ends[0])) + " "
        right = f" {inner}" + ends[1].rjust(scale.cells - len(inner))
    else:
        right = ends[1].rjust(scale.cells + 1)
    return f"{left}{middle}{right}"


def _merge(counts: Sequence[int], first_exponent: int, scale: Scale) -> list[int]:
    merged = [0] * scale.cells
    for index, count in enumerate(counts):
        cell = (first_exponent + index - scale.low) // scale.merged
        if count and 0 <= cell < scale.cells:
            merged[cell] += count
    return merged


def _block(count: int, tallest: int) -> str:
    """A block as high as the count; what is there at all is seen."""
    if not count:
        return " "
    return _BLOCKS[max(1, round(count / tallest * (len(_BLOCKS) - 1)))]
