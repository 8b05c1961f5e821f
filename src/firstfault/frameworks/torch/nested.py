# SPDX-License-Identifier: Apache-2.0
"""Tensors inside what people pass to a model and get from it: lists, mappings, dataclasses, to any depth."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch


def tensors_in(value: Any) -> Iterator[Any]:
    """The tensors in `value`, in a fixed order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for entry in value:
            if isinstance(entry, torch.Tensor):
                yield entry
            else:
                yield from tensors_in(entry)
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from tensors_in(entry)
    elif _is_record(value):
        for entry in dataclasses.fields(value):
            yield from tensors_in(getattr(value, entry.name, None))


def first_tensors(value: Any, limit: int = 8) -> list[Any]:
    """The first `limit` tensors in `value`."""
    return list(itertools.islice(tensors_in(value), limit))


def map_tensors(function: Callable[[Any], Any], value: Any) -> Any:
    """`value` with every tensor replaced; what holds no tensor, or is of an unknown kind, stays the same object."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if next(tensors_in(value), None) is None:
        return value
    if isinstance(value, list | tuple):
        entries = [map_tensors(function, entry) for entry in value]
        if hasattr(value, "_fields"):
            return type(value)(*entries)
        return type(value)(entries) if type(value) in (list, tuple, torch.Size) else entries
    duplicate = copy.copy(value)
    if isinstance(value, Mapping):
        for key, entry in value.items():
            duplicate[key] = map_tensors(function, entry)
    else:
        for field in dataclasses.fields(value):
            object.__setattr__(duplicate, field.name, map_tensors(function, getattr(value, field.name)))
    return duplicate


def _is_record(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)
