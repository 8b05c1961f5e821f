# SPDX-License-Identifier: Apache-2.0
"""Begins the session in the process that `firstfault run` started, before the script. Runs in training."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from firstfault.capture.environment import describe_environment
from firstfault.capture.import_hook import after_import
from firstfault.capture.user_code import location_of_frame
from firstfault.launch.handover import Handover
from firstfault.records.encoding import dumps
from firstfault.records.run import Run
from firstfault.records.step import Json, Location
from firstfault.replay import initial_state
from firstfault.replay.order import MicroscopeOrder
from firstfault.replay.sandbox import enter
from firstfault.session import Session, announce_on_stderr
from firstfault.settings import Settings
from firstfault.store.layout import write_atomically


def attach() -> None:
    """Watch this process if it is the one that was launched; a failure of ours is one line, no more."""
    try:
        handover = Handover.take()
        if handover is not None:
            _begin(handover)
    except Exception as error:  # noqa: BLE001  # before the script: the script must run whatever happens to us
        announce_on_stderr(f"firstfault: not watching, the script runs as it would ({error})")


def _begin(handover: Handover) -> None:
    order = MicroscopeOrder.from_environment()
    if order is not None:
        _enter_sandbox(order)
    settings = Settings.from_environment({name: str(value) for name, value in handover.settings.items()})
    run = Run(
        id=handover.run,
        project=settings.project,
        name=handover.name,
        started=time.time(),
        script=handover.script,
        argv=handover.argv,
        working_directory=os.getcwd(),
        environment=describe_environment(),
        git=handover.git,
        seeds={"hash_seed": handover.hash_seed},
    )
    session = Session(run, settings, _say_nothing if handover.quiet else announce_on_stderr)
    session.start()
    if handover.states:
        _restore_states(handover.states)
    else:
        _keep_states(session)
    watcher = _ExitWatcher(session)
    sys.excepthook = watcher.on_exception
    # registered before the script's own, so it runs after them; and after the writer's, so it runs before that
    atexit.register(watcher.on_exit)


def _enter_sandbox(order: MicroscopeOrder) -> None:
    sandbox = enter(order.folder)
    after_import("torch", lambda: sandbox.guard("torch", "torch.serialization", "torch.jit"))
    after_import("safetensors", lambda: sandbox.guard("safetensors.torch"))


def _restore_states(states: Mapping[str, Json]) -> None:
    initial_state.restore(states, "python")
    for library in ("numpy", "torch"):
        after_import(library, functools.partial(initial_state.restore, states, library))


def _keep_states(session: Session) -> None:
    """Keep the random states the script begins with, so that it can be run again."""
    states = initial_state.capture("python")

    def keep(library: str) -> None:
        states.update(initial_state.capture(library))
        with contextlib.suppress(OSError):
            write_atomically(session.layout.states_file, dumps(states).encode(), durable=False)

    for library in ("numpy", "torch"):
        after_import(library, functools.partial(keep, library))


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
