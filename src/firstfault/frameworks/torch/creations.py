# SPDX-License-Identifier: Apache-2.0
"""Where and when modules and optimizers were made. Runs in training."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from firstfault.capture.firewall import Firewall
from firstfault.capture.user_code import is_user_file, location_of_frame, user_location
from firstfault.frameworks.torch.optimizers import Creation, Optimizers
from firstfault.frameworks.torch.patches import Patches
from firstfault.records.step import Location


class Creations:
    """The user's line that made each module, and in which order things were made."""

    def __init__(self, firewall: Firewall, optimizers: Optimizers) -> None:
        self._modules: weakref.WeakKeyDictionary[nn.Module, Creation] = weakref.WeakKeyDictionary()
        self._optimizers = optimizers
        self._eval_location: Location | None = None
        self._load_location: Location | None = None
        self._note_module = firewall.guard("creations", self._note_module_made)
        self._note_optimizer = firewall.guard("creations", self._note_optimizer_made)
        self._note_load = firewall.guard("creations", self._note_weights_loaded)
        self._note_mode = firewall.guard("creations", self._note_mode_set)

    def install(self, patches: Patches) -> None:
        patches.wrap(nn.Module, "__init__", self._init_module)
        patches.wrap(nn.Module, "eval", self._eval)
        patches.wrap(nn.Module, "load_state_dict", self._load_state_dict)
        patches.wrap(Optimizer, "__init__", self._init_optimizer)

    def location_of(self, module: nn.Module) -> Location | None:
        creation = self._modules.get(module)
        return None if creation is None else creation.location

    def moment_of_parameter(self, parameter: Tensor) -> int:
        """When the module that holds the parameter was made; -1 where that is not known."""
        creation = self._creation_of_parameter(parameter)
        return -1 if creation is None else creation.moment

    def location_of_parameter(self, parameter: Tensor) -> Location | None:
        creation = self._creation_of_parameter(parameter)
        return None if creation is None else creation.location

    @property
    def eval_location(self) -> Location | None:
        """The user's line that last called `eval()`."""
        return self._eval_location

    @property
    def load_location(self) -> Location | None:
        """The user's line that last loaded weights into a model; None if none ever did."""
        return self._load_location

    def _creation_of_parameter(self, parameter: Tensor) -> Creation | None:
        for module, creation in list(self._modules.items()):
            if any(own is parameter for own in module._parameters.values()):
                return creation
        return None

    def _init_module(self, original: Callable[..., Any], module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        result = original(module, *args, **kwargs)
        self._note_module(module)
        return result

    def _init_optimizer(self, original: Callable[..., Any], optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        result = original(optimizer, *args, **kwargs)
        self._note_optimizer(optimizer)
        return result

    def _eval(self, original: Callable[..., Any], module: nn.Module) -> Any:
        self._note_mode()
        return original(module)

    def _load_state_dict(self, original: Callable[..., Any], module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        self._note_load()
        return original(module, *args, **kwargs)

    def _note_weights_loaded(self) -> None:
        self._load_location = user_location(4) or self._load_location

    def _note_module_made(self, module: nn.Module) -> None:
        if module not in self._modules:
            self._modules[module] = Creation(_line_that_made(module))

    def _note_optimizer_made(self, optimizer: Optimizer) -> None:
        self._optimizers.note_creation(optimizer, user_location(4))

    def _note_mode_set(self) -> None:
        self._eval_location = user_location(4) or self._eval_location


def _line_that_made(module: nn.Module) -> Location | None:
    """The innermost user's line outside of the module's own constructors."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if is_user_file(code.co_filename) and not (
            code.co_name == "__init__" and frame.f_locals.get("self") is module
        ):
            return location_of_frame(frame)
        frame = frame.f_back
    return None
