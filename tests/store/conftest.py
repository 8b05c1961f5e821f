# SPDX-License-Identifier: Apache-2.0
"""Small real runs for the tests of the store."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from firstfault.records.run import Run, Status
from firstfault.records.series import NO_GRADIENT, GradientNorms, Histogram, Series, TensorStatistics
from firstfault.records.step import Event, Location, Place, Scalar, StepRecord, Update
from firstfault.store.layout import RunLayout
from firstfault.store.writer import RunWriter

NAMES = ("encoder.0.weight", "encoder.0.bias", "frozen.weight")


def _run(layout: RunLayout) -> Run:
    return Run(
        id=layout.path.name,
        project=layout.path.parent.name,
        name="train.py",
        started=time.time(),
        script="train.py",
        argv=("train.py", "--lr", "0.1"),
        working_directory="/somewhere",
        config={"lr": 0.1},
    )


def _running() -> Status:
    return Status(state="running", heartbeat=time.time(), process=os.getpid(), host=socket.gethostname())


def _record(step: int) -> StepRecord:
    full = step % 5 == 0
    weight = Series("weight", NAMES[0])
    return StepRecord(
        step=step,
        time=1.7e9 + step / 7,
        seconds=0.1 + step / 1e6,
        place=Place(epoch=step // 10, batch=step % 10, micro_step=1),
        full=full,
        updates=(
            Update(
                optimizer="Adam",
                count=step,
                learning_rates=(0.1, float("inf")),
                location=Location(file="train.py", line=12, code="optimizer.step()", function="main"),
                num_backwards=2,
            ),
        ),
        scalars=(
            Scalar(series=Series("loss", "train.py:11"), value=1 / (step + 1)),
            Scalar(series=Series("loss", "train.py:11"), value=2 / (step + 1), micro_step=1),
            Scalar(series=Series("learning_rate", "Adam"), value=0.1),
        ),
        gradient_norms=GradientNorms(names=NAMES, values=(float(step), step / 3, NO_GRADIENT)),
        statistics=(
            TensorStatistics(series=weight, numel=4, mean=step / 9, std=0.0, l2=step / 3, zeros=0),
            TensorStatistics(series=Series("activation", "encoder.0"), call=1, mean=1.5, infs=2),
            TensorStatistics(series=Series("activation", "encoder.0"), call=0, mean=2.5),
        )
        if full
        else (),
        histograms=(
            Histogram(
                series=weight, first_exponent=-3, negative=(1, 0), positive=(step, 2), zeros=0, nans=1, infs=0
            ),
        )
        if full
        else (),
        events=(Event(kind="phase", subject="eval", data={"at": step, "loss": float("nan")}),)
        if step % 7 == 3
        else (),
    )


@pytest.fixture
def make_run() -> Callable[[RunLayout], Run]:
    return _run


@pytest.fixture
def running() -> Callable[[], Status]:
    return _running


@pytest.fixture
def make_record() -> Callable[[int], StepRecord]:
    return _record


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    return RunLayout.under(tmp_path / "home", "project", "20260102-030405-abcd")


@pytest.fixture
def begun(layout: RunLayout) -> Callable[..., RunWriter]:
    """Starts a writer that is quick about everything."""

    def begin(**options: float) -> RunWriter:
        writer = RunWriter(layout, **({"wake_seconds": 0.02, "segment_seconds": 0.1} | options))  # type: ignore[arg-type]
        writer.begin(_run(layout))
        writer.set_status(_running())
        return writer

    return begin


@pytest.fixture
def wait_until() -> Callable[[Callable[[], bool]], None]:
    def wait(condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < end, "waited 20 s in vain"
            time.sleep(0.01)

    return wait
