# SPDX-License-Identifier: Apache-2.0
"""Which stage a non-finite step is named after, from what the screen learnt."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import pytest

from firstfault.records.finding import Finding
from firstfault.records.series import GradientNorms, Series, TensorStatistics
from firstfault.records.step import Event, StepRecord
from firstfault.rules.numerics import NonFiniteTraining, NonFiniteWeight
from firstfault.rules.protocol import Rule

MakeRecord: TypeAlias = Callable[..., StepRecord]
Say: TypeAlias = Callable[[Rule, Iterable[StepRecord]], list[Finding]]


def _event(kind: str = "screen", **facts: Any) -> Event:
    common = {"bad_gradients": ["a.weight"], "num_bad": 1, "num_gradients": 2, "loss": 0.5, "loss_location": None}
    return Event(kind=kind, data=common | facts)


def _operation(stage: str, operation: str = "sqrt") -> dict[str, Any]:
    where = {"file": "model.py", "line": 9, "code": "torch.sqrt(x)", "function": "forward"}
    return {"operation": operation, "operation_stage": stage, "location": where, "order": 4, "samples": [2]}


@pytest.mark.parametrize(
    ("facts", "rule", "stage"),
    [
        ({}, "non_finite_gradient", "backward"),
        ({"loss": "nan"}, "non_finite_loss", "loss"),
        ({"loss": "inf", "bad_output_of": "head"}, "non_finite_activation", "forward"),
        (_operation("forward"), "non_finite_activation", "forward"),
        (_operation("loss"), "non_finite_loss", "loss"),
        (_operation("backward"), "non_finite_gradient", "backward"),
        ({"bad_input": {"rows": [1, 3], "shape": [8, 2]}}, "non_finite_input", "data"),
        ({"bad_target": {"rows": [], "shape": []}, "loss": "nan"}, "non_finite_target", "data"),
        ({"bad_weights": ["a.weight"], "bad_input": {"rows": [], "shape": []}}, "non_finite_weight", "weights"),
    ],
)
def test_the_finding_is_named_after_the_first_stage_that_explains_the_step(
    facts: dict[str, Any], rule: str, stage: str, record: MakeRecord, say: Say
) -> None:
    (finding,) = say(NonFiniteTraining(), [record(7, events=[_event(**facts)])])
    assert (finding.rule, finding.stage, finding.severity, finding.step) == (rule, stage, "fatal", 7)
    assert finding.weights == ("spoilt" if rule == "non_finite_weight" else "unspoilt")
    assert finding.message
    assert finding.cause
    assert finding.fix


def test_an_operation_brings_its_line_its_samples_and_its_order(record: MakeRecord, say: Say) -> None:
    (finding,) = say(NonFiniteTraining(), [record(7, events=[_event(**_operation("backward"))])])
    assert finding.location is not None
    assert (finding.location.line, finding.location.role) == (9, "edit")
    assert (finding.samples, finding.order, finding.operation) == ((2,), 4, "sqrt")
    assert "1/(2·sqrt(x))" in finding.cause


def test_a_script_that_only_infers_has_no_step_and_no_fatal_finding(record: MakeRecord, say: Say) -> None:
    event = Event(kind="output", data={"bad_output_of": "head", "bad_weights": []})
    (finding,) = say(NonFiniteTraining(), [record(0, updates=[], events=[event])])
    assert (finding.rule, finding.severity, finding.step) == ("non_finite_activation", "error", None)


def _with_weights(step: int, norm: float, **counts: int) -> StepRecord:
    return StepRecord(
        step=step,
        time=0.0,
        seconds=0.1,
        gradient_norms=GradientNorms(names=("a.weight",), values=(norm,)),
        statistics=(TensorStatistics(series=Series("weight", "a.weight"), l2=1.0, **counts),),
    )


@pytest.mark.parametrize(
    ("norm", "stage"),
    [(1.0, "weights"), (float("nan"), "optimizer")],
)
def test_a_non_finite_weight_after_an_update_is_fatal_and_said_once(norm: float, stage: str, say: Say) -> None:
    records = [
        _with_weights(0, 1.0, nans=0, infs=0),
        _with_weights(1, norm, nans=3),
        _with_weights(2, norm, nans=4),
    ]
    (finding,) = say(NonFiniteWeight(), records)
    assert (finding.step, finding.severity, finding.stage, finding.module) == (1, "fatal", stage, "a")
    assert finding.weights == "spoilt"
    assert finding.evidence[0].value == 3


def test_weights_that_were_not_counted_say_nothing(say: Say) -> None:
    assert say(NonFiniteWeight(), [_with_weights(step, 1.0) for step in range(3)]) == []
