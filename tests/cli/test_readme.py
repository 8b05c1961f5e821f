# SPDX-License-Identifier: Apache-2.0
"""The README says nothing that does not hold: its commands and targets are there, and so are the files it names."""

from __future__ import annotations

import re
from pathlib import Path

from firstfault.cli.main import VERBS

_ROOT = Path(__file__).parents[2]
_TEXT = (_ROOT / "README.md").read_text(encoding="utf-8")


def test_every_command_in_it_is_one_of_ours() -> None:
    assert set(re.findall(r"^ +firstfault (\w+)", _TEXT, re.MULTILINE)) <= set(VERBS)


def test_every_make_target_in_it_is_in_the_makefile() -> None:
    makefile = (_ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"make (\w+)", _TEXT))
    assert {"demo", "test"} <= targets
    assert all(f"\n{target}:" in makefile for target in targets)


def test_every_file_it_links_to_is_there() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)\)", _TEXT)
    assert links
    assert all((_ROOT / link).exists() for link in links)
