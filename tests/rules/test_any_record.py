# SPDX-License-Identifier: Apache-2.0
"""No rule raises, whatever a record holds: NaN, infinity, nothing, values that were not observed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firstfault.records.encoding import dumps
from firstfault.records.finding import Finding
from firstfault.records.series import NO_GRADIENT, NOT_OBSERVED, GradientNorms, Series, TensorStatistics
from firstfault.records.step import Event, Scalar, StepRecord, Update
from firstfault.rules.protocol import Rule
from firstfault.rules.registry import BUILT_IN

NAN, INF = math.nan, math.inf
every_rule = pytest.mark.parametrize("rule", BUILT_IN, ids=lambda rule: rule.name)

_numbers = st.one_of(
    st.sampled_from([NAN, INF, -INF, 0.0, -0.0, 5e-324, 1e-30, 1.0, 1e154, 1e200, 1.7e308, -1.0]), st.floats()
)
_counts = st.one_of(st.none(), st.integers(0, 10))
_statistics = st.builds(
    TensorStatistics,
    series=st.builds(
        Series,
        st.sampled_from(["weight", "gradient", "update", "activation"]),
        st.sampled_from(["body.weight", "w", ""]),
    ),
    l2=st.one_of(st.none(), _numbers),
    nans=_counts,
    infs=_counts,
)
_updates = st.builds(
    Update,
    optimizer=st.sampled_from(["SGD", "by hand"]),
    count=st.integers(0, 3),
    learning_rates=st.lists(_numbers, max_size=2).map(tuple),
    location=st.none(),
    cleared=st.sampled_from([None, True, False]),
)
_names = st.lists(st.sampled_from(["body.weight", "head.weight", "w"]), max_size=2)


@st.composite
def _norms(draw: st.DrawFn) -> GradientNorms:
    values = st.one_of(_numbers, st.sampled_from([NO_GRADIENT, NOT_OBSERVED]))
    names = draw(_names)
    return GradientNorms(names=tuple(names), values=tuple(draw(values) for _ in names))


def _census(names: list[str], without: list[str], unheld: list[str], scheduled: bool, count: int) -> Event:
    facts = {
        "number": count,
        "num_parameters": len(names),
        "without_gradient": without,
        "with_gradient": names,
        "foreign": without,
        "foreign_shapes": [[2, 2]] * len(without),
        "unheld": unheld,
        "unheld_shapes": [[2, 2]] * len(unheld),
        "made_after": unheld[:1],
        "unregistered": without[:1],
        "unheld_location": None,
        "whole_models": "training" if scheduled else "no",
        "loaded": not scheduled,
        "partly_held": bool(names),
        "scheduled": scheduled,
        "order": [name.rpartition(".")[0] for name in names],
        "created": None,
    }
    return Event(kind="census", subject="SGD", data=facts)  # type: ignore[arg-type]


def _screen(loss: object, **more: object) -> Event:
    facts = {"bad_gradients": ["w"], "num_bad": 1, "num_gradients": 2, "loss": loss, "loss_location": None}
    return Event(kind="screen", data=facts | more)  # type: ignore[dict-item]


_operations = st.builds(
    lambda stage, order, low: {
        "operation": "sqrt",
        "operation_stage": stage,
        "order": order,
        "location": None,
        "samples": [0],
        "inputs": [{"min": low, "max": low}, {"min": None, "max": None}],
        "output": {"num_nonfinite": 3},
        "parted": None,
    },
    st.sampled_from(["forward", "backward", "loss"]),
    st.one_of(st.none(), st.integers(0, 5)),
    st.floats(),
)
_events = st.one_of(
    st.builds(_census, _names, _names, _names, st.booleans(), st.integers(0, 3)),
    st.builds(_screen, st.one_of(st.none(), st.floats(), st.sampled_from(["nan", "inf", "-inf"]))),
    st.builds(lambda facts: _screen("nan", **facts), _operations),
    st.builds(lambda facts: Event(kind="output", data=facts), _operations),
    st.just(_screen("nan", bad_weights=["w"])),
    st.just(_screen("nan", bad_input={"rows": [], "shape": []})),
    st.just(Event(kind="output", data={"bad_output_of": "", "bad_weights": []})),
    st.just(Event(kind="eval_mode", subject="model", data={"affected": ["1 (Dropout)"], "eval_location": None})),
    st.just(Event(kind="something of a later version", data={})),
)
_records = st.builds(
    StepRecord,
    step=st.just(0),
    time=st.just(0.0),
    seconds=st.just(0.0),
    updates=st.lists(_updates, max_size=2).map(tuple),
    scalars=st.lists(st.builds(Scalar, series=st.just(Series("loss", "a")), value=_numbers), max_size=2).map(tuple),
    gradient_norms=st.one_of(st.none(), _norms()),
    statistics=st.lists(_statistics, max_size=2).map(tuple),
    events=st.lists(_events, max_size=2).map(tuple),
)


def _said(rule: Rule, records: Iterator[StepRecord]) -> list[Finding]:
    findings = [finding for record in records for finding in rule.observe(record)]
    for finding in findings:
        dumps(finding)  # it can be written down
    return findings


@every_rule
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(records=st.lists(_records, max_size=4))
def test_no_rule_raises_whatever_the_records_hold(rule: type[Rule], records: list[StepRecord]) -> None:
    _said(rule(), itertools.islice(itertools.cycle(records), 14 if records else 0))


@every_rule
@pytest.mark.parametrize("value", [NAN, INF, -INF, 0.0, 3.0, 1e154, 1e160, NO_GRADIENT, NOT_OBSERVED])
def test_a_rule_says_nothing_of_a_run_in_which_every_number_is_the_same(
    rule: type[Rule], value: float, record: Callable[..., StepRecord]
) -> None:
    # what is non-finite is said by the screen's events, which are not here; 0 in all updates is a fault
    loss = value if isinstance(value, float) else None
    changed = value if isinstance(value, float) and value else 1.0
    records = (record(step, loss=loss, norms={"a": value, "b": value}, changes=(changed,)) for step in range(40))
    assert _said(rule(), records) == []


@every_rule
def test_a_rule_says_nothing_of_records_with_nothing_in_them(rule: type[Rule]) -> None:
    assert _said(rule(), (StepRecord(step=step, time=0.0, seconds=0.0) for step in range(40))) == []
