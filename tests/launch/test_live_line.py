# SPDX-License-Identifier: Apache-2.0
"""The line of progress on a real terminal: what the person sees is what the script wrote, and our line below it."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import textwrap
import threading
from dataclasses import dataclass
from pathlib import Path

import pyte
import pytest

TIMEOUT = 60
#: a training without a framework: the recorder is told of each step
STEPS = """
import os, sys, time
import firstfault
from firstfault.records.step import Update
run = firstfault.init(quiet=True)
recorder = run._watched.session.recorder
def step(seconds=0.0, loss=0.5):
    recorder.loss("train.py:1", loss)
    recorder.backward()
    recorder.before_update(1)
    recorder.after_update(1, Update(optimizer="SGD", count=0, learning_rates=(0.1,), location=None))
    time.sleep(seconds)
def steps(number=6):
    for _ in range(number):
        step(0.1)
"""


@dataclass(frozen=True)
class Shown:
    """What came through the terminal, and what stands on it in the end."""

    raw: str
    lines: list[str]
    exit_code: int

    @property
    def was_drawn(self) -> bool:
        return "\r\x1b[2Kstep " in self.raw


def _on_terminal(words: list[str], folder: Path, columns: int = 80, answer: bytes = b"", at: bytes = b"") -> Shown:
    """Run a command with a terminal of its own; `answer` is typed once `at` is on it."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    variables = {"TERM": "xterm", "NO_COLOR": "1", "FIRSTFAULT_LIVE": "1", "FIRSTFAULT_HOME": str(folder / "home")}
    process = subprocess.Popen(
        words,
        cwd=folder,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        env={**os.environ, **variables},
    )
    os.close(slave)
    killer = threading.Timer(TIMEOUT, process.kill)
    killer.start()
    raw = b""
    while data := _read(master):
        raw += data
        if answer and at in raw:
            os.write(master, answer)
            answer = b""
    process.wait()
    killer.cancel()
    os.close(master)
    screen = pyte.Screen(columns, 50)
    pyte.ByteStream(screen).feed(raw)
    lines = [line.rstrip() for line in screen.display]
    while lines and not lines[-1]:
        lines.pop()
    return Shown(raw.decode(), lines, process.returncode)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # the other end is closed
        return b""


@pytest.fixture
def script(tmp_path: Path):
    def run(text: str, **options) -> Shown:
        path = tmp_path / "train.py"
        path.write_text(STEPS + textwrap.dedent(text))
        return _on_terminal([sys.executable, str(path)], tmp_path, **options)

    return run


def test_a_watched_scripts_lines_stand_on_the_terminal_as_it_wrote_them(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        textwrap.dedent("""
        import sys, time, torch
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for step in range(9):
            optimizer.zero_grad()
            (model(torch.randn(4, 3)) ** 2).mean().backward()
            optimizer.step()
            time.sleep(0.15)
            if step % 3 == 2:
                print("line", step)
                print("half ", end="", flush=True)
                time.sleep(0.4)
                print("whole")
                sys.stderr.write("\\x1b[31merror\\x1b[0m\\n")
        """)
    )
    shown = _on_terminal([sys.executable, "-m", "firstfault", "run", "train.py"], tmp_path)
    assert shown.exit_code == 0
    assert shown.was_drawn
    assert "loss " in shown.raw
    assert "step/s" in shown.raw or "steps/s" in shown.raw
    expected = [text for step in (2, 5, 8) for text in (f"line {step}", "half whole", "error")]
    assert shown.lines[:9] == expected
    assert "CLEAN" in shown.lines[10]
    assert not [line for line in shown.lines if line.startswith("step ")]


def test_a_progress_bar_has_the_terminal_to_itself(script) -> None:
    shown = script("""
        steps()
        for number in range(4):
            sys.stderr.write(f"\\r{number}/4 done")
            steps(3)
        sys.stderr.write("\\n")
        steps()
        print("end")
    """)
    before, _, after = shown.raw.partition("0/4 done")
    assert "\x1b[2Kstep " in before
    assert "\x1b" not in after
    assert shown.lines == ["3/4 done", "end"]


def test_nothing_is_drawn_while_the_person_is_asked(script) -> None:
    shown = script(
        """
        steps()
        print("answer", repr(input("go on? ")))
        steps()
        """,
        answer=b"yes\n",
        at=b"go on? ",
    )
    assert shown.was_drawn
    assert shown.lines == ["go on? yes", "answer 'yes'"]


def test_a_fork_writes_over_the_line_and_draws_none(script) -> None:
    shown = script("""
        steps()
        if os.fork() == 0:
            time.sleep(0.6)
            print("child", flush=True)
            os._exit(0)
        steps(12)
        os.wait()
        print("parent")
    """)
    assert shown.was_drawn
    assert shown.lines == ["child", "parent"]


def test_the_line_is_never_wider_than_the_terminal(script) -> None:
    shown = script("steps()\nprint('end')", columns=14)
    drawn = [part.partition("\r")[0] for part in shown.raw.split("\x1b[2K")]
    assert max(map(len, drawn)) == 13
    assert shown.lines == ["end"]


def test_streams_keep_their_class_and_are_put_back(script) -> None:
    shown = script("""
        import builtins, io
        print(type(sys.stdout) is io.TextIOWrapper, "write" in vars(sys.stdout), builtins.input.__name__)
        steps(3)
        run.finish()
        print("write" in vars(sys.stdout), "write" in vars(sys.stderr), type(builtins.input).__name__)
    """)
    assert shown.lines == ["True True input", "False False builtin_function_or_method"]


def test_a_stream_the_script_puts_in_the_place_of_ours_ends_the_drawing(script) -> None:
    shown = script("""
        sys.stdout = open(1, "w", closefd=False)
        steps()
    """)
    assert not shown.was_drawn


@pytest.mark.parametrize("prelude", ["", "os.environ['TERM'] = 'dumb'"])
def test_nothing_is_drawn_where_there_is_no_terminal(tmp_path: Path, prelude: str) -> None:
    path = tmp_path / "train.py"
    path.write_text(STEPS.replace("import firstfault\n", f"{prelude}\nimport firstfault\n", 1) + "steps()\n")
    if prelude:
        assert _on_terminal([sys.executable, str(path)], tmp_path).raw == ""
        return
    ended = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        env={**os.environ, "FIRSTFAULT_LIVE": "1", "TERM": "xterm"},
        capture_output=True,
        timeout=TIMEOUT,
        check=True,
    )
    assert (ended.stdout, ended.stderr) == (b"", b"")
