# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from firstfault.errors import RunNotFoundError, UsageError
from firstfault.query.run_view import RunView, open_run
from firstfault.records.series import Series
from firstfault.records.step import StepRecord
from firstfault.store.writer import RunWriter


@pytest.fixture
def view(closed: Path) -> RunView:
    return RunView(closed)


def test_a_run_opens_by_name_and_says_how_it_stands(closed: Path, home: Path) -> None:
    run = open_run("last", home=home)
    assert run.path == closed
    assert (run.status.state, run.status.last_step) == ("finished", 19)
    assert [finding.rule for finding in run.findings] == ["plateau"]
    assert run.steps == list(range(20))
    assert repr(run) == "<RunView default/20260102-030405-abcd finished>"


def test_a_run_that_is_not_there_is_not_opened(home: Path) -> None:
    with pytest.raises(RunNotFoundError):
        open_run("last", home=home)


def test_records_are_those_that_were_written(view: RunView, make_record: Callable[[int], StepRecord]) -> None:
    assert list(view.records()) == [make_record(step) for step in range(20)]
    assert [record.step for record in view.records(since_step=17)] == [17, 18, 19]


def test_series_are_listed_by_kind_collection_and_expression(view: RunView) -> None:
    names = [entry.name for entry in view.series()]
    assert names == sorted(names)
    assert len(names) == 7
    assert [entry.name for entry in view.series(kind="loss")] == ["loss/train.py:11"]
    assert [entry.name for entry in view.series(collection="biases")] == ["weight/head.bias"]
    assert [entry.name for entry in view.series(kind="gradient", regex=r"head")] == [
        "gradient/head.bias",
        "gradient/head.weight",
    ]


def test_a_loss_has_values_and_no_statistic(view: RunView) -> None:
    steps, values = view.values("loss/train.py:11", "mean")
    assert (str(steps.dtype), str(values.dtype)) == ("int64", "float64")
    assert values.tolist() == [1 / (step + 1) for step in range(20)]
    assert view.values("train.py:11")[0].tolist() == list(range(20))


def test_steps_without_a_gradient_have_no_value(view: RunView) -> None:
    assert 2 not in view.values("gradient/head.bias")[0].tolist()
    assert view.values("gradient/frozen")[0].tolist() == []


def test_a_full_step_counts_once(view: RunView) -> None:
    steps, values = view.values(Series("gradient", "head.weight"), "l2")
    assert steps.tolist() == list(range(20))
    assert values.tolist() == [step + 0.5 if step % 5 == 0 else float(step) for step in range(20)]
    assert view.values("gradient/head.weight", "mean")[0].tolist() == [0, 5, 10, 15]


def test_statistics_come_as_a_table_sorted_by_step(view: RunView) -> None:
    table = view.statistics("weight/head.weight")
    assert table.column("step").to_pylist() == [0, 5, 10, 15]
    assert table.column("mean").to_pylist() == [0.0, 2.5, 5.0, 7.5]
    assert view.statistics("learning_rate/SGD").column("value").to_pylist() == [0.1] * 20


def test_a_histogram_is_that_of_the_step_or_the_last(view: RunView) -> None:
    assert view.histogram("weight/head.weight").negative == (15, 1)
    assert view.histogram("weight/head.weight", step=5).negative == (5, 1)
    with pytest.raises(UsageError, match="at step 6; the nearest is 5"):
        view.histogram("weight/head.weight", step=6)
    with pytest.raises(UsageError, match="has no histogram of loss"):
        view.histogram("loss/train.py:11")


def test_whole_tables_can_be_had(view: RunView) -> None:
    assert view.table("scalars").num_rows == 40
    assert view.table("events").num_rows == 20
    with pytest.raises(UsageError, match="there is no table 'loss': there are statistics, scalars"):
        view.table("loss")


def test_a_wrong_name_is_answered_with_near_ones(view: RunView) -> None:
    with pytest.raises(
        UsageError, match=r"no series 'weight/haed\.weight' among its 7; near it are weight/head\.weight"
    ):
        view.values("weight/haed.weight")
    with pytest.raises(UsageError, match=r"could be gradient/head\.weight, weight/head\.weight"):
        view.values("head.weight")
    with pytest.raises(UsageError, match="no statistic 'median'"):
        view.values("weight/head.weight", "median")  # type: ignore[arg-type]


def test_a_live_run_grows_when_it_is_refreshed(
    begin_run: Callable[..., RunWriter], make_record: Callable[[int], StepRecord]
) -> None:
    writer = begin_run()
    view = RunView(writer.layout.path)
    assert (view.steps, view.series()) == ([], [])
    for step in range(3):
        writer.append(make_record(step))
    end = time.monotonic() + 20
    while len(view.steps) < 3 and time.monotonic() < end:
        view.refresh()
    assert view.steps == [0, 1, 2]
    assert len(view.series()) == 7
    writer.close()
