# SPDX-License-Identifier: Apache-2.0
"""The demo: a real training with a real mistake, by itself and watched."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from firstfault.cli import demo
from firstfault.cli.main import cli

_SCRIPT = Path(demo.__file__).parents[1] / "demo" / "digits.py"


@pytest.mark.slow
def test_by_itself_it_only_shows_that_the_loss_is_nan(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, _SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=True)
    losses = {int(line.split("step")[1].split(":")[0]): line for line in ended.stdout.splitlines()[:-1]}
    assert "nan" not in losses[40]
    assert losses[50].endswith("loss nan")


@pytest.mark.slow
def test_watched_it_names_the_step_before_the_loss_is_nan(home: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "firstfault", "demo", "--json"], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 3, ended.stderr
    diagnosis = json.loads(ended.stdout.splitlines()[-1])
    fault = diagnosis["first_fault"]
    assert (diagnosis["verdict"], fault["step"], fault["stage"]) == ("fault", 43, "backward")
    assert fault["weights"] == "unspoilt"
    assert Path(fault["location"]["file"]).name == "digits.py"
    assert "torch.sqrt" in fault["location"]["code"], (
        "the line that makes the first bad value, not the one that ran"
    )
    assert (fault["operation"], fault["rung"], fault["location"]["role"]) == ("sqrt", "child", "edit")
    assert (home / "default" / diagnosis["run"] / "run.json").is_file()


@pytest.mark.usefixtures("home")
def test_without_its_packages_it_says_how_to_install_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo.importlib.util, "find_spec", lambda name: None if name == "sklearn" else object())
    result = CliRunner().invoke(cli, ["demo"])
    assert result.exit_code == 2
    assert 'scikit-learn, not installed here: pip install "firstfault[demo]"' in result.stderr
