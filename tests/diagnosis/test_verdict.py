# SPDX-License-Identifier: Apache-2.0
"""From findings to the answer: first fault, consequences, verdict."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from firstfault.diagnosis.causes import EXPLAINS, can_explain
from firstfault.diagnosis.verdict import causal_clock, diagnose
from firstfault.records.finding import Coverage, Diagnosis, Finding
from firstfault.records.run import State, Status
from firstfault.rules.registry import BUILT_IN

_STAGES = {
    "gradients_never_cleared": "backward",
    "exploding_loss": "loss",
    "exploding_gradients": "backward",
    "non_finite_gradient": "backward",
    "non_finite_loss": "loss",
    "non_finite_weight": "weights",
    "non_finite_input": "data",
    "non_finite_activation": "forward",
    "update_changed_nothing": "weights",
}
SEEN = Coverage(steps=5, losses=1, backwards=5, optimizers=1)


def _finding(rule: str, step: int | None, severity: str = "error", **more: Any) -> Finding:
    fields: dict[str, Any] = {"stage": _STAGES.get(rule, "optimizer"), "message": f"{rule} at {step}"}
    return Finding(rule=rule, severity=severity, step=step, **(fields | more))  # type: ignore[arg-type]


def _status(state: State = "finished", coverage: Coverage = SEEN, **more: Any) -> Status:
    return Status(state=state, heartbeat=0.0, process=1, host="here", coverage=coverage, **more)


def _diagnose(*findings: Finding, state: State = "finished", coverage: Coverage = SEEN) -> Diagnosis:
    """The diagnosis; it must not depend on the order in which findings are handed over."""
    answers = [
        diagnose(order, _status(state, coverage), "r")
        for order in itertools.islice(itertools.permutations(findings), 24)
    ]
    assert all(answer == answers[0] for answer in answers)
    return answers[0]


def _names(findings: tuple[Finding, ...]) -> list[tuple[str, int | None]]:
    return [(finding.rule, finding.step) for finding in findings]


class TestFirstFault:
    def test_the_earliest_that_can_explain_the_gravest_is_the_first_fault(self) -> None:
        diagnosis = _diagnose(
            _finding("non_finite_gradient", 40, "fatal"),
            _finding("exploding_loss", 30),
            _finding("exploding_gradients", 25),
            _finding("gradients_never_cleared", 2),
        )
        assert diagnosis.first_fault is not None
        assert diagnosis.first_fault.rule == "gradients_never_cleared"
        assert _names(diagnosis.first_fault.consequences) == [
            ("exploding_gradients", 25),
            ("exploding_loss", 30),
            ("non_finite_gradient", 40),
        ]
        assert _names(diagnosis.findings) == [("gradients_never_cleared", 2)]

    def test_an_error_that_does_not_explain_the_fatal_one_still_came_first(self) -> None:
        diagnosis = _diagnose(_finding("non_finite_input", 40, "fatal"), _finding("training_in_eval_mode", 2))
        assert diagnosis.first_fault is not None
        assert diagnosis.first_fault.rule == "training_in_eval_mode"
        assert diagnosis.first_fault.consequences == ()
        assert _names(diagnosis.findings) == [("training_in_eval_mode", 2), ("non_finite_input", 40)]

    def test_a_warning_that_explains_an_error_is_the_first_fault_and_the_verdict_is_a_fault(self) -> None:
        diagnosis = _diagnose(
            _finding("exploding_loss", 3, "warning"), _finding("non_finite_loss", 9, "fatal", stage="loss")
        )
        assert diagnosis.first_fault is not None
        assert diagnosis.first_fault.rule == "exploding_loss"
        assert diagnosis.verdict == "fault"

    def test_a_warning_that_explains_nothing_is_not(self) -> None:
        diagnosis = _diagnose(_finding("parameter_without_optimizer", 1, "warning"), _finding("non_finite_loss", 9))
        assert diagnosis.first_fault is not None
        assert diagnosis.first_fault.rule == "non_finite_loss"
        assert len(diagnosis.findings) == 2

    def test_what_came_before_is_no_consequence(self) -> None:
        diagnosis = _diagnose(_finding("exploding_loss", 20), _finding("non_finite_input", 3, "warning"))
        assert diagnosis.first_fault is not None
        assert diagnosis.first_fault.rule == "non_finite_input"
        late = _diagnose(_finding("optimizer_of_another_model", 5), _finding("update_changed_nothing", 1))
        assert late.first_fault is not None
        assert late.first_fault.rule == "update_changed_nothing"
        assert late.first_fault.consequences == ()

    def test_within_a_step_the_stage_and_then_the_execution_order_decide(self) -> None:
        diagnosis = _diagnose(
            _finding("non_finite_gradient", 4, "fatal"),
            _finding("non_finite_activation", 4, "fatal", order=9),
            _finding("non_finite_activation", 4, "fatal", order=2),
            _finding("non_finite_input", 4, "fatal"),
        )
        assert diagnosis.first_fault is not None
        assert diagnosis.first_fault.rule == "non_finite_input"
        assert [finding.order for finding in diagnosis.first_fault.consequences] == [2, 9, 0]

    def test_what_happened_before_any_update_comes_first(self) -> None:
        assert causal_clock(_finding("a", None)) < causal_clock(_finding("a", 0))

    def test_information_about_ourselves_is_never_a_fault(self) -> None:
        diagnosis = _diagnose(_finding("rule_failed", 1, "info"))
        assert (diagnosis.first_fault, diagnosis.verdict) == (None, "clean")
        assert _names(diagnosis.findings) == [("rule_failed", 1)]

    def test_two_findings_of_one_rule_at_one_moment_are_both_told(self) -> None:
        # two optimizers, none of which is ever cleared
        one, other = (
            _finding("gradients_never_cleared", 2, message=f"the gradients of {name} are never cleared")
            for name in ("Adam", "Adam#1")
        )
        diagnosis = diagnose([one, other], _status(), "r")
        assert diagnosis.first_fault == one
        told = [*diagnosis.findings, *diagnosis.findings[0].consequences]
        assert {finding.message for finding in told} == {one.message, other.message}

    def test_every_finding_is_told_once_as_itself_or_as_a_consequence(self) -> None:
        findings = [
            _finding(rule, step, severity)
            for rule, step, severity in itertools.product(sorted(_STAGES), (1, 4), ("error", "warning"))
        ]
        diagnosis = diagnose(findings, _status(), "r")
        first = diagnosis.first_fault
        assert first is not None
        told = [*diagnosis.findings, *first.consequences]
        assert sorted((f.rule, f.step, f.severity) for f in told) == sorted(
            (f.rule, f.step, f.severity) for f in findings
        )
        clocks = [causal_clock(finding) for finding in diagnosis.findings]
        assert clocks == sorted(clocks)


class TestWeights:
    @pytest.mark.parametrize(
        ("state", "weights"),
        [("stopped", "unspoilt"), ("finished", "spoilt"), ("running", None), ("failed", None)],
    )
    def test_the_update_was_withheld_only_where_the_training_was_stopped(
        self, state: State, weights: str | None
    ) -> None:
        diagnosis = _diagnose(_finding("non_finite_gradient", 4, "fatal", weights="unspoilt"), state=state)
        assert diagnosis.first_fault is not None
        assert diagnosis.first_fault.weights == weights
        assert diagnosis.findings == (diagnosis.first_fault,)


class TestCloserLook:
    def test_what_the_child_found_takes_the_place_of_what_the_screen_said_of_that_step(self) -> None:
        screen = _finding("non_finite_gradient", 4, "fatal")
        closer = _finding("non_finite_activation", 4, "fatal", rung="child")
        diagnosis = _diagnose(screen, closer)
        assert diagnosis.first_fault is not None
        assert diagnosis.first_fault.rung == "child"
        assert diagnosis.first_fault.consequences == ()
        assert len(diagnosis.findings) == 1

    def test_other_steps_and_other_rules_stand(self) -> None:
        closer = _finding("non_finite_activation", 4, "fatal", rung="child")
        others = _finding("non_finite_weight", 9, "fatal"), _finding("exploding_loss", 4)
        diagnosis = _diagnose(closer, *others)
        assert diagnosis.first_fault is not None
        told = [*diagnosis.findings, *diagnosis.first_fault.consequences]
        assert {finding.rule for finding in told} == {
            "non_finite_activation",
            "non_finite_weight",
            "exploding_loss",
        }


class TestVerdict:
    @pytest.mark.parametrize(
        ("severity", "state", "verdict"),
        [
            ("fatal", "stopped", "fault"),
            ("error", "finished", "fault"),
            ("error", "failed", "fault"),  # a fault explains more than that the script failed
            ("warning", "finished", "warning"),
            ("warning", "failed", "failed"),
            ("info", "finished", "clean"),
            ("info", "failed", "failed"),
            (None, "finished", "clean"),
            (None, "running", "clean"),
            (None, "failed", "failed"),
            (None, "lost", "failed"),
        ],
    )
    def test_the_gravest_of_finding_and_state_decides(
        self, severity: str | None, state: State, verdict: str
    ) -> None:
        findings = [] if severity is None else [_finding("non_finite_loss", 3, severity)]
        assert _diagnose(*findings, state=state).verdict == verdict

    @pytest.mark.parametrize(
        ("coverage", "said"),
        [
            (Coverage(), "a backward"),
            (Coverage(backwards=3), "a loss"),
            (Coverage(backwards=3, losses=1), "an update"),
        ],
    )
    def test_without_a_loss_a_backward_and_an_update_nothing_is_called_clean(
        self, coverage: Coverage, said: str
    ) -> None:
        diagnosis = _diagnose(coverage=coverage)
        assert diagnosis.verdict == "unseen"
        assert any(text.startswith(said) for text in diagnosis.coverage.not_seen)

    def test_what_was_switched_off_is_listed_as_not_seen_once(self) -> None:
        coverage = Coverage(steps=5, losses=1, backwards=5, not_seen=("activations",))
        status = _status(coverage=coverage, warnings=("a warning", "a warning", "activations"))
        assert diagnose([], status, "r").coverage.not_seen == ("activations", "a warning")


class TestCauses:
    def test_only_rules_that_exist_are_spoken_of(self) -> None:
        family = {f"non_finite_{what}" for what in ("gradient", "loss", "activation", "weight", "input", "target")}
        known = {rule.name for rule in BUILT_IN} | family
        assert EXPLAINS.keys() <= known
        assert set().union(*EXPLAINS.values()) <= known

    def test_data_is_never_a_consequence(self) -> None:
        assert not any(
            can_explain(cause, f"non_finite_{data}") for cause in EXPLAINS for data in ("input", "target")
        )
