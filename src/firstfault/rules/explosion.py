# SPDX-License-Identifier: Apache-2.0
"""Losses and gradients that explode, said before anything is non-finite. Runs in training and offline."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from firstfault.records.finding import Evidence, FaultLocation, Finding
from firstfault.records.step import StepRecord
from firstfault.rules.protocol import Rule


@dataclass
class Growth:
    """Tells lasting growth from a spike: the recent level against the lowest level reached before it.

    A level is the median of `window` observations, so that single batches do not move it.
    """

    window: int
    _recent: deque[float] = field(default_factory=deque)
    lowest: float = math.inf
    count: int = 0

    def add(self, value: float) -> float | None:
        """The factor by which the level has risen above the lowest before it; None while there are too few."""
        self.count += 1
        self._recent.append(value)
        if len(self._recent) < 2 * self.window:
            return None
        if len(self._recent) > 3 * self.window:
            self._recent.popleft()
        _, before, now = self._windows()
        self.lowest = min(self.lowest, statistics.median(before))
        return statistics.median(now) / self.lowest if self.lowest > 0 else None

    @property
    def is_rising(self) -> bool:
        """Whether it goes on rising. A jump to another level, however high, rises once and then no more."""
        earliest, before, now = self._windows()
        if not self._tops(now, before):
            return False
        is_steady = len(earliest) == self.window and self._tops(before, earliest)
        return is_steady or self._num_leaps(now, max(before)) >= 3

    def _windows(self) -> tuple[list[float], list[float], list[float]]:
        values = list(self._recent)
        return values[: -2 * self.window], values[-2 * self.window : -self.window], values[-self.window :]

    def _tops(self, later: list[float], earlier: list[float]) -> bool:
        return sum(value > max(earlier) for value in later) >= 0.8 * self.window

    def _num_leaps(self, values: list[float], highest: float) -> int:
        """How many values are half as high again as all before them."""
        count = 0
        for value in values:
            count += value > 1.5 * highest
            highest = max(highest, value)
        return count


@dataclass
class ExplodingLoss(Rule):
    """The loss has grown manyfold and goes on growing.

    Symptom: the loss rises from step to step until it is infinite or NaN.
    Evidence: the median loss of the last steps against the lowest median before, and against the very first.
    Needs: the loss at every step.
    Threshold and its source: 30 times the lowest level and 3 times the first losses, with 4 of 5 losses above all
        five before them, twice in a row or by three leaps of a half and more. Set on the healthy matrix; a spike
        of 10 times or more is common in healthy runs (Megatron's rerun_state_machine, on single values).
    False alarms: spikes (medians), a change of data (must go on rising), losses near 0 or below (a floor, and
        silence for losses that change sign), losses that begin near 0 (must top the first losses too).
    What to do: lower the learning rate, warm it up, clip the gradients.
    """

    name: ClassVar[str] = "exploding_loss"
    factor: float = 30.0
    factor_of_first: float = 3.0
    window: int = 5
    _series: dict[str, Growth] = field(default_factory=dict)
    _first: dict[str, list[float]] = field(default_factory=dict)
    _spoken: set[str] = field(default_factory=set)

    def observe(self, step: StepRecord) -> Iterable[Finding]:
        losses: dict[str, list[float]] = {}
        for scalar in step.scalars_of("loss"):
            losses.setdefault(scalar.series.subject, []).append(scalar.value)
        for subject, values in losses.items():
            value = sum(values) / len(values)
            if not math.isfinite(value):
                continue  # another rule's
            if value <= 0:
                self._spoken.add(subject)  # what can be negative has no factors
                continue
            first = self._first.setdefault(subject, [])
            if len(first) < self.window:
                first.append(value)
            growth = self._series.setdefault(subject, Growth(window=self.window))
            factor = growth.add(value)
            if factor is None or subject in self._spoken:
                continue
            of_first = value / max(first)
            if factor >= self.factor and of_first >= self.factor_of_first and growth.is_rising:
                self._spoken.add(subject)
                yield self._finding(step, subject, value, factor, growth.lowest)

    def _finding(self, step: StepRecord, subject: str, value: float, factor: float, lowest: float) -> Finding:
        update = step.updates[-1] if step.updates else None
        rates = update.learning_rates if update is not None else ()
        return Finding(
            rule=self.name,
            severity="error",
            step=step.step,
            stage="loss",
            place=step.place,
            message=f"the loss is exploding: {_in_words(factor)} times its lowest level, and rising",
            cause="the steps are too large: each update overshoots, and the next gradient is larger",
            fix="lower the learning rate (by 10 to begin with), warm it up, or clip:\n"
            "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
            location=FaultLocation.at(update.location if update is not None else None),
            confidence=0.85,
            evidence=(
                Evidence(
                    quantity=f"loss of {subject}", value=value, threshold=lowest * self.factor, step=step.step
                ),
                Evidence(quantity="lowest level of the loss", value=lowest),
                *(Evidence(quantity="learning rate", value=rate, step=step.step) for rate in rates[:1]),
            ),
        )


@dataclass
class ExplodingGradients(Rule):
    """The gradients have grown by orders of magnitude: steadily, or at one blow and the loss with them.

    Symptom: the loss is about to explode, or jumps about.
    Evidence: the median total L2 norm of the last steps against the lowest median before, and the first norms;
        or one norm against the greatest so far, together with its loss against the greatest loss so far.
    Needs: gradient L2 and the loss at every step.
    Threshold and its source: steadily, 1000 times the lowest level and 100 times the first norms, rising: norms
        swing far more than losses, and from a converged state they grow a thousandfold in healthy runs, hence
        the second bound. At one blow, 100 times the greatest norm and 100 times the greatest loss of at least 8
        steps: ten times Megatron's factor for a spike, in two signals at once.
    False alarms: warm-up and converged models (bounds on the first and the greatest), spikes (medians; a blow
        must show in the loss too). A single batch of broken samples can look like a blow.
    What to do: clip the gradients, lower the learning rate, look at the initialisation of recurrent weights.
    """

    name: ClassVar[str] = "exploding_gradients"
    factor: float = 1000.0
    factor_of_first: float = 100.0
    factor_at_one_blow: float = 100.0
    window: int = 5
    least_steps: int = 8
    _series: dict[tuple[str, ...], Growth] = field(default_factory=dict)
    _first: dict[tuple[str, ...], list[float]] = field(default_factory=dict)
    _greatest: dict[tuple[str, ...], float] = field(default_factory=dict)
    _greatest_loss: float = 0.0
    _has_spoken: bool = False

    def observe(self, step: StepRecord) -> Iterable[Finding]:
        norms = step.gradient_norms
        if norms is None or self._has_spoken:
            return
        numbers = [value for value in norms.values if isinstance(value, float)]
        total = math.hypot(*numbers)  # the squares of float64 norms overflow
        if not math.isfinite(total) or total == 0:
            return
        key = norms.names
        growth = self._series.setdefault(key, Growth(window=self.window))
        first = self._first.setdefault(key, [])
        if len(first) < self.window:
            first.append(total)
        factor = growth.add(total)
        greatest = self._greatest.get(key, 0.0)
        self._greatest[key] = max(greatest, total)
        blow = self._blow(step, total, greatest, growth.count)
        if blow is not None:
            self._has_spoken = True
            yield self._finding(
                step,
                total,
                greatest * self.factor_at_one_blow,
                f"{_in_words(blow)} times their greatest so far, and the loss with them",
            )
        elif (
            factor is not None
            and factor >= self.factor
            and total >= self.factor_of_first * max(first)
            and growth.is_rising
        ):
            self._has_spoken = True
            how = f"{_in_words(factor)} times their lowest level, and rising"
            yield self._finding(step, total, growth.lowest * self.factor, how)

    def _blow(self, step: StepRecord, total: float, greatest: float, count: int) -> float | None:
        """The factor by which this norm tops all before it, where the loss tops all before it as clearly."""
        losses = [abs(scalar.value) for scalar in step.scalars_of("loss")]
        loss, greatest_loss = max(losses, default=math.nan), self._greatest_loss
        if losses and not math.isnan(loss):
            self._greatest_loss = max(greatest_loss, loss)
        if count <= self.least_steps or greatest <= 0 or greatest_loss <= 0:
            return None
        limit = self.factor_at_one_blow
        return total / greatest if total >= limit * greatest and loss >= limit * greatest_loss else None

    def _finding(self, step: StepRecord, total: float, threshold: float, how: str) -> Finding:
        norms = step.gradient_norms
        assert norms is not None
        largest = max(
            (
                (value, name)
                for name, value in zip(norms.names, norms.values, strict=True)
                if isinstance(value, float)
            ),
        )
        update = step.updates[-1] if step.updates else None
        return Finding(
            rule=self.name,
            severity="error",
            step=step.step,
            stage="backward",
            place=step.place,
            message=f"the gradients are exploding: {how}",
            cause="each update makes the next gradient larger: the learning rate is too high, or recurrent weights "
            "multiply the gradient at each time step",
            fix="torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # between backward() and step()",
            module=largest[1].rpartition(".")[0] or None,
            location=FaultLocation.at(update.location if update is not None else None),
            confidence=0.8,
            evidence=(
                Evidence(quantity="total gradient norm", value=total, threshold=threshold, step=step.step),
                Evidence(quantity=f"norm of {largest[1]}", value=largest[0], step=step.step),
            ),
        )


def _in_words(factor: float) -> str:
    return f"{factor:.0f}" if factor < 1e6 else f"{factor:.0e}"
