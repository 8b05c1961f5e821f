# SPDX-License-Identifier: Apache-2.0
"""One line at the bottom of the terminal that says how the training stands. Runs in training, on its own thread.

    step 120  loss 0.4321  12.3 steps/s  warning: exploding_gradients at step 88

It keeps clear of the script: it is erased before the script writes, and drawn again only where the script's last
output ended its line. A script that moves the cursor itself (a progress bar) has the terminal to itself from there
on. What a process that the script starts writes past Python is not seen, and may stand behind our line.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import os
import re
import sys
import threading
import time
from collections import deque
from typing import Any, TextIO

from firstfault.records.finding import SEVERITIES
from firstfault.session import Session

_PAUSE_SECONDS = 0.25
_WINDOW_SECONDS = 5.0  # over which the speed is measured
_ERASE = "\r\x1b[2K"
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
#: moves the cursor: a carriage return that ends no line, a backspace, any escape sequence but colours
_MOVE = re.compile(r"\r(?!\n)|\x08|\x1b(?!\[[0-9;:]*m)")
#: what writing to a terminal may end in: it is gone, it is closed, or a signal handler came in between
_WRITE_ERRORS = (OSError, ValueError, RuntimeError)


def say_progress(session: Session, steps_per_second: float | None) -> str:
    """The line, in ASCII; empty before the first step is closed."""
    record = session.last_record
    if record is None or not session.recorder.num_steps:
        return ""
    parts = [f"step {record.step}"]
    losses = [scalar.value for scalar in record.scalars_of("loss")]
    if losses:
        parts.append(f"loss {losses[-1]:.4g}")
    if steps_per_second:
        is_fast = steps_per_second >= 1
        parts.append(f"{steps_per_second:.1f} steps/s" if is_fast else f"{1 / steps_per_second:.1f} s/step")
    grave = [finding for finding in list(session.findings) if finding.severity != "info"]
    if grave:
        worst = min(grave, key=lambda finding: SEVERITIES.index(finding.severity))
        where = "" if worst.step is None else f" at step {worst.step}"
        parts.append(f"{worst.severity}: {worst.rule}{where}")
    line = "  ".join(parts).encode("ascii", "replace").decode()
    return "".join(character if character.isprintable() else "?" for character in line)


class LiveLine:
    """Draws the line on a terminal, from `start` to `stop`."""

    def __init__(self, session: Session, stream: TextIO) -> None:
        self._session = session
        self._stream = stream
        self._descriptor = stream.fileno()
        self._write_raw = stream.write
        self._lock = threading.RLock()  # taken again by a signal handler that prints
        self._process = os.getpid()
        self._wrapped: list[tuple[Any, Any]] = []
        self._stopping = threading.Event()
        self._is_over = False  #: nothing is drawn any more
        self._drawn = ""
        self._unfinished: set[int] = set()  #: ids of the streams whose last line is not ended
        self._is_reading = False
        self._speeds: deque[tuple[float, int]] = deque()
        self._input: Any = None  #: the `input` of before, where ours stands in its place
        self._thread = threading.Thread(target=self._work, name="firstfault-live", daemon=True)

    @classmethod
    def on_terminal(cls, session: Session) -> LiveLine | None:
        """A line on standard error; None where that is no terminal that can erase a line."""
        stream = sys.stderr
        if stream is None or stream.closed or not stream.isatty():
            return None
        return None if os.environ.get("TERM", "dumb") == "dumb" else cls(session, stream)

    def start(self) -> None:
        for stream in dict.fromkeys((sys.stdout, sys.stderr)):
            if stream is not None and not stream.closed and stream.isatty():
                self._wrap(stream)
        self._input = builtins.input
        builtins.input = self._wrap_input(builtins.input)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._before_fork, after_in_parent=self._after_fork, after_in_child=self._become_child
            )
        self._thread.start()

    def stop(self) -> None:
        """Erase the line for good, and put the streams back as they were."""
        with self._lock:
            self._give_up()
            for stream, wrapper in self._wrapped:
                if vars(stream).get("write") is wrapper:
                    del stream.write
            self._wrapped = []
            put_back, self._input = self._input, None
            is_ours = getattr(builtins.input, "__wrapped__", self) is put_back
            if put_back is not None and is_ours:
                builtins.input = put_back
        if self._process == os.getpid() and self._thread.is_alive():
            self._thread.join(2 * _PAUSE_SECONDS)

    # before the script writes

    def _wrap(self, stream: Any) -> None:
        write = stream.write

        @functools.wraps(write)
        def write_clear_of_line(text: str, /) -> int:
            with self._lock:
                if not self._is_over and isinstance(text, str) and text:
                    self._make_way(id(stream), text)
                written: int = write(text)
                return written

        try:
            stream.write = write_clear_of_line  # of this one object: its class stays what it is
        except AttributeError:  # an object of the script's own kind, without room: then nothing is drawn
            self._give_up()
        else:
            self._wrapped.append((stream, write_clear_of_line))

    def _make_way(self, stream: int, text: str) -> None:
        if self._process != os.getpid():
            # a fork cannot know whether its parent's line stands there; erasing an empty line does no harm
            if not self._unfinished and os.isatty(self._descriptor):
                self._send(_ERASE)
        else:
            self._erase()
        if ("\r" in text or "\x1b" in text or "\x08" in text) and _MOVE.search(text):
            self._give_up()
        if _COLOUR.sub("", text[-64:]).endswith("\n"):
            self._unfinished.discard(stream)
        else:
            self._unfinished.add(stream)

    def _wrap_input(self, read: Any) -> Any:
        """`input` writes its prompt, and the person their answer, without calling `write`."""

        @functools.wraps(read)
        def read_clear_of_line(*args: Any, **kwargs: Any) -> Any:
            with self._lock:
                self._erase()
                self._is_reading = True
            try:
                return read(*args, **kwargs)
            finally:
                self._is_reading = False

        return read_clear_of_line

    # drawing

    def _work(self) -> None:
        try:
            while not self._stopping.wait(_PAUSE_SECONDS):
                text = say_progress(self._session, self._steps_per_second(time.monotonic()))
                with self._lock:
                    self._draw(text)
        except Exception:  # noqa: BLE001  # the thread's own boundary: no line is better than a stack trace
            with self._lock:
                self._give_up()

    def _draw(self, text: str) -> None:
        if self._is_over or not text or self._unfinished or self._is_reading or not self._is_ours():
            return
        text = text[: self._width() - 1]
        if text != self._drawn:
            self._send(_ERASE + text)
            self._drawn = text

    def _is_ours(self) -> bool:
        """Whether the terminal is there, and neither in the background nor written to past our wrappers."""
        wrapped = {id(stream) for stream, _ in self._wrapped}
        others = [stream for stream in (sys.stdout, sys.stderr) if type(stream) is type(self._stream)]
        if any(_is_tty(stream) and (id(stream) not in wrapped or _keeps_lines(stream)) for stream in others):
            self._give_up()
            return False
        try:
            return os.tcgetpgrp(self._descriptor) == os.getpgrp()
        except OSError:  # redirected, or closed
            self._drawn = ""
            self._give_up()
            return False

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self._descriptor).columns or 80
        except OSError:
            return 80

    def _steps_per_second(self, now: float) -> float | None:
        if not self._session.recorder.num_steps:
            return None
        self._speeds.append((now, self._session.recorder.num_steps))
        while len(self._speeds) > 2 and now - self._speeds[0][0] > _WINDOW_SECONDS:
            self._speeds.popleft()
        (began, first), (_, last) = self._speeds[0], self._speeds[-1]
        if last > first:
            return (last - first) / (now - began)
        record = self._session.last_record  # no step within the window: the last one's duration says more
        return 1 / record.seconds if record is not None and record.seconds > 0 else None

    def _erase(self) -> None:
        if self._drawn:
            self._drawn = ""
            self._send(_ERASE)

    def _give_up(self) -> None:
        self._erase()
        self._is_over = True
        self._stopping.set()

    def _send(self, text: str) -> None:
        with contextlib.suppress(*_WRITE_ERRORS):
            self._write_raw(text)
            self._stream.flush()

    # forks

    def _before_fork(self) -> None:
        self._lock.acquire()
        if self._process == os.getpid():
            self._erase()

    def _after_fork(self) -> None:
        self._lock.release()

    def _become_child(self) -> None:
        self._lock = threading.RLock()
        self._drawn = ""
        self._stopping.set()


def _is_tty(stream: Any) -> bool:
    with contextlib.suppress(*_WRITE_ERRORS):
        return bool(stream.isatty())
    return False


def _keeps_lines(stream: Any) -> bool:
    """Whether what is written appears some time later, so that it cannot be told what stands on the terminal."""
    return not (stream.line_buffering or stream.write_through)
