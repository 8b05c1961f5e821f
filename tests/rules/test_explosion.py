# SPDX-License-Identifier: Apache-2.0
"""When a loss or a gradient explodes, and when it merely looks so."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import pytest

from firstfault.records.finding import Finding
from firstfault.records.series import NO_GRADIENT
from firstfault.records.step import StepRecord
from firstfault.rules.explosion import ExplodingGradients, ExplodingLoss
from firstfault.rules.protocol import Rule

MakeRecord: TypeAlias = Callable[..., StepRecord]
Say: TypeAlias = Callable[[Rule, Iterable[StepRecord]], list[Finding]]


def _noisy(values: Iterable[float], spread: float = 0.1) -> list[float]:
    generator = random.Random(0)
    return [value * (1 + spread * generator.uniform(-1, 1)) for value in values]


GROWING = _noisy([2.0] * 20 + [2.0 * 1.3**i for i in range(40)])
HEALTHY = {
    "falling": _noisy(2.0 * 0.95**i for i in range(200)),
    "flat": _noisy([2.0] * 200, spread=0.9),
    "a change of data, unsteady": [*_noisy([0.02] * 50, spread=0.5), *_noisy([2.0] * 50, spread=0.5)],
    "one spike of a thousand times": [*_noisy([2.0] * 50), 2000.0, *_noisy([2.0] * 50)],
    "a spike that takes three steps": [*_noisy([2.0] * 50), 90.0, 2000.0, 90.0, *_noisy([2.0] * 50)],
    "a change of data": [*_noisy([0.02] * 50), *_noisy([2.0] * 50)],
    "an easy beginning": [*_noisy([0.001] * 3), *_noisy([2.0] * 100)],
    "converged to nothing and disturbed": [*(2.0 * 0.5**i for i in range(60)), *_noisy([0.5] * 60, spread=0.9)],
    "exactly zero, then not": [*[0.0] * 30, *(1.5**i for i in range(40))],
    "negative": [-2.0 * 1.3**i for i in range(60)],
    "changing its sign": [(-1) ** i * 1.3**i for i in range(60)],
    "doubled": [*_noisy([2.0] * 50), *(2.0 + 0.05 * i for i in range(60))],
}


def _losses(record: MakeRecord, values: Sequence[float]) -> list[StepRecord]:
    return [record(step, loss=value) for step, value in enumerate(values)]


class TestLoss:
    def test_a_loss_that_grows_and_grows_is_exploding(self, record: MakeRecord, say: Say) -> None:
        (finding,) = say(ExplodingLoss(), _losses(record, GROWING))
        assert (finding.rule, finding.severity, finding.stage) == ("exploding_loss", "error", "loss")
        assert finding.step is not None
        loss = GROWING[finding.step]
        assert 60 <= loss <= 600  # 30 times the level of 2, and not much later
        assert finding.evidence[0].value == loss
        assert finding.evidence[0].threshold == pytest.approx(60, rel=0.15)
        assert finding.location is not None
        assert finding.location.line == 7

    @pytest.mark.parametrize("values", HEALTHY.values(), ids=HEALTHY.keys())
    def test_a_healthy_loss_is_not(self, values: Sequence[float], record: MakeRecord, say: Say) -> None:
        assert say(ExplodingLoss(), _losses(record, values)) == []

    def test_it_is_said_before_the_loss_is_infinite(self, record: MakeRecord, say: Say) -> None:
        values = [min(2.0 * 10.0**i, math.inf) for i in range(38)] + [math.inf] * 3
        findings = say(ExplodingLoss(), _losses(record, values))
        assert [finding.step is not None and finding.step < 38 for finding in findings] == [True]

    def test_micro_steps_are_one_loss_by_their_mean(self, record: MakeRecord, say: Say) -> None:
        # single micro-batches spread over a factor of 40 in every step
        records = [record(step, loss=[0.05, 2.0, 1.0, 0.1]) for step in range(60)]
        assert say(ExplodingLoss(), records) == []

    def test_each_loss_line_has_a_level_of_its_own(self, record: MakeRecord, say: Say) -> None:
        small = [record(step, loss=0.01) for step in range(0, 60, 2)]
        large = [
            StepRecord(
                step=step,
                time=0.0,
                seconds=0.1,
                scalars=tuple(
                    type(scalar)(series=type(scalar.series)("loss", "train.py:9"), value=100.0)
                    for scalar in record(step, loss=1.0).scalars
                ),
            )
            for step in range(1, 60, 2)
        ]
        assert say(ExplodingLoss(), sorted([*small, *large], key=lambda entry: entry.step)) == []

    def test_the_message_stays_short_when_the_factor_is_huge(self, record: MakeRecord, say: Say) -> None:
        values = [1e-30] * 10 + [1e-30 * 1e9**i for i in range(1, 12)]
        rule = ExplodingLoss(window=5)
        for finding in say(rule, _losses(record, values)):
            assert len(finding.message) < 90, finding.message


class TestGradients:
    def _records(self, record: MakeRecord, values: Sequence[float]) -> list[StepRecord]:
        return [record(step, norms={"a.weight": value, "b.weight": 0.1}) for step, value in enumerate(values)]

    def test_norms_that_grow_and_grow_are_exploding(self, record: MakeRecord, say: Say) -> None:
        values = _noisy([1.0] * 20 + [1.8**i for i in range(30)])
        (finding,) = say(ExplodingGradients(), self._records(record, values))
        assert (finding.severity, finding.stage, finding.module) == ("error", "backward", "a")

    @pytest.mark.parametrize("kind", [kind for kind, values in HEALTHY.items() if min(values) > 0])
    def test_healthy_norms_are_not(self, kind: str, record: MakeRecord, say: Say) -> None:
        assert say(ExplodingGradients(), self._records(record, HEALTHY[kind])) == []

    def test_norms_that_begin_at_zero_may_grow_to_any_size(self, record: MakeRecord, say: Say) -> None:
        values = [*[0.0] * 30, *_noisy([2.0] * 60)]
        assert say(ExplodingGradients(), [record(s, norms={"a": value}) for s, value in enumerate(values)]) == []

    def test_growth_by_less_than_a_thousandfold_is_healthy(self, record: MakeRecord, say: Say) -> None:
        values = _noisy([1.0] * 20 + [1.2**i for i in range(36)])  # up to 600 times
        assert say(ExplodingGradients(), self._records(record, values)) == []

    def test_a_parameter_without_gradient_counts_as_nothing(self, record: MakeRecord, say: Say) -> None:
        records = [record(step, norms={"a": 1.0, "b": NO_GRADIENT}) for step in range(40)]
        assert say(ExplodingGradients(), records) == []

    def test_optimizers_that_take_turns_are_told_apart(self, record: MakeRecord, say: Say) -> None:
        # a critic with large gradients five times, then a generator with tiny ones
        norms = [{"critic.w": 1e4} if step % 6 else {"generator.w": 1e-4} for step in range(120)]
        assert say(ExplodingGradients(), [record(s, norms=entry) for s, entry in enumerate(norms)]) == []

    def test_float64_norms_whose_squares_overflow_do_not_stop_the_rule(self, record: MakeRecord, say: Say) -> None:
        records = [record(step, norms={"a": 10.0 ** (5 * step), "b": 10.0 ** (5 * step)}) for step in range(60)]
        assert len(say(ExplodingGradients(), records)) == 1
        say(ExplodingGradients(), [record(step, norms={"a": 1e154, "b": 1e154}) for step in range(40)])
