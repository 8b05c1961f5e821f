# SPDX-License-Identifier: Apache-2.0
"""The command line as a whole: quick to answer, documented, and never a traceback of ours."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from firstfault.cli.main import VERBS, cli

_ROOT = Path(__file__).parents[2]


def _command(verb: str) -> click.Command:
    command = cli.get_command(click.Context(cli), verb)
    assert command is not None
    return command


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from firstfault.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'pyarrow', 'rich', 'torch', 'plotext'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert all(verb in ended.stdout for verb in VERBS)


def test_a_diagnosis_needs_no_arrow_and_no_framework(recorded: Path) -> None:
    code = (
        "import sys; from firstfault.cli.main import main\n"
        f"try: main(['diagnose', {str(recorded)!r}])\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "heavy = {'numpy', 'pyarrow', 'torch'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_the_options_are_those_we_mean_to_keep() -> None:
    options = {
        verb: sorted(
            max(option.opts, key=len) for option in _command(verb).params if isinstance(option, click.Option)
        )
        for verb in VERBS
    }
    assert options == {
        "run": sorted(
            ["--json", "--quiet", "--no-color", "--stop-on", "--rule", "--ignore", "--project", "--name"]
        ),
        "demo": ["--json", "--no-color"],
        "diagnose": ["--json", "--no-color"],
        "show": sorted(["--series", "--kind", "--step", "--statistic", "--no-color"]),
        "runs": ["--json", "--no-color", "--project"],
    }


def test_every_verb_and_option_is_documented() -> None:
    text = (_ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for verb in VERBS:
        assert f"## firstfault {verb}" in text
        for option in _command(verb).params:
            if isinstance(option, click.Option):
                assert all(f"`{name}" in text for name in option.opts), (verb, option.opts)
                assert option.help


def test_diagnose_says_the_same_as_panel_and_as_json(recorded: Path) -> None:
    panel = CliRunner().invoke(cli, ["diagnose"])
    assert panel.exit_code == 0, panel.output
    assert "train.py:4 in distance" in panel.stdout
    assert f"firstfault show {recorded.name}" in panel.stdout
    data = json.loads(CliRunner().invoke(cli, ["diagnose", "last", "--json"]).stdout)
    assert (data["schema"], data["run"], data["verdict"]) == (1, recorded.name, "fault")
    assert data["first_fault"]["evidence"][0]["value"] == "nan"


def test_a_run_that_is_not_there_is_one_sentence_and_exit_code_1(home: Path) -> None:
    result = CliRunner().invoke(cli, ["diagnose", "2020"])
    assert result.exit_code == 1
    assert re.fullmatch(r"error: there is no run 2020.*\n", result.stderr)
    assert str(home) in result.stderr


def test_runs_lists_what_there_is(recorded: Path) -> None:
    text = CliRunner().invoke(cli, ["runs"]).stdout
    assert recorded.name in text
    assert "non-finite gradient" in text
    (run,) = json.loads(CliRunner().invoke(cli, ["runs", "--json"]).stdout)["runs"]
    assert (run["run"], run["last_step"], run["worst_rule"]) == (recorded.name, 12, "non_finite_gradient")


def test_runs_without_any_says_how_to_make_one(home: Path) -> None:
    result = CliRunner().invoke(cli, ["runs"])
    assert result.exit_code == 0
    assert str(home) in result.stdout


@pytest.mark.usefixtures("recorded")
def test_a_reader_that_goes_away_is_no_error() -> None:
    for verb in ("diagnose", "show", "runs"):
        shell = f"'{sys.executable}' -m firstfault {verb} | true; echo ${{PIPESTATUS[0]}}"
        ended = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
        assert (ended.stdout, ended.stderr) == ("0\n", ""), verb


@pytest.mark.usefixtures("recorded")
def test_no_color_is_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in CliRunner().invoke(cli, ["diagnose"]).stdout
    assert "\x1b[" not in CliRunner().invoke(cli, ["diagnose", "--no-color"]).stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in CliRunner().invoke(cli, ["diagnose"]).stdout
