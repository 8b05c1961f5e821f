# SPDX-License-Identifier: Apache-2.0
"""Signals, kills and full stops: the run opens, the panel comes, and the process ends as the script did."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firstfault.store.documents import read_run, read_status
from firstfault.store.layout import RunLayout
from firstfault.store.reader import RunReader

#: trains, says so, and goes on waiting with an update in between
_WAITS = """
import pathlib, sys, time
import torch
from torch import nn
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
SETUP
for step in range(1000):
    optimizer.zero_grad()
    (model(torch.randn(4, 3)) ** 2).mean().backward()
    optimizer.step()
    if step == 50:  # what is recorded is written about once a second
        pathlib.Path("ready").touch()
    if step >= 20:
        time.sleep(0.05)
"""
_CATCHES_SIGTERM = """
import signal
def leave(number, frame):
    pathlib.Path("saved").touch()
    sys.exit(5)
signal.signal(signal.SIGTERM, leave)
"""

Wait = Callable[[Path], None]


def _child_of(home: Path) -> int:
    """The training's own process, from what it says of itself."""
    (run_file,) = home.glob("*/*/run.json")
    layout = RunLayout(run_file.parent)
    status, _ = read_status(layout, read_run(layout), 0.0)
    assert status.process > 0
    return status.process


@pytest.mark.parametrize(
    ("setup", "send", "exit_code", "verdict", "error"),
    [
        # a terminal sends Ctrl-C to the whole group
        ("", "SIGINT to the group", -signal.SIGINT, None, "KeyboardInterrupt"),
        ("", "SIGTERM to the parent", -signal.SIGTERM, "failed", "killed by SIGTERM"),
        (_CATCHES_SIGTERM, "SIGTERM to the parent", 5, "failed", "exit code 5"),
        ("", "SIGKILL to the child", -signal.SIGKILL, "failed", "killed by SIGKILL"),
    ],
    ids=["Ctrl-C", "terminated", "terminated and it saves", "killed"],
)
def test_a_training_that_is_ended_from_outside_leaves_a_run_and_an_answer(
    setup: str,
    send: str,
    exit_code: int,
    verdict: str | None,
    error: str,
    workplace: Any,
    wait: Wait,
) -> None:
    workplace.write(_WAITS.replace("SETUP", setup))
    process = workplace.start("train.py")
    try:
        wait(workplace.folder / "ready")
        child = _child_of(workplace.home)
        assert child != process.pid
        if send.endswith("group"):
            os.killpg(process.pid, signal.SIGINT)
        elif send.endswith("parent"):
            os.kill(process.pid, signal.SIGTERM)
        else:
            os.kill(child, signal.SIGKILL)
    finally:
        ended = workplace.end(process)
    assert ended.exit_code == exit_code, ended.stderr
    assert "firstfault ━" in ended.stderr
    assert "src/firstfault" not in ended.stderr, ended.stderr  # no stack trace of ours
    assert (workplace.folder / "saved").exists() is bool(setup)
    assert error in ended.status.error
    assert ended.status.state == "failed"
    if verdict is not None:
        assert ended.diagnosis.verdict == verdict
    records = list(RunReader(ended.run).records())
    # what was last said before a kill may not have been written: some of it must have been
    assert len(records) >= 15
    assert [record.step for record in records] == list(range(len(records)))


def test_an_interrupt_in_the_first_second_ends_the_process_by_the_signal_too(
    workplace: Any, training: str, wait: Wait
) -> None:
    # CPython ends by SIGINT unless something is run by `exec` at exit, as late imports do: then with 1, and a
    # shell's loop goes on after Ctrl-C.
    workplace.write(training + "import pathlib, time\npathlib.Path('ready').touch()\ntime.sleep(60)\n")
    process = workplace.start("train.py")
    try:
        wait(workplace.folder / "ready")
        os.killpg(process.pid, signal.SIGINT)
    finally:
        ended = workplace.end(process)
    assert ended.exit_code == -signal.SIGINT, ended.stderr
    assert len(RunReader(ended.run).steps()) == 6


def test_a_script_that_ends_at_once_by_os_exit_leaves_a_run_that_opens(workplace: Any, training: str) -> None:
    workplace.write(training + "\nimport os\nos._exit(7)\n")
    ended = workplace.watched("train.py")
    assert ended.exit_code == 7
    assert ended.status.error == "exit code 7"
    assert ended.diagnosis.verdict == "failed"
    RunReader(ended.run).steps()


def test_a_crash_of_the_interpreter_is_told_as_the_signal_it_is(workplace: Any, training: str) -> None:
    workplace.write(training + "\nimport os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    ended = workplace.watched("train.py")
    assert ended.exit_code == -signal.SIGSEGV
    assert "SIGSEGV" in ended.status.error
    assert ended.diagnosis.verdict == "failed"


def test_a_script_that_closes_its_streams_and_changes_folder_ends_well(workplace: Any, training: str) -> None:
    workplace.write(training + "\nimport os, sys\nos.chdir('/')\nsys.stdout.close()\nsys.stderr.close()\n")
    ended = workplace.watched("train.py")
    assert ended.exit_code == 0, ended.stderr
    assert ended.diagnosis.verdict == "clean"
    assert len(RunReader(ended.run).steps()) == 6


def test_a_home_that_vanishes_in_the_middle_costs_the_record_and_not_the_training(
    workplace: Any, training: str
) -> None:
    vanish = "import os, shutil\nshutil.rmtree(os.environ['FIRSTFAULT_HOME'])\n"
    workplace.write(training + vanish + training + "\nprint(float(loss))\n")
    bare_script = workplace.write(training + training + "\nprint(float(loss))\n", "bare.py")
    bare, watched = workplace.bare(bare_script.name), workplace.watched("train.py")
    assert watched.exit_code == 0, watched.stderr
    assert watched.stdout == bare.stdout
    assert "Traceback" not in watched.stderr, watched.stderr
