# SPDX-License-Identifier: Apache-2.0
"""Which models a script trains, and what the user calls everything in them. Runs in training."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from types import FrameType
from typing import Any

from torch import Tensor, nn

from firstfault.capture.user_code import is_user_file

_PLAIN = ("model", "net", "network", "self")


class Models:
    """The models seen, and the names of their modules and parameters.

    The names in a model that is called `model` or `net` are those the user writes (`encoder.0.weight`). Others
    carry the name of the variable that holds the model (`critic.0.weight`).
    """

    def __init__(self) -> None:
        self._roots: dict[str, weakref.ref[nn.Module]] = {}
        self._plain: str | None = None  # the variable whose model needs no prefix
        self._variables: dict[int, str] = {}  # names found for tensors outside of models
        self.version = 0  #: rises when a model is added, replaced or changed
        self.entries: set[int] = set()  #: ids of modules that the script calls itself
        self.inner: set[int] = set()  #: ids of modules that only other modules call
        self._owners: dict[int, weakref.ref[nn.Module]] = {}
        self.module_names: dict[int, str] = {}
        self.parameter_names: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._roots)

    def roots(self) -> Iterator[tuple[str, nn.Module]]:
        """Variable name and model, of those that are alive."""
        for name, reference in list(self._roots.items()):
            root = reference()
            if root is not None:
                yield name, root

    def admit(self, module: nn.Module, frame: FrameType | None) -> None:
        """The script calls `module` itself: find out what it belongs to and what that is called."""
        self.entries.add(id(module))
        self.inner.discard(id(module))
        if id(module) in self.module_names:
            return
        variable, owner = _owner_of(module, frame)
        self.add(owner, variable)

    def add(self, root: nn.Module, variable: str) -> None:
        """Name everything in `root`, which the script holds in `variable`."""
        if self._plain is None and variable in _PLAIN:
            self._plain = variable
        for known, reference in list(self._roots.items()):
            if reference() is root:
                variable = known
        variable = self._free_name(variable, root)
        self._roots[variable] = weakref.ref(root)
        prefix = "" if variable == self._plain else f"{variable}."
        ids = []
        for name, module in root.named_modules():
            full = (prefix + name).rstrip(".") if name else (variable if prefix else "")
            self.module_names.setdefault(id(module), full)
            self._owners.setdefault(id(module), weakref.ref(root))
            ids.append(id(module))
            if id(module) not in self.entries:
                self.inner.add(id(module))
        for name, parameter in root.named_parameters():
            self.version += id(parameter) not in self.parameter_names
            self.parameter_names.setdefault(id(parameter), prefix + name)
            ids.append(id(parameter))
        # ids are used again once a model is gone (one model a fold): forget them with it
        weakref.finalize(root, self._forget_ids, tuple(ids)).atexit = False

    def owner_of(self, module: nn.Module) -> nn.Module:
        """The model that a module is part of; the module itself where none is known."""
        reference = self._owners.get(id(module))
        return (reference() if reference is not None else None) or module

    def refresh(self) -> None:
        """Name what has been added to the models since they were admitted."""
        for variable, root in list(self.roots()):
            self.add(root, variable)

    def name_of(self, parameter: Tensor, fallback: str, frame: FrameType | None = None) -> str:
        """The parameter's name in its model, else the variable that holds it, else `fallback`."""
        known = self.parameter_names.get(id(parameter)) or self._variables.get(id(parameter))
        if known is not None:
            return known
        for scope in _scopes(frame):
            for name, value in scope.items():
                if value is parameter and not name.startswith("_"):
                    self._variables[id(parameter)] = name
                    weakref.finalize(parameter, self._variables.pop, id(parameter), None).atexit = False
                    return name
        return fallback

    def search(self, frame: FrameType | None) -> None:
        """Admit the models that the user's variables hold (for scripts whose calls cannot be watched)."""
        for scope in _scopes(frame):
            for name, value in list(scope.items()):
                if isinstance(value, nn.Module) and id(value) not in self.module_names:
                    self.add(_unwrapped(value), name)

    def trainable(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Name and parameter of every trainable parameter of the models alive, tied ones once."""
        seen: set[int] = set()
        for _, root in self.roots():
            for parameter in root.parameters():
                if parameter.requires_grad and id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield self.parameter_names.get(id(parameter), "?"), parameter

    def _free_name(self, variable: str, root: nn.Module) -> str:
        """The variable's name, numbered where another model that is alive has it already (a loop's variable)."""
        name, number = variable, 2
        while (other := self._roots.get(name)) is not None and other() not in (None, root):
            name, number = f"{variable}#{number}", number + 1
        return name

    def _forget_ids(self, ids: Iterable[int]) -> None:
        for key in ids:
            self.entries.discard(key)
            self.inner.discard(key)
            self.module_names.pop(key, None)
            self._owners.pop(key, None)
            self.parameter_names.pop(key, None)


def _unwrapped(module: nn.Module) -> nn.Module:
    inner = getattr(module, "_orig_mod", None)  # torch.compile's wrapper: users know the names inside it
    return inner if isinstance(inner, nn.Module) else module


def _owner_of(module: nn.Module, frame: FrameType | None) -> tuple[str, nn.Module]:
    """The largest model in the user's variables that holds `module`, with the variable's name."""
    best: tuple[str, nn.Module] | None = None
    best_size = 0
    for scope in _scopes(frame):
        for name, value in list(scope.items()):
            if not isinstance(value, nn.Module):
                continue
            size = _size_if_holding(value, module)
            if size > best_size or (size == best_size and best is not None and _is_plainer(name, best[0])):
                best, best_size = (name, value), size
        if best is not None:
            return best[0], _unwrapped(best[1])
    return type(module).__name__, module


def _is_plainer(name: str, than: str) -> bool:
    return name != "self" and than == "self"


def _size_if_holding(candidate: nn.Module, module: nn.Module) -> int:
    members = list(candidate.modules())
    return len(members) if any(member is module for member in members) else 0


def _scopes(frame: FrameType | None) -> Iterator[Mapping[str, Any]]:
    """Variables of the user's frames, innermost first, and what the objects that run (`self`) hold."""
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            yield frame.f_locals
            holder = frame.f_locals.get("self")
            if holder is not None and not isinstance(holder, nn.Module) and hasattr(holder, "__dict__"):
                yield vars(holder)
            if frame.f_back is None or not is_user_file(frame.f_back.f_code.co_filename):
                yield frame.f_globals
        frame = frame.f_back
