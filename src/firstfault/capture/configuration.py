# SPDX-License-Identifier: Apache-2.0
"""What the user set a training to, as data that a run can keep. Runs in training, once."""

from __future__ import annotations

import argparse
import dataclasses
import numbers
from collections.abc import Mapping
from typing import Any

from firstfault.errors import UsageError
from firstfault.records.encoding import to_json
from firstfault.records.step import Json


def config_of(config: Any) -> dict[str, Json]:
    """A configuration by name; what JSON cannot hold is kept as text.

    Args:
        config: a mapping, a dataclass, what `argparse` gave, or None.

    Raises:
        UsageError: it is something else.
    """
    if config is None:
        return {}
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        config = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    elif isinstance(config, argparse.Namespace):
        config = vars(config)
    if not isinstance(config, Mapping):
        kind = type(config).__name__
        raise UsageError(f"config is {kind}: it takes a mapping, a dataclass, or what argparse gave")
    return {str(key): _plain(value) for key, value in config.items()}


def _plain(value: Any) -> Json:
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral):  # of numpy too
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    try:
        return to_json(value)
    except TypeError:
        return str(value)
