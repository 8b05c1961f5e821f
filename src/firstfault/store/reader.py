# SPDX-License-Identifier: Apache-2.0
"""Reads a run directory, live or closed. Runs anywhere but in training; needs no framework and no user code.

What cannot be read is skipped and named in `skipped`. Nothing is unpickled.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from firstfault.errors import StoreError
from firstfault.records.finding import Finding
from firstfault.records.run import Status
from firstfault.records.series import Histogram, Series, Statistic
from firstfault.records.step import StepRecord
from firstfault.store.documents import Skipped, read_findings, read_run, read_status
from firstfault.store.layout import RunLayout, Table
from firstfault.store.rebuild import Rebuilder
from firstfault.store.rows import SCHEMAS
from firstfault.store.segments import UNREADABLE, Segment, not_covered, open_segment, read_segment, whole_table
from firstfault.store.tail import read_tail

_SCALAR_KINDS = ("loss", "metric", "learning_rate", "system")
_NORM_COLUMNS = ("sequence", "ordinal", "series", "missing", "l2")


class RunReader:
    """One run directory; every call looks afresh, so that a live run is seen to grow.

    Raises:
        FormatVersionError: the run was written in a format version this firstfault does not know.
        StoreError: there is no run at `path`, or its `run.json` cannot be read.
    """

    def __init__(self, path: Path | str, clock: Callable[[], float] = time.time) -> None:
        self.layout = RunLayout(Path(path))
        self.run = read_run(self.layout)
        self._clock = clock
        self._rebuilder = Rebuilder()
        self._footers: dict[Path, Segment] = {}
        self._skipped: dict[str, Skipped] = {}

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """Every file that could not be read so far."""
        return tuple(self._skipped.values())

    @property
    def status(self) -> Status:
        """How the run stands; `lost` if it says that it is running and no longer is."""
        status, skipped = read_status(self.layout, self.run, self._clock())
        self._note(skipped)
        return status

    def findings(self) -> tuple[Finding, ...]:
        """In the order in which they were made."""
        findings, skipped = read_findings(self.layout)
        self._note(skipped)
        return findings

    def workers(self) -> list[int]:
        """Every worker that has written something."""
        written = {worker for _, _, worker, _ in self.layout.segment_files()}
        return sorted(written | {worker for _, worker in self.layout.tail_files()})

    def records(self, since_step: int = 0) -> Iterator[StepRecord]:
        """The records as they were written; those of several workers by step, then worker."""
        iterators = [self._records(worker, since_step) for worker in self.workers()]
        if len(iterators) == 1:
            return iterators[0]
        return heapq.merge(*iterators, key=lambda record: (record.step, record.worker))

    def steps(self) -> list[int]:
        """Numbers of the steps there are records of, rising."""
        events = self.table("events", columns=("step", "what"))
        kept = events.filter(pc.equal(events.column("what").cast(pa.string()), "step"))
        steps: list[int] = np.unique(kept.column("step").to_numpy()).tolist()
        return steps

    def series(self) -> list[Series]:
        """Every series there is an observation of, sorted by name."""
        names: set[str] = set()
        for table in ("statistics", "scalars", "histograms"):
            for worker in self.workers():
                names |= self._names(table, worker)
        return [self._rebuilder.series(name) for name in sorted(names)]

    def values(self, series: Series, statistic: Statistic = "l2", worker: int | None = None) -> tuple[Any, Any]:
        """Steps (int64, rising) and values (float64) at which a series was observed.

        A scalar has one entry a micro-step, and no statistic. A tensor has one entry a step: of a module called
        more than once, the first call. `worker` is the lowest there is, if None.
        """
        worker = min(self.workers(), default=0) if worker is None else worker
        if series.kind in _SCALAR_KINDS:
            tables: tuple[Table, ...] = ("scalars", "statistics")
        else:
            tables = ("statistics", "scalars")
        for table in tables:
            column = "value" if table == "scalars" else statistic
            columns = ["sequence", "step", "ordinal", column, *(["block"] if table == "statistics" else [])]
            rows = self._rows(table, worker, columns=columns, series=series.name)
            if rows.num_rows:
                return _sorted_values(rows, column)
        return np.empty(0, np.int64), np.empty(0, np.float64)

    def histogram(self, row: Mapping[str, Any]) -> Histogram:
        """The histogram of one row of the table `histograms`."""
        return self._rebuilder.histogram(row)

    def table(self, table: Table, *, columns: tuple[str, ...] | None = None, series: str | None = None) -> Any:
        """Rows of one table of all workers, as a `pyarrow.Table`."""
        columns = tuple(SCHEMAS[table].names) if columns is None else columns
        parts = [self._rows(table, worker, columns=columns, series=series) for worker in self.workers()]
        if not parts:
            return pa.schema([SCHEMAS[table].field(name) for name in columns]).empty_table()
        return pa.concat_tables(parts).unify_dictionaries()

    def _records(self, worker: int, since_step: int) -> Iterator[StepRecord]:
        # the tail first, segments after: a record that leaves the tail meanwhile is met in a segment. And `events`
        # before the others, since it is written last: a step that is seen there is whole.
        tail = self._tail(worker)
        events = self._rows("events", worker, tail=tail)
        since = 0
        if since_step > 0:
            events = events.filter(pc.greater_equal(events.column("step"), since_step))
            since = pc.min(events.column("sequence")).as_py()
            if since is None:
                return
        yield from self._rebuilder.records(
            events,
            self._rows("scalars", worker, tail=tail, since=since),
            self._rows("statistics", worker, tail=tail, since=since, block=False),
            self._rows("histograms", worker, tail=tail, since=since),
            self._rows("statistics", worker, tail=tail, since=since, block=True, columns=_NORM_COLUMNS),
        )

    def _rows(
        self,
        table: Table,
        worker: int,
        *,
        tail: dict[Table, list[Any]] | None = None,
        columns: Any = None,
        series: str | None = None,
        since: int = 0,
        block: bool | None = None,
    ) -> Any:
        columns = SCHEMAS[table].names if columns is None else list(columns)

        def read() -> Any:
            waiting = self._tail(worker) if tail is None else tail
            chosen = self._chosen(table, worker)
            parts = []
            for segment, start in chosen:
                if segment.last >= since and (series is None or series in segment.series):
                    parts += self._read(segment, columns, series, max(start, since), block)
            after = max([since, *(segment.last + 1 for segment, _ in chosen)])
            if waiting.get(table):
                parts.append(_of_tail(table, waiting[table], columns, series, after, block))
            if not parts:
                return pa.schema([SCHEMAS[table].field(name) for name in columns]).empty_table()
            return pa.concat_tables(parts).unify_dictionaries()

        return self._retried(read)

    def _retried(self, read: Callable[[], Any]) -> Any:
        """A segment may vanish between listing and reading, joined by the closing writer: list again."""
        for _ in range(20):
            try:
                return read()
            except FileNotFoundError:
                continue
        raise StoreError(f"segments of {self.layout.path} vanish while they are read: is the run being deleted?")

    def _chosen(self, table: Table, worker: int) -> list[tuple[Segment, int]]:
        segments = []
        for path, of_table, of_worker, _ in self.layout.segment_files():
            name = str(path.relative_to(self.layout.path))
            if (of_table, of_worker) != (table, worker) or name in self._skipped:
                continue
            try:
                if path not in self._footers:
                    self._footers[path] = open_segment(path)
                segments.append(self._footers[path])
            except FileNotFoundError:
                raise
            except UNREADABLE as error:
                self._skip(path, error)
        return not_covered(segments)

    def _read(
        self, segment: Segment, columns: Any, series: str | None, since: int, block: bool | None
    ) -> list[Any]:
        try:
            return [read_segment(segment, columns=columns, series=series, since=since, block=block)]
        except FileNotFoundError:
            raise
        except UNREADABLE as error:
            self._skip(segment.path, error)
            return []

    def _tail(self, worker: int) -> dict[Table, list[Any]]:
        path = self.layout.tail_file(worker)
        try:
            tables, wrong = read_tail(path)
        except UNREADABLE as error:
            self._skip(path, error)
            return {}
        if wrong and self.status.state != "running":  # a running writer may be amid a frame
            self._skip(path, wrong)
        grouped: dict[Table, list[Any]] = {}
        for table, rows in tables:
            grouped.setdefault(table, []).append(rows)
        return grouped

    def _names(self, table: Table, worker: int) -> set[str]:
        waiting = self._tail(worker).get(table, [])
        chosen: list[tuple[Segment, int]] = self._retried(lambda: self._chosen(table, worker))
        names = {name for segment, _ in chosen for name in segment.series}
        return names.union(*(rows.column("series").unique().to_pylist() for rows in waiting))

    def _skip(self, path: Path, reason: object) -> None:
        name = str(path.relative_to(self.layout.path))
        self._note([Skipped(name, str(reason).strip() or type(reason).__name__)])

    def _note(self, skipped: Iterable[Skipped]) -> None:
        for entry in skipped:
            self._skipped.setdefault(entry.file, entry)


def _of_tail(
    table: Table, parts: list[Any], columns: list[str], series: str | None, since: int, block: bool | None
) -> Any:
    rows = whole_table(table, parts)
    rows = rows.filter(pc.greater_equal(rows.column("sequence"), since))
    if series is not None:
        rows = rows.filter(pc.equal(rows.column("series").cast(pa.string()), series))
    if block is not None:
        rows = rows.filter(pc.equal(rows.column("block"), block))
    return rows.select(columns)


def _sorted_values(rows: Any, column: str) -> tuple[Any, Any]:
    """Observed values by step; of a step's several entries of a tensor, the one `StepRecord.value` would give."""
    rows = rows.filter(pc.is_valid(rows.column(column)))
    sequence, step, ordinal = (rows.column(name).to_numpy() for name in ("sequence", "step", "ordinal"))
    values = rows.column(column).to_numpy().astype(np.float64)
    if column == "value":
        order = np.lexsort((ordinal, sequence, step))
        return step[order], values[order]
    block = rows.column("block").to_numpy()
    order = np.lexsort((ordinal, block, sequence, step))
    steps, first = np.unique(step[order], return_index=True)
    return steps, values[order][first]
