# SPDX-License-Identifier: Apache-2.0
"""Rows of Arrow tables back to the step records they were: the inverse of `rows`. Runs wherever a run is read."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from firstfault.records.encoding import from_json
from firstfault.records.series import (
    STATISTICS,
    GradientNorms,
    Histogram,
    Missing,
    Series,
    TensorStatistics,
    Value,
)
from firstfault.records.step import Place, Scalar, StepRecord, Update
from firstfault.store.rows import event_of, from_exact_json

#: records made of their rows at a time: bounds how many Python objects there are
_WINDOW = 1024

Entry = TypeVar("Entry")
Grouped = defaultdict[int, list[Entry]]


class Rebuilder:
    """Makes records of rows; series and names are one object each for all records it makes."""

    def __init__(self) -> None:
        self._series: dict[str, Series] = {}
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}

    def records(
        self, events: Any, scalars: Any, statistics: Any, histograms: Any, norms: Any
    ) -> Iterator[StepRecord]:
        """The records of one worker, in the order in which they were written.

        Args:
            events: all rows of these records in this table, in any order; and so for the others.
            scalars: as `events`.
            statistics: those without `block`.
            histograms: as `events`.
            norms: those of `statistics` with `block`: `sequence, ordinal, series, missing, l2`.
        """
        tables = [_BySequence(table) for table in (events, scalars, statistics, histograms, norms)]
        sequences = np.unique(events.column("sequence").to_numpy())
        for start in range(0, len(sequences), _WINDOW):
            first, last = sequences[start], sequences[min(start + _WINDOW, len(sequences)) - 1]
            yield from self._window(*(table.between(first, last) for table in tables))

    def _window(
        self, events: Any, scalars: Any, statistics: Any, histograms: Any, norms: Any
    ) -> Iterator[StepRecord]:
        scalars_of = self._grouped(scalars, self._scalar, ("series", "value", "micro_step"))
        statistics_of = self._grouped(statistics, self._statistics, ("series", "call", *STATISTICS))
        histograms_of = self._grouped(histograms, self._histogram, _HISTOGRAM)
        norms_of = self._norms(norms)
        rows = defaultdict(list)
        for what, sequence, *row in zip(
            *(events.column(name).to_pylist() for name in ("what", "sequence", "step", "worker", "time", "data")),
            strict=True,
        ):
            rows[sequence, what].append(row)
        for sequence, what in list(rows):
            if what != "step":
                continue
            ((step, worker, time, text),) = rows[sequence, what]
            own = from_exact_json(text)
            block = norms_of.get(sequence)
            if block is None and own["gradient_norms"] == 0:
                block = GradientNorms(names=self._shared(()), values=())
            yield StepRecord(
                step=step,
                time=time,
                seconds=own["seconds"],
                worker=worker,
                phase=own["phase"],
                place=Place(epoch=own["epoch"], batch=own["batch"], micro_step=own["micro_step"]),
                full=own["full"],
                updates=tuple(from_json(Update, json.loads(row[-1])) for row in rows.get((sequence, "update"), ())),
                scalars=tuple(scalars_of.get(sequence, ())),
                gradient_norms=block,
                statistics=tuple(statistics_of.get(sequence, ())),
                histograms=tuple(histograms_of.get(sequence, ())),
                events=tuple(event_of(from_exact_json(row[-1])) for row in rows.get((sequence, "event"), ())),
            )

    def _grouped(
        self, rows: Any, make: Callable[..., Entry], columns: tuple[str, ...]
    ) -> Mapping[int, list[Entry]]:
        grouped: Grouped[Entry] = defaultdict(list)
        values = (rows.column(name).to_pylist() for name in ("sequence", *columns))
        for sequence, *row in zip(*values, strict=True):
            grouped[sequence].append(make(*row))
        return grouped

    def series(self, name: str) -> Series:
        if name not in self._series:
            self._series[name] = Series.parse(name)
        return self._series[name]

    def _scalar(self, name: str, value: float, micro_step: int) -> Scalar:
        return Scalar(series=self.series(name), value=value, micro_step=micro_step)

    def _statistics(self, name: str, call: int, *values: Any) -> TensorStatistics:
        return TensorStatistics(series=self.series(name), call=call, **dict(zip(STATISTICS, values, strict=True)))

    def histogram(self, row: Mapping[str, Any]) -> Histogram:
        """The histogram of one row of that table."""
        return self._histogram(*(row[name] for name in _HISTOGRAM))

    def _histogram(
        self, name: str, call: int, exponent: int, negative: list[int], positive: list[int], *counts: int
    ) -> Histogram:
        zeros, nans, infs = counts
        return Histogram(
            series=self.series(name),
            call=call,
            first_exponent=exponent,
            negative=tuple(negative),
            positive=tuple(positive),
            zeros=zeros,
            nans=nans,
            infs=infs,
        )

    def _norms(self, rows: Any) -> dict[int, GradientNorms]:
        if not rows.num_rows:
            return {}
        sequence = rows.column("sequence").to_numpy()
        column = _dictionary_array(rows.column("series"))
        subjects = [name.partition("/")[2] for name in column.dictionary.to_pylist()]
        codes = column.indices.to_numpy()
        values = rows.column("l2").to_numpy().tolist()  # null, where there is a reason in `missing`, becomes NaN
        missing = rows.column("missing").to_pylist() if rows.column("missing").null_count < len(values) else []
        cuts = [0, *(np.flatnonzero(np.diff(sequence)) + 1).tolist(), len(sequence)]
        names_of: dict[bytes, tuple[str, ...]] = {}
        made = {}
        for start, end in itertools.pairwise(cuts):
            key = codes[start:end].tobytes()
            if key not in names_of:
                names_of[key] = self._shared(tuple(subjects[code] for code in codes[start:end].tolist()))
            block: list[Value] = values[start:end]
            if any(missing[start:end]):
                block = [
                    value if why is None else Missing(why)
                    for value, why in zip(block, missing[start:end], strict=True)
                ]
            made[int(sequence[start])] = GradientNorms(names=names_of[key], values=tuple(block))
        return made

    def _shared(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return self._names.setdefault(names, names)


_HISTOGRAM = ("series", "call", "first_exponent", "negative", "positive", "zeros", "nans", "infs")


class _BySequence:
    """A table in the order of records, and of entries within them."""

    def __init__(self, table: Any) -> None:
        sequence, ordinal = (table.column(name).to_numpy() for name in ("sequence", "ordinal"))
        order = np.lexsort((ordinal, sequence))
        self._rows = table.take(pa.array(order))
        self._sequence = sequence[order]

    def between(self, first: int, last: int) -> Any:
        start = int(np.searchsorted(self._sequence, first, "left"))
        return self._rows.slice(start, int(np.searchsorted(self._sequence, last, "right")) - start)


def _dictionary_array(column: Any) -> Any:
    column = column.unify_dictionaries().combine_chunks()
    return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
