# SPDX-License-Identifier: Apache-2.0
"""Turns the file functions of Python to the overlay. Runs in a sandboxed child; no framework.

Every function keeps its signature; a call with `dir_fd` goes through as it is, for the sandbox to judge.
"""

from __future__ import annotations

import builtins
import errno
import functools
import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import Any

from firstfault.replay.overlay import Overlay

_WRITING_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_READERS = ("stat", "lstat", "access", "readlink", "chdir", "listxattr")
_CHANGERS = ("chmod", "utime", "truncate", "chown", "setxattr")


class _Entries:
    """What `os.scandir` gives, of both layers."""

    def __init__(self, entries: list[Any]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[Any]:
        return self._entries

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._entries = iter(())


class Redirection:
    """The turned functions; `install` puts them in place for the rest of the process's life."""

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay
        self._open = builtins.open
        self._os = {name: getattr(os, name) for name in dir(os) if callable(getattr(os, name))}
        self._rmtree = shutil.rmtree

    def install(self) -> None:
        builtins.open = io.open = self._turned(self._open, self.open)
        _turn_in_classes(self._open, builtins.open)
        replacements: dict[str, Callable[..., Any]] = {
            "open": self.os_open,
            "mkdir": self.mkdir,
            "rmdir": self.rmdir,
            "remove": self.remove,
            "unlink": self.remove,
            "rename": self.rename,
            "replace": self.rename,
            "symlink": self.symlink,
            "link": self.link,
            "listdir": self.listdir,
            "scandir": self.scandir,
        }
        replacements |= {name: functools.partial(self.read, name) for name in _READERS if name in self._os}
        replacements |= {name: functools.partial(self.change, name) for name in _CHANGERS if name in self._os}
        for name, function in replacements.items():
            setattr(os, name, self._turned(self._os[name], function))
            _turn_in_classes(self._os[name], getattr(os, name))
        shutil.rmtree = self._turned(self._rmtree, self.rmtree)

    def _turned(self, original: Callable[..., Any], function: Callable[..., Any]) -> Any:
        @functools.wraps(original)
        def turned(*args: Any, **kwargs: Any) -> Any:
            named = next((name for name in ("path", "src", "file", "fd") if name in kwargs), None)
            if not args and named is not None:
                args = (kwargs.pop(named),)
            outside = self._overlay.busy or (args and (isinstance(args[0], int) or args[0] is None))
            if outside or any(kwargs[name] is not None for name in kwargs if name.endswith("dir_fd")):
                return original(*args, **kwargs)
            return function(*args, **kwargs)

        for able in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
            if original in able:
                able.add(turned)
        return turned

    # What is read

    def read(self, function: str, path: Any, *args: Any, **kwargs: Any) -> Any:
        return self._os[function](self._seen(path), *args, **kwargs)

    def listdir(self, path: Any = ".") -> list[Any]:
        with self._overlay.at_work():
            names = self._overlay.names_in(path)
        return [os.fsencode(name) for name in names] if isinstance(path, bytes) else list(names)

    def scandir(self, path: Any = ".") -> Any:
        with self._overlay.at_work():
            wanted = set(self._overlay.names_in(path))
            upper = self._overlay.upper(self._overlay.full(path))
            entries = []
            for folder in (upper, path):
                if os.path.isdir(folder):
                    with self._os["scandir"](folder) as found:
                        for entry in found:
                            if os.fsdecode(entry.name) in wanted:
                                wanted.discard(os.fsdecode(entry.name))
                                entries.append(entry)
        return _Entries(entries)

    # What is written

    def open(self, path: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if not set(mode) & set("wax+"):
            return self._open(self._seen(path), mode, *args, **kwargs)
        return self._open(self._written(path, keep="w" not in mode, new="x" in mode), mode, *args, **kwargs)

    def os_open(self, path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if not flags & _WRITING_FLAGS:
            return int(self._os["open"](self._seen(path), flags, *args, **kwargs))
        target = self._written(path, keep=not flags & os.O_TRUNC, new=bool(flags & os.O_EXCL))
        return int(self._os["open"](target, flags, *args, **kwargs))

    def change(self, function: str, path: Any, *args: Any, **kwargs: Any) -> Any:
        return self._os[function](self._written(path, keep=True), *args, **kwargs)

    def mkdir(self, path: Any, *args: Any, **kwargs: Any) -> None:
        self._os["mkdir"](self._written(path, new=True), *args, **kwargs)

    def symlink(self, src: Any, dst: Any, *args: Any, **kwargs: Any) -> None:
        self._os["symlink"](src, self._written(dst, new=True), *args, **kwargs)

    def link(self, src: Any, dst: Any, **_options: Any) -> None:
        with self._overlay.at_work():
            self._overlay.must_be_new(dst)
            shutil.copy2(self._overlay.for_reading(src), self._overlay.for_writing(dst, keep=False))

    def rename(self, src: Any, dst: Any, **_no_folders: None) -> None:
        with self._overlay.at_work():
            self._overlay.must_be_there(src)
            seen, written = self._overlay.for_reading(src), self._overlay.for_writing(dst, keep=False)
            upper = self._overlay.for_writing(src, keep=False)
            if os.path.lexists(upper):
                self._os["replace"](upper, written)
            elif os.path.isdir(seen):
                shutil.copytree(seen, written, symlinks=True)
            else:
                shutil.copy2(seen, written, follow_symlinks=False)
            self._overlay.hide(src)

    def remove(self, path: Any, **_no_folder: None) -> None:
        self._take_away(path, self._os["remove"])

    def rmdir(self, path: Any, **_no_folder: None) -> None:
        with self._overlay.at_work():
            if self._overlay.names_in(path):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), os.fsdecode(path))
        self._take_away(path, self._os["rmdir"])

    def rmtree(self, path: Any, ignore_errors: bool = False, *_args: Any, **_kwargs: Any) -> None:
        try:
            self._take_away(path, self._rmtree)
        except OSError:
            if not ignore_errors:
                raise

    def _take_away(self, path: Any, removal: Callable[[Any], None]) -> None:
        with self._overlay.at_work():
            self._overlay.must_be_there(path)
            target = self._overlay.for_writing(path, keep=False)
            if os.path.lexists(target):
                removal(target)
            self._overlay.hide(path)

    def _seen(self, path: Any) -> Any:
        with self._overlay.at_work():
            return self._overlay.for_reading(path)

    def _written(self, path: Any, *, keep: bool = False, new: bool = False) -> Any:
        with self._overlay.at_work():
            if new:
                self._overlay.must_be_new(path)
            return self._overlay.for_writing(path, keep=keep)


def _turn_in_classes(original: Any, turned: Any) -> None:
    """Where `pathlib` and `glob` keep references of their own (Python 3.10, 3.13)."""
    for name in ("pathlib", "pathlib._local", "pathlib._os", "glob"):
        for kind in list(vars(sys.modules.get(name, object)).values()):
            if isinstance(kind, type):
                for member, value in list(vars(kind).items()):
                    if getattr(value, "__func__", value) is original:
                        setattr(kind, member, staticmethod(turned))
