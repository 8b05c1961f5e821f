# SPDX-License-Identifier: Apache-2.0
"""Scripts run for real: bare, and under `firstfault run`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from firstfault.records.finding import Diagnosis
from firstfault.records.run import Run, Status
from firstfault.reports.recorded import load_diagnosis

TIMEOUT = 120

#: a small healthy training; {placeholders} are filled by `textwrap`-ed scripts of the tests
TRAINING = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(6):
    optimizer.zero_grad()
    loss = (model(torch.randn(4, 3)) ** 2).mean()
    loss.backward()
    optimizer.step()
"""


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it recorded."""

    exit_code: int  #: negative for a signal, as `subprocess` says it
    stdout: str
    stderr: str
    runs: tuple[Path, ...]

    @property
    def run(self) -> Path:
        assert len(self.runs) == 1, (self.runs, self.stderr)
        return self.runs[0]

    @property
    def diagnosis(self) -> Diagnosis:
        return load_diagnosis(self.run).diagnosis

    @property
    def status(self) -> Status:
        status = load_diagnosis(self.run).status
        assert status is not None
        return status

    @property
    def described(self) -> Run:
        run = load_diagnosis(self.run).run
        assert run is not None
        return run

    @property
    def rules(self) -> list[str]:
        return [finding.rule for finding in self.diagnosis.findings]


@dataclass
class Workplace:
    """A folder with scripts, and a home for the runs."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def write(self, text: str, name: str = "train.py") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("FIRSTFAULT", "PYTEST")) and name not in ("PYTHONPATH", "PYTHONHASHSEED")
        }
        return {**kept, "FIRSTFAULT_HOME": str(self.home), "NO_COLOR": "1", **self.variables, **more}

    def _end(self, words: Sequence[str], input_text: str, more: Mapping[str, str]) -> Ended:
        before = set(self._runs())
        done = subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env=self.environment(more),
            input=input_text,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        runs = tuple(sorted(set(self._runs()) - before))
        return Ended(done.returncode, done.stdout, done.stderr, runs)

    def _runs(self) -> list[Path]:
        return [path.parent for path in self.home.glob("*/*/run.json")] if self.home.is_dir() else []

    def bare(self, *words: str, stdin: str = "", **variables: str) -> Ended:
        return self._end(words, stdin, variables)

    def watched(self, *words: str, stdin: str = "", **variables: str) -> Ended:
        """`firstfault run` with these words."""
        return self._end(("-m", "firstfault", "run", *words), stdin, variables)

    def verb(self, *words: str, **variables: str) -> Ended:
        return self._end(("-m", "firstfault", *words), "", variables)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """`firstfault run` with these words, in a process group of its own, as a terminal would start it."""
        return subprocess.Popen(
            [sys.executable, "-m", "firstfault", "run", *words],
            cwd=self.folder,
            env=self.environment({}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def end(self, process: subprocess.Popen[str]) -> Ended:
        try:
            stdout, stderr = process.communicate(timeout=TIMEOUT)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        return Ended(process.returncode, stdout, stderr, tuple(self._runs()))


def wait_for(path: Path, seconds: float = 60.0) -> None:
    """Until the script has written this file."""
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not come"
        time.sleep(0.02)


@pytest.fixture
def workplace(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


@pytest.fixture
def training() -> str:
    return TRAINING


@pytest.fixture
def wait() -> Callable[[Path], None]:
    return wait_for
