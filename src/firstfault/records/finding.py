# SPDX-License-Identifier: Apache-2.0
"""A finding: what a rule or the screen says, and the diagnosis made of all of them. Runs anywhere.

The JSON forms are a contract with other programs: see `docs/json.md`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from firstfault.records.step import Location, Place, Stage

Severity: TypeAlias = Literal["fatal", "error", "warning", "info"]
#: gravest first
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
Verdict: TypeAlias = Literal["fault", "warning", "clean", "unseen", "failed"]
Rung: TypeAlias = Literal["root_module", "tape", "child", "armed"]
WeightsState: TypeAlias = Literal["unspoilt", "restored", "spoilt"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One quantity that speaks for a finding, with what it was held against."""

    quantity: str  #: in words, as `gradient norm of encoder.2.weight`
    value: float | int | str | bool
    threshold: float | int | str | None = None
    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultLocation:
    """The user's line a finding points to, and whether it is to be edited or merely ran."""

    file: str
    line: int
    code: str = ""
    role: Literal["edit", "ran"] = "ran"
    function: str = ""

    @classmethod
    def at(cls, location: Location | None, role: Literal["edit", "ran"] = "ran") -> FaultLocation | None:
        if location is None:
            return None
        return cls(
            file=location.file, line=location.line, code=location.code, role=role, function=location.function
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a rule says: what was seen, where, why it happens, and what to change."""

    rule: str  #: `non_finite_gradient`
    severity: Severity
    step: int | None  #: None: before any update, as in a script that only infers
    stage: Stage
    message: str  #: one sentence, what was seen
    cause: str = ""  #: why it happens
    fix: str = ""  #: what to change; may hold lines of code
    place: Place = field(default_factory=Place)
    module: str | None = None
    operation: str | None = None
    location: FaultLocation | None = None
    confidence: float = 1.0  #: 0 to 1
    weights: WeightsState | None = None
    evidence: tuple[Evidence, ...] = ()
    rung: Rung | None = None  #: which replay found the operation
    samples: tuple[int, ...] | None = None  #: indices within the batch
    order: int = 0  #: execution order within the stage: the causal clock's last digit
    consequences: tuple[Finding, ...] = ()

    def replace(self, **changes: object) -> Finding:
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]  # names checked at run time


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What was seen of the training, so that silence can be told from blindness."""

    steps: int = 0  #: completed updates
    losses: int = 0  #: distinct lines that backward was called on
    backwards: int = 0
    optimizers: int = 0
    modules: int = 0  #: modules seen in a forward
    not_seen: tuple[str, ...] = ()  #: in words, what could not be watched, and why


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """What the watching cost."""

    fraction: float = 0.0  #: seconds inside our callbacks over all other seconds, full first steps left out
    seconds: float = 0.0  #: seconds inside our callbacks, in all
    first_steps_seconds: float = 0.0  #: of these, in the first steps, which are looked at in full
    sampled_every: int | None = None  #: the budget's present choice: one step in so many is looked at in full


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The answer to "what went wrong first?" for one run."""

    run: str
    verdict: Verdict
    coverage: Coverage
    first_fault: Finding | None
    findings: tuple[Finding, ...]  #: by causal clock, the first fault among them; its consequences are inside it
    overhead: Overhead


def without_superseded(findings: Iterable[Finding]) -> list[Finding]:
    """Leave out what a closer look (the rung `child`) has said more exactly of the same step."""
    found = list(findings)
    closer = {finding.step for finding in found if finding.rung == "child"}
    return [
        finding
        for finding in found
        if finding.rung == "child" or not finding.rule.startswith("non_finite_") or finding.step not in closer
    ]
