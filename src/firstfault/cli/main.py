# SPDX-License-Identifier: Apache-2.0
"""The command `firstfault`: finds the verb and turns our errors into one sentence. Runs outside training.

Nothing heavy is imported here nor at the top of a verb's file, so that `--help` answers at once.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import click

from firstfault.errors import FirstfaultError, RunNotFoundError

#: each verb is the file of its name in this folder, in the order of the help
VERBS = ("run", "demo", "diagnose", "show", "runs")

EXIT_NOT_FOUND = 1
EXIT_ERROR = 2


class Verbs(click.Group):
    """The verbs, each imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(f"firstfault.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Say what was probably meant by `firstfault train.py`."""
        if args and args[0] not in VERBS and args[0].endswith(".py"):
            ctx.fail(f"{args[0]!r} is no command; to watch a script: firstfault run {args[0]}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except FirstfaultError as error:
            kind = NotFound if isinstance(error, RunNotFoundError) else Failure
            raise kind(str(error)) from error


class Failure(click.ClickException):
    """One of our errors as the command line says it: one sentence, no traceback."""

    exit_code = EXIT_ERROR

    def show(self, file: Any = None) -> None:  # noqa: ARG002  # click's signature
        from firstfault.cli.console import printable, write_line

        write_line(f"error: {printable(self.format_message())}", sys.stderr)


class NotFound(Failure):
    """There is no such run."""

    exit_code = EXIT_NOT_FOUND


@click.command(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: firstfault run train.py",
)
@click.version_option(package_name="firstfault", message="%(prog)s %(version)s")
def cli() -> None:
    """Find what went wrong first in a machine-learning training."""


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point; ends the process."""
    cli.main(None if arguments is None else list(arguments), prog_name="firstfault")
