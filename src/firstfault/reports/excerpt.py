# SPDX-License-Identifier: Apache-2.0
"""A few lines of the user's file around the one a finding points to. Runs outside training."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from firstfault.records.finding import FaultLocation

_LINES_AROUND = 1
_LARGEST_FILE_BYTES = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLine:
    """One line of a file as it is shown."""

    number: int  #: from 1
    text: str
    marked: bool = False  #: the line the finding points to


def read_excerpt(location: FaultLocation, folders: Iterable[Path]) -> tuple[CodeLine, ...]:
    """The marked line with its neighbours, from the first of `folders` whose file still says the same.

    A file edited since the run would show the wrong line, so then the line is shown alone, as it ran.
    """
    for folder in folders:
        lines = _read_lines(folder / location.file)
        index = location.line - 1
        if 0 <= index < len(lines) and (not location.code or lines[index].strip() == location.code.strip()):
            return _cut(lines, index)
    if not location.code:
        return ()
    return (CodeLine(number=location.line, text=location.code, marked=True),)


def _read_lines(path: Path) -> list[str]:
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST_FILE_BYTES:
            return []
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # gone, or not ours to read: the line is shown alone
        return []


def _cut(lines: list[str], index: int) -> tuple[CodeLine, ...]:
    numbers = [
        number
        for number in range(max(0, index - _LINES_AROUND), min(len(lines), index + _LINES_AROUND + 1))
        if number == index or lines[number].strip()
    ]
    texts = {number: lines[number].rstrip().expandtabs(4) for number in numbers}
    margin = min(len(text) - len(text.lstrip()) for text in texts.values())
    return tuple(
        CodeLine(number=number + 1, text=text[margin:], marked=number == index) for number, text in texts.items()
    )
