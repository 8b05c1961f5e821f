# SPDX-License-Identifier: Apache-2.0
"""What the parent tells the process it starts, through the environment. Runs in both; loads nothing heavy."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

from firstfault.records.encoding import dumps, from_json
from firstfault.records.step import Json

VARIABLE = "FIRSTFAULT_LAUNCH"


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """What a run began with, as far as its random numbers go."""

    hash_seed: str
    states: Mapping[str, Json]  #: by library, as `replay.initial_state` captures them


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """How the launched process is to watch itself."""

    parent: int  #: process id of who launched it: others inherit the variable, and must not take it for theirs
    run: str  #: id of the run
    name: str
    script: str | None
    argv: tuple[str, ...]
    git: Mapping[str, Json]
    settings: Mapping[str, Json]  #: as environment variables
    quiet: bool
    hash_seed: str
    made_up: tuple[str, ...]  #: variables that the parent set and the script would not have
    restored: Mapping[str, Json]  #: variables that the parent changed, as the script would have had them
    states: Mapping[str, Json]  #: random states to begin with; empty but in a second run

    def to_environment(self) -> dict[str, str]:
        return {VARIABLE: dumps(self)}

    @classmethod
    def take(cls, environment: MutableMapping[str, str] = os.environ) -> Handover | None:
        """The handover this process was started with, its traces in the environment removed.

        None for a process that nobody launched, or that merely descends from a launched one.
        """
        text = environment.pop(VARIABLE, "")
        if not text:
            return None
        handover = from_json(cls, json.loads(text))
        for name in handover.made_up:
            environment.pop(name, None)
        environment.update({name: str(value) for name, value in handover.restored.items()})
        return handover if handover.parent == os.getppid() else None
