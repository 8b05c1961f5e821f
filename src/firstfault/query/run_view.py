# SPDX-License-Identifier: Apache-2.0
"""One run, live or closed, as its reader asks for it. Runs anywhere but in training.

run = firstfault.open_run("last")
steps, losses = run.values("loss/loss")
steps, norms = run.values("gradient/encoder.0.weight", "l2")
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast, get_args

import pyarrow as pa
import pyarrow.compute as pc

from firstfault.errors import UsageError
from firstfault.query.find import find_run
from firstfault.query.select import Collection, named, select
from firstfault.records.finding import Finding
from firstfault.records.run import Run, Status
from firstfault.records.series import STATISTICS, Histogram, Series, Statistic
from firstfault.records.step import StepRecord
from firstfault.store.documents import Skipped
from firstfault.store.layout import Table
from firstfault.store.reader import RunReader


def open_run(run: str | Path = "last", home: Path | None = None) -> RunView:
    """Opens a run: `last`, an id, the beginning of an id, or the path of its directory.

    Raises:
        RunNotFoundError: no run is meant, or more than one.
        StoreError: it cannot be read.
    """
    return RunView(find_run(run, home))


class RunView:
    """A run as it was when it was opened, or last refreshed."""

    def __init__(self, path: Path | str, clock: Callable[[], float] = time.time) -> None:
        self._reader = RunReader(path, clock)
        self._steps: list[int] | None = None
        self._series: list[Series] | None = None
        self.refresh()

    def __repr__(self) -> str:
        return f"<RunView {self.run.project}/{self.run.id} {self.status.state}>"

    @property
    def path(self) -> Path:
        """The run directory."""
        return self._reader.layout.path

    @property
    def run(self) -> Run:
        """The run as it began."""
        return self._reader.run

    @property
    def status(self) -> Status:
        """How it stands."""
        return self._status

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the rules said, in the order in which they said it."""
        return self._findings

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """Files that could not be read, with the reason."""
        return self._reader.skipped

    @property
    def steps(self) -> list[int]:
        """Numbers of the steps there are records of, rising."""
        if self._steps is None:
            self._steps = self._reader.steps()
        return self._steps

    def refresh(self) -> None:
        """Looks again: a live run has grown meanwhile."""
        self._status: Status = self._reader.status
        self._findings: tuple[Finding, ...] = self._reader.findings()
        self._steps = None
        self._series = None

    def records(self, since_step: int = 0) -> Iterator[StepRecord]:
        """The step records exactly as they were written, from a step on."""
        return self._reader.records(since_step)

    def series(
        self,
        kind: str | None = None,
        collection: str | Collection | None = None,
        regex: str | None = None,
    ) -> list[Series]:
        """The series that were observed, all or some, sorted by name.

        Raises:
            UsageError: there is no such kind or collection, or the expression is none.
        """
        if self._series is None:
            self._series = self._reader.series()
        return select(self._series, kind=kind, collection=collection, regex=regex)

    def values(
        self, series: Series | str, statistic: Statistic = "l2", worker: int | None = None
    ) -> tuple[Any, Any]:
        """Steps (int64, rising) and values (float64) at which a series was observed.

        Args:
            series: a series or its name; the subject will do where one series has it.
            statistic: of a tensor; a loss, metric or learning rate has none, and the argument is ignored.
            worker: the first there is, if None.

        Raises:
            UsageError: the run has no such series, or there is no such statistic.
        """
        if statistic not in STATISTICS:
            raise UsageError(f"there is no statistic {statistic!r}: there are {', '.join(STATISTICS)}")
        return self._reader.values(named(series, self.series()), statistic, worker)

    def statistics(self, series: Series | str) -> Any:
        """All that was measured of one series, as a `pyarrow.Table` sorted by step.

        Raises:
            UsageError: the run has no such series.
        """
        name = named(series, self.series()).name
        rows = self._reader.table("statistics", series=name)
        if not rows.num_rows:
            rows = self._reader.table("scalars", series=name)
        return _sorted(rows)

    def histogram(self, series: Series | str, step: int | None = None) -> Histogram:
        """The histogram of a series at a step, or the last one there is.

        Raises:
            UsageError: the run has no such series, or no histogram of it at that step.
        """
        wanted = named(series, self.series())
        rows = _sorted(self._reader.table("histograms", series=wanted.name))
        if not rows.num_rows:
            raise UsageError(f"the run has no histogram of {wanted.name}")
        steps = rows.column("step").to_pylist()
        step = steps[-1] if step is None else step
        if step not in steps:
            near = min(steps, key=lambda known: abs(known - step))
            raise UsageError(f"the run has no histogram of {wanted.name} at step {step}; the nearest is {near}")
        return self._reader.histogram(rows.slice(steps.index(step), 1).to_pylist()[0])

    def table(self, name: str) -> Any:
        """A whole table as a `pyarrow.Table`: `statistics`, `scalars`, `histograms` or `events`.

        Raises:
            UsageError: there is no such table.
        """
        if name not in get_args(Table):
            raise UsageError(f"there is no table {name!r}: there are {', '.join(get_args(Table))}")
        return _sorted(self._reader.table(cast(Table, name)))


def _sorted(rows: Any) -> Any:
    keys = [(name, "ascending") for name in ("step", "worker", "sequence", "ordinal")]
    return rows.take(pc.sort_indices(rows, sort_keys=keys)) if rows.num_rows else pa.table(rows)
