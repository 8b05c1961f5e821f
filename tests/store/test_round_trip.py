# SPDX-License-Identifier: Apache-2.0
"""What is written is what is read: property tests over whole records."""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firstfault.records.run import Run
from firstfault.records.series import (
    KINDS,
    STATISTICS,
    GradientNorms,
    Histogram,
    Missing,
    Series,
    TensorStatistics,
)
from firstfault.records.step import Event, Location, Place, Scalar, StepRecord, Update
from firstfault.store.layout import RunLayout, new_run_id
from firstfault.store.reader import RunReader
from firstfault.store.rows import exact_json, from_exact_json
from firstfault.store.writer import RunWriter

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
numbers = st.floats(allow_nan=True, allow_infinity=True, width=64)
counts = st.integers(0, 2**62)
series = st.builds(Series, st.sampled_from(KINDS), text)
names = st.lists(text, max_size=4, unique=True).map(tuple)
json_data = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | numbers | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
locations = st.builds(Location, file=text, line=counts, code=text, function=text)
updates = st.builds(
    Update,
    optimizer=text,
    count=counts,
    learning_rates=st.lists(numbers, max_size=3).map(tuple),
    location=st.none() | locations,
    by_hand=st.booleans(),
    cleared=st.none() | st.booleans(),
    num_backwards=counts,
)
statistics = st.builds(
    lambda series, call, values: TensorStatistics(series=series, call=call, **values),
    series,
    counts,
    st.fixed_dictionaries(
        {},
        optional={name: counts if name in ("numel", "zeros", "nans", "infs") else numbers for name in STATISTICS},
    ),
)
bucket_counts = st.lists(counts, max_size=4).map(tuple)
histograms = st.builds(
    Histogram,
    series=series,
    call=counts,
    first_exponent=st.integers(-1100, 1100),
    negative=bucket_counts,
    positive=bucket_counts,
    zeros=counts,
    nans=counts,
    infs=counts,
)
norms = names.flatmap(
    lambda names: st.builds(
        GradientNorms,
        names=st.just(names),
        values=st.tuples(*[numbers | st.sampled_from(Missing) for _ in names]),
    )
)


def test_keys_that_look_like_the_mark_of_a_number_come_back_too() -> None:
    data = {"$float": [], "a": {"$float": "inf"}, "$$float": math.inf, "b": [{"$float": False}, math.nan]}
    assert repr(from_exact_json(exact_json(data))) == repr(data)


def several(entries: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(entries, max_size=4).map(tuple)


def records(step: int) -> st.SearchStrategy[StepRecord]:
    return st.builds(
        StepRecord,
        step=st.just(step),
        time=st.floats(0, 4e9),
        seconds=numbers,
        phase=st.sampled_from(["train", "eval", "predict"]),
        place=st.builds(Place, epoch=st.none() | counts, batch=st.none() | counts, micro_step=counts),
        full=st.booleans(),
        updates=several(updates),
        scalars=several(st.builds(Scalar, series=series, value=numbers, micro_step=counts)),
        gradient_norms=st.none() | norms,
        statistics=several(statistics),
        histograms=several(histograms),
        events=several(
            st.builds(Event, kind=text, subject=text, data=st.dictionaries(text, json_data, max_size=3))
        ),
    )


runs_of_records = st.integers(0, 5).flatmap(lambda count: st.tuples(*[records(step) for step in range(count)]))


def canonical(value: Any) -> str:
    """Text that is equal for equal values, NaN being equal to NaN and -0.0 not to 0.0."""
    return repr(value)


def write(layout: RunLayout, written: tuple[StepRecord, ...], **options: float) -> RunWriter:
    writer = RunWriter(layout, **options)  # type: ignore[arg-type]
    writer.begin(
        Run(
            id=layout.path.name,
            project="p",
            name="n",
            started=0.0,
            script=None,
            argv=(),
            working_directory="/",
        )
    )
    for record in written:
        writer.append(record)
    return writer


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(runs_of_records)
def test_a_closed_run_gives_back_every_record_exactly(written: tuple[StepRecord, ...]) -> None:
    with tempfile.TemporaryDirectory() as home:
        layout = RunLayout.under(Path(home), "p", new_run_id())
        writer = write(layout, written, wake_seconds=0.001, segment_seconds=0.0)
        writer.close()
        reader = RunReader(layout.path)
        assert canonical(list(reader.records())) == canonical(list(written))
        assert (writer.warnings, reader.skipped) == ((), ())
        assert reader.steps() == [record.step for record in written]
        assert set(reader.series()) == every_series(written)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(runs_of_records)
def test_a_tail_gives_back_every_record_exactly(written: tuple[StepRecord, ...]) -> None:
    with tempfile.TemporaryDirectory() as home:
        layout = RunLayout.under(Path(home), "p", new_run_id())
        writer = write(layout, written, wake_seconds=0.001, segment_seconds=1e9)
        end = time.monotonic() + 10
        got: list[StepRecord] = []
        while len(got) < len(written) and time.monotonic() < end:
            got = list(RunReader(layout.path).records())
        assert canonical(got) == canonical(list(written))
        assert set(RunReader(layout.path).series()) == every_series(written)
        writer.close()


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(runs_of_records)
def test_values_of_a_series_are_what_the_records_say(written: tuple[StepRecord, ...]) -> None:
    with tempfile.TemporaryDirectory() as home:
        layout = RunLayout.under(Path(home), "p", new_run_id())
        write(layout, written, wake_seconds=0.001, segment_seconds=0.0).close()
        reader = RunReader(layout.path)
        scalars = {scalar.series for record in written for scalar in record.scalars}
        for entry in every_series(written) - scalars:
            expected = {
                record.step: value
                for record in written
                if not isinstance(value := record.value(entry, "l2"), Missing)
            }
            steps, values = reader.values(entry, "l2")
            assert canonical(dict(zip(steps.tolist(), values.tolist(), strict=True))) == canonical(expected)


def every_series(written: tuple[StepRecord, ...]) -> set[Series]:
    found = {
        entry.series for record in written for entry in (*record.scalars, *record.statistics, *record.histograms)
    }
    for record in written:
        if record.gradient_norms is not None:
            found |= {Series("gradient", name) for name in record.gradient_norms.names}
    return found


def test_no_gradient_not_observed_nan_and_zero_stay_apart(tmp_path: Path) -> None:
    block = GradientNorms(
        names=("a", "b", "c", "d"), values=(Missing.NO_GRADIENT, Missing.NOT_OBSERVED, math.nan, 0.0)
    )
    layout = RunLayout.under(tmp_path, "p", new_run_id())
    write(layout, (StepRecord(step=0, time=0.0, seconds=0.0, gradient_norms=block),)).close()
    (record,) = RunReader(layout.path).records()
    assert record.gradient_norms is not None
    assert repr(record.gradient_norms) == repr(block)


def test_all_steps_share_one_tuple_of_names(tmp_path: Path) -> None:
    written = tuple(
        StepRecord(
            step=step, time=0.0, seconds=0.0, gradient_norms=GradientNorms(names=("a", "b"), values=(1.0, 2.0))
        )
        for step in range(3000)
    )
    layout = RunLayout.under(tmp_path, "p", new_run_id())
    write(layout, written).close()
    got = list(RunReader(layout.path).records())
    assert got == list(written)
    assert len({id(record.gradient_norms.names) for record in got if record.gradient_norms}) == 1


def test_records_can_be_asked_for_from_a_step_on(tmp_path: Path) -> None:
    written = tuple(StepRecord(step=step, time=0.0, seconds=0.0) for step in range(20))
    layout = RunLayout.under(tmp_path, "p", new_run_id())
    write(layout, written).close()
    reader = RunReader(layout.path)
    assert list(reader.records(since_step=13)) == list(written[13:])
    assert list(reader.records(since_step=20)) == []
