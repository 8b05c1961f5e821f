# SPDX-License-Identifier: Apache-2.0
"""From findings to the answer: one first fault, its consequences, and the verdict. Runs anywhere.

Findings are ordered by a causal clock: step, stage, execution order. The first fault is found backwards: from
the gravest finding to the earliest one that can explain it (`causes`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from firstfault.diagnosis.causes import can_explain
from firstfault.records.finding import (
    SEVERITIES,
    Coverage,
    Diagnosis,
    Finding,
    Verdict,
    without_superseded,
)
from firstfault.records.run import Status
from firstfault.records.step import STAGES


def diagnose(findings: Iterable[Finding], status: Status, run: str) -> Diagnosis:
    """The diagnosis of a run, from its findings and how it stands.

    Args:
        findings: all of them, in any order.
        status: of the run; a run that goes on can be diagnosed too.
        run: the run's id.
    """
    ordered = sorted(without_superseded(findings), key=causal_clock)
    verdict = _verdict(ordered, status)
    first = _first_fault([finding for finding in ordered if finding.severity != "info"])
    if first is not None:
        others = [finding for finding in ordered if finding is not first]
        explained = [finding for finding in others if _explains(first, finding, ordered)]
        first = _with_state_of_weights(first, status).replace(consequences=tuple(explained))
        ordered = sorted([first, *(f for f in others if f not in explained)], key=causal_clock)
    return Diagnosis(
        run=run,
        verdict=verdict,
        coverage=_coverage(status),
        first_fault=first,
        findings=tuple(ordered),
        overhead=status.overhead,
    )


def causal_clock(finding: Finding) -> tuple[int, int, int, int, str]:
    """When a finding's fault happened, in causal order."""
    step = -1 if finding.step is None else finding.step
    gravity = SEVERITIES.index(finding.severity)
    return step, STAGES.index(finding.stage), finding.order, gravity, finding.rule


def _first_fault(ordered: Sequence[Finding]) -> Finding | None:
    if not ordered:
        return None
    gravest = min(SEVERITIES.index(finding.severity) for finding in ordered)
    # errors are as good as fatal ones here: a fatal finding is often what an error before it led to
    gravest = max(gravest, SEVERITIES.index("error"))
    first = next(finding for finding in ordered if SEVERITIES.index(finding.severity) <= gravest)
    while True:
        position = ordered.index(first)
        earlier = [finding for finding in ordered[:position] if can_explain(finding.rule, first.rule)]
        if not earlier:
            return first
        first = earlier[0]


def _explains(first: Finding, other: Finding, ordered: Sequence[Finding]) -> bool:
    """Whether `other` follows from `first`, directly or by another finding."""
    reached, waiting = {first.rule}, [first.rule]
    while waiting:
        cause = waiting.pop()
        for finding in ordered:
            if finding.rule not in reached and can_explain(cause, finding.rule):
                reached.add(finding.rule)
                waiting.append(finding.rule)
    follows = other.rule in reached - {first.rule} or can_explain(first.rule, other.rule)
    return follows and causal_clock(other)[0] >= causal_clock(first)[0]


def _with_state_of_weights(first: Finding, status: Status) -> Finding:
    """The update was withheld only if the run was stopped there; a run that broke off may not tell."""
    if first.weights != "unspoilt" or first.step is None or status.state == "stopped":
        return first
    went_on = status.last_step is not None and status.last_step > first.step
    return first.replace(weights="spoilt" if went_on or status.state == "finished" else None)


def _verdict(findings: Sequence[Finding], status: Status) -> Verdict:
    severities = {finding.severity for finding in findings}
    if severities & {"fatal", "error"}:
        return "fault"
    if status.state in ("failed", "lost"):
        return "failed"
    if "warning" in severities:
        return "warning"
    coverage = status.coverage
    seen = coverage.losses > 0 and coverage.backwards > 0 and coverage.steps > 0
    return "clean" if seen else "unseen"


def _coverage(status: Status) -> Coverage:
    """What was seen, with what was not put into words."""
    coverage = status.coverage
    blind = []
    if coverage.backwards == 0:
        blind.append("a backward: nothing was learnt, or by a way that is not watched")
    elif coverage.losses == 0:
        blind.append("a loss")
    if coverage.backwards > 0 and coverage.steps == 0:
        blind.append("an update: no optimizer stepped, and no parameter was changed by hand")
    not_seen = tuple(dict.fromkeys((*blind, *coverage.not_seen, *status.warnings)))
    return dataclasses.replace(coverage, not_seen=not_seen)
