# SPDX-License-Identifier: Apache-2.0
"""Many runs, each in a line: as JSON, and in words. Runs outside training."""

from __future__ import annotations

import time
from dataclasses import dataclass

from firstfault.records.encoding import to_json
from firstfault.records.finding import Severity
from firstfault.records.step import Json
from firstfault.reports.wording import say_count, say_number, say_rule
from firstfault.runs.catalog import Catalog, RunSummary

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLine:
    """One run in words."""

    run: str
    name: str
    project: str
    started: str  #: local date and time
    state: str
    last_step: str
    severity: Severity | None  #: of the gravest finding
    worst: str  #: the gravest finding, and how many more there are


def catalog_to_json(catalog: Catalog) -> dict[str, Json]:
    """The form of `runs --json`, described in `docs/json.md`."""
    return {
        "schema": SCHEMA_VERSION,
        "home": str(catalog.home),
        "runs": [_summary_to_json(summary) for summary in catalog.runs],
        "skipped": [{"run": entry.file, "reason": entry.reason} for entry in catalog.skipped],
    }


def _summary_to_json(summary: RunSummary) -> dict[str, Json]:
    return {
        "run": summary.id,
        "project": summary.project,
        "name": summary.name,
        "started": to_json(summary.started),
        "state": summary.state,
        "last_step": summary.last_step,
        "num_findings": summary.num_findings,
        "worst_rule": summary.worst_rule,
        "worst_severity": summary.worst_severity,
        "path": str(summary.path),
    }


def build_run_lines(catalog: Catalog) -> tuple[RunLine, ...]:
    """The runs in words, newest first."""
    return tuple(
        RunLine(
            run=summary.id,
            name=summary.name,
            project=summary.project,
            started=say_moment(summary.started),
            state=summary.state,
            last_step=say_number(summary.last_step),
            severity=summary.worst_severity,
            worst=_worst_of(summary),
        )
        for summary in catalog.runs
    )


def say_moment(seconds: float) -> str:
    """Local date and time, to the minute."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _worst_of(summary: RunSummary) -> str:
    if summary.worst_rule is None:
        return ""
    more = summary.num_findings - 1
    return say_rule(summary.worst_rule) + (f" + {say_count(more, 'finding')}" if more else "")
