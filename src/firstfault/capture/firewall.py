# SPDX-License-Identifier: Apache-2.0
"""Where our own failures stop, and where our own time is counted. Runs in training.

Every callback that a framework or the user's code makes into us goes through `Firewall.guard`.
"""

from __future__ import annotations

import functools
import os
import time
import weakref
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Firewall:
    """A failure of ours switches one part off with one warning, and the training goes on."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._is_inside = False
        self.switched_off: dict[str, str] = {}  #: part to the reason, in words
        self.seconds = 0.0  #: time spent inside guarded calls, since the start
        self.enabled = True
        _be_off_in_children(self)

    def guard(self, part: str, function: Callable[P, R]) -> Callable[P, R | None]:
        """`function`, made safe: it returns None when it fails, and at once when its part is switched off."""
        clock = time.perf_counter

        @functools.wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R | None:
            if not self.enabled or part in self.switched_off:
                return None
            was_inside, self._is_inside = self._is_inside, True
            began = clock()
            try:
                return function(*args, **kwargs)
            except Exception as error:  # noqa: BLE001  # the boundary: nothing of ours may reach the training
                self.switch_off(part, _in_words(error))
                return None
            finally:
                self._is_inside = was_inside
                if not was_inside:  # else a callback of ours set off another: its time is being counted already
                    self.seconds += clock() - began

        return guarded

    def switch_off(self, part: str, reason: str) -> None:
        """Leave a part out from here on, and say so once."""
        if part in self.switched_off:
            return
        reason = reason.strip().splitlines()[0] if reason.strip() else "no reason given"
        self.switched_off[part] = reason
        self._warn(f"watching of {part} is switched off, the training goes on ({reason})")


def _be_off_in_children(firewall: Firewall) -> None:
    """A fork of a watched process (a loader's worker) is not watched: its parent tells all there is to tell."""
    if not hasattr(os, "register_at_fork"):
        return
    reference = weakref.ref(firewall)  # a registration lasts as long as the process: hold nothing alive by it

    def switch_off() -> None:
        if (here := reference()) is not None:
            here.enabled = False

    os.register_at_fork(after_in_child=switch_off)


def _in_words(error: Exception) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  # an error of somebody else's class, whose own text fails
        return type(error).__name__
