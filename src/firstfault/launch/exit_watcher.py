# SPDX-License-Identifier: Apache-2.0
"""Learns how the script ends: at its end, or by an exception that nobody caught. Runs in training."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import TypeAlias

from firstfault.capture.user_code import location_of_traceback, shown_path
from firstfault.records.run import State
from firstfault.records.step import Location

OnEnd: TypeAlias = Callable[[State, str, "Location | None"], object]

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class ExitWatcher:
    """Calls `on_end` once the script has ended, with the state, the error and where it arose.

    Made after the writer: exit handlers run last first, so that ours runs before the writer's own.
    """

    def __init__(self, on_end: OnEnd) -> None:
        self._on_end = on_end
        self._previous = sys.excepthook
        self._error = ""
        self._is_interrupted = False
        self._location: Location | None = None

    def install(self) -> None:
        self._previous = sys.excepthook
        sys.excepthook = self.on_exception
        atexit.register(self.on_exit)

    def remove(self) -> None:
        """Put the interpreter back as it was, as far as nobody has put something over ours."""
        atexit.unregister(self.on_exit)
        if sys.excepthook == self.on_exception:
            sys.excepthook = self._previous

    def on_exception(
        self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        """Print the stack trace as ever, without our own frames in it, and remember the error."""
        try:
            self._error = say_error(error)
            self._location = innermost_user_line(traceback, error)
            self._is_interrupted = isinstance(error, KeyboardInterrupt)
            for linked in _chain(error):
                linked.__traceback__ = without_our_frames(linked.__traceback__)
            traceback = without_our_frames(traceback)
        finally:
            self._previous(kind, error, traceback)

    def on_exit(self) -> None:
        self._on_end("failed" if self._error else "finished", self._error, self._location)
        if self._is_interrupted:
            _end_as_interrupted()


def _chain(error: BaseException) -> list[BaseException]:
    """The error, and all that are printed with it: those it names as cause or came up while handling."""
    found: dict[int, BaseException] = {}
    waiting: list[BaseException | None] = [error]
    while waiting:
        linked = waiting.pop()
        if linked is not None and id(linked) not in found:
            found[id(linked)] = linked
            waiting += [linked.__cause__, linked.__context__, *getattr(linked, "exceptions", ())]
    return list(found.values())


def _end_as_interrupted() -> None:
    """Have the interpreter end by SIGINT, as it does after Ctrl-C, so that a shell's loop ends too.

    It remembers how the last code that it compiled from text ended; imports of ours, late, have come after the
    script (`namedtuple` runs text).
    """
    with contextlib.suppress(KeyboardInterrupt):
        exec("raise KeyboardInterrupt")


def say_error(error: BaseException) -> str:
    """The error in one line."""
    kind, text = type(error).__name__, str(error)
    return f"{kind}: {text}".splitlines()[0] if text else kind


def innermost_user_line(traceback: TracebackType | None, error: BaseException) -> Location | None:
    """The user's line at which the error arose."""
    if isinstance(error, SyntaxError) and error.filename:
        return Location(file=shown_path(error.filename), line=error.lineno or 0, code=(error.text or "").strip())
    return location_of_traceback(traceback)


def without_our_frames(traceback: TracebackType | None) -> TracebackType | None:
    """The same traceback, without our frames between those of the user and of the library."""
    while traceback is not None and traceback.tb_frame.f_code.co_filename.startswith(_OURS):
        traceback = traceback.tb_next
    if traceback is not None:
        traceback.tb_next = without_our_frames(traceback.tb_next)
    return traceback
