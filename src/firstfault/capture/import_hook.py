# SPDX-License-Identifier: Apache-2.0
"""Calls back once a module has been imported, so that frameworks are watched and never imported by us.

Runs in training.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


def after_import(name: str, callback: Callable[[], None]) -> Callable[[], None]:
    """Call `callback` once `name` has been imported: now, if it has been already.

    Returns:
        A function that takes the hook off again.
    """
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        callback()
        return lambda: None
    finder = _Finder(name, callback)
    sys.meta_path.insert(0, finder)
    return finder.remove


class _Finder(importlib.abc.MetaPathFinder):
    """Finds nothing itself: asks the other finders, and has the loader they name call back."""

    def __init__(self, name: str, callback: Callable[[], None]) -> None:
        self._name = name
        self._callback = callback

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        self.remove()
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(fullname, path, target) if find is not None else None
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    _call_after_loading(spec.loader, self._callback)
                return spec
        return None

    def remove(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)


def _call_after_loading(loader: importlib.abc.Loader, callback: Callable[[], None]) -> None:
    load = loader.exec_module
    earlier = vars(loader).get("exec_module")  # of another hook of this kind, on this very loader

    def load_and_call(module: ModuleType) -> None:
        if earlier is None:
            del loader.exec_module  # the instance's attribute: the class's own shows again
        else:
            loader.exec_module = earlier  # type: ignore[method-assign]  # as it was
        load(module)
        callback()

    loader.exec_module = load_and_call  # type: ignore[method-assign]  # of this one loader
