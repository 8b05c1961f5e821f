# SPDX-License-Identifier: Apache-2.0
"""Mistakes in the loop: gradients never cleared, training in eval mode."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import pytest

from firstfault.records.finding import Finding
from firstfault.records.step import Event, Location, StepRecord, Update
from firstfault.rules.code import GradientsNeverCleared, TrainingInEvalMode
from firstfault.rules.protocol import Rule

MakeRecord: TypeAlias = Callable[..., StepRecord]
Say: TypeAlias = Callable[[Rule, Iterable[StepRecord]], list[Finding]]


def _update(cleared: bool | None, optimizer: str = "Adam", code: str = "opt.step()") -> Update:
    return Update(
        optimizer=optimizer,
        count=0,
        learning_rates=(0.1,),
        location=Location(file="train.py", line=5, code=code),
        cleared=cleared,
    )


class TestGradientsNeverCleared:
    @pytest.mark.parametrize(
        ("cleared", "steps"),
        [
            ([None, False, False, False, False], [2]),  # nothing is known at the first; said once
            ([None, True, True, True], []),
            ([None, False, True, False, True], []),  # not two in a row
            ([None, False, None, False], [3]),  # an update that cannot be told does not break the row
            ([None, None, None], []),
        ],
    )
    def test_it_takes_two_updates_in_a_row(
        self, cleared: list[bool | None], steps: list[int], record: MakeRecord, say: Say
    ) -> None:
        records = [record(step, updates=[_update(entry)]) for step, entry in enumerate(cleared)]
        assert [finding.step for finding in say(GradientsNeverCleared(), records)] == steps

    def test_each_optimizer_has_its_own_row_and_is_named(self, record: MakeRecord, say: Say) -> None:
        records = [
            record(step, updates=[_update(True, "Adam"), _update(False, "SGD", "critic_opt.step()")])
            for step in range(4)
        ]
        (finding,) = say(GradientsNeverCleared(), records)
        assert "SGD" in finding.message
        assert finding.fix.startswith("critic_opt.zero_grad()")
        assert finding.location is not None
        assert finding.location.role == "edit"

    @pytest.mark.parametrize(
        ("code", "variable"),
        [
            ("self.optimizers[0].step()", "optimizer"),  # no plain name: the usual one
            ("self.opt.step()", "self.opt"),
            ("scaler.step(opt)", "opt"),
            ("self.grad_scaler.step(self.opt)", "self.opt"),
            ("opt.step(closure)", "opt"),
            ("trainer.fit(model)", "optimizer"),
            ("if i % 4 == 0: opt.step()", "opt"),
        ],
    )
    def test_the_fix_speaks_of_the_variable_where_it_is_plain(
        self, code: str, variable: str, record: MakeRecord, say: Say
    ) -> None:
        records = [record(step, updates=[_update(False, code=code)]) for step in range(2)]
        (finding,) = say(GradientsNeverCleared(), records)
        assert finding.fix.startswith(f"{variable}.zero_grad()")


class TestTrainingInEvalMode:
    def _event(self, model: str = "model") -> Event:
        where = {"file": "train.py", "line": 3, "code": "model.eval()", "function": ""}
        return Event(kind="eval_mode", subject=model, data={"affected": ["drop (Dropout)"], "eval_location": where})

    def test_it_takes_two_updates_in_a_row_and_points_to_the_call_of_eval(
        self, record: MakeRecord, say: Say
    ) -> None:
        records = [record(step, events=[self._event()]) for step in range(5)]
        (finding,) = say(TrainingInEvalMode(), records)
        assert (finding.step, finding.severity, finding.stage) == (1, "error", "forward")
        assert finding.location is not None
        assert (finding.location.line, finding.location.role) == (3, "edit")

    def test_one_step_between_two_validations_is_no_row(self, record: MakeRecord, say: Say) -> None:
        records = [record(step, events=[self._event()] if step % 2 else []) for step in range(10)]
        assert say(TrainingInEvalMode(), records) == []

    def test_a_record_without_an_update_counts_for_nothing(self, record: MakeRecord, say: Say) -> None:
        records = [record(step, updates=[], events=[self._event()]) for step in range(5)]
        assert say(TrainingInEvalMode(), records) == []

    def test_models_are_told_apart(self, record: MakeRecord, say: Say) -> None:
        records = [record(step, events=[self._event("model" if step % 2 else "teacher")]) for step in range(6)]
        assert say(TrainingInEvalMode(), records) == []
