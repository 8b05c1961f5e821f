# SPDX-License-Identifier: Apache-2.0
"""A curve drawn in characters, on which values that are no numbers stay visible. Runs outside training.

    for line in draw_curve([0, 1, 2], [3.0, 1.5, math.nan], width=40): print(line)

Four by two dots a character. What is NaN or infinite has no height, so it is marked below the axis, in the
column of its step: a curve that merely stops would hide the very thing that is looked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from firstfault.reports.wording import say_number

_DOTS_WIDE, _DOTS_HIGH = 2, 4
#: the braille bit of each dot in a character, by column and row
_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_LABEL_WIDTH = 9
#: beyond this ratio of greatest to least a straight scale shows nothing of the small ones
_LOGARITHMIC_FROM = 1000.0

MARKS = {"nan": "×", "inf": "∞"}


@dataclass(frozen=True, slots=True)
class _Scale:
    low: float
    high: float
    logarithmic: bool

    def height(self, value: float, dots: int) -> int:
        """The dot row of a value, 0 at the top."""
        low, high, at = (
            (math.log(self.low), math.log(self.high), math.log(value))
            if self.logarithmic
            else (self.low, self.high, value)
        )
        share = 0.5 if high == low else (at - low) / (high - low)
        return round((1 - share) * (dots - 1))


def draw_curve(steps: Sequence[int], values: Sequence[float], *, width: int = 70, height: int = 6) -> list[str]:
    """The lines of the drawing: curve, axis, steps, and one line each for NaN and infinity where there are any."""
    columns = width - _LABEL_WIDTH - 2
    first, last = (steps[0], steps[-1]) if steps else (0, 0)
    dot_of = [_column(step, first, last, columns * _DOTS_WIDE) for step in steps]
    points = list(zip(dot_of, values, strict=True))
    lines = _draw_finite(points, columns, height) if any(map(math.isfinite, values)) else []
    lines.append(" " * _LABEL_WIDTH + " └" + "─" * columns)
    lines.append(_step_labels(first, last, columns))
    for name, is_it in (("nan", math.isnan), ("inf", math.isinf)):
        cells = {x // _DOTS_WIDE for x, value in points if is_it(value)}
        if cells:
            marks = "".join(MARKS[name] if cell in cells else " " for cell in range(columns))
            lines.append(f"{name:>{_LABEL_WIDTH}}  {marks}".rstrip())
    return lines


def _column(step: int, first: int, last: int, dots: int) -> int:
    return 0 if last == first else round((step - first) / (last - first) * (dots - 1))


def _draw_finite(points: list[tuple[int, float]], columns: int, height: int) -> list[str]:
    numbers = [value for _, value in points if math.isfinite(value)]
    low, high = min(numbers), max(numbers)
    scale = _Scale(low, high, low > 0 and high / low > _LOGARITHMIC_FROM)
    cells = [[0] * columns for _ in range(height)]
    before: tuple[int, int] | None = None
    for x, value in points:
        if not math.isfinite(value):
            before = None  # a gap: no line across what was no number
            continue
        y = scale.height(value, height * _DOTS_HIGH)
        for dot_x, dot_y in _line(before or (x, y), (x, y)):
            cells[dot_y // _DOTS_HIGH][dot_x // _DOTS_WIDE] |= _BITS[dot_x % _DOTS_WIDE][dot_y % _DOTS_HIGH]
        before = (x, y)
    labels = {0: say_number(high), height - 1: say_number(low)} if high > low else {height // 2: say_number(low)}
    if scale.logarithmic:
        labels[height // 2] = "log"
    return [
        f"{labels.get(row, ''):>{_LABEL_WIDTH}} {'┤' if row in labels else '│'}"
        + "".join(chr(0x2800 + bits) if bits else " " for bits in cells[row]).rstrip()
        for row in range(height)
    ]


def _line(start: tuple[int, int], end: tuple[int, int]) -> list[tuple[int, int]]:
    """The dots between two dots, both included."""
    (x0, y0), (x1, y1) = start, end
    length = max(abs(x1 - x0), abs(y1 - y0), 1)
    return [(round(x0 + (x1 - x0) * i / length), round(y0 + (y1 - y0) * i / length)) for i in range(length + 1)]


def _step_labels(first: int, last: int, columns: int) -> str:
    left, right = f"step {first}", str(last)
    gap = columns - len(left) - len(right)
    if last == first or gap < 1:
        return " " * (_LABEL_WIDTH + 2) + left
    return " " * (_LABEL_WIDTH + 2) + left + " " * gap + right
