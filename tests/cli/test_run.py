# SPDX-License-Identifier: Apache-2.0
"""`firstfault run`: what is ours and what is the script's, and how it ends. The child is played by a fake."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from firstfault.cli.main import cli
from firstfault.launch import supervise as supervise_module
from firstfault.launch.supervise import Outcome
from firstfault.settings import Settings


class Supervisor:
    """Stands for the child process: notes what was to be run, and ends as it is told."""

    def __init__(self) -> None:
        self.outcome = Outcome(exit_code=0, signal=None, run=None)
        self.command: list[str] = []
        self.settings = Settings()
        self.quiet = False

    def __call__(self, command: Sequence[str], settings: Settings, *, quiet: bool = False) -> Outcome:
        self.command, self.settings, self.quiet = list(command), settings, quiet
        return self.outcome


@pytest.fixture
def supervisor(home: Path, monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    del home
    fake = Supervisor()
    monkeypatch.setattr(supervise_module, "supervise", fake)
    return fake


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["run", *arguments])


class TestForms:
    def test_all_after_the_script_belongs_to_the_script(self, supervisor: Supervisor) -> None:
        _run("--quiet", "train.py", "--json", "--help", "-m", "--", "--stop-on", "x")
        assert supervisor.command == [
            sys.executable,
            *("train.py", "--json", "--help", "-m", "--", "--stop-on", "x"),
        ]

    def test_all_after_a_module_belongs_to_the_module(self, supervisor: Supervisor) -> None:
        _run("--stop-on", "error", "-m", "package.train", "--json")
        assert supervisor.command == [sys.executable, "-m", "package.train", "--json"]
        assert supervisor.settings.stop_on == "error"

    def test_a_command_is_run_as_it_stands(self, supervisor: Supervisor) -> None:
        _run("--", "python", "train.py", "--json")
        assert supervisor.command == ["python", "train.py", "--json"]

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["nope.py"], "there is no script 'nope.py'"),
            ([], "no script to run was given"),
            (["-m"], "no script to run was given"),
            (["env", "train.py"], "write: firstfault run -- env ..."),
            (["--", "no-such-command-at-all"], "there is no command 'no-such-command-at-all'"),
        ],
    )
    @pytest.mark.usefixtures("supervisor")
    def test_what_cannot_be_run_is_one_sentence(self, arguments: list[str], said: str) -> None:
        result = _run(*arguments)
        assert result.exit_code == 2
        assert said in result.stderr
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1

    def test_a_script_without_run_is_met_with_the_right_command(self) -> None:
        result = CliRunner().invoke(cli, ["train.py"])
        assert result.exit_code == 2
        assert "firstfault run train.py" in result.stderr


class TestSettings:
    def test_options_become_settings(self, supervisor: Supervisor) -> None:
        for letter in ("a", "b"):
            Path(f"{letter}.py").write_text(f"class {letter.upper()}: ...")
        _run(*("--rule", "a.py:A", "--rule", "b.py:B", "--ignore", "dead_units", "--project", "p"), "train.py")
        settings = supervisor.settings
        assert (settings.rules, settings.ignore) == (("a.py:A", "b.py:B"), ("dead_units",))
        assert (settings.project, settings.stop_on) == ("p", "fatal")

    def test_a_rule_that_does_not_load_is_told_before_the_script_starts(self, supervisor: Supervisor) -> None:
        result = _run("--rule", "nope.py:A", "train.py")
        assert result.exit_code == 2
        assert "there is no file nope.py" in result.stderr
        assert supervisor.command == []

    def test_variables_hold_where_no_option_is_given(
        self, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FIRSTFAULT_PROJECT", "from-the-variable")
        monkeypatch.setenv("FIRSTFAULT_STOP_ON", "warning")
        _run("train.py")
        assert supervisor.settings.project == "from-the-variable"
        assert supervisor.settings.stop_on == "warning"

    def test_a_wrong_variable_is_one_sentence(
        self, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        del supervisor
        monkeypatch.setenv("FIRSTFAULT_BUDGET", "much")
        result = _run("train.py")
        assert (result.exit_code, result.stderr) == (2, "error: FIRSTFAULT_BUDGET is 'much': it takes a number\n")


class TestEnding:
    def test_the_exit_code_is_the_scripts(self, supervisor: Supervisor) -> None:
        supervisor.outcome = Outcome(exit_code=7, signal=None, run=None)
        result = _run("train.py")
        assert result.exit_code == 7
        assert "FAILED" in result.stderr

    def test_the_panel_goes_to_standard_error(self, supervisor: Supervisor, recorded: Path) -> None:
        supervisor.outcome = Outcome(exit_code=3, signal=None, run=recorded)
        result = _run("train.py")
        assert result.exit_code == 3
        assert result.stdout == ""
        assert "non-finite gradient, step 12, backward" in result.stderr

    def test_json_is_the_last_line_and_there_is_no_panel(self, supervisor: Supervisor, recorded: Path) -> None:
        supervisor.outcome = Outcome(exit_code=3, signal=None, run=recorded)
        result = _run("--json", "train.py")
        assert json.loads(result.stdout.splitlines()[-1])["verdict"] == "fault"
        assert result.stderr == ""

    def test_quiet_says_nothing_where_nothing_is_wrong(self, supervisor: Supervisor) -> None:
        assert _run("--quiet", "train.py").output == ""
        assert supervisor.quiet

    def test_switched_off_it_says_nothing(self, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FIRSTFAULT", "0")
        assert _run("train.py").output == ""
        assert supervisor.command == [sys.executable, "train.py"]

    def test_quiet_still_tells_of_a_fault(self, supervisor: Supervisor, recorded: Path) -> None:
        supervisor.outcome = Outcome(exit_code=3, signal=None, run=recorded)
        assert "non-finite gradient" in _run("--quiet", "train.py").stderr

    def test_a_run_that_cannot_be_read_leaves_the_scripts_exit_code(
        self, supervisor: Supervisor, tmp_path: Path
    ) -> None:
        supervisor.outcome = Outcome(exit_code=7, signal=None, run=tmp_path / "gone")
        result = _run("train.py")
        assert result.exit_code == 7
        assert result.stderr.startswith("error: ")

    def test_a_signal_ends_us_as_it_ended_the_script(self) -> None:
        code = f"from firstfault.cli.run import end_as; end_as(137, {int(signal.SIGKILL)})"
        ended = subprocess.run([sys.executable, "-c", code], check=False)
        assert ended.returncode == -signal.SIGKILL


def test_a_real_script_is_watched_and_keeps_its_output_and_code(home: Path) -> None:
    (home.parent / "train.py").write_text("import sys\nprint('mine', sys.argv[1:])\nsys.exit(5)\n")
    ended = subprocess.run(
        [sys.executable, "-m", "firstfault", "run", "train.py", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 5, ended.stderr
    assert ended.stdout == "mine ['--json']\n"
    assert "FAILED" in ended.stderr
