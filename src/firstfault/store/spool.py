# SPDX-License-Identifier: Apache-2.0
"""Records on their way to disk: into the tail, then into segments. Runs in training, on the writer's thread.

Whatever moment a kill hits, every record that reached the disk is found once: a segment says which records it
covers, the tail is emptied only when segments hold all of it, and parts are removed only when their join is there.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from firstfault.records.step import StepRecord
from firstfault.store.layout import TABLES, RunLayout, Table, write_atomically
from firstfault.store.rows import Tables, tables_of
from firstfault.store.segments import UNREADABLE, Segment, read_segment, write_segment
from firstfault.store.tail import frame

#: so many segments of one size become one of the next: a run of a day has dozens of files, not thousands
_JOIN_AT = 16
#: rows of a joined segment at most, while training runs and at its end: it takes 50 and 300 MB of memory to make
_JOIN_ROWS_RUNNING = 400_000
_JOIN_ROWS_CLOSING = 2_500_000
#: rows kept in memory at most while the disk takes none: about 50 MB
_HELD_ROWS = 500_000
_RETRY_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class _Batch:
    """Consecutive records as rows."""

    first: int
    last: int
    tables: Tables
    num_rows: int


@dataclass(frozen=True, slots=True)
class _Written:
    segment: Segment
    level: int  #: how often joined


class Spool:
    """Takes records, and brings them to disk as far as the disk allows; never raises for the disk's sake."""

    def __init__(
        self,
        layout: RunLayout,
        worker: int,
        *,
        segment_seconds: float,
        segment_rows: int,
        warn: Callable[[str], None],
    ) -> None:
        self._layout = layout
        self._worker = worker
        self._segment_seconds = segment_seconds
        self._segment_rows = segment_rows
        self._warn = warn
        self._next_sequence = 0
        self._next_number = 0
        self._held: list[_Batch] = []  # what no segment holds yet
        self._in_tail = 0  # so many of `_held` are in the tail
        self._tail: Any = None
        self._segments: dict[Table, list[_Written]] = {table: [] for table in TABLES}
        self._cut = time.monotonic()
        self._retry = 0.0
        self._lost = 0
        self._said_so = False

    def add(self, records: Sequence[StepRecord]) -> None:
        """Turns records into rows; a record that cannot be is left out, with a warning."""
        try:
            self._hold(tables_of(records, self._next_sequence), len(records))
        except Exception as error:  # noqa: BLE001  # a value that its type forbids can raise anything
            if len(records) > 1:
                for record in records:
                    self.add([record])
                return
            self._warn(f"the record of step {records[0].step} cannot be stored: {error}")

    def bring_to_disk(self, *, closing: bool = False) -> None:
        """Writes what is held to the tail, and to segments where it is time."""
        now = time.monotonic()
        if now < self._retry and not closing:
            self._forget_what_does_not_fit()
            return
        try:
            if len(self._held) > self._in_tail:
                self._append_to_tail()
            rows = sum(batch.num_rows for batch in self._held)
            if self._held and (closing or rows >= self._segment_rows or now - self._cut >= self._segment_seconds):
                self._cut_segments()
            self._join(closing)
        except UNREADABLE as error:
            self._stop_writing(error)

    def close(self) -> None:
        self.bring_to_disk(closing=True)
        if self._tail is not None:
            self._tail.close()
        if self._held and self._in_tail < len(self._held):
            lost = self._lost + sum(batch.last - batch.first + 1 for batch in self._held[self._in_tail :])
            self._warn(f"the records of {lost} steps could not be written to {self._layout.path}")

    def _hold(self, tables: Tables, num_records: int) -> None:
        first = self._next_sequence
        self._next_sequence += num_records
        rows = sum(table.num_rows for _, table in tables)
        self._held.append(_Batch(first, self._next_sequence - 1, tables, rows))

    def _append_to_tail(self) -> None:
        if self._tail is None:
            self._new_tail(self._held)
        else:
            for batch in self._held[self._in_tail :]:
                data = frame(batch.tables)
                if self._tail.write(data) != len(data):
                    raise OSError("the disk took only a part of what was written")
                self._in_tail += 1
        self._in_tail = len(self._held)

    def _new_tail(self, batches: list[_Batch]) -> None:
        """A fresh tail in the place of the old: who has the old one open goes on reading it undisturbed."""
        path = self._layout.tail_file(self._worker)
        write_atomically(path, b"".join(frame(batch.tables) for batch in batches), durable=False)
        if self._tail is not None:
            self._tail.close()
        self._tail = open(path, "ab", buffering=0)  # noqa: SIM115  # open for the life of the run

    def _cut_segments(self) -> None:
        first, last = self._held[0].first, self._held[-1].last
        number = self._take_number()
        made: list[_Written] = []
        try:
            for table in TABLES:
                parts = [part for batch in self._held for name, part in batch.tables if name == table]
                if parts:
                    path = self._layout.segment_file(table, self._worker, number)
                    made.append(_Written(write_segment(path, table, self._worker, first, last, parts), level=0))
        except BaseException:
            for written in made:
                _remove(written.segment)
            raise
        for written in made:
            self._segments[written.segment.table].append(written)
        self._held.clear()
        self._in_tail = 0
        self._cut = time.monotonic()
        self._new_tail([])

    def _take_number(self) -> int:
        self._next_number += 1
        return self._next_number

    def _join(self, closing: bool) -> None:
        for table in TABLES:
            written = self._segments[table]
            if closing:
                groups = _groups_of(written, _JOIN_ROWS_CLOSING)
            else:
                last = written[-_JOIN_AT:]
                same = len(last) == _JOIN_AT and len({entry.level for entry in last}) == 1
                small = sum(entry.segment.num_rows for entry in last) <= _JOIN_ROWS_RUNNING
                groups = [last] if same and small else []
            for group in groups:
                self._join_group(table, group)

    def _join_group(self, table: Table, group: list[_Written]) -> None:
        segments = [entry.segment for entry in group]
        path = self._layout.segment_file(table, self._worker, self._take_number())
        joined = write_segment(
            path,
            table,
            self._worker,
            segments[0].first,
            segments[-1].last,
            [read_segment(segment) for segment in segments],
        )
        place = self._segments[table].index(group[0])
        self._segments[table][place : place + len(group)] = [_Written(joined, group[0].level + 1)]
        for segment in segments:
            _remove(segment)

    def _stop_writing(self, error: BaseException) -> None:
        """Keeps what fits in memory, and tries again in a while."""
        if self._tail is not None:
            with contextlib.suppress(OSError):
                self._tail.close()
        self._tail = None  # its end may be torn: the next one is written whole, from memory
        self._in_tail = 0
        self._retry = time.monotonic() + _RETRY_SECONDS
        if self._said_so:
            return
        self._said_so = True
        self._warn(
            f"{self._layout.path} cannot be written ({getattr(error, 'strerror', None) or error}): records are "
            "kept in memory as far as they fit, and writing is tried again; make room, or set FIRSTFAULT_HOME"
        )

    def _forget_what_does_not_fit(self) -> None:
        """While the disk takes nothing, only the latest records are kept."""
        rows = sum(batch.num_rows for batch in self._held)
        while rows > _HELD_ROWS and len(self._held) > 1 and self._in_tail == 0:
            batch = self._held.pop(0)
            rows -= batch.num_rows
            self._lost += batch.last - batch.first + 1


def _groups_of(written: list[_Written], max_rows: int) -> list[list[_Written]]:
    """Neighbours that together have at most `max_rows` rows; only groups of two and more."""
    groups: list[list[_Written]] = [[]]
    rows = 0
    for entry in written:
        if rows + entry.segment.num_rows > max_rows:
            groups.append([])
            rows = 0
        groups[-1].append(entry)
        rows += entry.segment.num_rows
    return [group for group in groups if len(group) > 1]


def _remove(segment: Segment) -> None:
    with contextlib.suppress(OSError):
        os.unlink(segment.path)
