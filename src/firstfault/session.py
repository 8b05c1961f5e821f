# SPDX-License-Identifier: Apache-2.0
"""Our live attachment to one run: builds all parts and wires them. Runs in training.

The one composition root: nothing else in firstfault reaches for a global, and this holds none either.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from firstfault.capture.budget import Budget
from firstfault.capture.firewall import Firewall
from firstfault.capture.import_hook import after_import
from firstfault.capture.metrics import numbers_of
from firstfault.capture.protocol import Capture
from firstfault.capture.recorder import Recorder
from firstfault.capture.stop import TrainingStopped
from firstfault.diagnosis.verdict import diagnose
from firstfault.engine.in_process import InProcessEngine
from firstfault.engine.loop import RuleLoop
from firstfault.errors import StoreError, UsageError
from firstfault.plugins import framework_starters
from firstfault.records.finding import Diagnosis, Finding
from firstfault.records.run import Run, State, Status
from firstfault.records.step import Json, Location, StepRecord
from firstfault.rules.registry import rules_for
from firstfault.settings import Settings
from firstfault.store.layout import RunLayout
from firstfault.store.mailbox import Mailbox
from firstfault.store.writer import RunWriter


class Session:
    """Watches one run in this process, from `start` to `finish`.

    Args:
        run: what is known of the run as it begins.
        announce: shows one line to the user (findings, warnings of ours); says nothing where they want quiet.
    """

    def __init__(self, run: Run, settings: Settings, announce: Callable[[str], None]) -> None:
        self.run = run
        self.settings = settings
        self.announce = announce
        self._process = os.getpid()
        self._warnings: list[str] = []
        self._mailbox = Mailbox()
        self._captures: dict[str, Capture] = {}
        self._remove_hooks: list[Callable[[], None]] = []
        self._is_finished = False
        self._last_status: Status | None = None
        self.stop_reason = ""
        self.findings: list[Finding] = []
        self.last_record: StepRecord | None = None  #: of the last update
        self.layout = RunLayout.under(settings.home, settings.project, run.id)
        self.writer = RunWriter(self.layout)
        self.firewall = Firewall(self._warn)
        self._engine = InProcessEngine(
            RuleLoop(rules_for(settings.rules, self._warn), ignore=settings.ignore),
            stop_on=settings.stop_on,
            on_finding=self._take_finding,
            on_request=self._mailbox.leave,
        )
        self.recorder = Recorder(
            Budget(settings.budget),
            self.firewall,
            sinks=(self.firewall.guard("the record", self._keep), self.firewall.guard("the rules", self._judge)),
        )

        # who silences one kind of non-finite number wants the kinds told apart at once, not by a second run
        self.recorder.keeps_calls = any(rule.startswith("non_finite") for rule in settings.ignore)

    def start(self, frameworks: Sequence[str] | None = None) -> None:
        """Begin the record, and watch each framework as soon as the script has imported it.

        Args:
            frameworks: import names; all that are known where None.
        """
        try:
            self.writer.begin(self.run)
            self.writer.set_status(self._status("running"))
            self.writer.status_source = lambda: self._status("running")
        except StoreError as error:
            self._warn(str(error))
        for name, entry in framework_starters().items():
            if frameworks is None or name in frameworks:
                begin = self.firewall.guard(name, lambda name=name, entry=entry: self._begin_capture(name, entry))
                self._remove_hooks.append(after_import(name, begin))

    def _begin_capture(self, name: str, entry: Any) -> None:
        if os.getpid() == self._process and name not in self._captures and not self._is_finished:
            self._captures[name] = entry.load()(self)

    # what the capture needs (`capture.protocol.Hub`)

    def stops_on_fatal(self) -> bool:
        return self.settings.stop_on != "never"

    def poll(self) -> None:
        """Act on what the engine has asked for.

        Raises:
            TrainingStopped: it asked for a stop.
        """
        request = self._mailbox.take()
        if request is not None and request.wish == "stop":
            self.stop_reason = request.reason
            self.firewall.enabled = False
            raise TrainingStopped(request.reason)

    # what the user tells us

    def watch(self, model: Any, optimizer: Any = None) -> None:
        """Name a model's parameters before anything calls it.

        Raises:
            UsageError: it is a model of no framework that is watched.
        """
        known = [name for name in framework_starters() if _is_of(model, name)]
        if not known or not (optimizer is None or _is_of(optimizer, known[0])):
            what = type(model if not known else optimizer).__name__
            frameworks = ", ".join(framework_starters())
            raise UsageError(f"watch() was given {what}: it takes a model, and its optimizer, of {frameworks}")
        if known[0] in self._captures and not self._is_finished:
            self.firewall.guard("watch()", self._captures[known[0]].watch)(model, optimizer)

    def log(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Keep the user's own numbers, as series `metric/<name>` of the step they belong to.

        Args:
            metrics: by name; anything that `float` takes, but no text.
            step: the user's own number for the moment, kept beside them in an event `log`.

        Raises:
            UsageError: a name is no text, or a value no number; nothing is kept then.
        """
        numbers = numbers_of(metrics)
        if step is not None and not isinstance(step, int):
            raise UsageError(f"log(step={step!r}): it takes a whole number")
        if not self._is_finished and os.getpid() == self._process:
            self.firewall.guard("metrics", self._log)(numbers, step)

    def _log(self, numbers: Mapping[str, float], step: int | None) -> None:
        if step is not None:
            self.recorder.event("log", step=step, metrics=list(numbers))
        self.recorder.metrics(numbers)

    def configure(self, config: Mapping[str, Json]) -> None:
        """Keep what the user configured, where `run.json` has been written already: in an event `config`."""
        if not self._is_finished and os.getpid() == self._process:
            self.recorder.event("config", values=dict(config))

    def diagnosis(self) -> Diagnosis:
        """What went wrong first, as far as is known now."""
        return diagnose(self.findings, self.status, self.run.id)

    # closing

    def finish(self, state: State = "finished", error: str = "", error_location: Location | None = None) -> None:
        """The run is over: deliver what is left, write how it ended, and leave no trace in the process."""
        if self._is_finished or os.getpid() != self._process:
            return
        for remove in self._remove_hooks:
            remove()
        for name, capture in self._captures.items():
            with contextlib.suppress(TrainingStopped):  # too late to stop anything
                self.firewall.guard(name, capture.finish)()
        with contextlib.suppress(TrainingStopped):
            self.firewall.guard("the record", self.recorder.close_rest)()
        self._is_finished = True
        self.firewall.enabled = False
        if self.stop_reason and state == "finished":
            state = "stopped"
        self.writer.set_status(self._status("running"))
        self.writer.close()
        self._last_status = self._status(state, error, error_location)
        self.writer.set_status(self._last_status)

    @property
    def is_finished(self) -> bool:
        return self._is_finished

    @property
    def status(self) -> Status:
        """How the run stands: now, or as it ended."""
        return self._last_status or self._status("running")

    def _keep(self, record: StepRecord) -> None:
        if record.updates:
            self.last_record = record
        self.writer.append(record)

    def _judge(self, record: StepRecord) -> None:
        self._engine.observe(record)

    def _take_finding(self, finding: Finding) -> None:
        self.findings.append(finding)
        self.writer.add_finding(finding)
        if finding.severity != "info":
            where = "" if finding.location is None else f" ({finding.location.file}:{finding.location.line})"
            step = "" if finding.step is None else f" at step {finding.step}"
            self.announce(f"firstfault: {finding.severity}{step}: {finding.message}{where}")

    def _warn(self, text: str) -> None:
        if text not in self._warnings:
            self._warnings.append(text)
            self.announce(f"firstfault: {text}")

    def _status(self, state: State, error: str = "", error_location: Location | None = None) -> Status:
        return Status(
            state=state,
            heartbeat=time.time(),
            process=self._process,
            host=socket.gethostname(),
            last_step=self.recorder.num_steps - 1 if self.recorder.num_steps else None,
            error=error,
            error_location=error_location,
            coverage=self.recorder.coverage(),
            overhead=self.recorder.overhead(),
            warnings=tuple(dict.fromkeys((*self._warnings, *self.writer.warnings))),
        )


def _is_of(value: Any, framework: str) -> bool:
    """Whether a value's class, or one it derives from, is the framework's own; imports nothing."""
    return any(kind.__module__.partition(".")[0] == framework for kind in type(value).__mro__)


def announce_on_stderr(text: str) -> None:
    """The announcement for scripts: one line on standard error, if it is still there."""
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)
