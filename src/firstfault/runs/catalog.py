# SPDX-License-Identifier: Apache-2.0
"""All runs below a home folder, newest first, each in a line. Runs anywhere but in training; loads no Arrow."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from firstfault.errors import StoreError
from firstfault.query.find import newest_first
from firstfault.records.finding import SEVERITIES, Finding, Severity, without_superseded
from firstfault.records.run import State
from firstfault.settings import Settings
from firstfault.store.documents import Skipped, read_findings, read_run, read_status
from firstfault.store.layout import RunLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run, as a list of runs shows it."""

    id: str
    project: str
    name: str
    started: float  #: seconds since the epoch
    state: State
    last_step: int | None
    num_findings: int
    worst_rule: str | None  #: of the gravest finding, the earliest of them
    worst_severity: Severity | None
    path: Path  #: the run directory


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """The runs of a home folder."""

    home: Path
    runs: tuple[RunSummary, ...]  #: newest first
    skipped: tuple[Skipped, ...]  #: run directories that cannot be read: `<project>/<id>` and why


def list_runs(
    home: Path | None = None, project: str | None = None, *, limit: int | None = None, now: float | None = None
) -> Catalog:
    """The runs below the home folder, that of the settings if None; of one project, or of all.

    Args:
        home: folder that holds the runs.
        project: only runs of this project.
        limit: at most so many, the newest.
        now: seconds since the epoch, to tell who is lost; the present if None.
    """
    home = Settings.from_environment().home if home is None else Path(home)
    now = time.time() if now is None else now
    runs: list[RunSummary] = []
    skipped: list[Skipped] = []
    for layout in newest_first(home):
        if project is not None and layout.path.parent.name != project:
            continue
        if limit is not None and len(runs) >= limit:
            break
        try:
            runs.append(_summary(layout, now))
        except StoreError as error:
            skipped.append(Skipped(f"{layout.path.parent.name}/{layout.path.name}", str(error)))
    return Catalog(home=home, runs=tuple(runs), skipped=tuple(skipped))


def _summary(layout: RunLayout, now: float) -> RunSummary:
    run = read_run(layout)
    status, _ = read_status(layout, run, now)
    findings, _ = read_findings(layout)
    findings = tuple(without_superseded(findings))
    worst = min(findings, key=_gravity, default=None)
    return RunSummary(
        id=run.id,
        project=run.project,
        name=run.name,
        started=run.started,
        state=status.state,
        last_step=status.last_step,
        num_findings=len(findings),
        worst_rule=worst.rule if worst else None,
        worst_severity=worst.severity if worst else None,
        path=layout.path,
    )


def _gravity(finding: Finding) -> tuple[int, int]:
    return SEVERITIES.index(finding.severity), -1 if finding.step is None else finding.step
