# SPDX-License-Identifier: Apache-2.0
"""Runs the script again in a child process, up to a step. Runs in the parent; no framework.

The parent's half of the rung "child": what the child does with the order is the session's business, what it must
not do is `sandbox`'s.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from firstfault.records.step import Json
from firstfault.replay.order import MicroscopeOrder

_POLL_SECONDS = 0.05
#: an answer is there: so long may the process still take to leave by itself
_FAREWELL_SECONDS = 2.0
#: what would talk to a server, or stop to ask, stays off in a child
_QUIET = {
    "PYTHONDONTWRITEBYTECODE": "1",
    "WANDB_MODE": "disabled",
    "COMET_MODE": "DISABLED",
    "NEPTUNE_MODE": "debug",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildAnswer:
    """What came of a child."""

    answer: Mapping[str, Json] | None  #: as the child left it; None: it did not serve
    reason: str  #: why it did not serve, in words; empty if it did
    seconds: float
    return_code: int | None  #: None: it was killed at the limit, or after its answer


def rerun_in_child(
    command: Sequence[str], environment: Mapping[str, str], step: int, time_limit_seconds: float, folder: Path
) -> ChildAnswer:
    """Runs `command` until it answers, ends, or the limit is reached; then nothing of it is left running.

    Args:
        environment: the whole of it, the order excepted.
        folder: an empty one of the child's own; keep its path short, sockets are made in it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    order = MicroscopeOrder(step=step, folder=folder)
    begun = time.monotonic()
    with (folder / "stderr.txt").open("wb") as errors:
        process = subprocess.Popen(
            list(command),
            env={**environment, **_QUIET, **order.to_environment()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,  # a process group of its own, so that its helpers end with it
        )
        try:
            return_code = _wait(process, order, begun + time_limit_seconds)
        finally:
            _kill_group(process)
    seconds = time.monotonic() - begun
    answer = order.read_answer()
    reason = "" if answer is not None else _reason(return_code, time_limit_seconds, folder)
    return ChildAnswer(answer=answer, reason=reason, seconds=seconds, return_code=return_code)


def _wait(process: subprocess.Popen[bytes], order: MicroscopeOrder, deadline: float) -> int | None:
    while time.monotonic() < deadline:
        if (return_code := process.poll()) is not None:
            return return_code
        if order.answer_file.exists():
            deadline = min(deadline, time.monotonic() + _FAREWELL_SECONDS)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(_POLL_SECONDS)
    return process.poll()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _reason(return_code: int | None, limit: float, folder: Path) -> str:
    if return_code is None:
        return f"the child did not reach the step within {limit:g} s"
    lines = (folder / "stderr.txt").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    said = f": {lines[-1].strip()}" if lines else ""
    return f"the child ended with code {return_code} before it reached the step{said}"
