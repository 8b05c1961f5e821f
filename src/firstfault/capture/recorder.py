# SPDX-License-Identifier: Apache-2.0
"""Assembles step records from what the framework's capture observes, and hands them on. Runs in training.

A step is one completed update of the parameters. With several optimizers it holds one update of each: it
closes when an optimizer that has already stepped in it is about to step again, when validation begins, at the
end of the training loader, and at the end of the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from firstfault.capture.budget import NUM_FIRST_STEPS, Budget
from firstfault.capture.firewall import Firewall
from firstfault.records.finding import Coverage, Overhead
from firstfault.records.series import GradientNorms, Histogram, Kind, Series, TensorStatistics, Value
from firstfault.records.step import Event, Place, Scalar, StepRecord, Update

_MOST_METRICS_WITHOUT_BACKWARD = 100


@dataclass(slots=True)
class Draft:
    """What has been observed since the last update, or of a step that is not closed yet."""

    full: bool = True
    place: Place = field(default_factory=Place)
    updates: list[Update] = field(default_factory=list)
    losses: list[tuple[str, float, int]] = field(default_factory=list)  # subject, value, micro-step
    scalars: list[Scalar] = field(default_factory=list)
    norm_names: tuple[str, ...] = ()
    norm_values: tuple[Value, ...] = ()
    statistics: list[TensorStatistics] = field(default_factory=list)
    histograms: list[Histogram] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    num_backwards: int = 0
    is_delivered: bool = False

    def absorb(self, later: Draft) -> None:
        """Take in what was observed between two updates of one step."""
        self.full = self.full and later.full
        self.place = later.place
        self.losses += later.losses
        self.scalars += later.scalars
        self.statistics += later.statistics
        self.histograms += later.histograms
        self.events += later.events
        self.num_backwards += later.num_backwards
        self.norm_names += later.norm_names
        self.norm_values += later.norm_values

    def forget_measurements(self) -> None:
        """An update was skipped: what was measured for it says nothing about the next one."""
        self.norm_names, self.norm_values = (), ()
        self.statistics.clear()
        self.histograms.clear()


@dataclass(slots=True)
class _Closed:
    """A closed step whose record is still to be made."""

    step: int
    time: float
    seconds: float
    draft: Draft


#: with steps shorter than this, the calls of modules are not kept: that alone would cost the whole budget
SHORT_STEP_SECONDS = 5e-3
#: with steps shorter than this, records are made and judged in batches: one by one, with cold caches, takes
#: several times as long
_BATCHED_STEP_SECONDS = 50e-3
_BATCH = 16
_BATCH_SECONDS = 0.25


class Recorder:
    """Holds the open step and what is pending for the next update, and delivers closed steps.

    Args:
        budget: decides which steps are looked at in full.
        firewall: knows the seconds spent in our callbacks.
        sinks: called with every closed record, in step order, on the training thread.
    """

    def __init__(
        self,
        budget: Budget,
        firewall: Firewall,
        sinks: tuple[Callable[[StepRecord], None], ...],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._budget = budget
        self._firewall = firewall
        self._sinks = sinks
        self._clock = clock
        self._open: Draft | None = None
        self._open_keys: set[int] = set()
        self._place = Place()  # of the last update
        self._optimizer_keys: set[int] = set()
        self._loss_subjects: set[str] = set()
        self._num_backwards = 0
        self._names_cache: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._series: dict[tuple[Kind, str], Series] = {}
        self._closed: list[_Closed] = []
        self._step_seconds = 0.0
        self._mark = (time.perf_counter(), 0.0)
        self._first_steps = (0.0, 0.0)  # our seconds and all seconds up to the end of the first full steps
        self._started = time.perf_counter()
        self.pending = Draft()
        self.num_steps = 0  #: closed steps, which is also the index of the open or the next one
        self.num_modules = 0
        self.keeps_calls = False  #: keep the calls of modules however short the steps are
        self.loss_history: list[float] | None = None  #: all losses in order, where somebody wants them
        self.not_seen: dict[str, None] = {}  #: in words, what could not be watched; ordered, once each

    # what the capture tells

    def loss(self, subject: str, value: float) -> None:
        """`backward` has been called on a loss; `subject` names the user's line."""
        self._loss_subjects.add(subject)
        if self.loss_history is not None:
            self.loss_history.append(value)
        self.pending.losses.append((subject, value, self.pending.num_backwards))

    def backward(self) -> None:
        if self._num_backwards == 0:  # it learns after all: bad outputs are the screen's to judge
            self.pending.events[:] = [event for event in self.pending.events if event.kind != "output"]
        self._num_backwards += 1
        self.pending.num_backwards += 1

    def event(self, kind: str, subject: str = "", **data: object) -> None:
        self.pending.events.append(Event(kind=kind, subject=subject, data=data))  # type: ignore[arg-type]

    def metrics(self, numbers: Mapping[str, float]) -> None:
        """Numbers the user logs: of the update just made, or of the one to come once anything was seen of it."""
        scalars = [Scalar(series=Series("metric", name), value=value) for name, value in numbers.items()]
        is_late = not self.pending.num_backwards and self.pending.place == self._place
        if self._open is not None and is_late:
            self._open.scalars += scalars
        elif self.num_steps and is_late:
            self._add_to_closed(scalars)
        else:
            self.pending.scalars += scalars
        if not self.has_backwards and len(self.pending.scalars) >= _MOST_METRICS_WITHOUT_BACKWARD:
            self.close_withheld()  # nothing is learnt that could close a step: keep what is logged all the same

    def _add_to_closed(self, scalars: list[Scalar]) -> None:
        """Metrics of a step that is closed, as after a validation: a further record of the same step."""
        draft = Draft(full=False, place=self._place, scalars=scalars)
        self._closed.append(_Closed(self.num_steps - 1, self._clock(), 0.0, draft))
        self.flush()

    def update_skipped(self, by: str) -> None:
        """A loss scaler let an update be: no step, since no parameter has changed."""
        self.pending.forget_measurements()
        self.event("update_skipped", by=by)

    def before_update(self, key: int) -> None:
        """An optimizer (or a hand-written update), told apart by `key`, is about to change parameters."""
        if self._open is not None and key in self._open_keys:
            self.close()

    def after_update(self, key: int, update: Update) -> None:
        """The update has been made: what was pending belongs to its step."""
        self._optimizer_keys.add(key)
        if self._open is None:
            self._open = self.pending
        else:
            self._open.absorb(self.pending)
        self._open.updates.append(update)
        self._open_keys.add(key)
        self._place = self._open.place
        self.pending = Draft(full=self._next_is_full(), place=self._open.place)

    def _next_is_full(self) -> bool:
        after_full = self._open is not None and self._open.full
        upcoming = self._budget.is_full(self.num_steps + 1, after_full=after_full)
        if len(self._optimizer_keys) == 1 or self._open is None:
            return upcoming
        # with several optimizers, whether the step goes on is not known yet
        return upcoming or self._open.full

    @property
    def is_full(self) -> bool:
        """Whether to look at everything now."""
        return self.pending.full

    @property
    def has_short_steps(self) -> bool:
        """Whether steps take so little time that only what every step needs can be afforded."""
        return 0 < self._step_seconds < SHORT_STEP_SECONDS and not self.keeps_calls

    @property
    def has_backwards(self) -> bool:
        return self._num_backwards > 0

    @property
    def is_open(self) -> bool:
        return self._open is not None

    # closing

    def close(self) -> None:
        """Close the open step, if there is one, and deliver its record."""
        if self._open is None:
            return
        draft, self._open, self._open_keys = self._open, None, set()
        if not draft.is_delivered:
            self._deliver(draft)
        self.num_steps += 1
        if len(self._optimizer_keys) > 1 and self.pending.full and not self._budget.is_full(self.num_steps):
            # what was looked at in case the full step went on belongs to a step that is none
            self.pending.full = False
            self.pending.forget_measurements()

    def close_withheld(self) -> None:
        """Deliver what is pending as a step whose update was not made (it is about to be stopped)."""
        self.close()
        draft, self.pending = self.pending, Draft(full=self.pending.full, place=self.pending.place)
        self._deliver(draft)
        self.flush()

    def skip_withheld(self) -> None:
        """The update that was withheld goes ahead after all: its step has been delivered already."""
        self.pending.is_delivered = True

    def close_rest(self) -> None:
        """The run ends: deliver the open step, and what came after it if that says anything by itself."""
        self.close()
        pending = self.pending
        says_something = any(event.kind != "phase" for event in pending.events)
        if says_something or any(scalar.series.kind == "metric" for scalar in pending.scalars):
            self.close_withheld()
        self.flush()

    def _deliver(self, draft: Draft) -> None:
        now, ours = time.perf_counter(), self._firewall.seconds
        seconds, spent = now - self._mark[0], ours - self._mark[1]
        self._mark = (now, ours)
        if self.num_steps < NUM_FIRST_STEPS:
            self._first_steps = (ours, now - self._started)
        rest = max(seconds - spent, 0.0)
        self._budget.account(self.num_steps, full=draft.full, ours=spent, rest=rest)
        if self.num_steps >= NUM_FIRST_STEPS:
            self._step_seconds = 0.9 * self._step_seconds + 0.1 * rest if self._step_seconds else rest
        self._closed.append(_Closed(self.num_steps, self._clock(), seconds, draft))
        if (
            not 0 < self._step_seconds < _BATCHED_STEP_SECONDS
            or draft.full
            or draft.events
            or len(self._closed) >= _BATCH
            or self._closed[-1].time - self._closed[0].time > _BATCH_SECONDS
        ):
            self.flush()

    def flush(self) -> None:
        """Hand on the records of all closed steps."""
        closed, self._closed = self._closed, []
        for step in closed:
            record = self._record_of(step)
            for sink in self._sinks:
                sink(record)

    def _record_of(self, closed: _Closed) -> StepRecord:
        draft = closed.draft
        return StepRecord(
            step=closed.step,
            time=closed.time,
            seconds=closed.seconds,
            place=draft.place,
            full=draft.full,
            updates=tuple(draft.updates),
            scalars=tuple(self._scalars_of(draft)),
            gradient_norms=self._norms(draft),
            statistics=tuple(draft.statistics),
            histograms=tuple(draft.histograms),
            events=tuple(draft.events),
        )

    def _scalars_of(self, draft: Draft) -> Iterator[Scalar]:
        for subject, value, micro_step in draft.losses:
            yield Scalar(series=self._named("loss", subject), value=value, micro_step=micro_step)
        for update in draft.updates:
            several = len(update.learning_rates) > 1
            for number, rate in enumerate(update.learning_rates):
                subject = f"{update.optimizer}.{number}" if several else update.optimizer
                yield Scalar(series=self._named("learning_rate", subject), value=rate)
        yield from draft.scalars

    def _named(self, kind: Kind, subject: str) -> Series:
        """One Series object for all steps."""
        series = self._series.get((kind, subject))
        if series is None:
            series = self._series[kind, subject] = Series(kind, subject)
        return series

    def _norms(self, draft: Draft) -> GradientNorms | None:
        if not draft.norm_names:
            return None
        names = self._names_cache.setdefault(draft.norm_names, draft.norm_names)
        return GradientNorms(names=names, values=draft.norm_values)

    # what is known of the whole

    def coverage(self) -> Coverage:
        not_seen = list(self.not_seen)
        not_seen += [f"{part} ({reason})" for part, reason in self._firewall.switched_off.items()]
        return Coverage(
            steps=self.num_steps,
            losses=len(self._loss_subjects),
            backwards=self._num_backwards,
            optimizers=len(self._optimizer_keys),
            modules=self.num_modules,
            not_seen=tuple(not_seen),
        )

    def overhead(self) -> Overhead:
        ours, elapsed = self._firewall.seconds, time.perf_counter() - self._started
        first_ours, first_elapsed = self._first_steps
        later_ours, later = ours - first_ours, elapsed - first_elapsed
        rest = later - later_ours
        return Overhead(
            fraction=later_ours / rest if rest > 0 and self.num_steps > NUM_FIRST_STEPS else 0.0,
            seconds=ours,
            first_steps_seconds=first_ours,
            sampled_every=self._budget.stride,
        )
