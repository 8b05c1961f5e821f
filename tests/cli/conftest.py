# SPDX-License-Identifier: Apache-2.0
"""A run directory as a training leaves it, written by the real writer."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from firstfault.records.finding import Coverage, Evidence, FaultLocation, Finding, Overhead
from firstfault.records.run import Run, Status
from firstfault.records.series import GradientNorms, Histogram, Series, TensorStatistics
from firstfault.records.step import Location, Place, Scalar, StepRecord, Update
from firstfault.store.layout import RunLayout
from firstfault.store.writer import RunWriter

RUN_ID = "20261201-142512-abcd"
SCRIPT = """import torch

def distance(d):
    return torch.sqrt((d**2).sum(1))

print("training")
"""
_LAST_STEP = 12
_PARAMETERS = ("encoder.weight", "encoder.bias")


@pytest.fixture
def fault() -> Finding:
    """A first fault with all its parts."""
    return Finding(
        rule="non_finite_gradient",
        severity="fatal",
        step=_LAST_STEP,
        stage="backward",
        message="The gradients of 2 of 2 parameters are NaN just before the update.",
        cause="The derivative of sqrt at 0 is infinite.",
        fix="Keep the root away from 0:\n    return torch.sqrt((d**2).sum(1) + 1e-8)",
        place=Place(epoch=1, batch=2),
        module="encoder",
        operation="sqrt",
        location=FaultLocation(
            file="train.py", line=4, code="return torch.sqrt((d**2).sum(1))", role="edit", function="distance"
        ),
        weights="unspoilt",
        evidence=(
            Evidence(
                quantity="gradient norm of encoder.weight", value=math.nan, threshold="finite", step=_LAST_STEP
            ),
        ),
    )


def _record(step: int) -> StepRecord:
    bad = step == _LAST_STEP
    full = step % 5 == 0
    weight = Series("weight", "encoder.weight")
    return StepRecord(
        step=step,
        time=1000.0 + step,
        seconds=0.02,
        place=Place(epoch=step // 10, batch=step % 10),
        full=full,
        updates=(
            Update(
                optimizer="Adam", count=step, learning_rates=(0.001,), location=Location(file="train.py", line=9)
            ),
        ),
        scalars=(Scalar(series=Series("loss", "train.py:8"), value=math.nan if bad else 2.0 / (step + 1)),),
        gradient_norms=GradientNorms(names=_PARAMETERS, values=(math.nan if bad else 0.5, 0.1)),
        statistics=(TensorStatistics(series=weight, numel=8, mean=0.1, std=1.0, l2=2.5, nans=0, infs=0),)
        if full
        else (),
        histograms=(
            Histogram(
                series=weight,
                first_exponent=-3,
                negative=(1, 2, 4),
                positive=(0, 3, 5),
                zeros=1,
                nans=0,
                infs=0,
            ),
        )
        if full
        else (),
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, and a folder to be in with the user's script."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FIRSTFAULT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "80")
    for variable in ("NO_COLOR", "FORCE_COLOR", "FIRSTFAULT"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path / "home"


@pytest.fixture
def recorded(home: Path, fault: Finding) -> Path:
    """A run that was stopped at a fault in step 12."""
    layout = RunLayout.under(home, "default", RUN_ID)
    writer = RunWriter(layout)
    writer.begin(
        Run(
            id=RUN_ID,
            project="default",
            name="train",
            started=1000.0,
            script="train.py",
            argv=("train.py",),
            working_directory=str(home.parent),
        )
    )
    for step in range(_LAST_STEP + 1):
        writer.append(_record(step))
    writer.add_finding(fault)
    writer.set_status(
        Status(
            state="stopped",
            heartbeat=1013.0,
            process=1,
            host="here",
            last_step=_LAST_STEP,
            coverage=Coverage(steps=_LAST_STEP, losses=1, backwards=13, optimizers=1, modules=2),
            overhead=Overhead(fraction=0.012, seconds=0.8, first_steps_seconds=0.3, sampled_every=5),
        )
    )
    writer.close()
    return layout.path
