# SPDX-License-Identifier: Apache-2.0
"""One run at a glance: what was followed, its curves, its histograms, one of its steps. Runs outside training."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from firstfault.errors import UsageError
from firstfault.query.run_view import RunView
from firstfault.records.series import Histogram, Series, Statistic
from firstfault.records.step import StepRecord
from firstfault.reports.wording import say_count, say_number

#: series of these kinds are single numbers and have no statistic
SCALAR_KINDS = ("loss", "metric", "learning_rate", "system")
#: kinds whose histograms are shown unless others are asked for
_KINDS_WITH_HISTOGRAM = ("gradient", "weight", "activation")
_MOST_LOSSES = 3
#: beyond so many numbers the sum over all parameters takes too long to wait for
_MOST_NUMBERS_SUMMED = 3_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What of a run is asked for; all None: what is usually of interest."""

    regex: str | None = None  #: searched in the names `kind/subject`
    kind: str | None = None
    step: int | None = None
    statistic: Statistic = "l2"

    @property
    def is_default(self) -> bool:
        return self.regex is None and self.kind is None


@dataclass(frozen=True, slots=True, kw_only=True)
class KindLine:
    """How many series of a kind there are, and the first of them."""

    kind: str
    number: int
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Numbers over steps; NaN and infinity are among the numbers."""

    title: str
    steps: tuple[int, ...]
    values: tuple[float, ...]
    summary: str  #: last, least and greatest in words


@dataclass(frozen=True, slots=True, kw_only=True)
class StepHistogram:
    """The histogram of one series, and the step it is of."""

    step: int
    histogram: Histogram


def kinds_of(series: Sequence[Series]) -> tuple[KindLine, ...]:
    """The kinds there are, each with its number of series."""
    numbers = Counter(entry.kind for entry in series)
    first = {entry.kind: entry.subject for entry in reversed(series)}
    return tuple(KindLine(kind=kind, number=number, example=first[kind]) for kind, number in numbers.items())


def curves_of(view: RunView, selection: Selection, most: int = 8) -> tuple[tuple[Curve, ...], int]:
    """The curves asked for, and how many more there are beyond `most`."""
    if not selection.is_default:
        chosen = view.series(kind=selection.kind, regex=selection.regex)
        return tuple(_curve(view, entry, selection.statistic) for entry in chosen[:most]), max(
            0, len(chosen) - most
        )
    losses = view.series(kind="loss")
    curves = [_curve(view, entry, "l2") for entry in losses[:_MOST_LOSSES]]
    return (*curves, *_gradient_curves(view)), max(0, len(losses) - _MOST_LOSSES)


def histograms_of(view: RunView, selection: Selection, most: int = 16) -> tuple[list[StepHistogram], int]:
    """The histograms asked for, each of the last step up to that asked for; and how many more there are."""
    wanted = {entry.name for entry in view.series(kind=selection.kind, regex=selection.regex)}
    rows = view.table("histograms").select(["series", "step"]).to_pydict()
    steps: dict[str, list[int]] = {}
    for name, step in zip(rows["series"], rows["step"], strict=True):
        if name in wanted:
            steps.setdefault(name, []).append(step)
    names = sorted(steps)
    if selection.is_default:
        kinds = {Series.parse(name).kind for name in names}
        kind = next((kind for kind in _KINDS_WITH_HISTOGRAM if kind in kinds), None)
        names = [name for name in names if Series.parse(name).kind == kind]
    shown = [(name, _last_step(steps[name], selection.step)) for name in names[:most]]
    return (
        [StepHistogram(step=step, histogram=view.histogram(name, step)) for name, step in shown],
        max(0, len(names) - most),
    )


def record_of(view: RunView, step: int) -> StepRecord:
    """The record of one step.

    Raises:
        UsageError: there is none.
    """
    for record in view.records(since_step=step):
        if record.step == step:
            return record
        break
    known = f"{view.steps[0]} to {view.steps[-1]}" if view.steps else "none"
    raise UsageError(f"the run has no record of step {step}; it has {known}")


def _last_step(steps: list[int], limit: int | None) -> int:
    return max((step for step in steps if limit is None or step <= limit), default=min(steps))


def _curve(view: RunView, series: Series, statistic: Statistic) -> Curve:
    steps, values = view.values(series, statistic)
    title = series.name if series.kind in SCALAR_KINDS else f"{series.name} ({statistic})"
    return _made_curve(title, steps, values)


def _gradient_curves(view: RunView) -> list[Curve]:
    """One curve for the gradients of all parameters, which is NaN as soon as one of them is."""
    gradients = view.series(kind="gradient")
    if not gradients:
        return []
    if len(gradients) * len(view.steps) > _MOST_NUMBERS_SUMMED:
        return [_curve(view, gradients[0], "l2")]
    steps, values = _summed_norms(view.table("statistics"))
    if not len(steps):
        return [_curve(view, gradients[0], "l2")]
    return [_made_curve(f"gradient norm of all {len(gradients)} parameters", steps, values)]


def _summed_norms(statistics: Any) -> tuple[Any, Any]:
    """Steps, and the norm over all parameters from the block of gradient norms kept at every step."""
    import numpy as np
    import pyarrow.compute as pc

    rows = statistics.filter(pc.and_(statistics.column("block"), pc.is_valid(statistics.column("l2"))))
    steps, index = np.unique(rows.column("step").to_numpy(), return_inverse=True)
    squares = np.bincount(index, weights=rows.column("l2").to_numpy().astype(np.float64) ** 2, minlength=len(steps))
    return steps, np.sqrt(squares)


def _made_curve(title: str, steps: Any, values: Any) -> Curve:
    steps, values = tuple(int(step) for step in steps), tuple(float(value) for value in values)
    return Curve(title=title, steps=steps, values=values, summary=_say_curve(steps, values))


def _say_curve(steps: tuple[int, ...], values: tuple[float, ...]) -> str:
    if not values:
        return "never observed"
    said = [f"last {say_number(values[-1])}"]
    finite = [(value, step) for value, step in zip(values, steps, strict=True) if math.isfinite(value)]
    if len(finite) > 1:
        least, at = min(finite)
        said.append(f"lowest {say_number(least)} at step {at}")
    bad = [step for value, step in zip(values, steps, strict=True) if not math.isfinite(value)]
    if bad and len(bad) == sum(step >= bad[0] for step in steps):
        said.append(f"not finite from step {bad[0]}")
    elif bad:
        said.append(f"not finite at {say_count(len(bad), 'step')}, first at step {bad[0]}")
    return ", ".join(said)
