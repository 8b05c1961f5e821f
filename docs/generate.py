# SPDX-License-Identifier: Apache-2.0
"""Writes the pages that are made from the code: `python docs/generate.py`. A test holds them up to date."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from firstfault.rules.protocol import Rule
from firstfault.rules.registry import BUILT_IN
from firstfault.settings import Settings

_FOLDER = Path(__file__).parent
_MADE = "<!-- made by docs/generate.py from the code; edit that -->"
#: findings of the family `non_finite` carry the name of what was non-finite
_FAMILY = "non_finite"
_OF_FAMILY = ("gradient", "loss", "activation", "weight", "input", "target")


def pages() -> dict[Path, str]:
    """The text of each page that is made."""
    return {
        _FOLDER / "what-it-finds.md": "\n".join(_rules_page()) + "\n",
        _FOLDER / "settings.md": "\n".join(_settings_page()) + "\n",
    }


def _rules_page() -> Iterator[str]:
    yield "# What it finds"
    yield ""
    yield _MADE
    yield ""
    yield "`--ignore NAME` leaves a rule out; `# firstfault: ok NAME` on the line it points to silences it there."
    for rule in BUILT_IN:
        yield from ("", *_rule_section(rule))


def _rule_section(rule: type[Rule]) -> Iterator[str]:
    summary, _, body = (inspect.getdoc(rule) or "").partition("\n\n")
    yield f"## {rule.name}"
    yield ""
    yield summary
    if rule.name == _FAMILY:
        names = ", ".join(f"`{_FAMILY}_{what}`" for what in _OF_FAMILY)
        yield ""
        yield f"Findings are named after the earliest stage that explains the step: {names}."
    yield ""
    for section in re.split(r"\n(?=\S)", body):
        heading, _, text = section.partition(":")
        yield f"- **{heading}:** {' '.join(text.split())}"


def _settings_page() -> Iterator[str]:
    yield "# Settings"
    yield ""
    yield _MADE
    yield ""
    yield "Each is a variable of the environment; an option of [the command line](cli.md) goes before it."
    yield ""
    yield "| variable | default | meaning |"
    yield "|---|---|---|"
    for entry in dataclasses.fields(Settings):
        yield f"| `{entry.metadata['variable']}` | {_default(entry.default)} | {entry.metadata['help']} |"


def _default(value: object) -> str:
    if isinstance(value, bool):
        return f"`{int(value)}`"
    return f"`{value}`" if value not in ("", ()) else ""


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
