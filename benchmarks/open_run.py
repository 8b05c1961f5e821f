# SPDX-License-Identifier: Apache-2.0
"""How long it takes to open a run and read one series, and what `append` costs. Runs by hand.

    python benchmarks/open_run.py [--series 200] [--steps 10000] [--keep FOLDER]

The run is made by the real writer; the figures are the median of several fresh interpreters, with the run in the
page cache. Budget: opening and reading one series in less than 100 ms, an append in about 1 µs.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from firstfault.records.run import Run, Status
from firstfault.records.series import GradientNorms, Series, TensorStatistics
from firstfault.records.step import Place, Scalar, StepRecord, Update
from firstfault.store.layout import RunLayout, new_run_id
from firstfault.store.writer import RunWriter

_READ = """
import sys, time, json
started = time.perf_counter()
from firstfault.query.run_view import RunView
imported = time.perf_counter()
run = RunView(sys.argv[1])
opened = time.perf_counter()
steps, values = run.values("gradient/layers.7.weight")
read = time.perf_counter()
losses = run.values("loss/loss")
read_loss = time.perf_counter()
num_series = len(run.series())
print(json.dumps({"import": imported - started, "open": opened - imported, "one series": read - opened,
    "open and one series": read - imported, "loss": read_loss - read, "steps": len(steps), "series": num_series}))
"""


def make_run(home: Path, num_series: int, num_steps: int) -> tuple[Path, float, float]:
    """Writes a run; its directory, the seconds of one append, and the seconds of the close."""
    layout = RunLayout.under(home, "benchmark", new_run_id())
    writer = RunWriter(layout)
    now = time.time()
    writer.begin(
        Run(
            id=layout.path.name,
            project="benchmark",
            name="open_run",
            started=now,
            script=None,
            argv=(),
            working_directory="/",
        )
    )
    writer.set_status(Status(state="running", heartbeat=now, process=os.getpid(), host=socket.gethostname()))
    names = tuple(f"layers.{number}.weight" for number in range(num_series))
    appending = 0.0
    for step in range(num_steps):
        record = _record(step, names)
        started = time.perf_counter()
        writer.append(record)
        appending += time.perf_counter() - started
        if step % 200 == 0:
            time.sleep(0.1)  # a training is slower than this loop: let the writer's thread keep up
    started = time.perf_counter()
    writer.close()
    closing = time.perf_counter() - started
    writer.set_status(Status(state="finished", heartbeat=time.time(), process=os.getpid(), host=""))
    assert not writer.warnings, writer.warnings
    return layout.path, appending / num_steps, closing


def _record(step: int, names: tuple[str, ...]) -> StepRecord:
    norms = tuple(math.exp(-step / 1e4) * (1 + math.sin(step * 0.37 + i)) for i in range(len(names)))
    sampled = step % 50 == 0
    return StepRecord(
        step=step,
        time=1.7e9 + step * 0.1,
        seconds=0.1,
        place=Place(epoch=0, batch=step),
        full=sampled,
        updates=(Update(optimizer="Adam", count=step, learning_rates=(1e-3,), location=None, num_backwards=1),),
        scalars=(Scalar(series=Series("loss", "loss"), value=norms[0]),),
        gradient_norms=GradientNorms(names=names, values=norms),
        statistics=tuple(
            TensorStatistics(series=Series("weight", name), numel=100, mean=value, std=value, l2=value)
            for name, value in zip(names, norms, strict=True)
        )
        if sampled
        else (),
    )


def measure(run: Path, repeats: int) -> dict[str, float]:
    """Median seconds over fresh interpreters."""
    results = [
        json.loads(subprocess.run([sys.executable, "-c", _READ, run], check=True, capture_output=True).stdout)
        for _ in range(repeats)
    ]
    return {name: statistics.median(result[name] for result in results) for name in results[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=200)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--keep", type=Path, help="folder to leave the run in")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run, append, close = make_run(options.keep or Path(folder), options.series, options.steps)
        size = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
        figures = measure(run, options.repeats)
    print(f"{options.series} series × {options.steps} steps: {size / 1e6:.1f} MB on disk")
    print(f"append             {append * 1e6:8.2f} µs a step")
    print(f"close              {close:8.2f} s")
    for name in ("import", "open", "one series", "open and one series", "loss"):
        print(f"{name:18} {figures[name] * 1e3:8.1f} ms")
    print(f"({figures['steps']:.0f} values read; {figures['series']:.0f} series listed)")


if __name__ == "__main__":
    main()
