# SPDX-License-Identifier: Apache-2.0
"""`firstfault show`: one run at a glance, its curves and histograms drawn in characters. Runs outside training."""

from __future__ import annotations

import sys

import click

from firstfault.records.series import KINDS, STATISTICS, Statistic


@click.command(short_help="Look into a recorded run: curves, histograms, single steps.")
@click.argument("run", default="last")
@click.option("--series", "regex", metavar="REGEX", help="Only series whose name matches, as 'gradient/.*bias'.")
@click.option(
    "--kind", type=click.Choice(KINDS), metavar="KIND", help=f"Only series of a kind: {', '.join(KINDS)}."
)
@click.option("--step", type=int, metavar="N", help="What was measured at this step.")
@click.option(
    "--statistic",
    type=click.Choice(STATISTICS),
    default="l2",
    metavar="NAME",
    help=f"What to draw of a tensor: {', '.join(STATISTICS)}.  [default: l2]",
)
@click.option("--no-color", is_flag=True, help="No colours (also: the variable NO_COLOR).")
def command(
    run: str, regex: str | None, kind: str | None, step: int | None, statistic: Statistic, no_color: bool
) -> None:
    """Look into a recorded run: its series, steps, findings, curves and histograms.

    RUN is an id or the beginning of one, a folder, or `last` (which is what is taken without it).
    """
    from firstfault.cli.console import open_console
    from firstfault.cli.overview import print_overview
    from firstfault.query.run_view import open_run
    from firstfault.reports.run_overview import Selection

    selection = Selection(regex=regex, kind=kind, step=step, statistic=statistic)
    print_overview(open_console(sys.stdout, color=not no_color), open_run(run), selection)
