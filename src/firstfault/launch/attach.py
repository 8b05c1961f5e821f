# SPDX-License-Identifier: Apache-2.0
"""Begins the session in the process that `firstfault run` started, before the script. Runs in training."""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from types import TracebackType
from typing import Any

from firstfault.capture.environment import describe_environment
from firstfault.capture.user_code import location_of_frame
from firstfault.errors import FirstfaultError
from firstfault.records.run import Run
from firstfault.records.step import Location
from firstfault.session import Session, announce_on_stderr
from firstfault.settings import Settings

VARIABLE = "FIRSTFAULT_LAUNCH"


def attach() -> None:
    """Watch this process if it is the one that was launched; a failure of ours is one line, no more."""
    launch_text = os.environ.pop(VARIABLE, "")
    if not launch_text:
        return
    try:
        launch = json.loads(launch_text)
        for name in launch["variables"]:
            os.environ.pop(name, None)
        os.environ.update(launch["restore"])
        if launch["parent"] != os.getppid():
            return
        _begin(launch)
    except Exception as error:  # noqa: BLE001  # before the script: the script must run whatever happens to us
        announce_on_stderr(f"firstfault: not watching, the script runs as it would ({error})")


def _begin(launch: dict[str, Any]) -> None:
    settings = Settings.from_environment(launch["settings"])
    quiet = launch["quiet"]
    run = Run(
        id=launch["id"],
        project=settings.project,
        name=launch["name"],
        started=time.time(),
        script=launch["script"],
        argv=tuple(launch["argv"]),
        working_directory=os.getcwd(),
        environment=describe_environment(),
        git=launch["git"],
        seeds={"hash_seed": launch["hash_seed"]},
    )
    try:
        session = Session(run, settings, _say_nothing if quiet else announce_on_stderr)
    except FirstfaultError as error:
        announce_on_stderr(f"firstfault: {error}")
        return
    session.start()
    watcher = _ExitWatcher(session)
    sys.excepthook = watcher.on_exception
    # registered before the script's own, so it runs after them
    atexit.register(watcher.on_exit)


class _ExitWatcher:
    """Learns how the script ends."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._previous = sys.excepthook
        self._error = ""
        self._location: Location | None = None

    def on_exception(
        self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        """Print the stack trace as ever, without our own frames in it, and remember the error."""
        try:
            self._error = f"{kind.__name__}: {error}".splitlines()[0] if str(error) else kind.__name__
            self._location = _innermost_user_line(traceback, error)
            traceback = without_our_frames(traceback)
            error.__traceback__ = traceback
        finally:
            self._previous(kind, error, traceback)

    def on_exit(self) -> None:
        state: Any = "failed" if self._error else "finished"
        self._session.finish(state, self._error, self._location)


def _innermost_user_line(traceback: TracebackType | None, error: BaseException) -> Location | None:
    if isinstance(error, SyntaxError) and error.filename:
        return Location(file=error.filename, line=error.lineno or 0, code=(error.text or "").strip())
    if traceback is None:
        return None
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return location_of_frame(traceback.tb_frame)


_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def without_our_frames(traceback: TracebackType | None) -> TracebackType | None:
    """The same traceback, without our frames between those of the user and of the library."""
    while traceback is not None and traceback.tb_frame.f_code.co_filename.startswith(_OURS):
        traceback = traceback.tb_next
    if traceback is not None:
        traceback.tb_next = without_our_frames(traceback.tb_next)
    return traceback


def _say_nothing(text: str) -> None:
    del text
