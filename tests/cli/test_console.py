# SPDX-License-Identifier: Apache-2.0
"""Writing to any terminal, pipe or file."""

from __future__ import annotations

import io

from firstfault.cli.console import ForgivingStream, encodable, printable


def test_marks_have_a_plain_form_where_the_encoding_has_none() -> None:
    assert encodable("━━ ❱ 42 × … ⠉ ü", "ascii") == "== > 42 x ... * ?"
    assert encodable("× ü", "latin-1") == "× ü"
    assert encodable("❱ ü", "utf-8") == "❱ ü"


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert printable("a\x1b[31mb\rc\x07\u202ed\ud800") == "a[31mbcd"
    assert printable("müll\n\t\u00a0x") == "müll\n\t\u00a0x"


def test_a_stream_that_is_closed_or_absent_is_silence() -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (ForgivingStream(closed), ForgivingStream(None)):
        stream.write("x")
        stream.flush()
        assert not stream.isatty()
