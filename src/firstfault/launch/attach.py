# SPDX-License-Identifier: Apache-2.0
"""Begins the session in the process that `firstfault run` started, before the script. Runs in training."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Mapping
from pathlib import Path

from firstfault.capture.environment import describe_environment
from firstfault.capture.import_hook import after_import
from firstfault.launch.active import WatchedRun
from firstfault.launch.handover import Handover
from firstfault.records.encoding import dumps
from firstfault.records.run import Run
from firstfault.records.step import Json
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
    if _silences_something(handover.script):
        # whether a finding is silenced shows in its line: it has to be known before the training is stopped
        session.recorder.keeps_calls = True
    session.start()
    if handover.states:
        _restore_states(handover.states)
    else:
        _keep_states(session)
    # its exit handler is registered before the script's own, so it runs after them
    WatchedRun(session, is_launched=True).begin()


def _silences_something(script: str | None) -> bool:
    """Whether the script has a comment that silences findings."""
    try:
        return script is not None and "firstfault: ok" in Path(script).read_text(encoding="utf-8", errors="replace")
    except OSError:  # a module, or a script that is not there
        return False


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


def _say_nothing(text: str) -> None:
    del text
