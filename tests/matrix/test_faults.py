# SPDX-License-Identifier: Apache-2.0
"""Programs with one mistake: it is named as the first fault, at its line. Without the mistake nothing is said."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest itself needs it there

PROGRAMS = Path(__file__).parents[1] / "programs"
EXPECTED = tomllib.loads((PROGRAMS / "faults.toml").read_text())
MARKER = "# <- fault"

faulty = pytest.mark.parametrize(
    "program", [PROGRAMS / "faulty" / f"{name}.py" for name in EXPECTED], ids=lambda path: path.stem
)
twins = pytest.mark.parametrize(
    "program", [PROGRAMS / "twins" / f"{name}.py" for name in EXPECTED], ids=lambda path: path.stem
)


def marked_lines(program: Path) -> set[int]:
    lines = program.read_text().splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith(MARKER)}


@faulty
def test_the_first_fault_is_named(run_program, program):
    case = run_program(program)
    expected = EXPECTED[program.stem]
    first = case.diagnosis["first_fault"]
    assert first is not None, case.diagnosis
    assert first["rule"] in {expected["rule"], *expected.get("also", ())}, first
    assert first["severity"] in expected["severities"], first
    assert case.diagnosis["verdict"] == ("warning" if first["severity"] == "warning" else "fault")


@faulty
def test_when_it_happened(run_program, program):
    expected = EXPECTED[program.stem]
    first = run_program(program).diagnosis["first_fault"]
    assert first is not None
    if "steps" in expected:
        earliest, latest = expected["steps"]
        assert first["step"] is not None
        assert earliest <= first["step"] <= latest, first
    if "stages" in expected:
        assert first["stage"] in expected["stages"], first


@faulty
def test_where_it_happened(run_program, program):
    expected = EXPECTED[program.stem]
    first = run_program(program).diagnosis["first_fault"]
    assert first is not None
    if expected.get("marker", True):
        assert first["location"] is not None, first
        assert Path(first["location"]["file"]).name == program.name
        assert first["location"]["line"] in marked_lines(program), first["location"]
    if "operation" in expected:
        assert expected["operation"] in (first["operation"] or ""), first
    if "module" in expected:
        module = first["module"] or ""
        assert module == expected["module"] or module.startswith(expected["module"] + "."), first
    if "sample_in_batch" in expected and first["samples"]:
        assert first["samples"] == [expected["sample_in_batch"]], first


@faulty
def test_only_a_fatal_fault_stops_the_script(run_program, program):
    case = run_program(program)
    first = case.diagnosis["first_fault"]
    said = [*case.diagnosis["findings"], *(first["consequences"] if first is not None else [])]
    stopped = any(finding["severity"] == "fatal" for finding in said)
    assert case.watched.exit_code == (3 if stopped else case.bare.exit_code)
    if stopped:
        assert case.bare.stdout.startswith(case.watched.stdout), "what was printed before the stop is the same"
    else:
        assert case.watched.stdout == case.bare.stdout


@twins
def test_nothing_is_said_of_the_twin(run_program, program):
    case = run_program(program)
    assert case.grave == []
    assert case.diagnosis["verdict"] in EXPECTED[program.stem].get("verdict_of_twin", ["clean"]), case.diagnosis


@twins
def test_the_twin_is_bitwise_the_same(run_program, program):
    case = run_program(program)
    assert case.bare.exit_code == 0, case.bare.stderr
    assert case.watched == case.bare


def test_every_program_is_listed_and_has_a_twin():
    for folder in ("faulty", "twins"):
        assert {path.stem for path in (PROGRAMS / folder).glob("*.py")} == set(EXPECTED)


def test_every_rule_has_two_programs():
    rules = [expected["rule"] for expected in EXPECTED.values()]
    assert all(rules.count(rule) >= 2 for rule in rules)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_fault_is_marked_in_the_faulty_one_only(name):
    marked = bool(marked_lines(PROGRAMS / "faulty" / f"{name}.py"))
    assert marked == EXPECTED[name].get("marker", True)
    assert not marked_lines(PROGRAMS / "twins" / f"{name}.py")
    assert name.startswith(EXPECTED[name]["rule"] + "__")
