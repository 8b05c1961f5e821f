# SPDX-License-Identifier: Apache-2.0
"""`firstfault run`: start a script, watch it, and say what went wrong first. Runs outside training.

A thin parent: the script runs in a child process with the watcher in it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import click

from firstfault.errors import FirstfaultError, UsageError
from firstfault.settings import Settings, StopOn

#: how the command line names what to start
Form: TypeAlias = Literal["script", "module", "command"]
_FORM = "firstfault.cli.run.form"


class RunCommand(click.Command):
    """Leaves everything from the script's name on to the script, `--json` and `--help` too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ours, form, rest = self._split(ctx, args)
        ctx.meta[_FORM] = form
        return super().parse_args(ctx, [*ours, "--", *rest] if rest else ours)

    def _split(self, ctx: click.Context, args: list[str]) -> tuple[list[str], Form, list[str]]:
        takes_value = {
            name
            for option in self.get_params(ctx)
            if isinstance(option, click.Option) and not option.is_flag and not option.count
            for name in option.opts
        }
        position = 0
        while position < len(args):
            word = args[position]
            if word == "--":
                return args[:position], "command", args[position + 1 :]
            if word == "-m":
                return args[:position], "module", args[position + 1 :]
            if not word.startswith("-") or word == "-":
                return args[:position], "script", args[position:]
            position += 2 if word in takes_value else 1
        return args, "script", []


@click.command(
    cls=RunCommand,
    context_settings={"help_option_names": ["-h", "--help"]},
    options_metavar="[OPTIONS]",
    short_help="Watch a training script and say what went wrong first.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the diagnosis as JSON, last on standard output.")
@click.option("--quiet", "-q", is_flag=True, help="Say nothing unless something is wrong.")
@click.option("--no-color", is_flag=True, help="No colours (also: the variable NO_COLOR).")
@click.option(
    "--stop-on",
    type=click.Choice(get_args(StopOn)),
    default="fatal",
    envvar="FIRSTFAULT_STOP_ON",
    show_default=True,
    help="Stop the training at the first finding this grave.",
)
@click.option("--rule", "rules", multiple=True, metavar="FILE.py:CLASS", help="Add a rule of your own.")
@click.option("--ignore", multiple=True, metavar="RULE", help="Leave a rule out.")
@click.option("--project", metavar="NAME", help="Group the run belongs to.")
@click.option("--name", metavar="NAME", help="Name of the run; the script's name if not given.")
@click.argument("command_line", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT.py [ARGUMENTS]...")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    command_line: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    no_color: bool,
    **choices: Any,
) -> None:
    """Watch a training script and say what went wrong first.

    \b
    firstfault run train.py --epochs 3
    firstfault run -m package.train --epochs 3
    firstfault run -- python train.py --epochs 3

    Everything after the script's name belongs to the script. The diagnosis goes to standard error; the exit
    code is the script's own, or 3 if the training was stopped because of a fault.
    """
    child = child_command(ctx.meta[_FORM], command_line)
    _check_rules(choices["rules"])
    settings = settings_from(choices, live=not quiet and not as_json and sys.stderr.isatty())
    watch(child, settings, as_json=as_json, quiet=quiet, color=not no_color)


def child_command(form: Form, words: Sequence[str]) -> list[str]:
    """The command of the child process.

    Raises:
        UsageError: there is nothing to start, or it is not there.
    """
    if not words:
        raise UsageError("no script to run was given; write: firstfault run train.py")
    if form == "module":
        return [sys.executable, "-m", *words]
    if form == "command":
        if shutil.which(words[0]) is None:
            raise UsageError(f"there is no command {words[0]!r}; what follows `--` is run as it stands")
        return list(words)
    _check_script(words[0])
    return [sys.executable, *words]


def _check_script(script: str) -> None:
    path = Path(script)
    if path.is_file() or (path / "__main__.py").is_file():
        return
    if path.is_dir():
        raise UsageError(f"{script!r} is a folder without a __main__.py; name the script to run")
    if path.suffix != ".py" and shutil.which(script) is not None:
        raise UsageError(f"{script!r} is a command, not a script; write: firstfault run -- {script} ...")
    raise UsageError(f"there is no script {script!r} in {Path.cwd()}")


def _check_rules(references: Sequence[str]) -> None:
    """Load each rule once here: a mistake in one is better told before a training of hours than after it."""
    if references:
        from firstfault.plugins import rule_from_file

        for reference in references:
            rule_from_file(reference)


def settings_from(choices: dict[str, Any], *, live: bool) -> Settings:
    """The settings of the environment, with what was chosen on the command line over them."""
    given = {name: value for name, value in choices.items() if value not in (None, ())}
    return Settings.from_environment(live=live, **given)


def watch(
    child: Sequence[str], settings: Settings, *, as_json: bool = False, quiet: bool = False, color: bool = True
) -> None:
    """Run the child, say what was found, and end this process as the child ended.

    Raises:
        FirstfaultError: the child cannot be started.
    """
    from firstfault.capture.stop import EXIT_CODE as STOPPED
    from firstfault.cli.answer import answer
    from firstfault.cli.console import write_line
    from firstfault.launch.closer_look import look_closer
    from firstfault.launch.supervise import supervise

    outcome = supervise(child, settings, quiet=quiet)
    if settings.live:
        click.echo("\r\x1b[2K", nl=False, err=True)  # a killed script could not take its live line away
    if outcome.run is not None and outcome.exit_code == STOPPED and settings.second_run:
        look_closer(outcome.run, child, settings, _say_nothing if quiet else _announce)
    if settings.enabled or as_json:
        try:
            answer(outcome.run, outcome.exit_code, outcome.signal, as_json=as_json, quiet=quiet, color=color)
        except FirstfaultError as error:  # the script has ended all the same, and its exit code is its own
            write_line(f"error: {error}", sys.stderr)
    end_as(outcome.exit_code, outcome.signal)


def _announce(text: str) -> None:
    click.echo(f"firstfault: {text}", err=True)


def _say_nothing(text: str) -> None:
    del text


def end_as(exit_code: int, signal_number: int | None) -> None:
    """End this process with the child's exit code, or by the signal that ended it."""
    if signal_number is None:
        raise SystemExit(exit_code)
    import resource
    import signal

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the core that matters is the child's
    if signal_number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(signal_number, signal.SIG_DFL)
    os.kill(os.getpid(), signal_number)
    raise SystemExit(128 + signal_number)  # the signal was blocked
