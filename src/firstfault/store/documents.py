# SPDX-License-Identifier: Apache-2.0
"""The JSON documents of a run directory: the run, its status, its findings. Read anywhere; loads no Arrow."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
from dataclasses import dataclass

from firstfault.errors import FormatVersionError, StoreError
from firstfault.records.encoding import from_json
from firstfault.records.finding import Finding
from firstfault.records.run import FORMAT_VERSION, Run, Status
from firstfault.records.step import Json
from firstfault.store.layout import RunLayout

#: a running training writes its heartbeat each second
LOST_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that could not be read, or not to its end."""

    file: str  #: relative to the run directory
    reason: str


def read_run(layout: RunLayout) -> Run:
    """What `run.json` says.

    Raises:
        FormatVersionError: it was written in a format version this firstfault does not know.
        StoreError: there is none, or it cannot be read.
    """
    try:
        data = json.loads(layout.run_file.read_bytes())
        version = data.get("format_version", 0) if isinstance(data, dict) else FORMAT_VERSION
        if version == FORMAT_VERSION:
            return from_json(Run, data)
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(f"{layout.path} is no run: it has no run.json") from None
    except (OSError, ValueError) as error:
        raise StoreError(f"{layout.run_file} cannot be read, so the run cannot be opened: {error}") from error
    raise FormatVersionError(
        f"{layout.path} was written in format version {version}, and this firstfault reads version "
        f"{FORMAT_VERSION}: install the firstfault that wrote it"
    )


def read_status(layout: RunLayout, run: Run, now: float) -> tuple[Status, list[Skipped]]:
    """How the run stands; `lost` if it says that it is running and no longer is."""
    status = Status(state="running", heartbeat=run.started, process=0, host="")
    skipped = []
    try:
        status = from_json(Status, json.loads(layout.status_file.read_bytes()))
    except FileNotFoundError:
        pass  # killed before the first one was written
    except (OSError, ValueError) as error:
        skipped.append(Skipped(layout.status_file.name, str(error)))
    if status.state == "running" and _is_lost(status, now):
        status = dataclasses.replace(status, state="lost")
    return status, skipped


def read_states(layout: RunLayout) -> dict[str, Json]:
    """The random states the run began with, by library; empty where they were not kept."""
    try:
        states = json.loads(layout.states_file.read_bytes())
    except (OSError, ValueError):
        return {}
    return states if isinstance(states, dict) else {}


def read_findings(layout: RunLayout) -> tuple[tuple[Finding, ...], list[Skipped]]:
    """In the order in which they were made."""
    findings, skipped = [], []
    for path in layout.finding_files():
        try:
            findings.append(from_json(Finding, json.loads(path.read_bytes())))
        except (OSError, ValueError) as error:
            skipped.append(Skipped(f"{path.parent.name}/{path.name}", str(error)))
    return tuple(findings), skipped


def _is_lost(status: Status, now: float) -> bool:
    if now - status.heartbeat > LOST_SECONDS:
        return True
    return status.host == socket.gethostname() and status.process > 0 and not _is_alive(status.process)


def _is_alive(process: int) -> bool:
    if os.name != "posix":
        return True  # elsewhere, asking may end it: the heartbeat alone tells
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
