# SPDX-License-Identifier: Apache-2.0
"""Watches the calls of modules: which the script makes itself, with what, and what comes out. Runs in training.

Two global hooks, and nothing on the user's modules: hooks of a module switch off fused fast paths, and are
pickled with it. They stay installed on all steps, since Dynamo compiles anew when they come and go; calls of
inner modules return at once except on steps that are looked at in full.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules import module as module_hooks
from torch.nn.modules.loss import _Loss

from firstfault.capture.user_code import is_user_file
from firstfault.frameworks.torch.batches import Batches, place_of
from firstfault.frameworks.torch.nested import first_tensors, tensors_in
from firstfault.frameworks.torch.patches import Patches
from firstfault.frameworks.torch.reductions import histogram_of, statistics_of
from firstfault.frameworks.torch.root_module import RootCall, begin_call, end_call, versions
from firstfault.frameworks.torch.scene import Scene, caller_frame, is_watchable
from firstfault.records.series import Kind, Series

_LARGEST_OUTPUT_BYTES = 256 << 20  # of a call that is kept: its output lives on until the update
_NUM_CALLS = 16  # of one backward that can be run again


class CallSite(NamedTuple):
    """The user's line that called a module."""

    filename: str
    function: str
    line: int


class Forwards:
    """The calls of modules since the last backward, and statistics of all modules on full steps."""

    def __init__(self, scene: Scene, batches: Batches, on_unlearnt_output: Callable[[RootCall], None]) -> None:
        self._scene = scene
        self._batches = batches
        self._on_unlearnt_output = on_unlearnt_output
        self._stack: list[int] = []  # ids of the modules being called, those inside them only on full steps
        self._current: RootCall | None = None
        self._num_calls: dict[str, int] = {}
        self._order: dict[str, CallSite] = {}  # modules called in this step, in order
        self._looking = False
        self._is_placed = False
        self.calls: deque[RootCall] = deque(maxlen=_NUM_CALLS)
        self._nested: set[int] = set()  # ids of parts of models that were seen to be called by them
        self.unregistered: dict[int, nn.Module] = {}  #: called by a model that does not know of them (full steps)
        self._enter = scene.firewall.guard("modules", self._enter_module)
        self._leave = scene.firewall.guard("modules", self._leave_module)

    def install(self, patches: Patches) -> None:
        before = module_hooks.register_module_forward_pre_hook(self._before)
        after = module_hooks.register_module_forward_hook(self._after, with_kwargs=True)
        patches.on_removal(before.remove)
        patches.on_removal(after.remove)
        # the handle leaves this entry behind, and torch.compile takes it for a hook (torch 2.13)
        patches.on_removal(lambda: module_hooks._global_forward_hooks_with_kwargs.pop(after.id, None))

    def begin_interval(self) -> None:
        """An update has been made: forget its calls."""
        self.calls.clear()
        self.unregistered.clear()
        self._num_calls.clear()
        self._order.clear()

    def note_backward(self) -> None:
        """Backward begins: where no call has told which batch it is, it is the one drawn last."""
        recorder = self._scene.recorder
        if not self._is_placed and (draw := self._batches.draw_of([])) is not None:
            recorder.pending.place = place_of(draw, recorder.pending.num_backwards)
        self._is_placed = False

    @property
    def order(self) -> Mapping[str, CallSite]:
        """Modules called by models in training since the last update, in execution order (full steps only)."""
        return self._order

    # the hooks

    def _before(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if torch.compiler.is_compiling() or (not self._looking and self._is_called_by_a_model(module)):
            return
        if self._scene.is_quiet or not is_watchable() or (not self._stack and self._is_left_alone(module)):
            return
        self._enter(module, args)

    def _is_called_by_a_model(self, module: nn.Module) -> bool:
        """Whether a part of a model is called by the model, and not by another method (`net.predict(x)`)."""
        if id(module) not in self._scene.models.inner:
            return False
        if self._stack or id(module) in self._nested:
            return True
        if _is_nested():
            self._nested.add(id(module))
            return True
        return False

    def _is_left_alone(self, module: nn.Module) -> bool:
        """Whether a call that the script makes itself need not be kept: nothing is lost but a way to repeat it."""
        recorder = self._scene.recorder
        if recorder.is_full or id(module) not in self._scene.models.entries:
            return False
        return isinstance(module, _Loss) or (
            recorder.has_short_steps and recorder.has_backwards and module.training and torch.is_grad_enabled()
        )

    def _after(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        del args
        if torch.compiler.is_compiling() or not self._stack or id(module) != self._stack[-1]:
            return
        if self._scene.is_quiet or not is_watchable():
            return
        self._leave(module, kwargs, output)

    def _enter_module(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if self._stack and id(module) in self._scene.models.entries and not _is_nested():
            self._stack.clear()  # a forward before this one raised an error, and the script went on
        if not self._stack:
            if id(module) not in self._scene.models.entries and _is_nested():
                return  # inside a call that is not kept
            self._begin_root(module, args)
        self._stack.append(id(module))

    def _leave_module(self, module: nn.Module, kwargs: dict[str, Any], output: Any) -> None:
        self._stack.pop()
        is_root = not self._stack
        if self._looking:
            self._look(module, output, is_root)
        if is_root and self._current is not None:
            self._end_root(self._current, kwargs, output)
        if is_root:
            self._current, self._looking = None, False

    # the calls that the script makes itself

    def _begin_root(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        scene = self._scene
        if id(module) not in scene.models.entries:
            scene.models.admit(module, caller_frame(5))
            scene.recorder.num_modules = len(scene.models.module_names)
        learns = torch.is_grad_enabled()
        if not learns and not module.training:
            scene.recorder.close()  # validation begins
        self._looking = scene.recorder.is_full and learns
        # no versions of parameters: that they are the same is proved by the output
        self._current = begin_call(module, args, {}, parameters=())
        if learns:
            self._note_inputs(args)

    def _note_inputs(self, args: tuple[Any, ...]) -> None:
        inputs = first_tensors(args)
        recorder = self._scene.recorder
        if (draw := self._batches.draw_of(inputs)) is not None:
            recorder.pending.place = place_of(draw, recorder.pending.num_backwards)
            self._is_placed = True
        if self._looking:
            for number, tensor in enumerate(inputs):
                self._record("input", f"input.{number}", tensor)

    def _end_root(self, call: RootCall, kwargs: dict[str, Any], output: Any) -> None:
        if kwargs:  # the hook before the call is not given them
            call.kwargs = kwargs
            call.input_versions = (*call.input_versions, *versions(kwargs))
        if sum([tensor.numel() * tensor.element_size() for tensor in tensors_in(output)]) > _LARGEST_OUTPUT_BYTES:
            return
        end_call(call, output)
        if call.mode.grad_enabled:
            self.calls.append(call)
        if not isinstance(call.module, _Loss):
            self._on_unlearnt_output(call)

    # all modules, on full steps

    def _look(self, module: nn.Module, output: Any, is_root: bool) -> None:
        name = self._scene.models.module_names.get(id(module))
        if name is None:
            self._scene.models.refresh()
            name = self._scene.models.module_names.get(id(module), type(module).__name__)
            if id(module) not in self._scene.models.module_names and any(
                True for _ in module.parameters(recurse=False)
            ):
                self.unregistered[id(module)] = module
        if name not in self._order:
            self._order[name] = _call_site(caller_frame(2))
        if is_root:
            self._record("output", name or type(module).__name__, *first_tensors(output, limit=4))
        elif next(module.children(), None) is None:
            self._record("activation", name, *first_tensors(output, limit=1))

    def _record(self, kind: Kind, subject: str, *tensors: Tensor) -> None:
        series_name = f"{kind}/{subject}"
        pending = self._scene.recorder.pending
        for tensor in tensors:
            call = self._num_calls.get(series_name, 0)
            self._num_calls[series_name] = call + 1
            series = Series(kind, subject)
            pending.statistics.append(statistics_of(tensor, series, call))
            if histogram := histogram_of(tensor, series, call):
                pending.histograms.append(histogram)


def _is_nested() -> bool:
    """Whether the module that is being called was called by another module."""
    frame, num_calls = caller_frame(), 0
    while frame is not None and num_calls < 2:
        num_calls += frame.f_code is nn.Module._call_impl.__code__
        frame = frame.f_back
    return num_calls == 2


def _call_site(frame: FrameType | None) -> CallSite:
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return CallSite("", "", 0)
    return CallSite(frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno)
