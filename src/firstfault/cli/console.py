# SPDX-License-Identifier: Apache-2.0
"""Where the command line writes: any terminal, pipe or file, whatever its encoding. Runs outside training.

console = open_console(sys.stderr, color=True)
console.print(Text("≥ 1.2 %"))
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import unicodedata
from typing import IO, TYPE_CHECKING, TextIO, cast

if TYPE_CHECKING:
    from rich.console import Console

    from firstfault.records.step import Json

_WIDEST = 100
#: what stands for our own marks where the encoding cannot write them
_PLAIN = {
    "━": "=",
    "─": "-",
    "│": "|",
    "┤": "|",
    "└": "+",
    "❱": ">",
    "·": "-",
    "…": "...",
    "×": "x",
    "–": "-",
    "—": "-",
    "−": "-",
    "≥": ">=",
    "≤": "<=",
    "∞": "inf",
    "²": "^2",
    "‘": "'",
    "’": "'",
    "“": '"',
    "”": '"',
    **dict(zip("▁▂▃▄▅▆▇█", "..::++##", strict=True)),
}
#: the braille characters that curves are drawn with
_DOTS = frozenset(chr(code) for code in range(0x2801, 0x2900))


class ForgivingStream:
    """A text stream that never fails: plain marks for what it cannot encode, silence once nobody reads."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self.encoding = getattr(stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        if self._stream is not None:
            try:
                self._stream.write(encodable(text, self.encoding))
            except (BrokenPipeError, ValueError):  # ValueError: already closed
                self._close()
        return len(text)

    def flush(self) -> None:
        if self._stream is not None:
            try:
                self._stream.flush()
            except (BrokenPipeError, ValueError):
                self._close()

    def isatty(self) -> bool:
        return self._stream is not None and not self._stream.closed and self._stream.isatty()

    def fileno(self) -> int:
        if self._stream is None:
            raise OSError("no such stream")
        return self._stream.fileno()

    def _close(self) -> None:
        """Send what is still buffered nowhere, so that the interpreter's last flush does not complain."""
        stream, self._stream = self._stream, None
        if stream is None or stream.closed:
            return
        nowhere = os.open(os.devnull, os.O_WRONLY)
        with contextlib.suppress(OSError):  # no real file
            os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def encodable(text: str, encoding: str) -> str:
    """The text with plain marks in place of what the encoding has not."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return "".join(_encodable_character(character, encoding) for character in text)
    return text


def _encodable_character(character: str, encoding: str) -> str:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return "*" if character in _DOTS else _PLAIN.get(character, "?")
    return character


def printable(text: str) -> str:
    """The text without control characters, which could move the cursor or recolour the terminal."""
    return "".join(
        character for character in text if character in "\n\t" or unicodedata.category(character)[0] != "C"
    )


def open_console(stream: TextIO | None, *, color: bool = True) -> Console:
    """A rich console on the stream; `NO_COLOR` and a stream that is no terminal switch colour off too."""
    from rich.console import Console

    console = Console(
        file=cast("IO[str]", ForgivingStream(stream)),
        color_system="auto" if color and not os.environ.get("NO_COLOR") else None,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
    )
    console.width = min(console.width, _WIDEST)
    return console


def write_line(text: str, stream: TextIO | None = None) -> None:
    """One line of plain text on standard output, or on the stream given."""
    forgiving = ForgivingStream(stream if stream is not None else sys.stdout)
    forgiving.write(text + "\n")
    forgiving.flush()


def write_json(data: Json) -> None:
    """JSON on one line of standard output; in ASCII, so that it passes through any encoding."""
    write_line(json.dumps(data, allow_nan=False))
