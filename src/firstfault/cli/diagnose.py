# SPDX-License-Identifier: Apache-2.0
"""`firstfault diagnose`: say again, of a run that was recorded, what went wrong first. Runs outside training."""

from __future__ import annotations

import sys

import click


@click.command(short_help="Say what went wrong first in a recorded run.")
@click.argument("run", default="last")
@click.option("--json", "as_json", is_flag=True, help="As JSON, in the form of `run --json`.")
@click.option("--no-color", is_flag=True, help="No colours (also: the variable NO_COLOR).")
def command(run: str, as_json: bool, no_color: bool) -> None:
    """Say what went wrong first in a recorded run.

    RUN is an id or the beginning of one, a folder, or `last` (which is what is taken without it).
    """
    from firstfault.cli.answer import print_diagnosis, print_json
    from firstfault.query.find import find_run
    from firstfault.reports.recorded import load_diagnosis

    recorded = load_diagnosis(find_run(run))
    if as_json:
        print_json(recorded.diagnosis)
    else:
        print_diagnosis(recorded, recorded.diagnosis, sys.stdout, color=not no_color)
