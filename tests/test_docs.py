# SPDX-License-Identifier: Apache-2.0
"""The documents do not drift from the code: everything a person can name is in them, and nothing else."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import click
import pytest

from firstfault.cli.main import VERBS, cli
from firstfault.diagnosis.causes import EXPLAINS
from firstfault.rules.registry import BUILT_IN
from firstfault.settings import Settings

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_made_from_the_code_are_up_to_date() -> None:
    for path, text in _generator().pages().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is old: run python docs/generate.py"


def test_every_rule_and_every_name_of_a_finding_is_documented() -> None:
    text = (DOCS / "what-it-finds.md").read_text(encoding="utf-8")
    for name in {rule.name for rule in BUILT_IN} | EXPLAINS.keys():
        assert re.search(rf"\b{name}\b", text), name


def test_every_setting_is_documented_with_its_default() -> None:
    text = (DOCS / "settings.md").read_text(encoding="utf-8")
    for entry in dataclasses.fields(Settings):
        assert f"`{entry.metadata['variable']}`" in text
        assert entry.metadata["help"] in text


def _section(verb: str) -> str:
    """What `cli.md` says of a verb."""
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", text, flags=re.MULTILINE)
    return next(section for section in sections if section.startswith(f"firstfault {verb}"))


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_is_documented_with_its_verb_and_no_other_is(verb: str) -> None:
    command = cli.get_command(click.Context(cli), verb)  # type: ignore[attr-defined]  # a group
    assert command is not None
    section = _section(verb)
    options = {name for option in command.params if isinstance(option, click.Option) for name in option.opts} - {
        "--help",
        "-h",
    }
    for name in options:
        assert re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", section), f"{name} of {verb}"
    named = set(re.findall(r"(?<=`)--[a-z][a-z-]+", section))
    assert named <= options | {"--help"}, f"{verb} has no {named - options}"


def test_every_verb_is_documented_and_no_other_is() -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert re.findall(r"^## firstfault (\w+)", text, flags=re.MULTILINE) == list(VERBS)


@pytest.mark.parametrize("path", [*sorted(DOCS.rglob("*.md")), ROOT / "README.md"], ids=lambda path: path.name)
def test_links_between_the_documents_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


@pytest.mark.parametrize("path", [*sorted(DOCS.rglob("*.md")), ROOT / "README.md"], ids=lambda path: path.name)
def test_variables_that_the_documents_name_exist(path: Path) -> None:
    known = {entry.metadata["variable"] for entry in dataclasses.fields(Settings)}
    named = set(re.findall(r"\bFIRSTFAULT(?:_[A-Z_]+)?\b", path.read_text(encoding="utf-8")))
    assert named <= known, f"{path.name} names {named - known}"
