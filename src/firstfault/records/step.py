# SPDX-License-Identifier: Apache-2.0
"""A step record: all that was observed of one completed update of the parameters. Runs anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from firstfault.records.series import (
    NOT_OBSERVED,
    GradientNorms,
    Histogram,
    Kind,
    Series,
    Statistic,
    TensorStatistics,
    Value,
)

Stage: TypeAlias = Literal["data", "forward", "loss", "backward", "optimizer", "weights"]
#: in causal order: what happens in a stage can only be caused by it or by an earlier one
STAGES: tuple[Stage, ...] = ("data", "forward", "loss", "backward", "optimizer", "weights")
Phase: TypeAlias = Literal["train", "eval", "predict"]
#: what JSON can hold; non-finite floats are written as "nan", "inf", "-inf"
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A line of the user's own code."""

    file: str  #: relative to the working directory of the run where it lies below it, else absolute
    line: int  #: from 1
    code: str = ""  #: the line's text, stripped
    function: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the user is: what they would say when asked how far the training is."""

    epoch: int | None = None  #: passes over the training loader begun, from 0; None without a loader
    batch: int | None = None  #: batch within the epoch, from 0
    micro_step: int = 0  #: the last backward within the step, from 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """One number: a loss, a learning rate, a metric the user logged."""

    series: Series
    value: float
    micro_step: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One call of one optimizer's step within the step."""

    optimizer: str  #: `Adam`, or `Adam#1` for the second optimizer of a class
    count: int  #: this optimizer's own updates so far, from 0
    learning_rates: tuple[float, ...]  #: one a parameter group
    location: Location | None  #: the user's line that called it
    by_hand: bool = False  #: parameters changed without an optimizer
    cleared: bool | None = None  #: gradients cleared since this optimizer's last update; None: cannot tell
    num_backwards: int = 0  #: backwards since this optimizer's last update


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What happened rather than what was measured: a change of phase, a census, a request."""

    kind: str
    subject: str = ""
    data: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """All that was observed of one step. What is not in here was not observed."""

    step: int  #: completed updates before this one, from 0
    time: float  #: wall clock when the step closed, seconds since the epoch
    seconds: float  #: duration of the step, ours included
    worker: int = 0
    phase: Phase = "train"
    place: Place = field(default_factory=Place)
    full: bool = False  #: a sampled step: weights, activations and histograms were looked at too
    updates: tuple[Update, ...] = ()
    scalars: tuple[Scalar, ...] = ()
    gradient_norms: GradientNorms | None = None
    statistics: tuple[TensorStatistics, ...] = ()
    histograms: tuple[Histogram, ...] = ()
    events: tuple[Event, ...] = ()

    def scalars_of(self, kind: Kind) -> Iterator[Scalar]:
        return (scalar for scalar in self.scalars if scalar.series.kind == kind)

    def statistics_of(self, kind: Kind) -> Iterator[TensorStatistics]:
        return (entry for entry in self.statistics if entry.series.kind == kind)

    def events_of(self, kind: str) -> Iterator[Event]:
        return (event for event in self.events if event.kind == kind)

    def value(self, series: Series, statistic: Statistic = "l2") -> Value:
        """One statistic of one series at this step, or why there is none."""
        for entry in self.statistics:
            if entry.series == series and (value := entry.get(statistic)) is not NOT_OBSERVED:
                return value
        if series.kind == "gradient" and statistic == "l2" and self.gradient_norms is not None:
            return self.gradient_norms.get(series.subject)
        return NOT_OBSERVED
