# SPDX-License-Identifier: Apache-2.0
"""What cannot be run, and scripts that fail: one clear sentence of ours, and the script's own words untouched."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

OUR_FRAME = re.compile(r'File ".*src/firstfault/')


def _said_once(text: str) -> str:
    """The one line of ours; no stack trace."""
    assert "Traceback" not in text, text
    (line,) = text.splitlines()
    assert line.startswith("error: "), text
    return line


def test_a_script_that_is_not_there_is_one_sentence(workplace: Any) -> None:
    ended = workplace.watched("nowhere.py")
    assert ended.exit_code == 2
    assert "there is no script 'nowhere.py'" in _said_once(ended.stderr)
    assert ended.runs == ()


def test_a_module_that_is_not_there_is_pythons_own_complaint(workplace: Any) -> None:
    ended = workplace.watched("-m", "nowhere.train")
    assert ended.exit_code == 1
    assert "No module named 'nowhere'" in ended.stderr
    assert not OUR_FRAME.search(ended.stderr)


def test_a_syntax_error_is_told_as_python_tells_it_and_the_run_has_failed(workplace: Any) -> None:
    workplace.write("import sys\nx = = 1\n")
    bare, watched = workplace.bare("train.py"), workplace.watched("train.py")
    assert watched.exit_code == bare.exit_code == 1
    assert watched.stderr.startswith(bare.stderr)
    assert not OUR_FRAME.search(watched.stderr)
    assert watched.diagnosis.verdict == "failed"
    assert watched.status.error.startswith("SyntaxError: invalid syntax")
    assert (watched.status.error_location.file, watched.status.error_location.line) == ("train.py", 2)


_RAISES_IN_BACKWARD = """
import torch
from torch import nn
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(3):
    loss = model(torch.randn(4, 3)).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print("trained")
CODE
"""


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("loss.backward()", "RuntimeError: Trying to backward through the graph a second time"),
        ("model(torch.randn(4, 9))", "RuntimeError: mat1 and mat2 shapes cannot be multiplied"),
        ("optimizer.step(closure=lambda: 1 / 0)", "ZeroDivisionError: division by zero"),
        (
            "try: loss.backward()\nexcept RuntimeError as error: raise ValueError('mine') from error",
            "ValueError: mine",
        ),
    ],
    ids=["in backward", "in forward", "in a closure", "with a cause"],
)
def test_a_stack_trace_is_the_scripts_own_without_a_frame_of_ours(code: str, error: str, workplace: Any) -> None:
    workplace.write(_RAISES_IN_BACKWARD.replace("CODE", code))
    ended = workplace.watched("train.py")
    assert ended.exit_code == 1
    assert ended.stdout == "trained\n"
    assert error in ended.stderr
    assert ended.stderr.count("Traceback (most recent call last)") == (2 if "mine" in error else 1)
    assert not OUR_FRAME.search(ended.stderr), ended.stderr
    assert ended.diagnosis.verdict == "failed"
    assert ended.status.error.startswith(error[:30])
    assert ended.status.error_location.file == "train.py"
    assert ended.status.coverage.steps == 3
    assert "FAILED" in ended.stderr


def test_an_error_whose_own_words_fail_is_told_as_python_tells_it(workplace: Any) -> None:
    workplace.write(
        """
        class Unspeakable(Exception):
            def __str__(self):
                raise RuntimeError("no words")
        raise Unspeakable()
        """
    )
    bare, watched = workplace.bare("train.py"), workplace.watched("train.py")
    assert watched.exit_code == bare.exit_code == 1
    assert watched.stderr.startswith(bare.stderr)
    assert watched.diagnosis.verdict == "failed"


@pytest.mark.parametrize(("code", "exit_code"), [("2", 2), ("'no data'", 1), ("0", 0), ("None", 0)])
def test_sys_exit_keeps_its_code_and_its_words(code: str, exit_code: int, workplace: Any) -> None:
    workplace.write(f"import sys\nsys.exit({code})\n")
    ended = workplace.watched("train.py")
    assert ended.exit_code == exit_code
    assert ("no data\n" in ended.stderr) is ("no data" in code)
    assert ended.diagnosis.verdict == ("failed" if exit_code else "unseen")


def test_a_home_that_is_a_file_costs_no_run_and_is_said(workplace: Any, training: str, tmp_path: Path) -> None:
    workplace.write(training)
    blocked = tmp_path / "blocked"
    blocked.write_text("")
    ended = workplace.watched("train.py", FIRSTFAULT_HOME=str(blocked), TMPDIR=str(tmp_path))
    assert ended.exit_code == 0, ended.stderr
    assert f"{blocked} cannot be written" in ended.stderr
    assert "FIRSTFAULT_HOME" in ended.stderr
    assert "Traceback" not in ended.stderr
    (instead,) = tmp_path.glob("firstfault-*/default/*/run.json")
    assert str(instead.parents[2]) in ended.stderr
    for verb in ("runs", "diagnose", "show"):
        told = workplace.verb(verb, FIRSTFAULT_HOME=str(blocked))
        assert "Traceback" not in told.stderr, told.stderr


class TestNamingARun:
    """Which run is meant, as the verbs find it."""

    @pytest.fixture
    def two_runs(self, workplace: Any) -> list[str]:
        workplace.write("print('hello')\n")
        return [workplace.watched("train.py").run.name for _ in range(2)]

    def test_a_name_that_no_run_or_more_than_one_answers_to_is_one_sentence(
        self, two_runs: list[str], workplace: Any
    ) -> None:
        ambiguous = workplace.verb("diagnose", two_runs[0][:6])
        assert ambiguous.exit_code == 1
        said = _said_once(ambiguous.stderr)
        assert all(run in said for run in two_runs), said
        absent = workplace.verb("show", "no-such-run")
        assert absent.exit_code == 1
        assert "no-such-run" in _said_once(absent.stderr)
        exact = workplace.verb("diagnose", two_runs[0], "--json")
        assert json.loads(exact.stdout)["run"] == two_runs[0]

    def test_a_newer_format_is_one_sentence_that_names_both_versions(
        self, two_runs: list[str], workplace: Any
    ) -> None:
        path = workplace.home / "default" / two_runs[0] / "run.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "format_version": 7, "new_field": 1}))
        for verb in ("diagnose", "show"):
            told = workplace.verb(verb, two_runs[0])
            assert told.exit_code == 2
            said = _said_once(told.stderr)
            assert "version 7" in said
            assert "version 1" in said
        listed = workplace.verb("runs")
        assert listed.exit_code == 0
        assert two_runs[1] in listed.stdout
        assert two_runs[0] in listed.stderr

    def test_where_nothing_was_ever_run_the_verbs_say_so(self, workplace: Any) -> None:
        told = workplace.verb("diagnose")
        assert told.exit_code == 1
        _said_once(told.stderr)
