# SPDX-License-Identifier: Apache-2.0
"""Step records as captures write them, with little to type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest

from firstfault.records.finding import Finding
from firstfault.records.series import GradientNorms, Series, TensorStatistics, Value
from firstfault.records.step import Event, Location, Scalar, StepRecord, Update
from firstfault.rules.protocol import Rule

LINE = Location(file="train.py", line=7, code="optimizer.step()")


def make_record(
    step: int,
    *,
    loss: float | Sequence[float] | None = None,
    norms: Mapping[str, Value] | None = None,
    changes: Sequence[float | None] = (),
    rate: float = 0.1,
    optimizer: str = "SGD",
    updates: Sequence[Update] | None = None,
    events: Sequence[Event] = (),
) -> StepRecord:
    """One step of one optimizer.

    Args:
        loss: one a micro-step.
        norms: L2 of each gradient.
        changes: L2 by which each parameter changed in the update.
    """
    losses = [] if loss is None else [loss] if isinstance(loss, float) else list(loss)
    default = Update(optimizer=optimizer, count=step, learning_rates=(rate,), location=LINE)
    return StepRecord(
        step=step,
        time=float(step),
        seconds=0.1,
        updates=(default,) if updates is None else tuple(updates),
        scalars=tuple(Scalar(series=Series("loss", "train.py:6"), value=value) for value in losses),
        gradient_norms=None if norms is None else GradientNorms(names=tuple(norms), values=tuple(norms.values())),
        statistics=tuple(TensorStatistics(series=Series("update", f"p{i}"), l2=l2) for i, l2 in enumerate(changes)),
        events=tuple(events),
    )


def make_census(optimizer: str = "SGD", **facts: Any) -> Event:
    """A census in which all is well, but for what is given."""
    well = {
        "number": 0,
        "num_parameters": 2,
        "without_gradient": [],
        "with_gradient": ["body.weight", "head.weight"],
        "foreign": [],
        "foreign_shapes": [],
        "unheld": [],
        "unheld_shapes": [],
        "made_after": [],
        "unregistered": [],
        "unheld_location": None,
        "partly_held": True,
        "whole_models": "no",
        "loaded": False,
        "scheduled": False,
        "order": ["", "body", "head"],
        "created": {"file": "train.py", "line": 3, "code": "optimizer = SGD(...)", "function": ""},
    }
    assert facts.keys() <= well.keys()
    return Event(kind="census", subject=optimizer, data=well | facts)


@pytest.fixture
def record() -> Callable[..., StepRecord]:
    return make_record


@pytest.fixture
def census() -> Callable[..., Event]:
    return make_census


@pytest.fixture
def say() -> Callable[[Rule, Iterable[StepRecord]], list[Finding]]:
    """What a rule says of records, one after the other."""

    def say_of(rule: Rule, records: Iterable[StepRecord]) -> list[Finding]:
        return [finding for record in records for finding in rule.observe(record)]

    return say_of
