# SPDX-License-Identifier: Apache-2.0
"""Step records as rows of Arrow tables. Runs in training, on the writer's own thread.

Every row begins with `sequence` (the record's number within its worker, from 0), `step` and `worker`; `ordinal` is
its place within the record, so that `rebuild` can give back the record exactly as it was.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from firstfault.records.encoding import to_json
from firstfault.records.series import STATISTICS, GradientNorms, Missing
from firstfault.records.step import Event, StepRecord
from firstfault.store.layout import Table

#: tables of one batch of records; a table may be there twice, and its columns may lack those that would be all null
Tables: TypeAlias = "list[tuple[Table, pa.Table]]"

_NAME = pa.dictionary(pa.int32(), pa.string())
_COUNTS = ("numel", "zeros", "nans", "infs")
_KEY = [
    pa.field("sequence", pa.int64(), nullable=False),
    pa.field("step", pa.int64(), nullable=False),
    pa.field("worker", pa.int32(), nullable=False),
    pa.field("ordinal", pa.int32(), nullable=False),
]
_SERIES_KEY = [*_KEY, pa.field("series", _NAME, nullable=False)]

SCHEMAS: Mapping[Table, Any] = {
    "statistics": pa.schema(
        [
            *_SERIES_KEY,
            # true: an entry of the record's block of gradient norms, and not a TensorStatistics
            pa.field("block", pa.bool_(), nullable=False),
            pa.field("call", pa.int64()),
            # why there is no number: `no_gradient` is not the same as nobody having looked
            pa.field("missing", _NAME),
            *(pa.field(name, pa.int64() if name in _COUNTS else pa.float64()) for name in STATISTICS),
        ]
    ),
    "scalars": pa.schema([*_SERIES_KEY, pa.field("value", pa.float64()), pa.field("micro_step", pa.int64())]),
    "histograms": pa.schema(
        [
            *_SERIES_KEY,
            pa.field("call", pa.int64()),
            pa.field("first_exponent", pa.int64()),
            pa.field("negative", pa.list_(pa.int64())),
            pa.field("positive", pa.list_(pa.int64())),
            *(pa.field(name, pa.int64()) for name in ("zeros", "nans", "infs")),
        ]
    ),
    "events": pa.schema(
        [
            *_KEY,
            # `step` (one a record: its own fields), `update` or `event`
            pa.field("what", _NAME, nullable=False),
            pa.field("kind", pa.string()),
            pa.field("subject", pa.string()),
            pa.field("time", pa.float64()),
            pa.field("data", pa.string()),
        ]
    ),
}

_statistics_of = attrgetter("series.name", "call", *STATISTICS)
_scalar_of = attrgetter("series.name", "value", "micro_step")
_histogram_of = attrgetter("series.name", "call", "first_exponent", "negative", "positive", "zeros", "nans", "infs")


def tables_of(records: Sequence[StepRecord], first_sequence: int) -> Tables:
    """The rows of consecutive records, the first of which has the number `first_sequence`.

    Raises:
        Exception: of many kinds, where a record holds what its type forbids.
    """
    numbered = list(enumerate(records, first_sequence))
    tables: Tables = []
    for table, rows in (
        ("statistics", _rows(numbered, "statistics", _statistics_of)),
        ("scalars", _rows(numbered, "scalars", _scalar_of)),
        ("histograms", _rows(numbered, "histograms", _histogram_of)),
        ("events", [row for sequence, record in numbered for row in _event_rows(sequence, record)]),
    ):
        if rows:
            tables.append((table, _table(table, rows)))  # type: ignore[arg-type]  # literals above
    if blocks := _norms_table(numbered):
        tables.insert(0, ("statistics", blocks))
    return tables


def _rows(numbered: list[tuple[int, StepRecord]], field: str, values_of: attrgetter[Any]) -> list[tuple[Any, ...]]:
    return [
        (sequence, record.step, record.worker, ordinal, *values_of(entry))
        for sequence, record in numbered
        for ordinal, entry in enumerate(getattr(record, field))
    ]


def _table(table: Table, rows: list[tuple[Any, ...]]) -> Any:
    schema = SCHEMAS[table]
    if table == "statistics":
        schema = pa.schema([entry for entry in schema if entry.name not in ("block", "missing")])
    columns = [pa.array(values, entry.type) for values, entry in zip(zip(*rows, strict=True), schema, strict=True)]
    made = pa.table(columns, schema=schema)
    if table == "statistics":
        made = made.append_column(
            pa.field("block", pa.bool_(), nullable=False), pa.array(np.zeros(len(rows), bool))
        )
    return made


def _event_rows(sequence: int, record: StepRecord) -> Iterable[tuple[Any, ...]]:
    key = (sequence, record.step, record.worker)
    place, norms = record.place, record.gradient_norms
    own = {
        "seconds": record.seconds,
        "phase": record.phase,
        "epoch": place.epoch,
        "batch": place.batch,
        "micro_step": place.micro_step,
        "full": record.full,
        "gradient_norms": None if norms is None else len(norms.values),
    }
    yield (*key, 0, "step", record.phase, None, record.time, exact_json(own))
    for ordinal, update in enumerate(record.updates):
        text = json.dumps(to_json(update))
        yield (*key, ordinal, "update", None, _text(update.optimizer), record.time, text)
    for ordinal, event in enumerate(record.events):
        text = exact_json({"kind": event.kind, "subject": event.subject, "data": event.data})
        yield (*key, ordinal, "event", _text(event.kind), _text(event.subject), record.time, text)


def _text(text: str) -> str:
    """Text that UTF-8 can hold, for those who query the column; the exact text is in the JSON beside it."""
    return text.encode("utf-8", "replace").decode()


def _norms_table(numbered: list[tuple[int, StepRecord]]) -> Any:
    """The blocks of gradient norms; the one part of a record that is large at every step, so by numpy."""
    numbers: dict[str, int] = {}
    codes_of: dict[int, Any] = {}
    keys: list[tuple[int, int, int]] = []
    codes: list[Any] = []
    values: list[Any] = []
    missing: list[Any] = []
    for sequence, record in numbered:
        norms = record.gradient_norms
        if norms is None or not norms.values:
            continue
        if id(norms.names) not in codes_of:
            names = [numbers.setdefault(f"gradient/{name}", len(numbers)) for name in norms.names]
            codes_of[id(norms.names)] = np.array(names, np.int32)
        keys.append((sequence, record.step, record.worker))
        codes.append(codes_of[id(norms.names)])
        block, why = _block(norms)
        values.append(block)
        missing.append(why)
    if not keys:
        return None
    lengths = [len(block) for block in values]
    key_columns = np.repeat(np.array(keys, np.int64), lengths, axis=0)
    fields = [entry for entry in SCHEMAS["statistics"] if entry.name in _NORM_COLUMNS]
    columns = [
        pa.array(key_columns[:, 0]),
        pa.array(key_columns[:, 1]),
        pa.array(key_columns[:, 2].astype(np.int32)),
        pa.array(np.concatenate([np.arange(length, dtype=np.int32) for length in lengths])),
        pa.DictionaryArray.from_arrays(pa.array(np.concatenate(codes)), pa.array(list(numbers), pa.string())),
        pa.array(np.ones(len(key_columns), bool)),
        pa.concat_arrays(missing),
        pa.concat_arrays(values),
    ]
    return pa.table(columns, schema=pa.schema(fields))


_NORM_COLUMNS = ("sequence", "step", "worker", "ordinal", "series", "block", "missing", "l2")
_REASONS = pa.array([reason.value for reason in Missing])
_REASON_CODES = {reason: code for code, reason in enumerate(Missing)}


def _block(norms: GradientNorms) -> tuple[Any, Any]:
    """The values (null where there is none), and why there is none (null where there is one)."""
    try:
        values, codes = pa.array(np.array(norms.values, np.float64)), pa.nulls(len(norms.values), pa.int32())
    except TypeError:  # something in it is no number
        values = pa.array([None if isinstance(value, Missing) else value for value in norms.values], pa.float64())
        codes = pa.array(
            [_REASON_CODES[value] if isinstance(value, Missing) else None for value in norms.values], pa.int32()
        )
    return values, pa.DictionaryArray.from_arrays(codes, _REASONS)


def exact_json(value: Any) -> str:
    """JSON text that any parser reads and `from_exact_json` turns into the very value, non-finite numbers too."""
    with contextlib.suppress(ValueError, TypeError):  # a number that is not finite, or a mapping that is no dict
        text = json.dumps(value, allow_nan=False)
        if _MARK not in text:
            return text
    return json.dumps(_marked(value), allow_nan=False)


def from_exact_json(text: str) -> Any:
    return json.loads(text, object_hook=_unmarked)


_MARK = "$float"


def _marked(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return {_MARK: str(value)}
    if isinstance(value, Mapping):
        # a key of the user's that looks like the mark gets one sign more
        return {("$" if _is_mark(str(k)) else "") + str(k): _marked(entry) for k, entry in value.items()}
    return [_marked(entry) for entry in value] if isinstance(value, list | tuple) else value


def _unmarked(data: dict[str, Any]) -> Any:
    if data.keys() == {_MARK}:
        return float(data[_MARK])
    return {(key[1:] if _is_mark(key) else key): entry for key, entry in data.items()}


def _is_mark(key: str) -> bool:
    return key.startswith("$") and key.lstrip("$") == "float"


def event_of(data: dict[str, Any]) -> Event:
    return Event(kind=data["kind"], subject=data["subject"], data=data["data"])
