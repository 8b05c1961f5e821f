# SPDX-License-Identifier: Apache-2.0
"""A small closed run, and a home folder to put runs in."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from firstfault.records.finding import Finding
from firstfault.records.run import Run, Status
from firstfault.records.series import NO_GRADIENT, GradientNorms, Histogram, Series, TensorStatistics
from firstfault.records.step import Scalar, StepRecord
from firstfault.store.layout import RunLayout
from firstfault.store.writer import RunWriter


def record(step: int) -> StepRecord:
    weight = Series("weight", "head.weight")
    full = step % 5 == 0
    return StepRecord(
        step=step,
        time=float(step),
        seconds=0.1,
        full=full,
        scalars=(
            Scalar(series=Series("loss", "train.py:11"), value=1 / (step + 1)),
            Scalar(series=Series("learning_rate", "SGD"), value=0.1),
        ),
        gradient_norms=GradientNorms(
            names=("head.weight", "head.bias", "frozen"),
            values=(float(step), NO_GRADIENT if step == 2 else 2.0, NO_GRADIENT),
        ),
        statistics=(
            TensorStatistics(series=weight, numel=4, mean=step / 2, l2=step / 3),
            TensorStatistics(series=Series("weight", "head.bias"), mean=0.0),
            TensorStatistics(series=Series("gradient", "head.weight"), mean=0.25, l2=step + 0.5),
        )
        if full
        else (),
        histograms=(
            Histogram(
                series=weight, first_exponent=-2, negative=(step, 1), positive=(2, 3), zeros=0, nans=0, infs=0
            ),
        )
        if full
        else (),
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def begin_run(home: Path) -> Callable[..., RunWriter]:
    def begin(run_id: str = "20260102-030405-abcd", project: str = "default", started: float = 100.0) -> RunWriter:
        layout = RunLayout.under(home, project, run_id)
        writer = RunWriter(layout, wake_seconds=0.02)
        writer.begin(
            Run(
                id=run_id,
                project=project,
                name="train.py",
                started=started,
                script="train.py",
                argv=("train.py",),
                working_directory="/",
            )
        )
        return writer

    return begin


@pytest.fixture
def make_record() -> Callable[[int], StepRecord]:
    return record


@pytest.fixture
def closed(begin_run: Callable[..., RunWriter]) -> Path:
    """The directory of a closed run of 20 steps, with a finding."""
    writer = begin_run()
    for step in range(20):
        writer.append(record(step))
    writer.add_finding(Finding(rule="plateau", severity="warning", step=9, stage="loss", message="It rests."))
    writer.set_status(Status(state="finished", heartbeat=time.time(), process=1, host="h", last_step=19))
    writer.close()
    return writer.layout.path
