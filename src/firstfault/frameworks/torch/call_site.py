# SPDX-License-Identifier: Apache-2.0
"""Where the running operation was asked for: module, user's line, stage. Runs inside the training process.

Read from the Python stack, so that no hook has to be installed for it; looked at only when something is bad,
but for the innermost module, which the microscope keeps for each operation of the forward pass.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

import torch

from firstfault.capture.user_code import absolute, is_user_file, location_of, location_of_frame
from firstfault.records.step import Location, Stage

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_STDLIB = os.path.dirname(os.__file__) + os.sep
_MODULE_FILE = os.path.join(_TORCH, "nn", "modules", "module.py")
_FRAME_LINE = re.compile(r'^\s*File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)$')


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSite:
    """Where an operation was asked for."""

    stage: Stage
    module: str | None
    location: Location | None
    library_location: Location | None
    recomputed: bool


def call_site(names: Mapping[int, str], frame: FrameType | None) -> CallSite:
    """Reads the stack from `frame` outwards; in backward no further than the engine."""
    in_backward: bool = torch._C._current_graph_task_id() != -1
    user: FrameType | None = None
    library: FrameType | None = None
    modules: list[Any] = []
    recomputed = optimizing = False
    while frame is not None:
        kind = _kind(frame.f_code)
        if kind == "engine" and in_backward:
            break
        if kind == "user":
            user = user or frame
        elif kind == "library":
            library = library or (None if user else frame)
        recomputed |= kind == "checkpoint" and in_backward
        optimizing |= kind == "optimizer"
        module = _module_of(frame, kind)
        if module is not None and not (modules and modules[-1] is module):
            modules.append(module)
        frame = frame.f_back
    return CallSite(
        stage=_stage(in_backward and not recomputed, optimizing, modules),
        module=_name(modules, names),
        location=location_of_frame(user),
        library_location=_plain_location(library),
        recomputed=recomputed,
    )


def innermost_module(names: Mapping[int, str], frame: FrameType | None) -> str | None:
    """The name of the module whose forward is running, or None."""
    modules = []
    while frame is not None and (kind := _kind(frame.f_code)) != "engine":
        module = _module_of(frame, kind)
        if module is not None:
            if id(module) in names:
                return names[id(module)]
            modules.append(module)
        frame = frame.f_back
    return _name(modules, names)


def location_in_traceback(lines: Iterable[str]) -> Location | None:
    """The innermost line of the user's code in a formatted traceback, as anomaly mode keeps one of each node."""
    found = None
    for entry in lines:
        match = _FRAME_LINE.match(entry.partition("\n")[0])
        if match and is_user_file(match["file"]):
            found = location_of(match["file"], int(match["line"]), match["function"])
    return found


def _stage(in_backward: bool, optimizing: bool, modules: list[Any]) -> Stage:
    if optimizing:
        return "optimizer"
    if in_backward:
        return "backward"
    return "forward" if modules and not _is_criterion(modules[-1]) else "loss"


def _is_criterion(module: Any) -> bool:
    return isinstance(module, torch.nn.modules.loss._Loss) or type(module).__name__.endswith(("Loss", "Criterion"))


def _name(modules: list[Any], names: Mapping[int, str]) -> str | None:
    for module in modules:
        if id(module) in names:
            return names[id(module)]
    return type(modules[0]).__name__ if modules else None


@functools.cache
def _kind(code: CodeType) -> str:
    """What a frame of this code is to us: user, library, engine, checkpoint, optimizer, call, or other."""
    if is_user_file(code.co_filename):
        return "user"
    path = absolute(code.co_filename)
    if not path.startswith(_TORCH):
        known = path.startswith((_OURS, _STDLIB)) and "site-packages" not in path
        return "other" if known or code.co_filename.startswith("<") else "library"
    inside = path[len(_TORCH) :].replace(os.sep, "/")
    if code.co_name == "_engine_run_backward" or (
        inside == "autograd/__init__.py" and code.co_name in ("backward", "grad")
    ):
        return "engine"
    if inside == "utils/checkpoint.py":
        return "checkpoint"
    if inside.startswith("optim/"):
        return "optimizer"
    return "call" if path == _MODULE_FILE and code.co_name == "_call_impl" else "other"


def _module_of(frame: FrameType, kind: str) -> Any:
    if kind != "call" and not (frame.f_code.co_name == "forward" and frame.f_code.co_varnames[:1] == ("self",)):
        return None
    module = frame.f_locals.get("self")
    return module if isinstance(module, torch.nn.Module) else None


def _plain_location(frame: FrameType | None) -> Location | None:
    if frame is None:
        return None
    code = frame.f_code
    return location_of(code.co_filename, frame.f_lineno or code.co_firstlineno, code.co_name)
