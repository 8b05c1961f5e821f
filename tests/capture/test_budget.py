# SPDX-License-Identifier: Apache-2.0
"""How often a step is looked at in full, for a given share of the time."""

from __future__ import annotations

import itertools

import pytest

from firstfault.capture.budget import NUM_FIRST_STEPS, Budget


def _simulate(
    share: float, *, plain: float, full: float, rest: float, steps: int = 3000
) -> tuple[list[int], float]:
    """The steps looked at in full, and the share of the time it cost after the first steps."""
    budget = Budget(share)
    chosen, ours = [], 0.0
    for step in range(steps):
        is_full = budget.is_full(step)
        cost = full if is_full else plain
        if is_full:
            chosen.append(step)
        if step >= NUM_FIRST_STEPS:
            ours += cost
        budget.account(step, full=is_full, ours=cost * (50 if step == 0 else 1), rest=rest)
    return chosen, ours / (rest * (steps - NUM_FIRST_STEPS))


def test_the_first_steps_are_looked_at_in_full_whatever_it_costs() -> None:
    chosen, _ = _simulate(0.01, plain=1.0, full=100.0, rest=1.0)
    assert chosen[:NUM_FIRST_STEPS] == [0, 1, 2]


@pytest.mark.parametrize("full", [0.001, 0.01, 0.1, 1.0])
@pytest.mark.parametrize("share", [0.01, 0.025, 0.1])
def test_it_keeps_to_its_share(share: float, full: float) -> None:
    chosen, spent = _simulate(share, plain=0.0001, full=full, rest=0.1)
    assert spent <= share * 1.1
    assert len(chosen) > NUM_FIRST_STEPS


def test_cheap_looks_are_still_no_more_than_one_step_in_ten() -> None:
    chosen, _ = _simulate(0.5, plain=0.0, full=1e-6, rest=1.0, steps=103)
    assert [later - earlier for earlier, later in itertools.pairwise(chosen[3:])] == [10] * 9


def test_plain_steps_that_cost_the_whole_share_still_leave_a_full_one_now_and_then() -> None:
    chosen, _ = _simulate(0.025, plain=0.01, full=0.05, rest=0.1, steps=6000)
    assert len(chosen) >= NUM_FIRST_STEPS + 10


def test_a_cost_that_falls_brings_more_full_steps() -> None:
    budget = Budget(0.025)
    strides = []
    for step in range(4000):
        is_full = budget.is_full(step)
        full = 1.0 if step < 1000 else 0.01
        budget.account(step, full=is_full, ours=full if is_full else 0.0001, rest=0.1)
        strides.append(budget.stride)
    assert strides[-1] < strides[999] / 3


def test_steps_that_take_no_time_do_not_divide_by_zero() -> None:
    chosen, _ = _simulate(0.025, plain=0.0, full=0.0, rest=1e-12)
    assert len(chosen) > NUM_FIRST_STEPS
