# SPDX-License-Identifier: Apache-2.0
"""What an operation does to its arguments, as far as bad values are concerned. Runs anywhere PyTorch is."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

#: these write an argument without reading it
_OVERWRITE = frozenset(
    {"copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "geometric_"}
    | {"cauchy_", "log_normal_", "set_", "resize_", "eye_", "_foreach_copy_", "_foreach_zero_"}
)
#: element by element, though PyTorch does not tag them so
_POINTWISE = frozenset({"_to_copy", "copy_", "clone"})


@dataclass(frozen=True, slots=True)
class OperationKind:
    """What is known of an operation without running it."""

    name: str  #: without namespace and overload
    label: str  #: `aten.div.Tensor`
    is_view: bool  #: its output is its input's memory
    pointwise: bool  #: each output element depends on the input elements at its own place only
    uninitialised: bool  #: its output was never written
    written: frozenset[str]  #: arguments it writes
    unread: frozenset[str]  #: of these, the ones it does not read
    arguments: tuple[str, ...]  #: names of all, in order


@functools.cache
def kind_of(operation: Any) -> OperationKind:
    """The kind of an `OpOverload`, or of a higher-order operator (which has no schema)."""
    schema = getattr(operation, "_schema", None)
    if schema is None:
        name = str(getattr(operation, "name", lambda: operation)())
        return OperationKind(name, name, False, False, False, frozenset(), frozenset(), ())
    name = schema.name.rpartition("::")[2]
    written = {entry.name for entry in schema.arguments if entry.alias_info and entry.alias_info.is_write}
    unread = written if name in _OVERWRITE else {e.name for e in schema.arguments if e.is_out}
    aliases = [entry.alias_info for entry in schema.returns]
    return OperationKind(
        name=name,
        label=str(operation),
        is_view=bool(aliases) and not written and all(alias is not None for alias in aliases),
        pointwise=_is_pointwise(name, operation),
        uninitialised=name.startswith(("empty", "new_empty")),
        written=frozenset(written),
        unread=frozenset(unread),
        arguments=tuple(entry.name for entry in schema.arguments),
    )


def _is_pointwise(name: str, operation: Any) -> bool:
    if name.startswith(("_foreach", "_fused")):
        return False  # each list entry is, the whole is not
    return name in _POINTWISE or torch.Tag.pointwise in operation.tags


def bind(kind: OperationKind, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every argument given, with its name ("" for what has no schema)."""
    names = kind.arguments
    for index, value in enumerate(args):
        yield (names[index] if index < len(names) else ""), value
    yield from kwargs.items()
