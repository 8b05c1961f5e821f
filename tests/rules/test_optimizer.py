# SPDX-License-Identifier: Apache-2.0
"""Which parameters an optimizer holds, and which it should."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import pytest

from firstfault.records.finding import Finding
from firstfault.records.step import Event, StepRecord
from firstfault.rules.optimizer import OptimizerOfAnotherModel, ParameterWithoutOptimizer
from firstfault.rules.protocol import Rule

MakeRecord: TypeAlias = Callable[..., StepRecord]
MakeCensus: TypeAlias = Callable[..., Event]
Say: TypeAlias = Callable[[Rule, Iterable[StepRecord]], list[Finding]]

HELD = {"body.weight": [4, 4], "body.bias": [4]}


def _another(**changes: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "with_gradient": [],
        "without_gradient": list(HELD),
        "foreign": list(HELD),
        "foreign_shapes": list(HELD.values()),
        "unheld": ["model.body.weight", "model.body.bias"],
        "unheld_shapes": list(HELD.values()),
        "partly_held": False,
    }
    return facts | changes


class TestOptimizerOfAnotherModel:
    def test_it_is_said_at_the_first_update_and_once(
        self, record: MakeRecord, census: MakeCensus, say: Say
    ) -> None:
        records = [record(step, events=[census(**_another(number=step))]) for step in range(3)]
        (finding,) = say(OptimizerOfAnotherModel(), records)
        assert (finding.step, finding.severity, finding.stage) == (0, "error", "optimizer")
        assert "made anew, copied or replaced" in finding.cause  # the shapes are the same
        assert finding.location is not None
        assert (finding.location.line, finding.location.role) == (3, "edit")

    def test_other_shapes_speak_for_another_kind_of_model(
        self, record: MakeRecord, census: MakeCensus, say: Say
    ) -> None:
        facts = _another(unheld_shapes=[[9, 9], [9]])
        (finding,) = say(OptimizerOfAnotherModel(), [record(0, events=[census(**facts)])])
        assert "no loss depends on" in finding.cause

    @pytest.mark.parametrize(
        "changes",
        [
            {"unheld": []},  # nobody else's parameters get gradients: nothing is trained at all
            {"with_gradient": ["body.weight"]},  # it does hold something that is trained
            {"foreign": [], "foreign_shapes": []},  # its parameters are of a model that is called
            {"foreign": ["body.weight"]},  # some of them are
        ],
    )
    def test_an_optimizer_with_something_of_its_own_is_healthy(
        self, changes: dict[str, Any], record: MakeRecord, census: MakeCensus, say: Say
    ) -> None:
        records = [record(step, events=[census(**_another(**changes))]) for step in range(3)]
        assert say(OptimizerOfAnotherModel(), records) == []


class TestParameterWithoutOptimizer:
    def _records(self, record: MakeRecord, census: MakeCensus, **facts: Any) -> list[StepRecord]:
        return [record(step, events=[census(number=step, **facts)]) for step in range(3)]

    def test_made_after_the_optimizer_is_an_error_where_it_was_made(
        self, record: MakeRecord, census: MakeCensus, say: Say
    ) -> None:
        where = {"file": "train.py", "line": 4, "code": "model.head = Linear(4, 2)", "function": ""}
        facts = {"unheld": ["head.weight"], "made_after": ["head.weight"], "unheld_location": where}
        (finding,) = say(ParameterWithoutOptimizer(), self._records(record, census, **facts))
        assert (finding.step, finding.severity, finding.module) == (1, "error", "head")
        assert finding.location is not None
        assert (finding.location.line, finding.location.role) == (4, "edit")

    @pytest.mark.parametrize(
        ("facts", "severity"),
        [
            # what runs last is never left out on purpose
            ({"unheld": ["head.weight"], "with_gradient": ["body.weight"]}, "error"),
            ({"unheld": ["head.weight"], "with_gradient": ["body.weight"], "loaded": True}, "error"),
            # what runs first may be frozen so
            ({"unheld": ["body.weight"], "with_gradient": ["head.weight"]}, "warning"),
            ({"unheld": ["body.weight"], "with_gradient": ["head.weight"], "loaded": True}, "info"),
            ({"unheld": ["critic.weight"], "whole_models": "eval"}, "info"),
            ({"unheld": ["critic.weight"], "whole_models": "training", "loaded": True}, "info"),
            ({"unheld": ["decoder.weight"], "whole_models": "training"}, "warning"),
            ({"unheld": ["Linear.weight"], "unregistered": ["Linear.weight"]}, "error"),
        ],
    )
    def test_how_grave_it_is_depends_on_whether_it_may_be_on_purpose(
        self, facts: dict[str, Any], severity: str, record: MakeRecord, census: MakeCensus, say: Say
    ) -> None:
        (finding,) = say(ParameterWithoutOptimizer(), self._records(record, census, **facts))
        assert (finding.severity, finding.step) == (severity, 1)
        assert finding.location is not None
        assert finding.location.line == 3

    @pytest.mark.parametrize("facts", [{"unheld": []}, {"unheld": ["critic.weight"], "partly_held": False}])
    def test_a_model_that_is_none_of_its_business_is_healthy(
        self, facts: dict[str, Any], record: MakeRecord, census: MakeCensus, say: Say
    ) -> None:
        assert say(ParameterWithoutOptimizer(), self._records(record, census, **facts)) == []

    def test_once_is_not_enough(self, record: MakeRecord, census: MakeCensus, say: Say) -> None:
        unheld = [["head.weight"], [], ["head.weight"]]
        records = [record(step, events=[census(number=step, unheld=entry)]) for step, entry in enumerate(unheld)]
        assert say(ParameterWithoutOptimizer(), records) == []

    def test_many_names_are_counted_and_not_all_said(
        self, record: MakeRecord, census: MakeCensus, say: Say
    ) -> None:
        names = [f"layer{i}.weight" for i in range(9)]
        (finding,) = say(ParameterWithoutOptimizer(), self._records(record, census, unheld=names))
        assert "layer2.weight and 6 more" in finding.message
