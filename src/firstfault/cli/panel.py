# SPDX-License-Identifier: Apache-2.0
"""The panel: one diagnosis, drawn for a terminal of 60 columns or more. Runs outside training.

Labels stand in a narrow column, so that the eye finds "where", "why" and "fix" without frames around them; no
line has a border at its right, so that code can be copied out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from firstfault.cli.console import printable
from firstfault.records.finding import Severity, Verdict
from firstfault.reports.diagnosis import DiagnosisReport, EvidenceRow, Where
from firstfault.reports.excerpt import CodeLine
from firstfault.reports.wording import split_code

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.text import Text

VERDICT_STYLES: dict[Verdict, str] = {
    "fault": "red",
    "warning": "yellow",
    "clean": "green",
    "unseen": "magenta",
    "failed": "red",
}
SEVERITY_STYLES: dict[Severity, str] = {"fatal": "red", "error": "red", "warning": "yellow", "info": "blue"}

_LABEL_WIDTH = 11
_MOST_OTHERS = 5
_MOST_NOT_SEEN = 5


def print_panel(console: Console, report: DiagnosisReport) -> None:
    """Draw the whole panel."""
    style = VERDICT_STYLES[report.verdict]
    console.print(_top(style, console.width))
    console.print(_verdict(report, style), end="")
    for block in (_where_it_was, _what_was_measured, _what_to_do, _what_else, _about_us):
        rows = list(block(report))
        if not rows:
            continue
        if report.verdict != "clean" or report.others:
            console.print()
        for label, body in rows:
            console.print(_Row(label, body), end="")
    console.print(_bottom(style, console.width))


def _top(style: str, width: int) -> RenderableType:
    from rich.text import Text

    line = Text("━━ ", style=style)
    line.append("firstfault", style="bold")
    line.append(" " + "━" * (width - line.cell_len - 1), style=style)
    return line


def _bottom(style: str, width: int) -> RenderableType:
    from rich.text import Text

    return Text("━" * width, style=style)


def _verdict(report: DiagnosisReport, style: str) -> _Row:
    from rich.text import Text

    body = Text(printable(report.headline), style="bold")
    for line in (report.message, report.context):
        if line:
            body.append("\n")
            body.append(printable(line), style="not bold" if line is report.message else "not bold dim")
    return _Row(report.verdict.upper(), body, f"bold {style}")


@dataclass(frozen=True, slots=True)
class _Row:
    """A label and what stands at its right; without blanks at the end of a line."""

    label: str
    body: RenderableType
    style: str = "dim"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        from rich.segment import Segment

        label = "  " + self.label
        style = console.get_style(self.style)
        inner = options.update(width=max(options.max_width - _LABEL_WIDTH, 20), height=None)
        for line in console.render_lines(self.body, inner, pad=False):
            yield Segment(label, style)
            if any(segment.text.strip() for segment in line):
                yield Segment(" " * (_LABEL_WIDTH - len(label)))
                yield from _without_trailing_blanks(line)
            yield Segment.line()
            label = ""


def _without_trailing_blanks(line: list[Segment]) -> list[Segment]:
    from rich.segment import Segment

    line = list(line)
    while line and not line[-1].text.strip():
        line.pop()
    text, style, control = line[-1]
    return [*line[:-1], Segment(text.rstrip(), style, control)]


def _plain(text: str, style: str = "") -> RenderableType:
    from rich.text import Text

    return Text(printable(text), style=style)


def _where_it_was(report: DiagnosisReport) -> Iterator[tuple[str, RenderableType]]:
    if report.where is not None:
        yield "where", _where(report.where)


def _what_was_measured(report: DiagnosisReport) -> Iterator[tuple[str, RenderableType]]:
    if report.evidence:
        yield "evidence", _evidence(report.evidence)
    if report.found_by:
        yield "", _plain(report.found_by, "dim")


def _where(where: Where) -> RenderableType:
    from rich.console import Group

    number_width = max((len(str(line.number)) for line in where.code), default=0)
    return Group(_Title(where), *(_code_line(line, number_width) for line in where.code))


@dataclass(frozen=True, slots=True)
class _Title:
    """File, line and function; what is to be done there beside it, or below where that is too wide."""

    where: Where

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.text import Text

        del console
        title, note = printable(self.where.title), self.where.note
        is_beside = len(title) + 3 + len(note) <= options.max_width
        yield Text(title, style="bold").append(f"{'   ' if is_beside else chr(10)}{note}", style="not bold dim")


def _code_line(line: CodeLine, number_width: int) -> Text:
    """A line of the user's file; of a neighbour only as much as fits."""
    from rich.text import Text

    body = Text(no_wrap=not line.marked, overflow="fold" if line.marked else "ellipsis")
    body.append("❱ " if line.marked else "  ", style="red")
    body.append(f"{line.number:>{number_width}}  ", style="dim")
    body.append(printable(line.text), style="bold" if line.marked else "dim")
    return body


def _evidence(rows: tuple[EvidenceRow, ...]) -> RenderableType:
    from rich.table import Table

    with_thresholds = any(row.threshold for row in rows)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=with_thresholds, header_style="dim")
    table.add_column("", overflow="fold")
    table.add_column("value", justify="right", style="bold", no_wrap=True)
    table.add_column("threshold", overflow="fold")
    table.add_column("", style="dim", no_wrap=True)
    for row in rows:
        table.add_row(*(_plain(text) for text in (row.quantity, row.value, row.threshold, row.step)))
    return table


def _what_to_do(report: DiagnosisReport) -> Iterator[tuple[str, RenderableType]]:
    if report.cause:
        yield "why", _prose(report.cause)
    if report.fix:
        yield "fix", _prose(report.fix)
    if report.weights:
        yield "weights", _plain(report.weights)


def _prose(text: str) -> RenderableType:
    """A text with its lines of code set apart, indented and never re-flowed."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for is_code, line in split_code(text):
        if is_code:
            parts.append(Text("  " + printable(line), style="cyan"))
        else:
            parts.append(Text(printable(line)))
    return Group(*parts)


def _what_else(report: DiagnosisReport) -> Iterator[tuple[str, RenderableType]]:
    if report.consequences:
        yield "then", _plain(report.consequences)
    if report.ending:
        yield "ending", _plain(report.ending)
    label = "also"
    for other in report.others[:_MOST_OTHERS]:
        yield label, _other(other.severity, other.title, other.message)
        label = ""
    if len(report.others) > _MOST_OTHERS:
        yield "", _plain(f"… and {len(report.others) - _MOST_OTHERS} more findings", "dim")


def _other(severity: Severity, title: str, message: str) -> RenderableType:
    from rich.text import Text

    body = Text(severity, style=SEVERITY_STYLES[severity])
    body.append(f" {printable(title)}: ", style="default")
    body.append(printable(message), style="default")
    return body


def _about_us(report: DiagnosisReport) -> Iterator[tuple[str, RenderableType]]:
    label = "not seen"
    for entry in report.not_seen[:_MOST_NOT_SEEN]:
        yield label, _plain(entry)
        label = ""
    if len(report.not_seen) > _MOST_NOT_SEEN:
        yield "", _plain(f"… and {len(report.not_seen) - _MOST_NOT_SEEN} more", "dim")
    if report.cost:
        yield "cost", _plain(f"watching cost {report.cost}", "dim")
    if report.silence:
        yield "silence", _plain(f"{report.silence}   if this is meant to be so", "dim")
    if report.look_further:
        yield "more", _plain(report.look_further)
