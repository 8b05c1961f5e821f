# SPDX-License-Identifier: Apache-2.0
"""The fast statistics of torch tensors are those of the numpy reference."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from firstfault.frameworks.torch import reductions
from firstfault.records.series import Series
from firstfault.statistics import distribution, moments

SERIES = Series("weight", "w")
NUMBERS = st.one_of(
    st.floats(-1e6, 1e6, width=32),
    st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1e-40, -1e-45, 3e38]),
)
ARRAYS = arrays.arrays(np.float32, arrays.array_shapes(max_dims=3, max_side=6), elements=NUMBERS)


def assert_alike(fast: object, reference: object, tolerance: float) -> None:
    for field in dataclasses.fields(reference):  # type: ignore[arg-type]
        ours, theirs = getattr(fast, field.name), getattr(reference, field.name)
        if isinstance(theirs, float) and isinstance(ours, float):
            if math.isfinite(theirs) and math.isfinite(ours):
                assert ours == pytest.approx(theirs, rel=tolerance, abs=tolerance), field.name
            else:  # with infinity and overflow together, float32 and float64 may say either infinity or NaN
                assert math.isfinite(ours) == math.isfinite(theirs), field.name
        else:
            assert ours == theirs, field.name


@given(ARRAYS)
@settings(max_examples=150, deadline=None)
def test_moments_agree_with_the_reference(values: np.ndarray) -> None:
    scale = float(np.abs(values[np.isfinite(values)]).max(initial=1.0))
    fast = reductions.statistics_of(torch.tensor(values), SERIES)
    assert_alike(fast, moments.statistics_of(values, SERIES), tolerance=2e-3 * max(scale, 1.0))


@given(ARRAYS)
@settings(max_examples=150, deadline=None)
def test_histograms_agree_with_the_reference_exactly(values: np.ndarray) -> None:
    assert reductions.histogram_of(torch.tensor(values), SERIES) == distribution.histogram_of(values, SERIES)


def test_a_histogram_of_a_large_tensor_counts_its_first_elements() -> None:
    values = torch.arange(300_000, dtype=torch.float32).reshape(300, 1000) + 1
    histogram = reductions.histogram_of(values, SERIES)
    assert histogram is not None
    assert sum(histogram.positive) == 16_000  # whole rows of at most 16 384 elements


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool]
)
def test_every_dtype_has_statistics(dtype: torch.dtype) -> None:
    statistics = reductions.statistics_of(torch.tensor([0, 1, 1]).to(dtype), SERIES)
    assert (statistics.numel, statistics.min, statistics.max, statistics.zeros) == (3, 0.0, 1.0, 1)


def test_complex_sparse_and_empty_tensors_have_statistics() -> None:
    assert reductions.statistics_of(torch.tensor([3 + 4j]), SERIES).l2 == pytest.approx(5.0)
    sparse = torch.sparse_coo_tensor([[0, 0, 2]], [1.0, 2.0, -4.0], (5,), check_invariants=True)
    statistics = reductions.statistics_of(sparse, SERIES)
    assert (statistics.numel, statistics.min, statistics.max, statistics.zeros) == (5, -4.0, 3.0, 3)
    empty = reductions.statistics_of(torch.empty(0, 3), SERIES)
    assert (empty.numel, empty.mean, empty.zeros) == (0, None, 0)
    assert reductions.statistics_of(torch.empty(2, device="meta"), SERIES).numel == 2


def test_norms_of_mixed_gradients_are_taken_one_by_one() -> None:
    gradients = [
        torch.tensor([3.0, 4.0]),
        torch.tensor([3.0, 4.0], dtype=torch.bfloat16),
        torch.sparse_coo_tensor([[0, 1]], [3.0, 4.0], (9,)),
        torch.tensor([3 + 4j]),
    ]
    assert reductions.norms_of(gradients) == pytest.approx([5.0] * 4)
    assert reductions.norms_of([]) == []


def test_a_norm_that_overflows_is_told_from_a_non_finite_element() -> None:
    large = torch.full((100,), 1e30)
    assert reductions.norms_of([large]) == [math.inf]
    assert not reductions.has_non_finite(large)
    assert reductions.has_non_finite(torch.tensor([1.0, math.nan]))


def test_nothing_draws_a_random_number_or_writes_to_a_tensor() -> None:
    state, tensor = torch.get_rng_state(), torch.randn(50)
    version = tensor._version
    state = torch.get_rng_state()
    reductions.statistics_of(tensor, SERIES)
    reductions.histogram_of(tensor, SERIES)
    reductions.norms_of([tensor])
    assert torch.equal(torch.get_rng_state(), state)
    assert tensor._version == version
