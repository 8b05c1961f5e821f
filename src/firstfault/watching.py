# SPDX-License-Identifier: Apache-2.0
"""Watching from inside a script or a notebook: what `firstfault.init()` and its kin do. Runs in training.

run = firstfault.init(config={"lr": 0.1})
…                                             # the script trains
firstfault.log({"accuracy": 0.9})
diagnosis = firstfault.finish()
"""

from __future__ import annotations

import dataclasses
import os
import sys
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from firstfault.capture.configuration import config_of
from firstfault.capture.environment import describe_environment, describe_git
from firstfault.capture.user_code import location_of
from firstfault.launch.active import WatchedRun, watched_run
from firstfault.launch.exit_watcher import innermost_user_line, say_error
from firstfault.records.finding import Coverage, Diagnosis, Finding, Overhead
from firstfault.records.run import Run
from firstfault.records.step import Json
from firstfault.session import Session, announce_on_stderr
from firstfault.settings import Settings, StopOn
from firstfault.store.layout import new_run_id

_QUIET_VERDICTS = ("clean", "unseen")


class Watching:
    """A run that this process is watching; as a context manager, it ends with its block.

    Where nothing is watched (`FIRSTFAULT=0`, or a worker process that imports the script), it does nothing.
    """

    def __init__(self, watched: WatchedRun | None) -> None:
        self._watched = watched

    def __repr__(self) -> str:
        return f"<Watching {self.id or 'nothing'}>"

    @property
    def id(self) -> str:
        """The run's id; empty if nothing is watched."""
        return "" if self._watched is None else self._watched.session.run.id

    @property
    def path(self) -> Path | None:
        """The run directory."""
        return None if self._watched is None else self._watched.session.layout.path

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the rules have said so far."""
        return () if self._watched is None else tuple(self._watched.session.findings)

    def log(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """As `firstfault.log`."""
        if self._watched is not None:
            self._watched.session.log(metrics, step)

    def watch(self, model: Any, optimizer: Any = None) -> None:
        """As `firstfault.watch`."""
        if self._watched is not None:
            self._watched.session.watch(model, optimizer)

    def finish(self) -> Diagnosis:
        """As `firstfault.finish`."""
        return _finish(self._watched)

    def __enter__(self) -> Watching:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _finish(self._watched, None if isinstance(error, SystemExit) else error)


def init(
    project: str | None = None,
    name: str | None = None,
    config: Any = None,
    *,
    stop_on: StopOn = "never",
    home: Path | str | None = None,
    quiet: bool = False,
) -> Watching:
    """Watch this process from here on; a run that is being watched already is finished first.

    In a script that `firstfault run` started, this joins the run that has begun: `config` is added to it.

    Args:
        project: named group the run belongs to.
        name: of the run; the script's name if not given.
        config: what the training is set to: a mapping, a dataclass, or what `argparse` gave.
        stop_on: stop the training at the first finding this grave.
        home: folder that holds the runs.
        quiet: say nothing unless something is wrong.

    Raises:
        UsageError: an argument cannot be used.
    """
    configured = config_of(config)
    changes: dict[str, object] = {"project": project, "name": name, "home": None if home is None else Path(home)}
    if stop_on != "never":  # else the variable FIRSTFAULT_STOP_ON is asked
        changes["stop_on"] = stop_on
    given = {key: value for key, value in changes.items() if value is not None}
    settings = Settings.from_environment(None, **given)
    if not settings.enabled or _is_imported_by_worker():
        return Watching(None)
    former = watched_run()
    if former is not None and former.is_launched:
        return _join(former, configured, given)
    if former is not None:
        _finish(former)
    return _begin(dataclasses.replace(settings, home=settings.home.absolute()), configured, quiet)


def log(metrics: Mapping[str, Any], step: int | None = None) -> None:
    """Keep your own numbers, as series `metric/<name>` of the step they belong to.

    Args:
        metrics: by name; anything that `float` takes, but no text.
        step: your own number for the moment, kept beside them.

    Raises:
        UsageError: a value is no number; nothing is kept then.
    """
    watched = watched_run()
    if watched is not None:
        watched.session.log(metrics, step)
    else:
        _warn_of_nothing_watched("log")


def watch(model: Any, optimizer: Any = None) -> None:
    """Name a model's parameters before anything calls it, and know of an optimizer made before `init`.

    Raises:
        UsageError: it is a model of no framework that is watched.
    """
    watched = watched_run()
    if watched is not None:
        watched.session.watch(model, optimizer)
    else:
        _warn_of_nothing_watched("watch")


def finish() -> Diagnosis:
    """Close the run, say what went wrong first on standard error, and return it.

    The run of `firstfault run` stays open: it lasts as long as the script, and the diagnosis is as far as known.
    """
    return _finish(watched_run())


def _begin(settings: Settings, config: Mapping[str, Json], quiet: bool) -> Watching:
    script = _script()
    location_of.cache_clear()  # a cell that is run again has another number
    run = Run(
        id=new_run_id(),
        project=settings.project,
        name=settings.name or (Path(script).name if script else "interactive"),
        started=time.time(),
        script=script,
        argv=tuple(sys.orig_argv),
        working_directory=os.getcwd(),
        config=config,
        environment=describe_environment(),
        git=describe_git(os.getcwd()),
        seeds={"hash_seed": os.environ.get("PYTHONHASHSEED", "random")},
    )
    session = Session(run, settings, _say_nothing if quiet else announce_on_stderr)
    session.start()
    watched = WatchedRun(session, is_launched=False, quiet=quiet, after_end=_show)
    watched.begin()
    return Watching(watched)


def _script() -> str | None:
    """The script or notebook that runs, as far as it is known."""
    if "JPY_SESSION_NAME" in os.environ and "ipykernel" in sys.modules:
        return os.environ["JPY_SESSION_NAME"]
    main = sys.modules.get("__main__")
    return sys.argv[0] if getattr(main, "__file__", None) and sys.argv and sys.argv[0] else None


def _join(watched: WatchedRun, config: Mapping[str, Json], given: Mapping[str, object]) -> Watching:
    """Take part in the run that `firstfault run` began; what cannot be changed any more is said."""
    session = watched.session
    if config:
        session.configure(config)
    as_is = {
        "project": session.settings.project,
        "name": session.run.name,
        "home": session.settings.home,
        "stop_on": session.settings.stop_on,
    }
    ignored = [f"{key}={str(value)!r}" for key, value in given.items() if value != as_is[key]]
    if ignored:
        session.announce(
            f"firstfault: init({', '.join(ignored)}) changes nothing here: `firstfault run` began this run, so its "
            "own options hold"
        )
    return Watching(watched)


def _finish(watched: WatchedRun | None, error: BaseException | None = None) -> Diagnosis:
    if watched is None:
        reason = "anything: no run is being watched; call firstfault.init() first"
        coverage = Coverage(not_seen=(reason,))
        return Diagnosis(
            run="", verdict="unseen", coverage=coverage, first_fault=None, findings=(), overhead=Overhead()
        )
    if watched.is_launched or watched.session.is_finished:
        return watched.session.diagnosis()
    if error is None:
        watched.end()
    else:
        watched.end("failed", say_error(error), innermost_user_line(error.__traceback__, error))
    _show(watched)
    return watched.session.diagnosis()


def _show(watched: WatchedRun) -> None:
    """The panel on standard error, of a run that has ended."""
    session = watched.session
    diagnosis = session.diagnosis()
    if watched.quiet and diagnosis.verdict in _QUIET_VERDICTS:
        return
    from firstfault.cli.answer import print_diagnosis
    from firstfault.reports.recorded import RecordedDiagnosis

    recorded = RecordedDiagnosis(
        diagnosis=diagnosis, run=session.run, status=session.status, path=session.layout.path
    )
    print_diagnosis(recorded, diagnosis, sys.stderr)


def _warn_of_nothing_watched(function: str) -> None:
    if Settings.from_environment().enabled:
        warnings.warn(
            f"firstfault.{function}() keeps nothing: no run is being watched; call firstfault.init() first",
            stacklevel=3,
        )


def _is_imported_by_worker() -> bool:
    """Whether a process started by `multiprocessing` is importing the script, to find its functions in it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == "__mp_main__":
            return True
        frame = frame.f_back
    return False


def _say_nothing(text: str) -> None:
    del text
