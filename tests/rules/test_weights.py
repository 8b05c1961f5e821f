# SPDX-License-Identifier: Apache-2.0
"""Weights that do not learn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import pytest

from firstfault.records.finding import Finding
from firstfault.records.series import NO_GRADIENT
from firstfault.records.step import Event, StepRecord
from firstfault.rules.protocol import Rule
from firstfault.rules.weights import ParameterWithoutGradient, UpdateChangedNothing

MakeRecord: TypeAlias = Callable[..., StepRecord]
MakeCensus: TypeAlias = Callable[..., Event]
Say: TypeAlias = Callable[[Rule, Iterable[StepRecord]], list[Finding]]


class TestUpdateChangedNothing:
    def test_two_updates_that_changed_nothing_are_enough_and_it_is_said_once(
        self, record: MakeRecord, say: Say
    ) -> None:
        records = [record(step, norms={"a": 1.0}, changes=[0.0, 0.0]) for step in range(6)]
        (finding,) = say(UpdateChangedNothing(), records)
        assert (finding.step, finding.severity, finding.stage) == (1, "error", "weights")
        assert finding.evidence[0].value == "0 of 2"

    @pytest.mark.parametrize(
        ("norm", "rate", "cause"),
        [
            (1.0, 0.0, "learning rate is 0"),
            (0.0, 0.1, "all gradients are 0"),
            (NO_GRADIENT, 0.1, "no parameter of the optimizer has a gradient"),
            (1e-9, 1e-9, "too small for the weights' number format"),
        ],
    )
    def test_the_cause_is_told_from_the_rate_and_the_gradients(
        self, norm: Any, rate: float, cause: str, record: MakeRecord, census: MakeCensus, say: Say
    ) -> None:
        records = [
            record(step, norms={"a": norm}, changes=[0.0], rate=rate, events=[census(number=step)])
            for step in range(3)
        ]
        (finding,) = say(UpdateChangedNothing(), records)
        assert cause in finding.cause
        assert finding.location is not None
        assert finding.location.line == (3 if finding.location.role == "edit" else 7)

    def test_one_parameter_that_changed_at_all_is_enough(self, record: MakeRecord, say: Say) -> None:
        records = [record(step, norms={"a": 1.0}, changes=[0.0, 1e-38]) for step in range(6)]
        assert say(UpdateChangedNothing(), records) == []

    def test_a_converged_model_has_changed_before(self, record: MakeRecord, say: Say) -> None:
        records = [record(step, norms={"a": 0.0}, changes=[0.1 if step == 0 else 0.0]) for step in range(9)]
        assert say(UpdateChangedNothing(), records) == []

    def test_steps_that_were_not_looked_at_count_for_nothing(self, record: MakeRecord, say: Say) -> None:
        assert say(UpdateChangedNothing(), [record(step, norms={"a": 1.0}) for step in range(9)]) == []
        unreadable = [record(step, norms={"a": 1.0}, changes=[None]) for step in range(9)]
        assert say(UpdateChangedNothing(), unreadable) == []

    @pytest.mark.parametrize(("scheduled", "num_findings"), [(True, 0), (False, 1)])
    def test_warm_up_from_a_rate_of_zero_is_healthy_under_a_scheduler(
        self, scheduled: bool, num_findings: int, record: MakeRecord, census: MakeCensus, say: Say
    ) -> None:
        events = [census(scheduled=scheduled)]
        records = [
            record(step, norms={"a": 1.0}, changes=[0.0], rate=0.0, events=events if step == 0 else [])
            for step in range(5)
        ]
        assert len(say(UpdateChangedNothing(), records)) == num_findings

    def test_under_a_scheduler_nothing_changed_at_a_rate_above_zero_is_a_fault(
        self, record: MakeRecord, census: MakeCensus, say: Say
    ) -> None:
        records = [
            record(step, norms={"a": 0.0}, changes=[0.0], rate=0.01 * step, events=[census(scheduled=True)])
            for step in range(5)
        ]
        assert [finding.step for finding in say(UpdateChangedNothing(), records)] == [2]


class TestParameterWithoutGradient:
    def _records(self, record: MakeRecord, census: MakeCensus, **facts: Any) -> list[StepRecord]:
        return [record(step, events=[census(number=step, **facts)]) for step in range(3)]

    def test_a_beginning_that_the_graph_does_not_reach_is_a_fault(
        self, record: MakeRecord, census: MakeCensus, say: Say
    ) -> None:
        facts = {"without_gradient": ["body.weight", "body.bias"], "with_gradient": ["head.weight"]}
        (finding,) = say(ParameterWithoutGradient(), self._records(record, census, **facts))
        assert (finding.step, finding.severity, finding.module) == (2, "error", "body")
        assert "body.bias, body.weight" in finding.message

    def test_a_head_that_the_loss_leaves_out_is_healthy(
        self, record: MakeRecord, census: MakeCensus, say: Say
    ) -> None:
        facts = {
            "without_gradient": ["aux.weight"],
            "with_gradient": ["body.weight", "head.weight"],
            "order": ["body", "aux", "head"],
        }
        assert say(ParameterWithoutGradient(), self._records(record, census, **facts)) == []

    def test_modules_called_without_gradients_are_not_in_the_order_and_frozen_on_purpose(
        self, record: MakeRecord, census: MakeCensus, say: Say
    ) -> None:
        facts = {
            "without_gradient": ["body.weight"],
            "with_gradient": ["head.weight"],
            "order": ["head"],
        }
        assert say(ParameterWithoutGradient(), self._records(record, census, **facts)) == []

    def test_a_parameter_that_gets_one_later_is_healthy(
        self, record: MakeRecord, census: MakeCensus, say: Say
    ) -> None:
        cut = {"without_gradient": ["body.weight"], "with_gradient": ["head.weight"]}
        records = [record(step, events=[census(number=step, **(cut if step != 1 else {}))]) for step in range(3)]
        assert say(ParameterWithoutGradient(), records) == []

    def test_parameters_of_another_model_are_left_to_their_own_rule(
        self, record: MakeRecord, census: MakeCensus, say: Say
    ) -> None:
        names = ["body.weight"]
        facts = {"without_gradient": names, "foreign": names, "with_gradient": ["head.weight"]}
        assert say(ParameterWithoutGradient(), self._records(record, census, **facts)) == []

    def test_nothing_is_said_where_no_parameter_has_a_gradient(
        self, record: MakeRecord, census: MakeCensus, say: Say
    ) -> None:
        facts = {"without_gradient": ["body.weight", "head.weight"], "with_gradient": []}
        assert say(ParameterWithoutGradient(), self._records(record, census, **facts)) == []
