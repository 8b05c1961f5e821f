# SPDX-License-Identifier: Apache-2.0
"""Functions of PyTorch replaced by watching ones, and put back as they were. Runs in training."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class Patches:
    """What has been replaced, so that all of it can be undone."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def wrap(self, owner: Any, name: str, around: Callable[..., Any]) -> None:
        """Replace `owner.name` by a function that calls `around(original, *args, **kwargs)`."""
        original = getattr(owner, name)

        @functools.wraps(original)
        def replacement(*args: Any, **kwargs: Any) -> Any:
            return around(original, *args, **kwargs)

        setattr(owner, name, replacement)
        self._undo.append(functools.partial(_put_back, owner, name, original, replacement))

    def on_removal(self, undo: Callable[[], None]) -> None:
        self._undo.append(undo)

    def remove(self) -> None:
        """Put everything back, last first."""
        while self._undo:
            self._undo.pop()()


def _put_back(owner: Any, name: str, original: Any, replacement: Any) -> None:
    # somebody else may have wrapped ours meanwhile: theirs stays, and calls ours, which is inert by then
    if getattr(owner, name) is replacement:
        setattr(owner, name, original)
