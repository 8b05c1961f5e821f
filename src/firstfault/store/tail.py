# SPDX-License-Identifier: Apache-2.0
"""The tail: rows that are in no segment yet, as frames in one growing file. Written in training, read anywhere.

A frame is magic, length and CRC-32 of its payload, then the payload; one frame holds whole records. Reading stops
at the first frame that is not whole, so a file cut at any byte gives every record before the cut.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa

from firstfault.store.layout import TABLES
from firstfault.store.rows import Tables

_MAGIC = b"FFT1"
_HEADER = struct.Struct("<4sQI")  # magic, bytes of payload, CRC-32 of payload
_PART = struct.Struct("<BQ")  # index of the table, bytes of its Arrow stream
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def frame(tables: Tables) -> bytes:
    """The rows of some records as one frame."""
    parts: list[bytes] = []
    for name, table in tables:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as stream:
            stream.write_table(table)
        rows = sink.getvalue().to_pybytes()
        parts += [_PART.pack(TABLES.index(name), len(rows)), rows]
    payload = b"".join(parts)
    return _HEADER.pack(_MAGIC, len(payload), zlib.crc32(payload)) + payload


def read_tail(path: Path) -> tuple[Tables, str]:
    """All rows of the whole frames, and in words what is wrong with what follows them (empty: nothing)."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return [], ""
    tables: Tables = []
    start = 0
    while start < len(data):
        try:
            payload, end = _payload(data, start)
            tables += _tables(payload)
        except (pa.ArrowException, ValueError, LookupError, struct.error) as error:
            return tables, f"{len(data) - start} bytes from byte {start} on are no whole frame: {error}"
        start = end
    return tables, ""


def _payload(data: bytes, start: int) -> tuple[bytes, int]:
    magic, length, checksum = _HEADER.unpack_from(data, start)
    end = start + _HEADER.size + length
    payload = data[start + _HEADER.size : end]
    if magic != _MAGIC or end > len(data) or zlib.crc32(payload) != checksum:
        raise ValueError("cut short or spoilt")
    return payload, end


def _tables(payload: bytes) -> Tables:
    tables: Tables = []
    start = 0
    while start < len(payload):
        index, length = _PART.unpack_from(payload, start)
        start += _PART.size
        tables.append((TABLES[index], _table(payload[start : start + length])))  # a copy, so that it is aligned
        start += length
    return tables


def _table(rows: bytes) -> Any:
    with pa.ipc.open_stream(pa.py_buffer(rows)) as stream:
        return stream.read_all()
