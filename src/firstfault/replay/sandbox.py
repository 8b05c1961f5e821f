# SPDX-License-Identifier: Apache-2.0
"""Makes this process unable to hurt the user's files. Runs in the child that runs the script again; no framework.

Three layers, each for what the one before cannot do: writing is turned into a folder of ours, so that the script
goes on (`redirection`); what Python would write elsewhere, send or start is refused by an audit hook; what native
code would write is forbidden by the kernel (`landlock`, where there is one).

    sandbox = enter(order.folder)
    sandbox.guard("torch")     # after `import torch`: its own code writes without Python's `open`
    ...
    sandbox.refusal            # why the run cannot serve, or None
"""

from __future__ import annotations

import functools
import getpass
import os
import shlex
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from firstfault.replay.landlock import restrict_writing
from firstfault.replay.overlay import Overlay
from firstfault.replay.redirection import Redirection

_WRITING_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
#: programs that only tell something, or compile into a temporary folder
_HARMLESS = frozenset({"uname", "nvidia-smi", "rocm-smi", "lscpu", "nproc", "hostname", "file", "ldconfig"})
_COMPILERS = frozenset({"gcc", "g++", "cc", "c++", "clang", "clang++", "ld", "objdump", "ptxas"})
_HARMLESS_GIT = frozenset({"rev-parse", "status", "diff", "log", "describe", "version", "--version", "ls-files"})
#: functions of native code: module -> (function, position of the path, its name, writes)
_NATIVE: dict[str, tuple[tuple[str, int, str, bool], ...]] = {
    "torch": (("save", 1, "f", True), ("load", 0, "f", False)),
    "torch.serialization": (("save", 1, "f", True), ("load", 0, "f", False)),
    "torch.jit": (("save", 1, "f", True), ("load", 0, "f", False)),
    "safetensors.torch": (("save_file", 1, "filename", True), ("load_file", 0, "filename", False)),
    "safetensors.numpy": (("save_file", 1, "filename", True), ("load_file", 0, "filename", False)),
}


class SandboxRefusal(BaseException):  # no error of the script's; nothing of its own shall catch it
    """The script was about to do something that cannot be undone."""


class Sandbox:
    """What holds the script; there is no way out of it but the end of the process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.refusal: str | None = None  #: the first thing refused, in words
        self.kernel_guarded = False  #: native code is held too
        self._caches = _cache_folders()
        free = [str(folder), "/dev", "/proc", *self._caches]
        self._overlay = Overlay(str(folder), free)
        self._free = free

    def guard(self, *modules: str) -> None:
        """Turns the native file functions of modules that have been imported since."""
        for module in modules or tuple(_NATIVE):
            for name, position, keyword, writes in _NATIVE.get(module, ()):
                owner = sys.modules.get(module)
                function = getattr(owner, name, None)
                if function is not None and not hasattr(function, "_firstfault_turned"):
                    setattr(owner, name, self._with_turned_path(function, position, keyword, writes))

    def _close(self) -> None:
        """Puts the layers in place, the innermost last."""
        temporary = self.folder / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
        sys.dont_write_bytecode = True
        self.kernel_guarded = restrict_writing(self._free)
        Redirection(self._overlay).install()
        sys.addaudithook(self._audit)

    def _with_turned_path(
        self, function: Callable[..., Any], position: int, keyword: str, writes: bool
    ) -> Callable[..., Any]:
        @functools.wraps(function)
        def turned(*args: Any, **kwargs: Any) -> Any:
            arguments = list(args)
            if keyword in kwargs:
                kwargs[keyword] = self._turn(kwargs[keyword], writes)
            elif len(arguments) > position:
                arguments[position] = self._turn(arguments[position], writes)
            return function(*arguments, **kwargs)

        turned._firstfault_turned = True  # type: ignore[attr-defined]  # so that it is not turned twice
        return turned

    def _turn(self, path: Any, writes: bool) -> Any:
        if not isinstance(path, str | os.PathLike):
            return path  # an open file
        with self._overlay.at_work():
            if writes:
                return self._overlay.for_writing(path, keep=False)
            return self._overlay.for_reading(path)

    # The audit hook

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        judge = _JUDGES.get(event)
        if judge is None or self._overlay.busy:
            return
        with self._overlay.at_work():
            try:
                reason = judge(self, args)
            except Exception as error:  # noqa: BLE001  # what cannot be judged is not allowed
                reason = f"does {event}{args!r}, which cannot be judged: {error}"
        if reason is not None:
            self.refusal = self.refusal or f"the script {reason}"
            raise SandboxRefusal(f"firstfault runs this script a second time to look at one step, and it {reason}")

    def _may_open(self, args: tuple[Any, ...]) -> str | None:
        path, mode, flags = args
        writes = set(mode) & set("wax+") if isinstance(mode, str) else (flags or 0) & _WRITING_FLAGS
        return self._may_write((path,)) if writes else None

    def _may_write(self, args: tuple[Any, ...]) -> str | None:
        return self._free_or("writes to", args[0])

    def _may_change(self, args: tuple[Any, ...]) -> str | None:
        """For events whose last argument is a folder that a relative path counts from."""
        dir_fd = args[-1] if len(args) > 1 and isinstance(args[-1], int) else None
        return self._free_or("changes", args[0], dir_fd)

    def _may_move(self, args: tuple[Any, ...]) -> str | None:
        source, target = args[0], args[1]
        dir_fds = [fd for fd in args[2:] if isinstance(fd, int)] + [-1, -1]
        return self._free_or("changes", source, dir_fds[0]) or self._free_or("changes", target, dir_fds[1])

    def _may_link(self, args: tuple[Any, ...]) -> str | None:
        return self._free_or("changes", args[1], args[-1] if isinstance(args[-1], int) else None)

    def _may_connect(self, args: tuple[Any, ...]) -> str | None:
        address = args[1]
        if args[0].family == getattr(socket, "AF_UNIX", None) and isinstance(address, str | bytes):
            # those of `multiprocessing`: in the temporary folder, or without a file
            return self._free_or("connects to", address) if os.fsdecode(address)[:1] != "\0" else None
        return f"connects to {address!r}"

    def _may_start(self, args: tuple[Any, ...]) -> str | None:
        command = _words(args)
        program = os.path.basename(command[0]) if command else ""
        harmless = program in _HARMLESS | _COMPILERS or (
            program == "git" and command[1:2] and command[1] in _HARMLESS_GIT
        )
        return None if harmless else f"starts another program: {' '.join(command)[:200]}"

    def _may_signal(self, args: tuple[Any, ...]) -> str | None:
        pid, number = args[0], args[1]
        own = number == 0 or pid == os.getpid() or _parent_of(pid) == os.getpid()
        return None if own else f"sends signal {number} to process {pid}"

    def _free_or(self, what: str, path: Any, dir_fd: int | None = None) -> str | None:
        if isinstance(path, int) or path is None:
            return None  # an open file: it was judged when it was opened
        full = self._overlay.full(path, dir_fd)
        free = full == os.devnull or self._overlay.is_free(full)
        return None if free else f"{what} {full}"


_JUDGES: dict[str, Callable[[Sandbox, tuple[Any, ...]], str | None]] = {
    "open": Sandbox._may_open,
    "sqlite3.connect": lambda box, args: None if args[0] == ":memory:" else box._may_write(args),
    "os.mkdir": Sandbox._may_change,
    "os.rmdir": Sandbox._may_change,
    "os.remove": Sandbox._may_change,
    "os.chmod": Sandbox._may_change,
    "os.chown": Sandbox._may_change,
    "os.utime": Sandbox._may_write,
    "os.truncate": Sandbox._may_write,
    "os.setxattr": Sandbox._may_write,
    "os.removexattr": Sandbox._may_write,
    "os.rename": Sandbox._may_move,
    "os.link": Sandbox._may_link,
    "os.symlink": Sandbox._may_link,
    "socket.connect": Sandbox._may_connect,
    "socket.sendto": Sandbox._may_connect,
    "subprocess.Popen": Sandbox._may_start,
    "os.system": Sandbox._may_start,
    "os.exec": Sandbox._may_start,
    "os.posix_spawn": Sandbox._may_start,
    "os.spawn": lambda box, args: box._may_start(args[1:]),
    "os.kill": Sandbox._may_signal,
    "os.killpg": Sandbox._may_signal,
}


def enter(folder: Path, *, time_limit_seconds: float | None = None) -> Sandbox:
    """Closes the sandbox around this process: from now on only `folder` is written to.

    Call it first of all, on the main thread: the kernel's guard holds for threads that are started later.

    Args:
        time_limit_seconds: the process ends itself after so long, should its parent be gone by then.
    """
    sandbox = Sandbox(Path(os.path.realpath(folder)))
    sandbox._close()
    if time_limit_seconds is not None:
        timer = threading.Timer(time_limit_seconds, os._exit, args=(124,))
        timer.daemon = True
        timer.start()
    return sandbox


def _cache_folders() -> list[str]:
    """Where compilers keep what they compiled: no file of the user's, and dear to make anew."""
    if "TORCHINDUCTOR_CACHE_DIR" not in os.environ:
        name = f"torchinductor_{getpass.getuser()}"
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(tempfile.gettempdir(), name)
    triton = os.environ.get("TRITON_CACHE_DIR", os.path.expanduser("~/.triton"))
    return [os.environ["TORCHINDUCTOR_CACHE_DIR"], triton]


def _words(args: tuple[Any, ...]) -> list[str]:
    """The command line in an audit event: (executable, words, ...), or (command,)."""
    words = args[1] if len(args) > 1 and args[1] is not None else args[0]
    if isinstance(words, str | bytes):
        return _in_shell(os.fsdecode(words))
    command = [os.fsdecode(word) for word in words]
    if len(command) == 3 and os.path.basename(command[0]) in ("sh", "bash") and command[1] == "-c":
        return _in_shell(command[2])
    return command


def _in_shell(line: str) -> list[str]:
    """A plain command's words; the line as one word where the shell would do more than start it."""
    line = line.replace("2>/dev/null", "").replace("2>&1", "")
    return [line] if set(line) & set(";|&<>`$()\n") else shlex.split(line)


def _parent_of(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None
