# SPDX-License-Identifier: Apache-2.0
"""A diagnosis as data: the JSON contract, and the sections that terminal and page show. Runs outside training.

diagnosis_to_json(diagnosis)                 # the contract of `docs/json.md`
build_report(diagnosis, run, status)         # the same in words, section by section
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from firstfault.records.encoding import to_json
from firstfault.records.finding import (
    SEVERITIES,
    Coverage,
    Diagnosis,
    FaultLocation,
    Finding,
    Overhead,
    Rung,
    Severity,
    Verdict,
)
from firstfault.records.run import Run, Status
from firstfault.records.step import Json
from firstfault.reports.excerpt import CodeLine, read_excerpt
from firstfault.reports.wording import (
    WEIGHTS,
    say_consequences,
    say_count,
    say_error,
    say_number,
    say_place,
    say_rule,
    say_samples,
    say_seconds,
    say_share,
    say_signal,
)

SCHEMA_VERSION = 1

_RUNGS: dict[Rung, str] = {
    "root_module": "found by running the model on this batch again",
    "tape": "found by running this step again",
    "child": "found by running the script again up to this step",
    "armed": "found by watching the steps that followed",
}
#: below this a diagnosis says how sure it is
_SURE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRow:
    """One quantity as it is shown; empty text where there is nothing."""

    quantity: str
    value: str
    threshold: str
    step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The user's line, and where in the training it ran."""

    title: str  #: `train.py:26 in pair_loss`
    note: str  #: whether the line is to be changed, or merely ran
    code: tuple[CodeLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherFinding:
    """A finding that is neither the first fault nor one of its consequences."""

    severity: Severity
    title: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosisReport:
    """What a person is told, in the order they are told it. Empty text or tuple: nothing to say."""

    run: str
    verdict: Verdict
    headline: str
    message: str = ""
    context: str = ""  #: epoch, batch, module, operation, samples
    where: Where | None = None
    evidence: tuple[EvidenceRow, ...] = ()
    found_by: str = ""
    cause: str = ""
    fix: str = ""  #: may hold code, see `wording.split_code`
    weights: str = ""
    consequences: str = ""
    ending: str = ""  #: how the script ended, where that is not the headline
    silence: str = ""  #: how to silence the finding, where it may be a false alarm
    others: tuple[OtherFinding, ...] = ()
    not_seen: tuple[str, ...] = ()
    cost: str = ""
    look_further: str = ""


def diagnosis_to_json(diagnosis: Diagnosis) -> dict[str, Json]:
    """The contract with other programs, `docs/json.md`: these keys, always all of them."""
    coverage = diagnosis.coverage
    return {
        "schema": SCHEMA_VERSION,
        "run": diagnosis.run,
        "verdict": diagnosis.verdict,
        "coverage": {
            "steps": coverage.steps,
            "losses": coverage.losses,
            "optimizers": coverage.optimizers,
            "not_seen": list(coverage.not_seen),
        },
        "first_fault": None if diagnosis.first_fault is None else finding_to_json(diagnosis.first_fault),
        "findings": [finding_to_json(finding) for finding in diagnosis.findings],
        "overhead": to_json(diagnosis.overhead),
    }


def finding_to_json(finding: Finding) -> dict[str, Json]:
    """One finding in the contract's form."""
    location = finding.location
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "step": finding.step,
        "stage": finding.stage,
        "place": to_json(finding.place),
        "module": finding.module,
        "operation": finding.operation,
        "location": None if location is None else _location_to_json(location),
        "message": finding.message,
        "cause": finding.cause,
        "fix": finding.fix,
        "confidence": to_json(finding.confidence),
        "weights": finding.weights,
        "evidence": [to_json(entry) for entry in finding.evidence],
        "rung": finding.rung,
        "samples": None if finding.samples is None else list(finding.samples),
        "consequences": [finding_to_json(consequence) for consequence in finding.consequences],
    }


def _location_to_json(location: FaultLocation) -> dict[str, Json]:
    return {"file": location.file, "line": location.line, "code": location.code, "role": location.role}


def build_report(
    diagnosis: Diagnosis,
    run: Run | None = None,
    status: Status | None = None,
    *,
    signal: int | None = None,
    answers_to: str | None = None,
) -> DiagnosisReport:
    """The diagnosis in words.

    Args:
        run: tells where the user's files are; without it only the line itself can be shown.
        status: tells how the script ended.
        signal: the signal that ended the script, where the caller saw it.
        answers_to: what the run is found by, where its id will not do.
    """
    folders = [Path(run.working_directory)] if run is not None else []
    ending = say_ending(status, signal)
    cost = say_cost(diagnosis.overhead) if diagnosis.overhead.seconds > 0 else ""
    name = diagnosis.run if answers_to is None else answers_to
    look_further = f"firstfault show {name}" if name else ""
    main = main_finding(diagnosis)
    if main is None:
        return DiagnosisReport(
            run=diagnosis.run,
            verdict=diagnosis.verdict,
            headline=_headline_without_fault(diagnosis, ending),
            message=_message_without_fault(diagnosis),
            where=_place_of_failure(diagnosis, status, folders),
            ending="" if diagnosis.verdict == "failed" else ending,
            others=_other_findings(diagnosis, None),
            not_seen=diagnosis.coverage.not_seen,
            cost=cost,
            look_further=look_further,
        )
    return DiagnosisReport(
        run=diagnosis.run,
        verdict=diagnosis.verdict,
        headline=headline_of(main),
        message=main.message,
        context=_context_of(main),
        where=None if main.location is None else _where(main.location, folders),
        evidence=tuple(_evidence_row(main, index) for index in range(len(main.evidence))),
        found_by=_RUNGS[main.rung] if main.rung else "",
        cause=_cause_of(main),
        fix=main.fix,
        weights=WEIGHTS[main.weights] if main.weights else "",
        consequences=say_consequences(main.consequences),
        ending=ending,
        silence=f"--ignore {main.rule}" if main.severity != "fatal" else "",
        others=_other_findings(diagnosis, main),
        not_seen=diagnosis.coverage.not_seen,
        cost=cost,
        look_further=look_further,
    )


def main_finding(diagnosis: Diagnosis) -> Finding | None:
    """The finding to tell first: the first fault, else the gravest of the warnings that make the verdict."""
    if diagnosis.first_fault is not None:
        return diagnosis.first_fault
    if diagnosis.verdict not in ("fault", "warning"):
        return None
    return min(diagnosis.findings, key=lambda finding: SEVERITIES.index(finding.severity), default=None)


def headline_of(finding: Finding) -> str:
    """`non-finite gradient, step 37, backward`."""
    step = "" if finding.step is None else f", step {finding.step}"
    return f"{say_rule(finding.rule)}{step}, {finding.stage}"


def say_ending(status: Status | None, signal: int | None = None) -> str:
    """How a script ended, where it did not end by itself and well."""
    if signal is not None:
        return say_signal(signal)
    if status is None:
        return ""
    if status.state == "stopped":
        where = "" if status.last_step is None else f" at step {status.last_step}"
        return f"firstfault stopped the training{where} (exit code 3; --stop-on never lets it go on)"
    if status.state == "lost":
        return say_error(status.error) or "the script is gone without a word (perhaps killed)"
    return say_error(status.error)


def say_cost(overhead: Overhead) -> str:
    """`1.2 % (0.8 s), first steps 0.3 s`."""
    if overhead.fraction == 0:  # no step after the first ones, which are told apart
        return say_seconds(overhead.seconds)
    cost = f"{say_share(overhead.fraction)} ({say_seconds(overhead.seconds)})"
    if overhead.first_steps_seconds:
        cost += f", first steps {say_seconds(overhead.first_steps_seconds)}"
    return cost


def _context_of(finding: Finding) -> str:
    parts = [
        say_place(finding.place),
        f"module {finding.module}" if finding.module else "",
        f"operation {finding.operation}" if finding.operation else "",
        say_samples(finding.samples) if finding.samples else "",
    ]
    return ", ".join(part for part in parts if part)


def _where(location: FaultLocation, folders: list[Path], note: str | None = None) -> Where:
    if note is None:
        note = "the line to change" if location.role == "edit" else "the line that ran"
    function = f" in {location.function}" if location.function not in ("", "<module>") else ""
    return Where(
        title=f"{location.file}:{location.line}{function}",
        note=note,
        code=read_excerpt(location, folders),
    )


def _evidence_row(finding: Finding, index: int) -> EvidenceRow:
    entry = finding.evidence[index]
    step = "" if entry.step is None or entry.step == finding.step else f"step {entry.step}"
    return EvidenceRow(
        quantity=entry.quantity,
        value=say_number(entry.value),
        threshold=say_number(entry.threshold),
        step=step,
    )


def _cause_of(finding: Finding) -> str:
    if not finding.cause or finding.confidence >= _SURE:
        return finding.cause
    return f"{finding.cause} (likely: {finding.confidence:.0%} sure)"


def _other_findings(diagnosis: Diagnosis, main: Finding | None) -> tuple[OtherFinding, ...]:
    told = () if main is None else (main, *main.consequences)
    return tuple(
        OtherFinding(severity=finding.severity, title=headline_of(finding), message=finding.message)
        for finding in diagnosis.findings
        if not any(_is_same(finding, other) for other in told)
    )


def _is_same(finding: Finding, other: Finding) -> bool:
    return finding.replace(consequences=()) == other.replace(consequences=())


def _headline_without_fault(diagnosis: Diagnosis, ending: str) -> str:
    if diagnosis.verdict == "failed":
        return ending or "the script itself failed"
    if diagnosis.verdict == "unseen":
        return f"no verdict: {_missing_of(diagnosis.coverage)}"
    return f"no fault found in {_seen_of(diagnosis.coverage)}"


def _message_without_fault(diagnosis: Diagnosis) -> str:
    if diagnosis.verdict != "failed":
        return ""
    steps = diagnosis.coverage.steps
    if not steps:
        return "No step was recorded before it, so there is nothing of the training to judge."
    return f"No fault was found in the {say_count(steps, 'step')} before it."


def _seen_of(coverage: Coverage) -> str:
    losses, optimizers = say_count(coverage.losses, "loss"), say_count(coverage.optimizers, "optimizer")
    return f"{say_count(coverage.steps, 'step')} ({losses}, {optimizers})"


def _missing_of(coverage: Coverage) -> str:
    missing = [
        noun
        for noun, count in (
            ("loss", coverage.losses),
            ("backward", coverage.backwards),
            ("update", coverage.steps),
        )
        if not count
    ]
    if not missing:
        return "too little of the training was seen"
    *first, last = [f"no {noun}" for noun in missing]
    return f"{', '.join(first)} and {last} was seen" if first else f"{last} was seen"


def _place_of_failure(diagnosis: Diagnosis, status: Status | None, folders: list[Path]) -> Where | None:
    if diagnosis.verdict != "failed" or status is None:
        return None
    location = FaultLocation.at(status.error_location)
    return None if location is None else _where(location, folders, "the line that failed")
