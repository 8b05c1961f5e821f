# SPDX-License-Identifier: Apache-2.0
"""The diagnosis of one run, read from its directory and said as a panel or as JSON. Runs outside training."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from firstfault.records.finding import Diagnosis
    from firstfault.reports.recorded import RecordedDiagnosis

#: a signal that the person sent themselves: it ends the script but is no failure of it
_INTERRUPT = 2


def answer(
    directory: Path | None,
    exit_code: int = 0,
    signal: int | None = None,
    *,
    as_json: bool = False,
    quiet: bool = False,
    color: bool = True,
) -> None:
    """Say what went wrong first, after a script has ended.

    Args:
        directory: the run directory; None if the script recorded no run.
        exit_code: the script's.
        signal: the signal that ended the script, if one did.
        quiet: say nothing of a run in which nothing is wrong.
    """
    from firstfault.cli.console import write_line
    from firstfault.reports.recorded import load_diagnosis

    recorded = None if directory is None else load_diagnosis(directory)
    diagnosis = _without_run(exit_code, signal) if recorded is None else _ended_by(recorded.diagnosis, signal)
    if as_json:
        write_line("")  # the script may have left its last line unfinished
        print_json(diagnosis)
    elif not quiet or diagnosis.verdict not in ("clean", "unseen"):
        print_diagnosis(recorded, diagnosis, sys.stderr, signal=signal, color=color)


def print_json(diagnosis: Diagnosis) -> None:
    """The contract of `docs/json.md`, on one line of standard output."""
    from firstfault.cli.console import write_json
    from firstfault.reports.diagnosis import diagnosis_to_json

    write_json(diagnosis_to_json(diagnosis))


def print_diagnosis(
    recorded: RecordedDiagnosis | None,
    diagnosis: Diagnosis,
    stream: TextIO,
    *,
    signal: int | None = None,
    color: bool = True,
) -> None:
    """The panel, on the stream."""
    from firstfault.cli.console import open_console
    from firstfault.cli.panel import print_panel
    from firstfault.reports.diagnosis import build_report

    report = build_report(
        diagnosis,
        recorded.run if recorded else None,
        recorded.status if recorded else None,
        signal=signal,
        answers_to=_name_of(recorded.path) if recorded else None,
    )
    print_panel(open_console(stream, color=color), report)


def _name_of(directory: Path) -> str:
    """The run's id if it lies where runs are looked for, else its path."""
    from firstfault.settings import Settings

    is_at_home = directory.absolute().parent.parent == Settings.from_environment().home.absolute()
    return directory.name if is_at_home else str(directory)


def _ended_by(diagnosis: Diagnosis, signal: int | None) -> Diagnosis:
    """A process ended by a signal could not write so itself: it has failed, if no fault explains more."""
    import dataclasses

    if signal in (None, _INTERRUPT) or diagnosis.verdict not in ("clean", "unseen", "warning"):
        return diagnosis
    return dataclasses.replace(diagnosis, verdict="failed")


def _without_run(exit_code: int, signal: int | None) -> Diagnosis:
    """The diagnosis of a script that recorded nothing."""
    from firstfault.records.finding import Coverage, Diagnosis, Overhead
    from firstfault.settings import Settings

    if Settings.from_environment().enabled:
        reason = "no run was recorded: it was no Python that can be watched, or nothing could be written"
    else:
        reason = "no run was recorded: the variable FIRSTFAULT switches everything off"
    return Diagnosis(
        run="",
        verdict="failed" if exit_code or signal else "unseen",
        coverage=Coverage(not_seen=(reason,)),
        first_fault=None,
        findings=(),
        overhead=Overhead(),
    )
