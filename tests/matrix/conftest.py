# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of `tests/programs` bare and watched, two at a time, each once a session."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TIMEOUT = 180  # seconds for one process; the longest takes about six when the machine is idle


@dataclass(frozen=True)
class Ended:
    """What a process left behind."""

    exit_code: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Case:
    """One program with its arguments, run without us and with us, and the diagnosis of the latter."""

    bare: Ended
    watched: Ended
    diagnosis: dict[str, Any]

    @property
    def updates(self) -> int | None:
        """What the program itself counted, if it did."""
        found = re.search(r"^updates=(\d+)$", self.bare.stdout, re.MULTILINE)
        return int(found[1]) if found else None

    @property
    def grave(self) -> list[str]:
        """The findings above `info`, in words for an assertion's message."""
        return [
            f"{f['severity']} {f['rule']} at step {f['step']}: {f['message']}"
            for f in self.diagnosis["findings"]
            if f["severity"] != "info"
        ]


def _end(words: list[str], folder: Path, home: Path) -> Ended:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FIRSTFAULT")}
    environment["FIRSTFAULT_HOME"] = str(home)
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT,
        check=False,
    )
    # not `text=True`: it would turn the \r of a progress bar into \n
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


def _run(program: Path, arguments: tuple[str, ...], folder: Path) -> Case:
    words = [str(program), *arguments]
    home = folder / "home"
    bare = _end(words, folder, home)
    watched = _end(["-m", "firstfault", "run", "--quiet", "--name", program.stem, *words], folder, home)
    told = _end(["-m", "firstfault", "diagnose", "last", "--json"], folder, home)
    try:
        diagnosis = json.loads(told.stdout)
    except ValueError:
        raise AssertionError(
            f"`diagnose last --json` of {program.name} printed no JSON\n{told}\nwatched: {watched}"
        ) from None
    return Case(bare, watched, diagnosis)


RunProgram = Callable[..., Case]


@pytest.fixture(scope="session")
def run_program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunProgram]:
    """`run_program(path, *arguments)`: the case, from the cache if it was run before.

    The cases of all selected tests are started ahead, in the order of the tests: a test whose parameters are
    `program` and, where there are arguments, `arguments`.
    """
    pool = ThreadPoolExecutor(2)
    cases: dict[tuple[Path, tuple[str, ...]], Future[Case]] = {}

    def start(program: Path, arguments: tuple[str, ...]) -> Future[Case]:
        key = (program, arguments)
        if key not in cases:
            folder = tmp_path_factory.mktemp(program.stem)
            cases[key] = pool.submit(_run, program, arguments, folder)
        return cases[key]

    for item in request.session.items:
        if "run_program" in getattr(item, "fixturenames", ()) and hasattr(item, "callspec"):
            parameters = item.callspec.params
            start(parameters["program"], tuple(parameters.get("arguments", ())))

    yield lambda program, *arguments: start(program, arguments).result()
    pool.shutdown(cancel_futures=True)
