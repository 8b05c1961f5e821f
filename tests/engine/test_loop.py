# SPDX-License-Identifier: Apache-2.0
"""The loop that all engines share, with rules of its own for the test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import pytest

from firstfault.engine.in_process import InProcessEngine
from firstfault.engine.loop import RuleLoop, is_silenced_in
from firstfault.engine.offline import judge
from firstfault.records.finding import SEVERITIES, FaultLocation, Finding, Severity
from firstfault.records.request import Request
from firstfault.records.step import Event, StepRecord
from firstfault.rules.protocol import Rule


def _record(step: int, *events: Event) -> StepRecord:
    return StepRecord(step=step, time=float(step), seconds=0.1, events=events)


def _finding(rule: str, step: int | None = 0, severity: Severity = "error", code: str = "") -> Finding:
    location = FaultLocation(file="train.py", line=1, code=code) if code else None
    return Finding(rule=rule, severity=severity, step=step, stage="loss", message="m", location=location)


@dataclass
class EveryThirdStep(Rule):
    """Speaks at each third record that this very rule object is given."""

    name: ClassVar[str] = "every_third_step"
    code: str = ""
    severity: Severity = "error"
    _count: int = 0

    def observe(self, step: StepRecord) -> Iterable[Finding]:
        self._count += 1
        if self._count % 3 == 0:
            yield _finding(self.name, step.step, self.severity, self.code)


class FailsAtStepTwo(Rule):
    """Has a mistake in it that shows after it has said something."""

    name = "fails_at_step_two"

    def observe(self, step: StepRecord) -> Iterator[Finding]:
        if step.step == 2:
            yield _finding(self.name, 2)
            raise ZeroDivisionError("division by zero")
        yield _finding(self.name, step.step)


def _steps_spoken(rules: list[Callable[[], Rule]], records: Iterable[StepRecord]) -> list[tuple[str, int | None]]:
    return [(finding.rule, finding.step) for finding in judge(records, RuleLoop(rules))]


def test_findings_come_in_the_order_of_the_records() -> None:
    said = _steps_spoken([EveryThirdStep], map(_record, range(9)))
    assert said == [("every_third_step", 2), ("every_third_step", 5), ("every_third_step", 8)]


def test_a_rule_that_fails_is_switched_off_and_said_so_and_the_others_go_on() -> None:
    findings = judge(map(_record, range(6)), RuleLoop([FailsAtStepTwo, EveryThirdStep]))
    said = [(finding.rule, finding.step) for finding in findings]
    assert said == [
        ("fails_at_step_two", 0),
        ("fails_at_step_two", 1),
        ("fails_at_step_two", 2),
        ("rule_failed", 2),
        ("every_third_step", 2),
        ("every_third_step", 5),
    ]
    failure = findings[3]
    assert failure.severity == "info"  # about us, not about the training
    assert "fails_at_step_two" in failure.message
    assert "ZeroDivisionError: division by zero" in failure.message
    assert "--ignore fails_at_step_two" in failure.fix


def test_a_rule_that_only_has_no_observe_is_reported_by_the_name_of_its_class() -> None:
    class Unfinished(Rule):
        pass

    (finding,) = judge([_record(0), _record(1)], RuleLoop([Unfinished]))
    assert (finding.rule, "Unfinished" in finding.message) == ("rule_failed", True)


def test_another_training_in_the_same_run_starts_the_rules_anew() -> None:
    records = [_record(0), _record(1), _record(2, Event(kind="training", subject="fold 2")), _record(3), _record(4)]
    assert _steps_spoken([EveryThirdStep], records) == [("every_third_step", 4)]


# A rule with a mistake in it fails in the next training as well, and is said to fail once more there: windows
# start anew, so does this.
def test_a_rule_that_failed_is_back_in_another_training() -> None:
    records = [_record(2), _record(3), _record(4, Event(kind="training"))]
    said = _steps_spoken([FailsAtStepTwo], records)
    assert said == [("fails_at_step_two", 2), ("rule_failed", 2), ("fails_at_step_two", 4)]


def test_a_rule_that_is_ignored_is_not_even_made() -> None:
    made: list[str] = []

    def make() -> Rule:
        made.append("one")
        return EveryThirdStep()

    loop = RuleLoop([make], ignore=["every_third_step"])
    assert judge(map(_record, range(9)), loop) == []


def test_a_finding_of_a_family_is_ignored_by_its_own_name() -> None:
    class Family(Rule):
        name = "family"

        def observe(self, step: StepRecord) -> Iterable[Finding]:
            return [_finding("family_one", step.step), _finding("family_two", step.step)]

    findings = judge([_record(0)], RuleLoop([Family], ignore=["family_one"]))
    assert [finding.rule for finding in findings] == ["family_two"]


@pytest.mark.parametrize(
    ("code", "is_silenced"),
    [
        ("loss.backward()  # firstfault: ok every_third_step", True),
        ("loss.backward()  #firstfault:ok every_third_step", True),
        ("loss.backward()  # firstfault: ok other_rule, every_third_step", True),
        ("loss.backward()  # firstfault: ok other_rule every_third_step", True),
        ("loss.backward()  # firstfault: ok", True),
        ("loss.backward()  # noqa  # firstfault: ok every_third_step", True),
        ("loss.backward()  # firstfault: ok every_third_step  # noqa", True),
        ("loss.backward()  # firstfault: ok every_third_step, since we know", True),
        ("loss.backward()  # firstfault: ok other_rule", False),
        ("loss.backward()  # firstfault: ok every_third", False),
        ("loss.backward()  # firstfault is okay with every_third_step", False),
        ("loss.backward()  # firstfault: okay", False),
        ("loss.backward()", False),
    ],
)
def test_a_comment_on_the_line_silences_the_rules_it_names(code: str, is_silenced: bool) -> None:
    assert is_silenced_in(code, "every_third_step") is is_silenced
    findings = judge(map(_record, range(3)), RuleLoop([lambda: EveryThirdStep(code=code)]))
    assert (findings == []) is is_silenced


class TestInProcess:
    """What the engine beside the training asks for."""

    @pytest.mark.parametrize("stop_on", [*SEVERITIES[:3], "never"])
    def test_it_asks_for_a_stop_at_findings_grave_enough_and_hands_all_of_them_on(self, stop_on: Severity) -> None:
        for severity in SEVERITIES:
            found: list[Finding] = []
            asked: list[Request] = []
            loop = RuleLoop([lambda severity=severity: EveryThirdStep(severity=severity)])
            engine = InProcessEngine(loop, stop_on=stop_on, on_finding=found.append, on_request=asked.append)
            for step in range(3):
                engine.observe(_record(step))
            stops = stop_on in SEVERITIES and SEVERITIES.index(severity) <= SEVERITIES.index(stop_on)
            assert [finding.severity for finding in found] == [severity]
            assert [request.wish for request in asked] == ["stop"] * stops
            if asked:
                assert asked[0].reason.startswith("every_third_step: ")
