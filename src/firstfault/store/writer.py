# SPDX-License-Identifier: Apache-2.0
"""Writes one worker's part of a run directory. Runs in training: a thread does all but take the record.

Nothing here raises into the training but `begin`; what cannot be written is said in `warnings`.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import importlib
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from firstfault.errors import StoreError
from firstfault.records.encoding import dumps
from firstfault.records.finding import Finding
from firstfault.records.run import Run, Status
from firstfault.records.step import StepRecord
from firstfault.store.layout import RunLayout, write_atomically

if TYPE_CHECKING:
    from firstfault.store.spool import Spool

_HEARTBEAT_SECONDS = 1.0
_CLOSE_SECONDS = 120.0
_FORK_SECONDS = 2.0


class RunWriter:
    """Takes what is observed of a run and brings it to its directory.

    Args:
        layout: where the run lies.
        worker: number of this process within the run; worker 0 also writes `run.json` and `status.json`.
        clock: seconds since the epoch, for the heartbeat.
        wake_seconds: how often the thread brings records to disk: a `kill -9` loses at most so much, and a bit.
        segment_seconds: how often a segment is cut from the tail.
        segment_rows: rows at which a segment is cut earlier.
    """

    def __init__(
        self,
        layout: RunLayout,
        worker: int = 0,
        clock: Callable[[], float] = time.time,
        *,
        wake_seconds: float = 0.5,
        segment_seconds: float = 15.0,
        segment_rows: int = 200_000,
    ) -> None:
        self.layout = layout
        self.worker = worker
        self._clock = clock
        self._wake_seconds = wake_seconds
        self._segment_seconds = segment_seconds
        self._segment_rows = segment_rows
        self._pending: deque[StepRecord] = deque()
        self._closing = threading.Event()
        self._lock = threading.RLock()  # of the status and the warnings; taken again by a signal handler's call
        self._busy = threading.RLock()  # the thread is inside Arrow: a fork waits, see `_watch_forks`
        self._status: Status | None = None
        self._last_step: int | None = None
        self.status_source: Callable[[], Status] | None = None  #: asked at each heartbeat, by the thread
        self._beaten = 0.0
        self._num_findings = 0
        self._warnings: list[str] = []
        self._thread: threading.Thread | None = None
        self._inert = False
        _watch_forks(self)
        self._at_exit = _close_at_exit(self)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What could not be written, in words; each thing once."""
        return tuple(self._warnings)

    def begin(self, run: Run) -> None:
        """Makes the run directory and starts the thread.

        Raises:
            StoreError: the directory cannot be made, or holds this run already.
        """
        try:
            if self.layout.tail_file(self.worker).exists() or (self.worker == 0 and self.layout.run_file.exists()):
                raise StoreError(f"{self.layout.path} holds a run already: give the new one another id")
            self.layout.make()
            if self.worker == 0:
                write_atomically(self.layout.run_file, dumps(run, indent=1).encode("utf-8", "backslashreplace"))
        except StoreError:
            self._become_inert()
            raise
        except OSError as error:
            self._become_inert()
            raise StoreError(
                f"{self.layout.run_file} cannot be written ({error.strerror or error}), so nothing is kept: "
                "set FIRSTFAULT_HOME to a folder that can be written"
            ) from error
        _load_fork_handlers()
        self._thread = threading.Thread(target=self._work, name="firstfault-writer", daemon=True)
        self._thread.start()

    def append(self, record: StepRecord) -> None:
        """Takes a record; it is on disk a second later."""
        self._pending.append(record)

    def add_finding(self, finding: Finding) -> None:
        """Writes a finding at once: it may be the last thing this process does."""
        if self._inert:
            return
        self._num_findings += 1
        path = self.layout.finding_file(self._num_findings, self.worker)
        try:
            text = dumps(finding, indent=1).encode("utf-8", "backslashreplace")
            write_atomically(path, text, durable=finding.severity == "fatal")
        except OSError as error:
            self._warn(f"the finding {finding.rule} of step {finding.step} cannot be written: {error}")

    def set_status(self, status: Status) -> None:
        """Writes how the run stands; while it is `running` the thread keeps its heartbeat fresh."""
        with self._lock:
            self._status = status
            self._write_status(durable=status.state != "running")

    def close(self) -> None:
        """Brings everything to disk and joins small segments; may be called twice."""
        atexit.unregister(self._at_exit)
        thread, self._thread = self._thread, None
        if self._inert or thread is None:
            return
        self._closing.set()
        thread.join(_CLOSE_SECONDS)
        if thread.is_alive():
            self._warn(f"{self.layout.path} took no more than {_CLOSE_SECONDS:.0f} s of writing: the end is lost")

    def _work(self) -> None:
        try:
            # Arrow brings numpy: not before there is something to write, so that the script imports it first
            while not self._pending and not self._closing.wait(self._wake_seconds):
                self._beat()
            if not self._pending:
                return
            with self._busy:
                from firstfault.store.spool import Spool  # Arrow is loaded here, and not by the training

                spool = Spool(
                    self.layout,
                    self.worker,
                    segment_seconds=self._segment_seconds,
                    segment_rows=self._segment_rows,
                    warn=self._warn,
                )
            while not self._closing.wait(self._wake_seconds):
                with self._busy:
                    self._drain(spool)
                    spool.bring_to_disk()
                    self._beat()
            with self._busy:
                self._drain(spool)
                spool.close()
        except Exception as error:  # noqa: BLE001  # the observer never kills the patient
            self._warn(f"nothing more is kept of this run: {type(error).__name__}: {error}")
            self._pending = deque(maxlen=0)

    def _drain(self, spool: Spool) -> None:
        records = [self._pending.popleft() for _ in range(len(self._pending))]
        if records:
            spool.add(records)
            self._last_step = records[-1].step

    def _beat(self) -> None:
        with self._lock:
            if (
                self._status is not None
                and self._status.state == "running"
                and time.monotonic() - self._beaten >= _HEARTBEAT_SECONDS
            ):
                fresh = self._status if self.status_source is None else self.status_source()
                self._status = dataclasses.replace(fresh, heartbeat=self._clock())
                self._write_status(durable=False)

    def _write_status(self, *, durable: bool) -> None:
        status = self._status
        if status is None or self._inert or self.worker != 0:
            return
        steps = [step for step in (status.last_step, self._last_step) if step is not None]
        warnings = dict.fromkeys((*status.warnings, *self._warnings))
        status = dataclasses.replace(status, last_step=max(steps, default=None), warnings=tuple(warnings))
        self._beaten = time.monotonic()
        try:
            text = dumps(status, indent=1).encode("utf-8", "backslashreplace")
            write_atomically(self.layout.status_file, text, durable=durable)
        except OSError as error:
            self._warn(f"{self.layout.status_file} cannot be written: {error.strerror or error}")

    def _warn(self, text: str) -> None:
        with self._lock:
            if text not in self._warnings and len(self._warnings) < 20:
                self._warnings.append(text)

    def _become_inert(self) -> None:
        """For a child after a fork, which has no thread and must not write into its parent's run."""
        self._inert = True
        self._pending = deque(maxlen=0)
        self._lock = threading.RLock()  # the parent's may have been held while it forked
        self._busy = threading.RLock()


def _close_at_exit(writer: RunWriter) -> Callable[[], None]:
    """For whoever forgets: a thread that is inside Arrow when the interpreter ends can abort the process.

    An exit handler that still appends is registered after the writer is made, and so runs before this one.
    """
    reference = weakref.ref(writer)

    def close() -> None:
        if (here := reference()) is not None:
            here.close()

    return atexit.register(close)


def _load_fork_handlers() -> None:
    """Loads what Arrow loads and what registers handlers of forks.

    Were they registered while a fork waits for the thread, Python would call their second half without the first.
    """
    for name in ("logging", "concurrent.futures.thread"):
        importlib.import_module(name)


def _watch_forks(writer: RunWriter) -> None:
    """Lets no fork happen while the thread is inside Arrow, whose locks would stay locked in the child for ever.

    Module locks of an import count among them; so a fork waits for the thread, but not for long.
    """
    if not hasattr(os, "register_at_fork"):
        return
    reference = weakref.ref(writer)  # a registration lasts as long as the process: hold nothing alive by it

    def before() -> None:
        if (here := reference()) is not None:
            here._busy.acquire(timeout=_FORK_SECONDS)

    def in_parent() -> None:
        if (here := reference()) is not None:
            with contextlib.suppress(RuntimeError):  # the wait was in vain, the lock is not ours
                here._busy.release()

    def in_child() -> None:
        if (here := reference()) is not None:
            here._become_inert()

    os.register_at_fork(before=before, after_in_parent=in_parent, after_in_child=in_child)
