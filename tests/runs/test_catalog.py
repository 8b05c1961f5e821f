# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from firstfault.records.finding import Finding, Severity
from firstfault.records.run import Run, Status
from firstfault.runs.catalog import list_runs
from firstfault.store.layout import RunLayout
from firstfault.store.writer import RunWriter


def begin(home: Path, run_id: str, project: str = "default") -> RunWriter:
    writer = RunWriter(RunLayout.under(home, project, run_id))
    writer.begin(
        Run(
            id=run_id,
            project=project,
            name="train.py",
            started=100.0,
            script=None,
            argv=(),
            working_directory="/",
        )
    )
    return writer


def finding(rule: str, severity: Severity, step: int) -> Finding:
    return Finding(rule=rule, severity=severity, step=step, stage="loss", message="…")


def test_runs_of_all_projects_are_listed_newest_first(tmp_path: Path) -> None:
    for run_id, project in (
        ("20260101-000000-aaaa", "a"),
        ("20260103-000000-bbbb", "b"),
        ("20260102-000000-cccc", "a"),
    ):
        begin(tmp_path, run_id, project).close()
    assert [run.id[-4:] for run in list_runs(tmp_path).runs] == ["bbbb", "cccc", "aaaa"]
    assert [run.id[-4:] for run in list_runs(tmp_path, "a").runs] == ["cccc", "aaaa"]
    assert [run.id[-4:] for run in list_runs(tmp_path, limit=1).runs] == ["bbbb"]


def test_a_run_is_summed_up_by_its_gravest_and_earliest_finding(tmp_path: Path) -> None:
    writer = begin(tmp_path, "20260101-000000-aaaa")
    for entry in (
        finding("plateau", "warning", 1),
        finding("exploding", "error", 9),
        finding("unused", "error", 4),
    ):
        writer.add_finding(entry)
    writer.set_status(Status(state="stopped", heartbeat=1.0, process=1, host="h", last_step=12))
    writer.close()
    (run,) = list_runs(tmp_path).runs
    assert (run.worst_rule, run.worst_severity, run.num_findings) == ("unused", "error", 3)
    assert (run.state, run.last_step) == ("stopped", 12)


def test_a_run_without_findings_or_heartbeat_is_listed_as_lost(tmp_path: Path) -> None:
    begin(tmp_path, "20260101-000000-aaaa").close()
    (run,) = list_runs(tmp_path).runs
    assert (run.state, run.worst_rule, run.last_step) == ("lost", None, None)


def test_broken_directories_are_named_and_the_rest_listed(tmp_path: Path) -> None:
    for run_id in ("20260101-000000-good", "20260102-000000-torn", "20260103-000000-newr"):
        begin(tmp_path, run_id).close()
    (tmp_path / "default" / "20260102-000000-torn" / "run.json").write_text("{")
    newer = tmp_path / "default" / "20260103-000000-newr" / "run.json"
    newer.write_text(newer.read_text().replace('"format_version": 1', '"format_version": 2'))
    (tmp_path / "default" / "notes").mkdir()
    (tmp_path / "stray.txt").write_text("")
    catalog = list_runs(tmp_path)
    assert [run.id for run in catalog.runs] == ["20260101-000000-good"]
    assert [skipped.file for skipped in catalog.skipped] == [
        "default/20260103-000000-newr",
        "default/20260102-000000-torn",
    ]


def test_a_home_that_is_not_there_has_no_runs(tmp_path: Path) -> None:
    assert list_runs(tmp_path / "nowhere").runs == ()


def test_listing_runs_loads_no_arrow() -> None:
    code = "import sys, firstfault.runs.catalog; print([n for n in ('numpy', 'pyarrow') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
