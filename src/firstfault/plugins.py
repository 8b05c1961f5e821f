# SPDX-License-Identifier: Apache-2.0
"""Rules and frameworks, ours and other people's, loaded on demand. Runs in training and elsewhere."""

from __future__ import annotations

import importlib.util
import inspect
import re
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from firstfault.errors import PluginError


def framework_starters() -> dict[str, EntryPoint]:
    """What starts capture for each framework, by the framework's import name; nothing is loaded yet."""
    return {entry.name: entry for entry in entry_points(group="firstfault.frameworks")}


def installed_rules(report: Callable[[str], None]) -> list[type[Any]]:
    """Rule classes of other packages (entry points `firstfault.rules`); a broken one is reported and left out."""
    rules = []
    for entry in entry_points(group="firstfault.rules"):
        try:
            rules.append(entry.load())
        except Exception as error:  # noqa: BLE001  # anything can go wrong in somebody else's module
            report(f"rule {entry.name} of {entry.value} was left out: it does not load ({error!r})")
    return rules


def rule_from_file(reference: str) -> type[Any]:
    """The class that `file.py:ClassName` names.

    Raises:
        PluginError: the file or the class is absent, or the file does not load.
    """
    path_text, _, class_name = reference.rpartition(":")
    path = Path(path_text)
    if not path_text or not class_name.isidentifier():
        raise PluginError(f"--rule takes FILE.py:ClassName, not {reference!r}")
    if not path.is_file():
        raise PluginError(f"--rule {reference}: there is no file {path}")
    module_name = "firstfault_rule_" + re.sub(r"\W", "_", path.stem)
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise PluginError(f"--rule {reference}: {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise PluginError(f"--rule {reference}: {path} does not load: {error!r}") from error
    found = getattr(module, class_name, None)
    if not inspect.isclass(found):
        raise PluginError(f"--rule {reference}: {path} has no class {class_name}")
    return found
