# SPDX-License-Identifier: Apache-2.0
"""Which series are meant: by kind, by collection, by regular expression. Runs anywhere."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from firstfault.errors import UsageError
from firstfault.records.series import KINDS, Kind, Series


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """A named set of series."""

    name: str
    kinds: tuple[Kind, ...] = KINDS
    pattern: str = ""  #: regular expression, searched in the name `kind/subject`; empty takes all

    def __contains__(self, series: Series) -> bool:
        return series.kind in self.kinds and _compiled(self.pattern).search(series.name) is not None


_BIAS = r"(^|[/._])bias(_\w+)?$"

COLLECTIONS: Mapping[str, Collection] = {
    collection.name: collection
    for collection in (
        Collection(name="weights", kinds=("weight",), pattern=rf"^(?!.*{_BIAS})"),
        Collection(name="biases", kinds=("weight",), pattern=_BIAS),
        Collection(name="gradients", kinds=("gradient",)),
        Collection(name="activations", kinds=("activation",)),
        Collection(name="inputs", kinds=("input",)),
        Collection(name="outputs", kinds=("output",)),
        Collection(name="losses", kinds=("loss",)),
        Collection(name="metrics", kinds=("metric",)),
        Collection(name="learning_rates", kinds=("learning_rate",)),
        Collection(name="updates", kinds=("update",)),
        Collection(name="all"),
    )
}


def select(
    series: Iterable[Series],
    *,
    kind: str | None = None,
    collection: str | Collection | None = None,
    regex: str | None = None,
) -> list[Series]:
    """Those of the series that answer to everything that is asked.

    Args:
        series: what there is.
        kind: one of `KINDS`.
        collection: one of the built-in ones by name, or one of the caller's own.
        regex: searched in the name `kind/subject`.

    Raises:
        UsageError: there is no such kind or collection, or the expression is none.
    """
    if kind is not None and kind not in KINDS:
        raise UsageError(f"there is no kind {kind!r}: a series is one of {', '.join(KINDS)}")
    wanted = [_collection(collection)] if collection is not None else []
    pattern = _compiled(regex or "")
    return [
        entry
        for entry in series
        if (kind is None or entry.kind == kind)
        and all(entry in one for one in wanted)
        and pattern.search(entry.name)
    ]


def named(name: str | Series, series: Iterable[Series]) -> Series:
    """The series of this name, or of this subject where only one has it.

    Raises:
        UsageError: there is none, or there are several.
    """
    there = list(series)
    if isinstance(name, Series):
        found = [entry for entry in there if entry == name]
        name = name.name
    else:
        found = [entry for entry in there if entry.name == name]
        found = found or [entry for entry in there if entry.subject == name]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{name!r} could be {', '.join(entry.name for entry in found)}: name one of them")
    near = difflib.get_close_matches(name, [entry.name for entry in there], n=3, cutoff=0.4)
    hint = f"; near it are {', '.join(near)}" if near else ""
    raise UsageError(f"the run has no series {name!r} among its {len(there)}{hint}")


def _collection(collection: str | Collection) -> Collection:
    if isinstance(collection, Collection):
        return collection
    try:
        return COLLECTIONS[collection]
    except KeyError:
        raise UsageError(f"there is no collection {collection!r}: there are {', '.join(COLLECTIONS)}") from None


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UsageError(f"{pattern!r} is no regular expression: {error}") from None
