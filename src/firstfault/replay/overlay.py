# SPDX-License-Identifier: Apache-2.0
"""A second layer over the files: what is written goes to a folder of ours, what is read shows both layers.

Runs in a sandboxed child; no framework. Only bookkeeping is here: which of the two paths an operation means. What
Python calls for it is patched in `redirection`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from typing import Any


class Overlay:
    """Where a path is to be read, and where it is to be written.

    Args:
        folder: holds the upper layer, a mirror of the paths.
        free: folders that are written directly.
    """

    def __init__(self, folder: str, free: Sequence[str]) -> None:
        self._upper = os.path.join(folder, "files")
        self._free = tuple(os.path.realpath(root) for root in free)
        self._hidden: set[str] = set()  # removed by the script: their lower layer is not shown any more
        self._busy = threading.local()

    @property
    def busy(self) -> bool:
        """We are at work ourselves on this thread: no path is to be turned."""
        return getattr(self._busy, "on", False)

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        before = self.busy
        self._busy.on = True
        try:
            yield
        finally:
            self._busy.on = before

    def full(self, path: Any, dir_fd: int | None = None) -> str:
        """The path without symbolic links in its folders."""
        text = os.fsdecode(path)
        if dir_fd is not None and dir_fd >= 0 and not os.path.isabs(text):
            text = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), text)
        text = os.path.abspath(text)
        folder, name = os.path.split(text)
        return os.path.join(os.path.realpath(folder), name)

    def is_free(self, full: str) -> bool:
        """Whether the script may write there."""
        target = os.path.realpath(full)  # a link in a free folder may lead out of it
        return any(target == root or target.startswith(root + os.sep) for root in self._free)

    def upper(self, full: str) -> str:
        return self._upper + full

    def for_reading(self, path: Any) -> Any:
        """The path that shows what the script would see."""
        full = self.full(path)
        upper = self.upper(full)
        if os.path.lexists(upper):
            return upper
        return upper if self.is_hidden(full) else path

    def for_writing(self, path: Any, *, keep: bool) -> Any:
        """The path to write to; with `keep`, what the file holds is there already."""
        full = self.full(path)
        if self.is_free(full):
            return path
        upper = self.upper(full)
        if os.path.isdir(self.for_reading(os.path.dirname(full))):
            os.makedirs(os.path.dirname(upper), exist_ok=True)
        if keep and not os.path.lexists(upper) and not self.is_hidden(full) and os.path.lexists(full):
            if os.path.isdir(full):
                os.makedirs(upper)
            else:
                shutil.copy2(full, upper)
        return upper

    def must_be_new(self, path: Any) -> None:
        """Raises what the system raises where something is there already."""
        full = self.full(path)
        if not self.is_free(full) and self._exists(full):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fsdecode(path))

    def must_be_there(self, path: Any) -> None:
        if not self._exists(self.full(path)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fsdecode(path))

    def hide(self, path: Any) -> None:
        """What the lower layer has there counts as removed."""
        full = self.full(path)
        if os.path.lexists(full) and not self.is_free(full):
            self._hidden.add(full)

    def is_hidden(self, full: str) -> bool:
        while self._hidden and full != os.sep:
            if full in self._hidden:
                return True
            full = os.path.dirname(full)
        return False

    def names_in(self, path: Any) -> list[str]:
        """The names in a folder, of both layers."""
        full = self.full(path)
        upper = self.upper(full)
        in_upper = os.path.isdir(upper)
        names = set(os.listdir(upper)) if in_upper else set()
        if not self.is_hidden(full) and (os.path.isdir(full) or not in_upper):
            names |= {name for name in os.listdir(full) if os.path.join(full, name) not in self._hidden}
        return sorted(names)

    def _exists(self, full: str) -> bool:
        return os.path.lexists(self.upper(full)) or (os.path.lexists(full) and not self.is_hidden(full))
