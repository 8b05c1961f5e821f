# SPDX-License-Identifier: Apache-2.0
"""Every setting: default, unit, environment variable, help. Imported everywhere.

The command line turns its options into these variables, so that a script started by it finds them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from firstfault.errors import UsageError

StopOn = Literal["fatal", "error", "warning", "never"]


def _setting(variable: str, default: Any, help: str) -> Any:
    return field(default=default, metadata={"variable": variable, "help": help})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a session behaves."""

    enabled: bool = _setting("FIRSTFAULT", True, "0 switches everything off")
    home: Path = _setting("FIRSTFAULT_HOME", Path(".firstfault"), "folder that holds the runs")
    project: str = _setting("FIRSTFAULT_PROJECT", "default", "named group the run belongs to")
    name: str = _setting("FIRSTFAULT_NAME", "", "name of the run; the script's name if empty")
    stop_on: StopOn = _setting(
        "FIRSTFAULT_STOP_ON",
        "never",
        "stop the training at the first finding this grave: fatal, error, warning, never",
    )
    rules: tuple[str, ...] = _setting(
        "FIRSTFAULT_RULES", (), "further rules, each `file.py:ClassName`; separated by commas"
    )
    ignore: tuple[str, ...] = _setting("FIRSTFAULT_IGNORE", (), "rules to leave out; separated by commas")
    live: bool = _setting("FIRSTFAULT_LIVE", False, "draw a line of progress on a terminal")
    second_run: bool = _setting(
        "FIRSTFAULT_SECOND_RUN", True, "run a stopped script again, to see which operation it was"
    )
    budget: float = _setting("FIRSTFAULT_BUDGET", 0.02, "share of the step's time that watching may cost")

    def __post_init__(self) -> None:
        if self.stop_on not in get_args(StopOn):
            raise UsageError(f"stop_on is {self.stop_on!r}: it takes {', '.join(get_args(StopOn))}")
        if not 0 < self.budget <= 1:
            raise UsageError(f"budget is {self.budget}: it is a share of the step's time, above 0 and up to 1")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, **changes: object) -> Settings:
        """The settings that the variables hold, with `changes` over them.

        Raises:
            UsageError: a variable holds what its setting cannot take.
        """
        environment = os.environ if environment is None else environment
        values: dict[str, object] = {}
        for entry in fields(cls):
            text = environment.get(entry.metadata["variable"])
            if text is not None:
                values[entry.name] = _parse(entry.metadata["variable"], entry.default, text)
        return cls(**(values | changes))  # type: ignore[arg-type]  # names checked at run time

    def to_environment(self) -> dict[str, str]:
        """The variables that give these settings to another process."""
        return {entry.metadata["variable"]: _format(getattr(self, entry.name)) for entry in fields(self)}


def _parse(variable: str, default: object, text: str) -> object:
    if isinstance(default, bool):
        return text.strip().lower() not in ("", "0", "false", "no", "off")
    if isinstance(default, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if isinstance(default, float):
        try:
            return float(text)
        except ValueError:
            raise UsageError(f"{variable} is {text!r}: it takes a number") from None
    return Path(text) if isinstance(default, Path) else text


def _format(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return ",".join(value) if isinstance(value, tuple) else str(value)
