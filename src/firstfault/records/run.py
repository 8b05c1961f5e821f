# SPDX-License-Identifier: Apache-2.0
"""A run as a whole: `run.json` (written once) and `status.json` (rewritten). Runs anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from firstfault.records.finding import Coverage, Overhead
from firstfault.records.step import Json, Location

FORMAT_VERSION = 1

State: TypeAlias = Literal["running", "finished", "failed", "stopped", "lost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One training, as it began."""

    id: str  #: sortable: date, time, and four random letters
    project: str
    name: str  #: as the user calls it; the script's name where they do not
    started: float  #: seconds since the epoch
    script: str | None  #: path as given
    argv: tuple[str, ...]  #: the command line as run
    working_directory: str
    config: Mapping[str, Json] = field(default_factory=dict)
    environment: Mapping[str, Json] = field(default_factory=dict)  #: python, platform, packages, device
    git: Mapping[str, Json] = field(default_factory=dict)  #: commit, branch, dirty; empty outside a checkout
    seeds: Mapping[str, Json] = field(default_factory=dict)  #: initial random states, where known
    format_version: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How the run stands."""

    state: State
    heartbeat: float  #: seconds since the epoch when last written
    process: int  #: process id of the training
    host: str
    last_step: int | None = None
    error: str = ""  #: for `failed`: the exception or signal, one line
    error_location: Location | None = None
    coverage: Coverage = field(default_factory=Coverage)
    overhead: Overhead = field(default_factory=Overhead)
    warnings: tuple[str, ...] = ()  #: parts of ours that were switched off, in words
