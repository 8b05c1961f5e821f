# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from firstfault.errors import FormatVersionError, StoreError
from firstfault.records.encoding import dumps
from firstfault.records.run import Status
from firstfault.records.series import GradientNorms, Series
from firstfault.records.step import StepRecord
from firstfault.store.layout import RunLayout
from firstfault.store.reader import RunReader
from firstfault.store.segments import GROUP_ROWS
from firstfault.store.writer import RunWriter

MakeRecord = Callable[[int], StepRecord]


@pytest.fixture
def closed(begun: Callable[..., RunWriter], layout: RunLayout, make_record: MakeRecord) -> RunLayout:
    writer = begun()
    for step in range(40):
        writer.append(make_record(step))
    writer.close()
    return layout


def segment(layout: RunLayout, table: str) -> Path:
    (path,) = layout.segments.glob(f"{table}-*")
    return path


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.9])
def test_a_segment_that_is_cut_short_is_named_and_the_rest_is_read(closed: RunLayout, kept: float) -> None:
    path = segment(closed, "statistics")
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * kept)])
    reader = RunReader(closed.path)
    records = list(reader.records())
    assert [record.step for record in records] == list(range(40))
    assert records[5].gradient_norms is None
    assert len(records[5].scalars) == 3
    assert [skipped.file for skipped in reader.skipped] == [f"segments/{path.name}"]
    assert reader.skipped[0].reason
    assert reader.values(Series("gradient", "encoder.0.weight"))[0].tolist() == []


def test_a_segment_with_spoilt_bytes_inside_is_named_and_the_rest_is_read(closed: RunLayout) -> None:
    path = segment(closed, "scalars")
    data = bytearray(path.read_bytes())
    data[4:300] = b"\x5a" * 296
    path.write_bytes(bytes(data))
    reader = RunReader(closed.path)
    assert [record.step for record in reader.records()] == list(range(40))
    assert [skipped.file for skipped in reader.skipped] == [f"segments/{path.name}"]


def test_a_newer_format_version_is_named_with_the_one_that_is_known(closed: RunLayout) -> None:
    data = json.loads(closed.run_file.read_text())
    closed.run_file.write_text(json.dumps(data | {"format_version": 7, "new": 1}))
    with pytest.raises(FormatVersionError, match="format version 7, and this firstfault reads version 1"):
        RunReader(closed.path)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format_version": 1}', '{"format_version": 1, "id": 3}'])
def test_a_run_file_that_is_spoilt_is_one_clear_sentence(closed: RunLayout, text: str) -> None:
    closed.run_file.write_text(text)
    with pytest.raises(StoreError, match=r"run\.json cannot be read, so the run cannot be opened") as caught:
        RunReader(closed.path)
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_no_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"is no run: it has no run\.json"):
        RunReader(tmp_path)


def status(layout: RunLayout, **changes: object) -> None:
    values: dict[str, object] = {
        "state": "running",
        "heartbeat": 1000.0,
        "process": os.getpid(),
        "host": socket.gethostname(),
    }
    layout.status_file.write_text(dumps(Status(**(values | changes))))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "now", "state"),
    [
        ({}, 1010.0, "running"),
        ({}, 1031.0, "lost"),
        ({"process": 2**22 + 1}, 1001.0, "lost"),
        ({"process": 2**22 + 1, "host": "elsewhere"}, 1001.0, "running"),
        ({"state": "finished", "process": 2**22 + 1}, 9999.0, "finished"),
    ],
)
def test_a_run_is_lost_when_its_process_or_its_heartbeat_is(
    closed: RunLayout, changes: dict[str, object], now: float, state: str
) -> None:
    status(closed, **changes)
    assert RunReader(closed.path, clock=lambda: now).status.state == state


def test_a_run_killed_before_its_first_status_is_lost(closed: RunLayout) -> None:
    closed.status_file.unlink()
    started = RunReader(closed.path).run.started
    assert RunReader(closed.path, clock=lambda: started + 60).status.state == "lost"


def test_a_finding_that_is_spoilt_is_named(closed: RunLayout) -> None:
    (closed.findings / "0001.json").write_text('{"rule": ')
    reader = RunReader(closed.path)
    assert reader.findings() == ()
    assert [skipped.file for skipped in reader.skipped] == ["findings/0001.json"]


def test_segments_that_are_joined_between_listing_and_reading_are_found_again(
    begun: Callable[..., RunWriter], layout: RunLayout, make_record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = begun(segment_seconds=0.02)
    for step in range(60):
        writer.append(make_record(step))
        if step % 10 == 0:
            time.sleep(0.05)
    reader = RunReader(layout.path)
    assert list(reader.records())
    listings = [layout.segment_files()] * 3
    writer.close()
    assert listings[0]
    assert not any(path.exists() for path, *_ in listings[0])
    list_now = RunLayout.segment_files
    monkeypatch.setattr(RunLayout, "segment_files", lambda self: listings.pop() if listings else list_now(self))
    assert [record.step for record in reader.records()] == list(range(60))
    assert listings == []
    assert reader.skipped == ()


def test_one_series_of_many_is_read_from_few_groups_of_rows(
    begun: Callable[..., RunWriter], layout: RunLayout
) -> None:
    names = tuple(f"layer.{number}" for number in range(300))
    writer = begun(segment_seconds=100.0)
    for step in range(400):
        values = tuple(float(step * number) for number in range(300))
        writer.append(
            StepRecord(step=step, time=0.0, seconds=0.0, gradient_norms=GradientNorms(names=names, values=values))
        )
    writer.close()
    assert GROUP_ROWS < 300 * 400
    steps, values = RunReader(layout.path).values(Series("gradient", "layer.7"))
    assert steps.tolist() == list(range(400))
    assert values.tolist() == [step * 7.0 for step in range(400)]
