# SPDX-License-Identifier: Apache-2.0
"""`firstfault demo`: watch a small training that has a real mistake in it. Runs outside training."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import click

from firstfault.errors import UsageError

_NEEDED = {"torch": "torch", "sklearn": "scikit-learn"}


@click.command(short_help="Watch a small training that has a real mistake in it.")
@click.option("--json", "as_json", is_flag=True, help="Print the diagnosis as JSON, last on standard output.")
@click.option("--no-color", is_flag=True, help="No colours (also: the variable NO_COLOR).")
def command(as_json: bool, no_color: bool) -> None:
    """Watch a small training that has a real mistake in it.

    A net learns to read handwritten digits. Its loss falls as it should and is then NaN from one step to the
    next. Exit code 3, since the training is stopped.
    """
    from firstfault.cli.console import write_line
    from firstfault.cli.run import settings_from, watch

    missing = [package for module, package in _NEEDED.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise UsageError(
            f'the demo needs {" and ".join(missing)}, not installed here: pip install "firstfault[demo]"'
        )
    script = Path(__file__).parent.parent / "demo" / "digits.py"
    if not as_json:
        write_line(f"$ firstfault run {_short(script)}", sys.stderr)
    settings = settings_from({"stop_on": "fatal"}, live=not as_json and sys.stderr.isatty())
    watch([sys.executable, str(script)], settings, as_json=as_json, color=not no_color)


def _short(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
