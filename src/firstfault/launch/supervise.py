# SPDX-License-Identifier: Apache-2.0
"""Starts a command with the watcher in it, and waits for it. Runs outside training, as its parent.

The child has our standard streams, our terminal and our process group; what it does and how it ends stay its own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firstfault.capture.environment import describe_git
from firstfault.errors import FirstfaultError, StoreError
from firstfault.launch.handover import Beginning, Handover
from firstfault.records.encoding import dumps
from firstfault.records.run import State
from firstfault.settings import Settings
from firstfault.store.documents import read_run, read_status
from firstfault.store.layout import RunLayout, new_run_id, write_atomically

_SITE = str(Path(__file__).with_name("site"))
_FORWARDED = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the command ended."""

    exit_code: int  #: as the shell would see it
    signal: int | None  #: number of the signal that ended it
    run: Path | None  #: the run directory; None if nothing was recorded


def supervise(command: Sequence[str], settings: Settings, *, quiet: bool = False) -> Outcome:
    """Run the command to its end.

    Args:
        command: program and arguments, started as they are.
        quiet: the watcher says nothing on the terminal while the command runs.

    Raises:
        FirstfaultError: the command cannot be started.
    """
    if not settings.enabled:
        return _outcome(_run(command, dict(os.environ)), None)
    home = _usable_home(Path(settings.home).absolute())
    settings = dataclasses.replace(settings, home=home)
    run_id = new_run_id()
    directory = RunLayout.under(home, settings.project, run_id).path
    return_code = _run(command, child_environment(command, settings, run_id, quiet=quiet))
    found = directory if (directory / "run.json").exists() else None
    if found is not None:
        _finalise(directory, return_code)
    return _outcome(return_code, found)


def _usable_home(home: Path) -> Path:
    """The home, or a temporary folder where it cannot be written: nothing is lost, and the user is told."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home):
            return home
    except OSError as error:
        instead = Path(tempfile.mkdtemp(prefix="firstfault-"))
        print(
            f"firstfault: {home} cannot be written ({error.strerror or error}), so this run is kept in {instead}: "
            "set FIRSTFAULT_HOME to a folder that can be written",
            file=sys.stderr,
        )
        return instead


def child_environment(
    command: Sequence[str], settings: Settings, run_id: str, *, quiet: bool, again: Beginning | None = None
) -> dict[str, str]:
    """The environment in which the command watches itself.

    Args:
        again: how the run began that this one is to repeat.
    """
    environment = dict(os.environ)
    script = _script_of(command)
    restored = {"PYTHONPATH": environment["PYTHONPATH"]} if "PYTHONPATH" in environment else {}
    made_up = []
    if "PYTHONHASHSEED" not in environment:
        # as random as without us, but known, so that the run can be run again
        seed = int.from_bytes(os.urandom(4), "little") if again is None else again.hash_seed
        environment["PYTHONHASHSEED"] = str(seed)
        made_up.append("PYTHONHASHSEED")
    environment["PYTHONPATH"] = os.pathsep.join([_SITE, *restored.values()])
    handover = Handover(
        parent=os.getpid(),
        run=run_id,
        name=settings.name or (Path(script).name if script else Path(command[0]).name),
        script=script,
        argv=tuple(command),
        git=describe_git(os.getcwd()) if again is None else {},
        settings=settings.to_environment(),
        quiet=quiet,
        hash_seed=environment["PYTHONHASHSEED"],
        made_up=tuple(made_up),
        restored=restored,
        states={} if again is None else again.states,
    )
    return environment | handover.to_environment()


def _script_of(command: Sequence[str]) -> str | None:
    """The script in `python [options] script …` or the module in `python -m module …`."""
    words = iter(command[1:])
    for word in words:
        if word in ("-m", "-c"):
            return next(words, None) if word == "-m" else None
        if word in ("-W", "-X"):
            next(words, None)
        elif not word.startswith("-"):
            return word
    return None


def _run(command: Sequence[str], environment: dict[str, str]) -> int:
    """Start the command, hand signals on to it, and wait. Returns its code, negative for a signal."""
    try:
        child = subprocess.Popen(command, env=environment)
    except OSError as error:
        raise FirstfaultError(f"{command[0]} cannot be started: {error.strerror or error}") from error
    with _handing_on_signals(child):
        while True:
            with contextlib.suppress(KeyboardInterrupt):  # the terminal sent it to the child as well
                return child.wait()


@contextlib.contextmanager
def _handing_on_signals(child: subprocess.Popen[bytes]) -> Iterator[None]:
    def hand_on(number: int, frame: Any) -> None:
        del frame
        child.send_signal(number)

    previous = {}
    for name in _FORWARDED:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:
            previous[number] = signal.signal(number, hand_on)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _outcome(return_code: int, run: Path | None) -> Outcome:
    if return_code < 0:
        return Outcome(exit_code=128 - return_code, signal=-return_code, run=run)
    return Outcome(exit_code=return_code, signal=None, run=run)


def _finalise(directory: Path, return_code: int) -> None:
    """Write how the run ended where the child could not: it was killed, or left with a code of its own."""
    layout = RunLayout(directory)
    try:
        status, _ = read_status(layout, read_run(layout), time.time())
    except StoreError:
        return
    if status.state in ("running", "lost") or (status.state == "finished" and return_code != 0):
        error = ""
        if return_code < 0:
            error = f"killed by {signal.Signals(-return_code).name}"
        elif return_code > 0:
            error = f"exit code {return_code}"
        state: State = "failed" if error else "finished"
        status = dataclasses.replace(status, state=state, error=error, heartbeat=time.time())
        with contextlib.suppress(OSError):
            write_atomically(layout.status_file, dumps(status, indent=1).encode())
