# SPDX-License-Identifier: Apache-2.0
"""Curves and histograms drawn in characters."""

from __future__ import annotations

import math

import pytest

from firstfault.cli.bars import common_scale, draw_axis, draw_histogram
from firstfault.cli.curve import draw_curve
from firstfault.records.series import Histogram, Series


def _histogram(**changes: object) -> Histogram:
    fields = {"first_exponent": -2, "negative": (0, 8), "positive": (1, 4), "zeros": 2, "nans": 0, "infs": 0}
    return Histogram(series=Series("weight", "w"), **(fields | changes))  # type: ignore[arg-type]


def test_every_value_that_is_no_number_has_its_mark() -> None:
    values = [1.0, 2.0, math.nan, 3.0, math.inf, -math.inf, math.nan, math.nan]
    lines = draw_curve(range(8), values, width=27)  # 16 columns: two a step
    assert [line.split()[0] for line in lines[-2:]] == ["nan", "inf"]
    assert lines[-2].count("×") == 3
    assert lines[-1].count("∞") == 2


def test_a_curve_of_nothing_but_nan_is_not_empty() -> None:
    assert "×××" in draw_curve(range(100), [math.nan] * 100, width=30)[-1]


@pytest.mark.parametrize("values", [[], [1.0], [2.0, 2.0], [0.0, -1e30, 1e30], [5e-324, 1.0]])
def test_any_numbers_can_be_drawn(values: list[float]) -> None:
    lines = draw_curve(range(len(values)), values, width=40)
    assert max(map(len, lines)) <= 40


def test_a_wide_range_is_drawn_on_a_logarithmic_scale() -> None:
    assert any(line.strip().startswith("log") for line in draw_curve([0, 1], [1e-6, 1.0], width=40))


def test_a_histogram_runs_from_negative_over_zero_to_positive() -> None:
    histogram = _histogram()
    scale = common_scale([histogram], 40)
    assert draw_histogram(histogram, scale) == "█ │▂│▁▄"
    assert len(draw_axis(scale)) >= scale.width


def test_histograms_share_one_scale_and_fit() -> None:
    wide = _histogram(first_exponent=-120, negative=(1,) * 200, positive=(1,) * 200)
    scale = common_scale([wide, _histogram()], 47)
    assert scale.width <= 47
    assert len(draw_histogram(_histogram(), scale)) == scale.width
