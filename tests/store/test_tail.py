# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable

from firstfault.records.step import StepRecord
from firstfault.store.layout import RunLayout
from firstfault.store.reader import RunReader
from firstfault.store.rows import tables_of
from firstfault.store.tail import frame, read_tail
from firstfault.store.writer import RunWriter

MakeRecord = Callable[[int], StepRecord]


def test_a_tail_cut_at_any_byte_gives_every_record_before_the_cut(
    begun: Callable[..., RunWriter], layout: RunLayout, make_record: MakeRecord
) -> None:
    begun().close()
    records = [StepRecord(step=0, time=0.0, seconds=0.0), make_record(5)]
    frames = [frame(tables_of([record], sequence)) for sequence, record in enumerate(records)]
    ends = [sum(map(len, frames[:count])) for count in range(len(frames) + 1)]
    data = b"".join(frames)
    for length in range(len(data) + 1):
        if ends[1] + 200 < length < ends[2] - 200 and length % 50:
            continue  # amid the large frame
        layout.tail_file(0).write_bytes(data[:length])
        whole = sum(length >= end for end in ends) - 1
        tables, wrong = read_tail(layout.tail_file(0))
        assert sum(name == "events" for name, _ in tables) == whole
        assert bool(wrong) == (length not in ends)
        if length % 97 == 0 or length in ends:
            assert repr(list(RunReader(layout.path).records())) == repr(records[:whole])


def test_a_spoilt_byte_hides_its_frame_and_those_after_it_and_is_named(
    begun: Callable[..., RunWriter], layout: RunLayout, make_record: MakeRecord
) -> None:
    writer = begun()
    writer.close()
    frames = [frame(tables_of([make_record(step)], step)) for step in range(3)]
    data = bytearray(b"".join(frames))
    data[len(frames[0]) + 40] ^= 1
    layout.tail_file(0).write_bytes(bytes(data))
    layout.status_file.unlink()  # nobody writes any more
    reader = RunReader(layout.path, clock=lambda: 1e12)
    assert [record.step for record in reader.records()] == [0]
    assert [skipped.file for skipped in reader.skipped] == ["tail/0.bin"]


def test_a_length_beyond_all_bounds_is_no_frame(layout: RunLayout) -> None:
    layout.make()
    layout.tail_file(0).write_bytes(b"FFT1" + b"\xff" * 12 + b"rest")
    assert read_tail(layout.tail_file(0))[0] == []
