# SPDX-License-Identifier: Apache-2.0
"""Healthy programs: watched, they are bitwise what they are alone, and nothing is said of them."""

from __future__ import annotations

from pathlib import Path

import pytest

HEALTHY = Path(__file__).parents[1] / "programs" / "healthy"
PROGRAMS = sorted(path for path in HEALTHY.glob("*.py") if path.stem != "fingerprint")

#: `backward` is never called, no loss passes through autograd: to say `unseen` is honest, more is not asked
NO_BACKWARD = {"func_functional_training"}
#: they end with an exit code of their own: the verdict is then `failed`, and even `--quiet` says so after all else
EXIT_CODE = {"exit_code_five"}

programs = pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
lengths = pytest.mark.parametrize(
    "arguments", [("40",), pytest.param(("300",), marks=pytest.mark.slow)], ids=lambda given: given[0]
)


@programs
@lengths
def test_bitwise_the_same(run_program, program, arguments):
    case = run_program(program, *arguments)
    assert "fingerprint=" in case.bare.stdout, case.bare.stderr
    assert case.watched.stdout == case.bare.stdout
    assert case.watched.exit_code == case.bare.exit_code
    if program.stem in EXIT_CODE:
        assert case.watched.stderr.startswith(case.bare.stderr)
    else:
        assert case.watched.stderr == case.bare.stderr


@programs
@lengths
def test_nothing_is_said(run_program, program, arguments):
    case = run_program(program, *arguments)
    assert case.grave == []
    allowed = {"clean"}
    if program.stem in NO_BACKWARD:
        allowed.add("unseen")
    if program.stem in EXIT_CODE:
        allowed.add("failed")
    assert case.diagnosis["verdict"] in allowed, case.diagnosis
    assert case.diagnosis["first_fault"] is None


@programs
@lengths
def test_all_of_it_is_seen(run_program, program, arguments):
    case = run_program(program, *arguments)
    coverage = case.diagnosis["coverage"]
    if case.updates is not None:
        assert coverage["steps"] == case.updates, coverage
    if program.stem not in NO_BACKWARD:
        assert coverage["losses"] >= 1, coverage


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_healthy_program_knows_nothing_of_us(program):
    assert "firstfault" not in program.read_text()
