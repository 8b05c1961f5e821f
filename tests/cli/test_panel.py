# SPDX-License-Identifier: Apache-2.0
"""The panel at the widths and encodings that terminals have."""

from __future__ import annotations

import io
from typing import Any

import pytest

from firstfault.cli.console import open_console
from firstfault.cli.panel import print_panel
from firstfault.records.finding import Coverage, Diagnosis, Finding, Overhead, Verdict
from firstfault.reports.diagnosis import build_report


def _draw(verdict: Verdict, width: int, *findings: Finding, encoding: str = "utf-8", **coverage: Any) -> str:
    diagnosis = Diagnosis(
        run="20261201-142512-abcd",
        verdict=verdict,
        coverage=Coverage(**({"steps": 43, "losses": 1, "backwards": 43, "optimizers": 1} | coverage)),
        first_fault=findings[0] if verdict == "fault" else None,
        findings=findings,
        overhead=Overhead(fraction=0.012, seconds=0.8),
    )
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    console = open_console(stream)
    console.width = width
    print_panel(console, build_report(diagnosis))
    stream.flush()
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_no_line_is_too_wide_or_ends_in_blanks(fault: Finding, width: int, encoding: str) -> None:
    lines = _draw("fault", width, fault, encoding=encoding, not_seen=("the loss " * 20,)).splitlines()
    assert max(map(len, lines)) <= width
    assert all(line == line.rstrip() for line in lines)


def test_the_first_fault_is_told_in_the_order_one_asks(fault: Finding) -> None:
    text = _draw("fault", 80, fault)
    words = ["FAULT", "where", "evidence", "why", "fix", "weights", "cost", "more"]
    places = [text.index(f"\n  {word}") for word in words]
    assert places == sorted(places)
    assert "❱ 4  return torch.sqrt((d**2).sum(1))" in text


def test_code_of_the_fix_stands_in_lines_of_its_own(fault: Finding) -> None:
    assert "\n             return torch.sqrt((d**2).sum(1) + 1e-8)\n" in _draw("fault", 80, fault)


def test_clean_is_three_lines_between_its_rules() -> None:
    lines = _draw("clean", 80).splitlines()
    assert len(lines) == 5
    assert lines[1].split()[0] == "CLEAN"


def test_many_findings_are_cut_and_counted(fault: Finding) -> None:
    others = [fault.replace(rule=f"rule_{number}", severity="warning") for number in range(9)]
    text = _draw("fault", 80, fault, *others)
    assert "… and 4 more findings" in text
