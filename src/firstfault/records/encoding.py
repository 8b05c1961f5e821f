# SPDX-License-Identifier: Apache-2.0
"""Records to JSON and back, losslessly: non-finite numbers become "nan", "inf", "-inf". Runs anywhere."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from firstfault.records.series import Missing
from firstfault.records.step import Json

T = TypeVar("T")

_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def to_json(value: Any) -> Json:
    """A record (or anything made of records, tuples, mappings and plain values) as JSON data.

    Raises:
        TypeError: there is no JSON form for a value in it.
    """
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _non_finite_name(value)
    if isinstance(value, Missing):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): to_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(entry) for entry in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: to_json(getattr(value, name)) for name in _field_types(type(value))}
    raise TypeError(f"no JSON form for {type(value).__name__}: {value!r}")


def from_json(kind: type[T], data: Json) -> T:
    """The record of class `kind` that `to_json` gave `data` for.

    Raises:
        ValueError: a field is unknown, absent without a default, or of the wrong type; it is named.
    """
    return typing.cast(T, _decode(kind, data, kind.__name__))


def dumps(value: Any, *, indent: int | None = None) -> str:
    """JSON text that any parser reads: no bare NaN or Infinity in it."""
    return json.dumps(to_json(value), indent=indent, allow_nan=False, ensure_ascii=False)


def _non_finite_name(value: float) -> str:
    if math.isnan(value):
        return "nan"
    return "inf" if value > 0 else "-inf"


@functools.cache
def _field_types(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _decode(kind: Any, data: Json, where: str) -> Any:
    if kind is Any or kind == "Json":
        return data
    origin = typing.get_origin(kind)
    if dataclasses.is_dataclass(kind):
        return _decode_record(typing.cast(type, kind), data, where)
    if origin in (typing.Union, types.UnionType):
        return _decode_union(typing.get_args(kind), data, where)
    if origin is tuple:
        return _decode_tuple(typing.get_args(kind), data, where)
    if origin is typing.Literal:
        if data in typing.get_args(kind):
            return data
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        if isinstance(data, dict):
            return data
    elif kind is Missing:
        if data in [missing.value for missing in Missing]:
            return Missing(data)
    elif kind is float:
        if isinstance(data, int | float) and not isinstance(data, bool):
            return float(data)
        if isinstance(data, str) and data in _NON_FINITE:
            return _NON_FINITE[data]
    elif kind is type(None):
        if data is None:
            return None
    elif isinstance(kind, type) and type(data) is kind:
        return data
    raise ValueError(f"{where} should be {kind}, not {data!r}")


def _decode_record(kind: type, data: Json, where: str) -> Any:
    if not isinstance(data, dict):
        raise ValueError(f"{where} should be an object, not {data!r}")
    fields = _field_types(kind)
    if unknown := data.keys() - fields.keys():
        raise ValueError(f"{where} has fields this version does not know: {', '.join(sorted(unknown))}")
    values = {name: _decode(fields[name], data[name], f"{where}.{name}") for name in data}
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(f"{where}: {error}") from error


def _decode_union(options: tuple[Any, ...], data: Json, where: str) -> Any:
    # `int` before `float`, so that a union keeps the type it was given; but "nan" is the number before the word
    is_number = isinstance(data, str) and data in _NON_FINITE
    for option in sorted(options, key=lambda option: (option is float) != is_number):
        try:
            return _decode(option, data, where)
        except ValueError:
            continue
    raise ValueError(f"{where} should be one of {options}, not {data!r}")


def _decode_tuple(arguments: tuple[Any, ...], data: Json, where: str) -> Any:
    if not isinstance(data, list):
        raise ValueError(f"{where} should be a list, not {data!r}")
    return tuple(_decode(arguments[0], entry, f"{where}[{i}]") for i, entry in enumerate(data))
