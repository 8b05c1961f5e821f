# SPDX-License-Identifier: Apache-2.0
"""Segments: Parquet files of one table, sorted by series and step. Written in training, read anywhere.

A segment says in its footer which records it covers (`first` to `last` sequence number) and which series it
holds. So nothing is lost or doubled when a kill leaves both a joined segment and its parts, or a segment and the
tail it came from.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firstfault.records.run import FORMAT_VERSION
from firstfault.store.layout import Table, write_atomically
from firstfault.store.rows import SCHEMAS

#: rows that one series of a sampled run fills in few groups, and that a reader skips at once
GROUP_ROWS = 64 * 1024
_FOOTER = b"firstfault"
_RISING = ("sequence", "step", "ordinal")
#: what Arrow and the disk raise for a file that is cut short or spoilt
UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError, TypeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One file, as its footer describes it."""

    path: Path
    table: Table
    worker: int
    first: int  #: sequence number of the first record covered, whether or not it has rows here
    last: int
    num_rows: int
    series: tuple[str, ...]  #: names, sorted; empty for `events`


def write_segment(
    path: Path, table: Table, worker: int, first: int, last: int, parts: Sequence[Any], *, durable: bool = True
) -> Segment:
    """Sorts the rows of `parts` and writes them under their final name at once."""
    rows, order, series = _sorted_order(table, whole_table(table, parts))
    footer = {
        "format_version": FORMAT_VERSION,
        "table": table,
        "worker": worker,
        "first": first,
        "last": last,
        "series": series,
    }
    names = rows.schema.names
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        rows.schema.with_metadata({_FOOTER: json.dumps(footer).encode()}),
        compression="zstd",
        compression_level=1,
        use_dictionary=[name for name in ("series", "missing", "what", "kind", "subject") if name in names],
        column_encoding=dict.fromkeys(_RISING, "DELTA_BINARY_PACKED"),
        write_page_checksum=True,
    ) as writer:
        for start in range(0, len(order), GROUP_ROWS):
            writer.write_table(rows.take(pa.array(order[start : start + GROUP_ROWS])))
    write_atomically(path, memoryview(sink.getvalue()), durable=durable)
    return Segment(
        path=path,
        table=table,
        worker=worker,
        first=first,
        last=last,
        num_rows=rows.num_rows,
        series=tuple(series),
    )


def whole_table(table: Table, parts: Sequence[Any]) -> Any:
    """The parts as one table with every column, one dictionary each."""
    schema = SCHEMAS[table]
    parts = [part.replace_schema_metadata(None) for part in parts]
    if not parts:
        return schema.empty_table()
    rows = pa.concat_tables(parts, promote_options="default").unify_dictionaries()
    columns = [
        rows.column(entry.name) if entry.name in rows.schema.names else pa.nulls(rows.num_rows, entry.type)
        for entry in schema
    ]
    return pa.table(columns, schema=schema).combine_chunks()


def _sorted_order(table: Table, rows: Any) -> tuple[Any, Any, list[str]]:
    sequence, step, ordinal = (rows.column(name).to_numpy() for name in ("sequence", "step", "ordinal"))
    if table == "events":
        return rows, np.lexsort((ordinal, sequence, step)), []
    column = rows.column("series").combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks)
    names = column.dictionary.to_pylist()
    by_name = sorted(range(len(names)), key=names.__getitem__)
    rank: Any = np.empty(len(names), np.int32)
    rank[by_name] = np.arange(len(names), dtype=np.int32)
    codes = column.indices.to_numpy()
    used = set(np.unique(codes).tolist())
    order = np.lexsort((ordinal, sequence, step, rank[codes]))
    return rows, order, [names[code] for code in by_name if code in used]


def open_segment(path: Path) -> Segment:
    """What the footer of a segment says.

    Raises:
        FileNotFoundError: it has been joined into another meanwhile.
        Exception: one of `UNREADABLE`.
    """
    metadata = pq.read_metadata(path)
    footer = json.loads(metadata.metadata[_FOOTER])
    if footer["format_version"] != FORMAT_VERSION:
        raise ValueError(
            f"written in format version {footer['format_version']}; this firstfault reads {FORMAT_VERSION}"
        )
    return Segment(
        path=path,
        table=footer["table"],
        worker=footer["worker"],
        first=footer["first"],
        last=footer["last"],
        num_rows=metadata.num_rows,
        series=tuple(footer["series"]),
    )


def not_covered(segments: Iterable[Segment]) -> list[tuple[Segment, int]]:
    """The segments of one table and worker to read, each with the sequence number from which its rows count."""
    chosen = []
    covered = -1
    for segment in sorted(segments, key=lambda segment: (segment.first, -segment.last)):
        if segment.last > covered:
            chosen.append((segment, max(covered + 1, segment.first)))
            covered = segment.last
    return chosen


def read_segment(
    segment: Segment,
    *,
    columns: Sequence[str] | None = None,
    series: str | None = None,
    since: int = 0,
    block: bool | None = None,
) -> Any:
    """Rows of a segment; only those groups of rows are read that can hold a row asked for.

    Args:
        columns: names; all if None.
        series: only the rows of this series.
        since: only rows of records from this sequence number on.
        block: of the table `statistics`, only rows with this `block`.
    """
    columns = SCHEMAS[segment.table].names if columns is None else columns
    needed = [*columns]
    if series is not None:
        needed.append("series")
    if since > segment.first:
        needed.append("sequence")
    if block is not None:
        needed.append("block")
    with pq.ParquetFile(segment.path, page_checksum_verification=True) as file:
        bounds = {"series": series, "block": block}
        groups = _groups(file, {name: value for name, value in bounds.items() if value is not None})
        parts = []
        for group in groups:
            rows = file.read_row_group(group, columns=list(dict.fromkeys(needed)), use_threads=False)
            parts.append(_matching(rows, segment, series, since, block).select(columns))
    if parts:
        return pa.concat_tables(parts)
    return pa.schema([SCHEMAS[segment.table].field(name) for name in columns]).empty_table()


def _groups(file: Any, wanted: dict[str, Any]) -> list[int]:
    metadata = file.metadata
    index = (
        {metadata.row_group(0).column(i).path_in_schema: i for i in range(metadata.num_columns)}
        if (metadata.num_row_groups)
        else {}
    )
    groups = []
    for group in range(metadata.num_row_groups):
        bounds = [
            (metadata.row_group(group).column(index[name]).statistics, value) for name, value in wanted.items()
        ]
        if all(not known or not known.has_min_max or known.min <= value <= known.max for known, value in bounds):
            groups.append(group)
    return groups


def _matching(rows: Any, segment: Segment, series: str | None, since: int, block: bool | None) -> Any:
    if series is not None:
        rows = rows.filter(pc.equal(rows.column("series").cast(pa.string()), series))
    if since > segment.first:
        rows = rows.filter(pc.greater_equal(rows.column("sequence"), since))
    if block is not None:
        rows = rows.filter(pc.equal(rows.column("block"), block))
    return rows
