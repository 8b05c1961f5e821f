# SPDX-License-Identifier: Apache-2.0
"""The numbers that a user logs, checked. Runs in training, on the user's own call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firstfault.errors import UsageError

_LONGEST_SHOWN = 60


def numbers_of(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The metrics as plain numbers; NaN and infinity are numbers too.

    Raises:
        UsageError: it is no mapping, a name is no text, or a value no number.
    """
    if not isinstance(metrics, Mapping):
        raise UsageError(f'log() was given {type(metrics).__name__}: it takes a dict, as {{"accuracy": 0.9}}')
    return {_checked(name): _number(name, value) for name, value in metrics.items()}


def _checked(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise UsageError(f"a metric is called {name!r}: its name is a text that is not empty")
    return name


def _number(name: str, value: Any) -> float:
    if isinstance(value, str | bytes):  # `float` would read a number out of them, now and then
        raise UsageError(_say_no_number(name, value))
    try:
        return float(value)
    except Exception as error:  # whatever the value's own class makes of being asked
        raise UsageError(_say_no_number(name, value)) from error


def _say_no_number(name: str, value: Any) -> str:
    shown = repr(value)
    if len(shown) > _LONGEST_SHOWN:
        shown = f"a {type(value).__name__}"
    return f"metric {name!r} is {shown}, which is not one number; log what `float` takes, as a mean over it"
