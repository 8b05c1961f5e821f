# SPDX-License-Identifier: Apache-2.0
"""Which file may import which: the order of the packages, read from the syntax of every import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import firstfault

SOURCES = Path(firstfault.__path__[0])
#: a file imports only from its own package and from those before it
ORDER = (
    *("errors", "settings", "plugins", "records", "statistics", "store", "query", "rules", "actions", "engine"),
    *("capture", "diagnosis", "replay", "frameworks", "session", "runs", "reports", "launch"),
    *("sweeps", "interchange", "cli", "watching", "__main__", "__init__"),
)
#: names that say nothing: what has no home has no name yet
NAMELESS = ("utils", "util", "helpers", "helper", "common", "misc", "manager", "base_cls")


def _files() -> Iterator[tuple[Path, str]]:
    """Every source file, with the package it belongs to."""
    for path in sorted(SOURCES.rglob("*.py")):
        yield path, path.relative_to(SOURCES).parts[0].removesuffix(".py")


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of everything a file imports, at its top or inside of functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: an import is relative"
            yield node.lineno, node.module or ""
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def _ours(path: Path) -> Iterator[tuple[int, str, str]]:
    for line, name in _imports(path):
        if name.startswith("firstfault."):
            yield line, name, name.split(".")[1]


def test_every_package_has_its_place_in_the_order() -> None:
    assert {package for _, package in _files()} <= {*ORDER, "demo"}


def test_a_file_imports_only_from_packages_before_its_own() -> None:
    wrong = {
        f"{path.relative_to(SOURCES)}:{line} imports {name}"
        for path, package in _files()
        for line, name, imported in _ours(path)
        if package == "demo" or ORDER.index(imported) > ORDER.index(package)
    }
    assert not wrong, "\n".join(sorted(wrong))


def test_a_frameworks_folder_is_reached_only_by_its_entry_point() -> None:
    wrong = {
        f"{path.relative_to(SOURCES)}:{line} imports {name}"
        for path, package in _files()
        for line, name, imported in _ours(path)
        if imported == "frameworks" and package != "frameworks"
    }
    assert not wrong, "\n".join(sorted(wrong))


def test_frameworks_are_imported_nowhere_but_in_their_own_folder() -> None:
    wrong = {
        f"{path.relative_to(SOURCES)}:{line} imports {name}"
        for path, package in _files()
        for line, name in _imports(path)
        if name.split(".")[0] in ("torch", "keras", "tensorflow", "jax", "lightning", "transformers")
        and package not in ("frameworks", "demo")
    }
    assert not wrong, "\n".join(sorted(wrong))


def test_no_module_is_named_after_having_no_name() -> None:
    assert not [path for path, _ in _files() if path.stem in NAMELESS or path.parent.name in NAMELESS]


def test_every_file_says_what_it_is_and_under_which_licence() -> None:
    for path, _ in _files():
        text = path.read_text()
        assert text.startswith("# SPDX-License-Identifier: Apache-2.0\n"), path
        if path.name != "__init__.py":
            assert ast.get_docstring(ast.parse(text)), f"{path} has no docstring"
