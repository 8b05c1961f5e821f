# SPDX-License-Identifier: Apache-2.0
"""A run at a glance, drawn for a terminal: facts, findings, curves, histograms. Runs outside training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from firstfault.cli.bars import Scale, common_scale, draw_axis, draw_histogram
from firstfault.cli.console import printable
from firstfault.cli.curve import MARKS, draw_curve
from firstfault.cli.panel import SEVERITY_STYLES
from firstfault.records.series import Histogram, Missing, Statistic, TensorStatistics
from firstfault.records.step import StepRecord
from firstfault.reports.diagnosis import headline_of, say_ending
from firstfault.reports.run_overview import (
    Curve,
    Selection,
    StepHistogram,
    curves_of,
    histograms_of,
    kinds_of,
    record_of,
)
from firstfault.reports.run_summary import say_moment
from firstfault.reports.wording import say_count, say_number, say_place, say_seconds

if TYPE_CHECKING:
    from rich.console import Console

    from firstfault.query.run_view import RunView

_MOST_FINDINGS = 8
_MOST_STATISTICS = 30
#: beside a histogram, for `  123456 NaN`
_BAD_WIDTH = 12
_STATISTICS_OF_A_STEP: tuple[Statistic, ...] = ("mean", "std", "absmax", "l2", "nans", "infs")


def print_overview(console: Console, view: RunView, selection: Selection) -> None:
    """Draw what was asked for of the run."""
    series = view.series(kind=selection.kind, regex=selection.regex)
    _print_facts(console, view)
    if selection.is_default and selection.step is None:
        _print_findings(console, view)
        _print_kinds(console, view)
    elif not series:
        console.print(Text("\nno series of this run matches", style="dim"))
        return
    if selection.step is not None:
        _print_step(console, record_of(view, selection.step), {entry.name for entry in series})
    else:
        _print_curves(console, *curves_of(view, selection))
    _print_histograms(console, *histograms_of(view, selection))
    for skipped in view.skipped:
        console.print(Text(f"left out, cannot be read: {skipped.file} ({skipped.reason})", style="yellow"))


def _print_facts(console: Console, view: RunView) -> None:
    line = Text("━━ ", style="dim")
    line.append(view.run.id, style="bold not dim")
    line.append(" " + "━" * max(0, console.width - line.cell_len - 1))
    console.print(line)
    steps = view.steps
    facts = [view.run.name, view.status.state, say_moment(view.run.started)]
    facts.append(f"steps {steps[0]} to {steps[-1]}" if steps else "no step")
    _print_indented(console, ", ".join(fact for fact in facts if fact))
    if ending := say_ending(view.status):
        _print_indented(console, ending)


def _print_findings(console: Console, view: RunView) -> None:
    if not view.findings:
        return
    console.print(Text("\nfindings", style="bold"))
    for finding in view.findings[:_MOST_FINDINGS]:
        line = Text("  ")
        line.append(f"{finding.severity:<8}", style=SEVERITY_STYLES[finding.severity])
        line.append(printable(headline_of(finding)))
        if finding.location is not None:
            file = PurePath(finding.location.file).name  # the panel has the whole path
            place = printable(f"  {file}:{finding.location.line}")
            if line.cell_len + len(place) > console.width:
                place = "\n          " + place.strip()
            line.append(place, style="dim")
        console.print(line, overflow="ellipsis", no_wrap=True)
    _print_more(console, len(view.findings) - _MOST_FINDINGS, "finding")


def _print_kinds(console: Console, view: RunView) -> None:
    kinds = kinds_of(view.series())
    if not kinds:
        return
    console.print(Text("\nseries", style="bold"))
    width = max(len(line.kind) for line in kinds)
    for line in kinds:
        example = line.example if line.number == 1 else f"{line.example}, …"
        text = Text(f"  {line.kind:<{width}}  {line.number:>4}  ")
        text.append(printable(example), style="dim")
        console.print(text, overflow="ellipsis", no_wrap=True)


def _print_curves(console: Console, curves: Sequence[Curve], num_more: int) -> None:
    for curve in curves:
        title = Text("\n" + printable(curve.title), style="bold")
        is_wide = len(curve.title) + 3 + len(curve.summary) > console.width
        title.append(("\n  " if is_wide else "   ") + curve.summary, style="not bold dim")
        console.print(title)
        if curve.values:
            for line in draw_curve(curve.steps, curve.values, width=min(console.width, 80) - 2):
                console.print(_coloured(line))
    _print_more(console, num_more, "series", "choose with --series REGEX")


def _coloured(line: str) -> Text:
    text = Text(line, no_wrap=True, overflow="crop")
    for mark in MARKS.values():
        text.highlight_words([mark], style="bold red")
    text.highlight_regex(r"^ *(nan|inf) ", style="bold red")
    return text


def _print_histograms(console: Console, entries: Sequence[StepHistogram], num_more: int) -> None:
    """One line a layer; names too long for that stand in a line of their own."""
    if not entries:
        return
    width = min(console.width, 80)
    names = [printable(entry.histogram.series.name) for entry in entries]
    label_width = max(map(len, names)) + 2
    is_beside = label_width <= width // 2
    indent = 2 + (label_width if is_beside else 0)
    scale = common_scale([entry.histogram for entry in entries], width - indent - _BAD_WIDTH)
    console.print(Text("\nhistograms", style="bold").append(f"   {_say_steps(entries)}", style="not bold dim"))
    for name, entry in zip(names, entries, strict=True):
        if is_beside:
            line = Text(f"  {name:<{label_width}}")
        else:
            console.print(Text(f"  {name}"))
            line = Text("  ")
        console.print(_bars(line, entry.histogram, scale))
    console.print(Text(" " * indent + draw_axis(scale), style="dim", no_wrap=True, overflow="crop"))
    _print_more(console, num_more, "histogram", "choose with --series REGEX")


def _bars(line: Text, histogram: Histogram, scale: Scale) -> Text:
    line.no_wrap, line.overflow = True, "crop"
    if any(histogram.negative) or any(histogram.positive) or histogram.zeros:
        line.append(draw_histogram(histogram, scale), style="cyan")
    else:
        line.append(MARKS["nan" if histogram.nans else "inf"] * scale.width, style="bold red")
    if bad := _say_bad(histogram):
        line.append(f"  {bad}", style="bold red")
    return line


def _say_steps(entries: Sequence[StepHistogram]) -> str:
    steps = sorted({entry.step for entry in entries})
    said = f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]} to {steps[-1]}"
    return f"{said}, by sign and power of two"


def _say_bad(histogram: Histogram) -> str:
    counts = ((histogram.nans, "NaN"), (histogram.infs, "inf"))
    return ", ".join(f"{number} {noun}" for number, noun in counts if number)


def _print_step(console: Console, record: StepRecord, names: set[str]) -> None:
    console.print(Text(f"\nstep {record.step}", style="bold"))
    facts = [record.phase, say_place(record.place), say_seconds(record.seconds)]
    _print_indented(console, ", ".join(fact for fact in facts if fact))
    for scalar in record.scalars:
        _print_indented(console, f"{scalar.series.name} {say_number(scalar.value)}")
    for update in record.updates:
        rates = ", ".join(say_number(rate) for rate in update.learning_rates)
        where = f", {update.location.file}:{update.location.line}" if update.location else ""
        _print_indented(console, f"update {update.count} by {update.optimizer}, learning rate {rates}{where}")
    rows = [entry for entry in record.statistics if entry.series.name in names]
    if rows:
        _print_statistics(console, rows)
    else:
        _print_norms(console, record, names)


def _print_statistics(console: Console, rows: Sequence[TensorStatistics]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("  series", overflow="fold")
    for statistic in _STATISTICS_OF_A_STEP:
        table.add_column(statistic, justify="right", no_wrap=True)
    for entry in rows[:_MOST_STATISTICS]:
        numbers = (say_number(getattr(entry, statistic)) for statistic in _STATISTICS_OF_A_STEP)
        table.add_row(Text("  " + printable(entry.series.name)), *map(Text, numbers))
    console.print(table)
    _print_more(console, len(rows) - _MOST_STATISTICS, "series", "choose with --series REGEX")


def _print_norms(console: Console, record: StepRecord, names: set[str]) -> None:
    """What is kept of a step that was not looked at in full."""
    if record.gradient_norms is None:
        return
    norms = zip(record.gradient_norms.names, record.gradient_norms.values, strict=True)
    shown = [(name, value) for name, value in norms if f"gradient/{name}" in names]
    for name, value in shown[:_MOST_STATISTICS]:
        said = value.value.replace("_", " ") if isinstance(value, Missing) else say_number(value)
        _print_indented(console, f"gradient/{name}  l2 {said}")
    _print_more(console, len(shown) - _MOST_STATISTICS, "series", "choose with --series REGEX")


def _print_indented(console: Console, text: str) -> None:
    console.print(Padding(Text(printable(text)), (0, 0, 0, 2), expand=False))


def _print_more(console: Console, number: int, noun: str, hint: str = "") -> None:
    if number > 0:
        said = f"{number} more series" if noun == "series" else say_count(number, f"more {noun}")
        console.print(Text(f"  … {said}" + (f"; {hint}" if hint else ""), style="dim"))
