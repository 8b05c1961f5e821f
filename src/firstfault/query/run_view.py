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
from typing import Any, NamedTuple, cast, get_args

import pyarrow as pa
import pyarrow.compute as pc

from firstfault.errors import UsageError
from firstfault.query.find import find_run
from firstfault.query.select import Collection, named, select
from firstfault.records.finding import Finding, without_superseded
from firstfault.records.run import Run, Status
from firstfault.records.series import STATISTICS, Histogram, Series, Statistic
from firstfault.records.step import Json, StepRecord
from firstfault.store.documents import Skipped
from firstfault.store.layout import Table
from firstfault.store.reader import RunReader
from firstfault.store.rows import from_exact_json

_EVENT_KEYS = ("step", "worker", "sequence", "ordinal")


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

    @property
    def config(self) -> dict[str, Json]:
        """What the training was set to: as the run began, and as the script added to it."""
        config = dict(self.run.config)
        for _, data in self._events("config"):
            config.update(data["values"])
        return config

    @property
    def trainings(self) -> tuple[Training, ...]:
        """The trainings one after another in the run, as the folds of a cross-validation; most runs have one."""
        if not self.steps:
            return ()
        begins = sorted({self.steps[0], *(step for step, _ in self._events("training"))})
        ends = [*(step - 1 for step in begins[1:]), self.steps[-1]]
        return tuple(Training(number, *span) for number, span in enumerate(zip(begins, ends, strict=True)))

    def refresh(self) -> None:
        """Looks again: a live run has grown meanwhile."""
        self._status: Status = self._reader.status
        self._findings: tuple[Finding, ...] = tuple(without_superseded(self._reader.findings()))
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
        self,
        series: Series | str,
        statistic: Statistic = "l2",
        worker: int | None = None,
        *,
        training: int | None = None,
    ) -> tuple[Any, Any]:
        """Steps (int64, rising) and values (float64) at which a series was observed.

        Args:
            series: a series or its name; the subject will do where one series has it.
            statistic: of a tensor; a loss, metric or learning rate has none, and the argument is ignored.
            worker: the first there is, if None.
            training: its number in `trainings`; all of them, if None.

        Raises:
            UsageError: the run has no such series or training, or there is no such statistic.
        """
        if statistic not in STATISTICS:
            raise UsageError(f"there is no statistic {statistic!r}: there are {', '.join(STATISTICS)}")
        steps, values = self._reader.values(named(series, self.series()), statistic, worker)
        if training is None:
            return steps, values
        _, first, last = self._training(training)
        within = (steps >= first) & (steps <= last)
        return steps[within], values[within]

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

    def _training(self, number: int) -> Training:
        trainings = self.trainings
        if not 0 <= number < len(trainings):
            raise UsageError(f"the run has no training {number}: it has {len(trainings)}, counted from 0")
        return trainings[number]

    def _events(self, kind: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """Step and data of the events of a kind, in order."""
        rows = self._reader.table("events", columns=(*_EVENT_KEYS, "what", "kind", "data"))
        is_meant = pc.and_(pc.equal(rows.column("what").cast(pa.string()), "event"), pc.equal(rows["kind"], kind))
        for row in rows.filter(is_meant).sort_by([(name, "ascending") for name in _EVENT_KEYS]).to_pylist():
            yield row["step"], from_exact_json(row["data"])["data"]


class Training(NamedTuple):
    """One training within a run that holds several, one after another."""

    number: int  #: from 0
    first_step: int
    last_step: int


def _sorted(rows: Any) -> Any:
    keys = [(name, "ascending") for name in ("step", "worker", "sequence", "ordinal")]
    return rows.take(pc.sort_indices(rows, sort_keys=keys)) if rows.num_rows else pa.table(rows)
