# SPDX-License-Identifier: Apache-2.0
"""`firstfault runs`: all recorded runs in a table. Runs outside training."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.table import Table

    from firstfault.reports.run_summary import RunLine


@click.command(short_help="List the recorded runs.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--project", metavar="NAME", help="Only runs of this project.")
@click.option("--no-color", is_flag=True, help="No colours (also: the variable NO_COLOR).")
def command(as_json: bool, project: str | None, no_color: bool) -> None:
    """List the recorded runs, newest first."""
    from firstfault.cli.console import open_console, write_json, write_line
    from firstfault.reports.run_summary import build_run_lines, catalog_to_json
    from firstfault.runs.catalog import list_runs

    catalog = list_runs(project=project)
    if as_json:
        write_json(catalog_to_json(catalog))
        return
    if catalog.runs:
        console = open_console(sys.stdout, color=not no_color)
        console.print(_table(build_run_lines(catalog), console.width))
    else:
        write_line(f"There are no runs in {catalog.home.absolute()}. Make one: firstfault run train.py")
    for entry in catalog.skipped:
        write_line(f"warning: {entry.file} was left out: {entry.reason}", sys.stderr)


def _table(lines: tuple[RunLine, ...], width: int) -> Table:
    from rich.table import Table
    from rich.text import Text

    from firstfault.cli.console import printable
    from firstfault.cli.panel import SEVERITY_STYLES

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("run", no_wrap=True)
    table.add_column("name", overflow="ellipsis", no_wrap=True, max_width=max(width - 68, 10))
    with_project = width >= 80 and len({line.project for line in lines}) > 1
    if with_project:
        table.add_column("project", overflow="ellipsis", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("step", justify="right", no_wrap=True)
    table.add_column("gravest finding", overflow="fold", min_width=20)
    for line in lines:
        style = SEVERITY_STYLES[line.severity] if line.severity else ""
        project = [Text(printable(line.project))] if with_project else []
        table.add_row(
            Text(line.run),
            Text(printable(line.name)),
            *project,
            Text(line.state, style="" if line.state in ("finished", "running") else "bold"),
            Text(line.last_step),
            Text(printable(line.worst), style=style),
        )
    return table
