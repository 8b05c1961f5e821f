# SPDX-License-Identifier: Apache-2.0
"""Watching from a notebook's cells, which are run again and again in one process."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from torch.optim import optimizer as torch_optimizer

import firstfault
from firstfault.launch.active import watched_run

MODEL = """
import torch
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
"""
TRAIN = """
for step in range(4):
    optimizer.zero_grad()
    loss = (model(torch.ones(4, 3)) ** 2).mean()
    if step == spoilt:
        loss = torch.log(loss - loss)
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Runs the text of one cell and gives what its last line gave."""
    monkeypatch.setenv("FIRSTFAULT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    shell = InteractiveShell.instance()
    shell.reset()

    def run(text: str) -> Any:
        result = shell.run_cell(text, store_history=True)
        result.raise_error()
        return result.result

    yield run
    if (watched := watched_run()) is not None:
        watched.end()
    atexit.unregister(shell.atexit_operations)
    shell.atexit_operations()
    InteractiveShell.clear_instance()


def _states(home: Path, runs: list[str]) -> list[str]:
    return [firstfault.open_run(run, home=home).status.state for run in runs]


def test_a_finding_names_the_cell_and_its_line(cell, capsys: pytest.CaptureFixture[str]) -> None:
    cell("import firstfault")
    cell("firstfault.init()")
    cell(MODEL)
    cell("spoilt = 2")
    cell(TRAIN)  # the fifth cell
    diagnosis = cell("firstfault.finish()")
    assert diagnosis.verdict == "fault"
    location = diagnosis.first_fault.location
    assert location is not None
    assert (location.file, location.line) in [("In[5]", 6), ("In[5]", 7)]
    assert location.code in ("loss = torch.log(loss - loss)", "loss.backward()")
    said = capsys.readouterr()
    assert "FAULT" in said.err
    assert "In[5]:" in said.err


def test_a_cell_run_again_finishes_the_run_before_and_doubles_no_hook(cell, tmp_path: Path) -> None:
    backward, hooks = torch.Tensor.backward, dict(torch_optimizer._global_optimizer_pre_hooks)
    cell("import firstfault")
    cell("spoilt = -1")
    runs = []
    for _ in range(3):
        runs.append(cell("run = firstfault.init(quiet=True); run.id"))
        assert len(torch_optimizer._global_optimizer_pre_hooks) == len(hooks) + 1
        cell(MODEL)
        cell(TRAIN)
    assert len(set(runs)) == 3
    assert _states(tmp_path / "home", runs) == ["finished", "finished", "running"]
    assert cell("firstfault.finish()").coverage.steps == 4
    assert _states(tmp_path / "home", runs) == ["finished"] * 3
    assert torch.Tensor.backward is backward
    assert dict(torch_optimizer._global_optimizer_pre_hooks) == hooks


def test_an_error_in_a_cell_ends_no_run(cell) -> None:
    cell("import firstfault")
    cell("firstfault.init(quiet=True)")
    with pytest.raises(ZeroDivisionError):
        cell("1 / 0")
    assert watched_run() is not None
    cell("spoilt = -1" + MODEL + TRAIN)
    assert cell("firstfault.finish()").verdict == "clean"
