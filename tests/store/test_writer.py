# SPDX-License-Identifier: Apache-2.0
"""What the writer promises the training: it costs nothing, it raises nothing, it loses next to nothing."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from firstfault.errors import StoreError
from firstfault.records.finding import Finding
from firstfault.records.run import Run, Status
from firstfault.records.series import Series
from firstfault.records.step import Event, Scalar, StepRecord
from firstfault.store.layout import RunLayout
from firstfault.store.reader import RunReader
from firstfault.store.writer import RunWriter

MakeRecord = Callable[[int], StepRecord]
Begun = Callable[..., RunWriter]
WaitUntil = Callable[[Callable[[], bool]], None]


def test_the_closed_run_has_one_segment_a_table(begun: Begun, layout: RunLayout, make_record: MakeRecord) -> None:
    writer = begun()
    for step in range(30):
        writer.append(make_record(step))
        time.sleep(0.02)
    writer.close()
    assert sorted(path.name.split("-")[0] for path in layout.segments.iterdir()) == [
        "events",
        "histograms",
        "scalars",
        "statistics",
    ]
    assert layout.tail_file(0).stat().st_size == 0
    assert repr(list(RunReader(layout.path).records())) == repr([make_record(step) for step in range(30)])


def test_many_segments_become_fewer_while_the_run_is_live(
    begun: Begun, layout: RunLayout, make_record: MakeRecord, wait_until: WaitUntil
) -> None:
    writer = begun(wake_seconds=0.005, segment_seconds=0.0)
    for step in range(40):
        writer.append(make_record(step))
        wait_until(lambda step=step: len(RunReader(layout.path).steps()) == step + 1)  # type: ignore[misc]
    assert len([path for path in layout.segments.iterdir() if path.name.startswith("events")]) < 30
    assert repr(list(RunReader(layout.path).records())) == repr([make_record(step) for step in range(40)])
    writer.close()


def test_a_live_run_is_read_while_it_is_written(begun: Begun, layout: RunLayout, make_record: MakeRecord) -> None:
    writer = begun(wake_seconds=0.005, segment_seconds=0.05)
    expected = [repr(make_record(step)) for step in range(200)]
    reader = RunReader(layout.path)
    seen = 0
    for step in range(200):
        writer.append(make_record(step))
        if step % 4 == 0:
            time.sleep(0.01)
            live = [repr(record) for record in reader.records()]
            assert live == expected[: len(live)]
            assert len(live) >= seen
            seen = len(live)
    writer.close()
    assert seen > 100
    assert [repr(record) for record in reader.records()] == expected
    assert reader.skipped == ()


def test_appending_costs_a_few_microseconds_at_most(begun: Begun, make_record: MakeRecord) -> None:
    writer = begun()
    record = make_record(0)
    started = time.thread_time()
    for _ in range(5_000):
        writer.append(record)
    assert (time.thread_time() - started) / 5_000 < 5e-6
    writer.close()


def test_the_heartbeat_stays_fresh_and_knows_the_last_step(
    layout: RunLayout, make_run: Callable[[RunLayout], Run], running: Callable[[], Status], wait_until: WaitUntil
) -> None:
    now = [1000.0]
    writer = RunWriter(layout, clock=lambda: now[0], wake_seconds=0.01)
    writer.begin(make_run(layout))
    writer.set_status(running())
    writer.append(StepRecord(step=7, time=0.0, seconds=0.0))
    now[0] = 2000.0
    wait_until(lambda: json.loads(layout.status_file.read_text())["heartbeat"] == 2000.0)
    assert RunReader(layout.path, clock=lambda: 2001.0).status.last_step == 7
    writer.close()


def test_a_status_that_ends_the_run_is_not_overwritten_by_the_heartbeat(begun: Begun, layout: RunLayout) -> None:
    writer = begun()
    writer.set_status(Status(state="stopped", heartbeat=5.0, process=1, host="h"))
    time.sleep(1.3)
    writer.close()
    assert RunReader(layout.path).status == Status(state="stopped", heartbeat=5.0, process=1, host="h")


def test_findings_are_there_at_once_and_in_order(begun: Begun, layout: RunLayout) -> None:
    writer = begun()
    findings = tuple(
        Finding(rule=f"rule_{number}", severity="warning", step=number, stage="loss", message="…")
        for number in range(12)
    )
    for finding in findings:
        writer.add_finding(finding)
    assert RunReader(layout.path).findings() == findings
    writer.close()


def test_a_record_that_cannot_be_stored_is_left_out_with_a_warning(
    begun: Begun, layout: RunLayout, make_record: MakeRecord
) -> None:
    writer = begun(wake_seconds=0.3)
    bad = StepRecord(
        step=1,
        time=0.0,
        seconds=0.0,
        scalars=(Scalar(series=Series("loss", "x"), value=object()),),  # type: ignore[arg-type]
    )
    for record in (make_record(0), bad, make_record(2)):
        writer.append(record)
    writer.close()
    assert [record.step for record in RunReader(layout.path).records()] == [0, 2]
    assert [warning for warning in writer.warnings if "step 1 cannot be stored" in warning]


def test_a_script_of_no_time_at_all_leaves_its_records(begun: Begun, layout: RunLayout) -> None:
    writer = begun(wake_seconds=10.0)
    writer.append(StepRecord(step=0, time=0.0, seconds=0.0, events=(Event(kind="\udcff", subject="ü"),)))
    writer.close()
    writer.close()
    (record,) = RunReader(layout.path).records()
    assert record.events[0].kind == "\udcff"


def test_a_second_worker_writes_only_its_own_files(
    begun: Begun, layout: RunLayout, make_run: Callable[[RunLayout], Run]
) -> None:
    first, second = begun(), RunWriter(layout, worker=1)
    second.begin(make_run(layout))
    for step in range(3):
        for writer in (first, second):
            writer.append(StepRecord(step=step, time=0.0, seconds=0.0, worker=writer.worker))
    first.close()
    second.close()
    reader = RunReader(layout.path)
    assert [(record.step, record.worker) for record in reader.records()] == [
        (step, worker) for step in range(3) for worker in (0, 1)
    ]
    assert reader.steps() == [0, 1, 2]


def test_a_place_that_cannot_be_written_is_one_clear_sentence(
    tmp_path: Path, make_run: Callable[[RunLayout], Run]
) -> None:
    (tmp_path / "home").write_text("a file where the folder should be")
    writer = RunWriter(RunLayout.under(tmp_path / "home", "p", "id"))
    with pytest.raises(StoreError, match=r"cannot be made \(.*set FIRSTFAULT_HOME"):
        writer.begin(make_run(writer.layout))
    writer.append(StepRecord(step=0, time=0.0, seconds=0.0))
    writer.close()


def test_the_same_run_is_not_written_twice(
    begun: Begun, layout: RunLayout, make_run: Callable[[RunLayout], Run]
) -> None:
    begun().close()
    with pytest.raises(StoreError, match="holds a run already"):
        RunWriter(layout).begin(make_run(layout))


def test_no_random_generator_of_the_user_moves(begun: Begun, make_record: MakeRecord) -> None:
    before = random.getstate(), np.random.get_state()[1].tolist()
    writer = begun(segment_seconds=0.02)
    for step in range(20):
        writer.append(make_record(step))
        time.sleep(0.01)
    writer.close()
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_the_training_thread_loads_no_arrow_and_no_numpy() -> None:
    code = (
        "import sys, firstfault.store.writer, firstfault.store.layout, firstfault.store.documents; "
        "print([name for name in ('numpy', 'pyarrow', 'torch') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


_CHILD = """
import os, resource, signal, socket, sys, time, warnings
from pathlib import Path
from firstfault.records.run import Run, Status
from firstfault.records.series import GradientNorms, Series
from firstfault.records.step import Scalar, StepRecord, Update
from firstfault.store.layout import RunLayout
from firstfault.store.writer import RunWriter

layout = RunLayout(Path(sys.argv[1]))
def run():
    return Run(id=layout.path.name, project="p", name="n", started=time.time(), script=None, argv=(),
               working_directory="/")
def record(step):
    return StepRecord(step=step, time=0.0, seconds=0.0,
                      scalars=(Scalar(series=Series("loss", "l"), value=step / 3),),
                      gradient_norms=GradientNorms(names=("a", "b"), values=(step / 7, float(step))),
                      updates=(Update(optimizer="SGD", count=step, learning_rates=(0.1,), location=None),))
"""


def _child(layout: RunLayout, code: str) -> subprocess.Popen[str]:
    program = _CHILD + textwrap.dedent(code)
    return subprocess.Popen(
        [sys.executable, "-c", program, str(layout.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _expected(step: int, record: StepRecord) -> bool:
    norms = record.gradient_norms
    return (
        record.step == step
        and record.scalars[0].value == step / 3
        and norms is not None
        and norms.values == (step / 7, float(step))
        and record.updates[0].count == step
    )


@pytest.mark.parametrize("trial", range(6))
def test_a_run_killed_at_any_moment_opens_and_lacks_two_seconds_at_most(layout: RunLayout, trial: int) -> None:
    child = _child(
        layout,
        """
        writer = RunWriter(layout, wake_seconds=0.05, segment_seconds=0.1)
        writer.begin(run())
        writer.set_status(Status(state="running", heartbeat=time.time(), process=os.getpid(),
                                 host=socket.gethostname()))
        step = 0
        while True:
            writer.append(record(step))
            print(step, time.time(), flush=True)
            step += 1
            time.sleep(0.002)
        """,
    )
    assert child.stdout is not None
    assert child.stdout.readline()
    time.sleep(1.5 + os.urandom(1)[0] / 256 + trial / 7)
    child.kill()
    killed = time.time()
    output, _ = child.communicate()
    appended = [line.split() for line in output.splitlines() if len(line.split()) == 2]
    reader = RunReader(layout.path)
    got = list(reader.records())
    assert all(_expected(step, record) for step, record in enumerate(got))
    assert len(got) >= sum(killed - float(at) > 2.0 for _, at in appended)
    assert len(got) > 10
    steps, values = reader.values(Series("gradient", "b"))
    assert steps.tolist() == values.tolist() == list(range(len(got)))
    assert reader.status.state == "lost"


@pytest.mark.parametrize("milliseconds", [0, 20, 60, 150, 400])
def test_a_kill_while_closing_loses_and_doubles_nothing(
    layout: RunLayout, milliseconds: int, wait_until: WaitUntil
) -> None:
    child = _child(
        layout,
        """
        writer = RunWriter(layout, wake_seconds=0.02, segment_seconds=0.04)
        writer.begin(run())
        for step in range(400):
            writer.append(record(step))
            time.sleep(0.003)
        print("appended", flush=True)
        sys.stdin.readline()
        print("closing", flush=True)
        writer.close()
        """,
    )
    assert child.stdout is not None
    assert child.stdin is not None
    assert child.stdout.readline()
    wait_until(lambda: len(RunReader(layout.path).steps()) == 400)
    child.stdin.write("\n")
    child.stdin.flush()
    assert child.stdout.readline()
    time.sleep(milliseconds / 1000)
    child.kill()
    child.communicate()
    got = list(RunReader(layout.path).records())
    assert len(got) == 400
    assert all(_expected(step, record) for step, record in enumerate(got))


def test_a_full_disk_stops_the_writing_and_not_the_training(layout: RunLayout) -> None:
    child = _child(
        layout,
        """
        import firstfault.store.spool as spool
        spool._RETRY_SECONDS = 0.2
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, resource.RLIM_INFINITY))
        writer = RunWriter(layout, wake_seconds=0.02, segment_seconds=0.5)
        writer.begin(run())
        for step in range(300):
            writer.append(record(step))
            time.sleep(0.005)
            if step == 200:
                assert len(writer.warnings) == 1, writer.warnings
                assert "cannot be written" in writer.warnings[0], writer.warnings
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        writer.close()
        print(len(writer.warnings))
        """,
    )
    output, errors = child.communicate(timeout=60)
    assert (output, errors) == ("1\n", "")
    got = list(RunReader(layout.path).records())
    assert len(got) == 300
    assert all(_expected(step, record) for step, record in enumerate(got))


def test_a_disk_that_stays_full_leaves_what_was_written_and_says_what_was_lost(layout: RunLayout) -> None:
    child = _child(
        layout,
        """
        import firstfault.store.spool as spool
        spool._HELD_ROWS = 200
        spool._RETRY_SECONDS = 0.1
        writer = RunWriter(layout, wake_seconds=0.02, segment_seconds=0.2)
        writer.begin(run())
        writer.set_status(Status(state="running", heartbeat=time.time(), process=os.getpid(), host="h"))
        for step in range(100):
            writer.append(record(step))
            time.sleep(0.01)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        for step in range(100, 300):
            writer.append(record(step))
            time.sleep(0.005)
        writer.set_status(Status(state="finished", heartbeat=time.time(), process=os.getpid(), host="h"))
        writer.close()
        sys.stderr.write("\\n".join(writer.warnings))
        """,
    )
    _, errors = child.communicate(timeout=60)
    assert "Traceback" not in errors
    assert "steps could not be written" in errors
    got = list(RunReader(layout.path).records())
    assert 20 < len(got) < 300
    assert all(_expected(step, record) for step, record in enumerate(got))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("delay", [0.0, 0.05, 0.15])
def test_a_child_forked_while_the_thread_loads_arrow_can_load_it_too(layout: RunLayout, delay: float) -> None:
    child = _child(
        layout,
        f"""
        warnings.simplefilter("ignore")
        writer = RunWriter(layout, wake_seconds=0.02)
        writer.begin(run())
        time.sleep({delay})
        if (pid := os.fork()) == 0:
            import pyarrow.parquet
            os._exit(7)
        _, status = os.waitpid(pid, 0)
        writer.append(record(0))
        writer.close()
        print(os.waitstatus_to_exitcode(status))
        """,
    )
    assert child.communicate(timeout=60) == ("7\n", "")


def test_a_writer_that_nobody_closes_is_closed_at_exit(layout: RunLayout) -> None:
    child = _child(
        layout,
        """
        writer = RunWriter(layout, wake_seconds=5)
        writer.begin(run())
        for step in range(50):
            writer.append(record(step))
        """,
    )
    assert child.communicate(timeout=60) == ("", "")
    assert child.returncode == 0
    assert len(list(RunReader(layout.path).records())) == 50


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_after_a_fork_the_child_is_silent_and_the_parent_goes_on(layout: RunLayout) -> None:
    child = _child(
        layout,
        """
        warnings.simplefilter("ignore")
        writer = RunWriter(layout, wake_seconds=0.02)
        writer.begin(run())
        status = Status(state="running", heartbeat=time.time(), process=os.getpid(), host=socket.gethostname())
        writer.set_status(status)
        for step in range(50):
            writer.append(record(step))
        if (pid := os.fork()) == 0:
            for step in range(1000, 1100):
                writer.append(record(step))
            writer.set_status(Status(state="failed", heartbeat=0.0, process=0, host=""))
            writer.close()
            os._exit(0)
        os.waitpid(pid, 0)
        for step in range(50, 100):
            writer.append(record(step))
        writer.close()
        """,
    )
    assert child.communicate(timeout=60) == ("", "")
    reader = RunReader(layout.path)
    assert [record.step for record in reader.records()] == list(range(100))
    assert reader.status.state in ("running", "lost")
