# SPDX-License-Identifier: Apache-2.0
"""Watches optimizers' steps: gradients before, parameters after. Runs in training.

PyTorch's own global hooks are used, so that subclasses, schedulers' wrappers and fused optimizers are seen alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from firstfault.capture.user_code import user_location
from firstfault.frameworks.torch.backwards import Backwards
from firstfault.frameworks.torch.census import NUM_CENSUSES, take_census
from firstfault.frameworks.torch.creations import Creations
from firstfault.frameworks.torch.forwards import Forwards
from firstfault.frameworks.torch.optimizers import WatchedOptimizer, learning_rates_of
from firstfault.frameworks.torch.patches import Patches
from firstfault.frameworks.torch.reductions import histogram_of, norms_of, statistics_of
from firstfault.frameworks.torch.scene import Scene, caller_frame
from firstfault.frameworks.torch.screen import Screen
from firstfault.records.encoding import to_json
from firstfault.records.series import NO_GRADIENT, Kind, Series, Value
from firstfault.records.step import Update

_LARGEST_COPY_BYTES = 256 << 20  # of the parameters, to see what an update changes


class Updates:
    """What optimizers do, one update after the other."""

    def __init__(
        self, scene: Scene, forwards: Forwards, backwards: Backwards, creations: Creations, screen: Screen
    ) -> None:
        self._scene = scene
        self._forwards = forwards
        self._backwards = backwards
        self._creations = creations
        self._screen = screen
        self._copies: dict[int, Tensor] = {}
        self._skipped = False
        self._is_first_look = True
        self._ran_hooks = False
        self._before = scene.firewall.guard("optimizers", self._before_step)
        self._before_and_look = scene.firewall.guard("optimizers", self._before_step_with_gradients)
        self._look = scene.firewall.guard("gradients", self._look_at_gradients)
        self._after = scene.firewall.guard("optimizers", self._after_step)
        self._note_skip = scene.firewall.guard("optimizers", self._note_scaler_skip)

    def install(self, patches: Patches) -> None:
        patches.on_removal(register_optimizer_step_pre_hook(self._pre_hook).remove)
        patches.on_removal(register_optimizer_step_post_hook(self._post_hook).remove)
        patches.wrap(torch.amp.GradScaler, "step", self._scaler_step)

    # the hooks

    def _pre_hook(self, optimizer: Optimizer, args: Any, kwargs: Any) -> Any:
        if self._scene.is_quiet or torch.compiler.is_compiling():
            return None
        # the hook is given the optimizer itself as the first argument
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        if not callable(closure):
            self._before_and_look(optimizer)
            return None
        self._before(optimizer)
        watched = self._watched_closure(optimizer, closure)
        if "closure" in kwargs:
            return args, {**kwargs, "closure": watched}
        return (args[0], watched, *args[2:]), kwargs

    def _post_hook(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        del args, kwargs
        if not self._scene.is_quiet and not torch.compiler.is_compiling():
            self._after(optimizer)

    def _watched_closure(self, optimizer: Optimizer, closure: Callable[[], Any]) -> Callable[[], Any]:
        """Gradients come from the closure, so they are looked at when it returns."""

        def watched() -> Any:
            loss = closure()
            self._look(optimizer)
            return loss

        return watched

    def _scaler_step(
        self, original: Callable[..., Any], scaler: Any, optimizer: Any, *args: Any, **kwargs: Any
    ) -> Any:
        self._ran_hooks = False
        result = original(scaler, optimizer, *args, **kwargs)
        if not self._ran_hooks:
            self._note_skip()
        return result

    def _note_scaler_skip(self) -> None:
        self._scene.recorder.update_skipped("GradScaler")

    # before the update

    def _before_step(self, optimizer: Optimizer) -> None:
        scene = self._scene
        state = scene.optimizers.watched(optimizer)
        scene.optimizers.has_stepped = self._ran_hooks = True
        scene.recorder.before_update(state.key)
        scene.poll()
        self._is_first_look = True
        if state.num_models != scene.models.version or state.has_changed(optimizer):
            self._name_parameters(optimizer, state)
        if state.count == 0 and self._begins_training(state):
            scene.recorder.close()  # the last step of the training before
            scene.recorder.event("training", optimizer=state.name)
        if scene.recorder.is_full:
            self._take_copies(state)

    def _before_step_with_gradients(self, optimizer: Optimizer) -> None:
        self._before_step(optimizer)
        self._look_at_gradients(optimizer)

    def _begins_training(self, state: WatchedOptimizer) -> bool:
        """Whether another model is trained from here on, as in k-fold: the optimizer was made after all updates."""
        if state.created is None or state.created.num_updates == 0:
            return False
        others = [other for other in self._scene.optimizers.stepped() if other is not state]
        mine = {id(parameter) for parameter in state.parameters}
        shares = any(id(parameter) in mine for other in others for parameter in other.parameters)
        return not shares and all(other.last_update <= state.created.num_updates for other in others)

    def _name_parameters(self, optimizer: Optimizer, state: WatchedOptimizer) -> None:
        models = self._scene.models
        frame = caller_frame(3)
        if self._scene.is_compiled or not len(models):
            models.search(frame)
        models.refresh()
        state.num_models = models.version
        state.num_censuses = 0
        state.parameters = tuple(p for group in optimizer.param_groups for p in group["params"])
        state.parameter_names = tuple(
            models.name_of(p, f"{state.name}.parameter{i}", frame) for i, p in enumerate(state.parameters)
        )

    def _look_at_gradients(self, optimizer: Optimizer) -> None:
        scene = self._scene
        state = scene.optimizers.watched(optimizer)
        pending = scene.recorder.pending
        if state.num_models < 0:
            return
        gradients = [(i, p.grad) for i, p in enumerate(state.parameters) if p.grad is not None]
        norms = norms_of([gradient for _, gradient in gradients])
        scale = self._fused_scale(optimizer)
        values: list[Value] = [NO_GRADIENT] * len(state.parameters)
        for (i, _), norm in zip(gradients, norms, strict=True):
            values[i] = norm if scale is None else norm / scale
        pending.norm_names, pending.norm_values = state.parameter_names, tuple(values)
        self._skipped = self._is_skipping(optimizer)
        if self._is_first_look:  # a closure may be called many times in one step
            self._is_first_look = False
            if scene.recorder.is_full:
                self._record_gradients(state, scale)
            if state.num_censuses < NUM_CENSUSES:
                self._census(optimizer, state)
            self._note_eval_mode(state)
        if not self._skipped:
            self._screen.loss = (self._backwards.latest_value, self._backwards.latest)
            self._screen.look(state.parameter_names, values, {state.parameter_names[i]: g for i, g in gradients})

    @staticmethod
    def _fused_scale(optimizer: Optimizer) -> float | None:
        """The loss scaler's factor, where a fused optimizer divides by it itself."""
        scale = getattr(optimizer, "grad_scale", None)
        return None if scale is None else float(scale)

    @staticmethod
    def _is_skipping(optimizer: Optimizer) -> bool:
        found = getattr(optimizer, "found_inf", None)
        return found is not None and float(found) > 0

    def _take_copies(self, state: WatchedOptimizer) -> None:
        self._copies = {}
        left = _LARGEST_COPY_BYTES
        for parameter in state.parameters:
            left -= parameter.numel() * parameter.element_size()
            if left < 0:
                break
            self._copies[id(parameter)] = parameter.detach().clone()

    def _record_gradients(self, state: WatchedOptimizer, scale: float | None) -> None:
        pending = self._scene.recorder.pending
        for name, parameter in zip(state.parameter_names, state.parameters, strict=True):
            if parameter.grad is None:
                continue
            gradient = parameter.grad if scale is None else parameter.grad / scale
            self._record("gradient", name, gradient, pending)

    def _record(self, kind: Kind, name: str, tensor: Tensor, draft: Any) -> None:
        series = Series(kind, name)
        draft.statistics.append(statistics_of(tensor, series))
        if kind != "update" and (counts := histogram_of(tensor, series)):
            draft.histograms.append(counts)

    def _census(self, optimizer: Optimizer, state: WatchedOptimizer) -> None:
        scene = self._scene
        facts = take_census(optimizer, state, scene.models, scene.optimizers, self._creations, self._forwards)
        scene.recorder.event("census", state.name, **facts)
        state.num_censuses += 1

    def _note_eval_mode(self, state: WatchedOptimizer) -> None:
        """Say where a model that this update trains was called in eval mode, though that makes a difference."""
        for call in self._forwards.calls:
            root = self._scene.models.owner_of(call.module)
            if call.module.training or root.training:
                continue
            mine = {id(parameter) for parameter in state.parameters}
            if any(id(parameter) in mine for parameter in root.parameters()) and (
                affected := affected_by_mode(root)
            ):
                self._scene.recorder.event(
                    "eval_mode",
                    self._scene.models.module_names.get(id(root), "") or type(root).__name__,
                    affected=affected,
                    eval_location=to_json(self._creations.eval_location),
                )
                return

    # after the update

    def _after_step(self, optimizer: Optimizer) -> None:
        scene = self._scene
        state = scene.optimizers.watched(optimizer)
        recorder = scene.recorder
        if self._skipped:  # a fused optimizer runs its hooks even where it leaves the parameters alone
            recorder.update_skipped("GradScaler")
            return
        if self._copies:
            self._record_changes(state)
        update = Update(
            optimizer=state.name,
            count=state.count,
            learning_rates=learning_rates_of(optimizer),
            location=user_location(3),
            cleared=state.cleared,
            num_backwards=state.num_backwards,
        )
        recorder.after_update(state.key, update)
        scene.optimizers.num_updates += 1
        state.last_update = scene.optimizers.num_updates
        state.begin_interval()
        self._forwards.begin_interval()
        if scene.second_run is not None:
            scene.second_run.begin_interval()

    def _record_changes(self, state: WatchedOptimizer) -> None:
        """Parameters as they are now, and by how much the update changed them."""
        pending = self._scene.recorder.pending
        for name, parameter in zip(state.parameter_names, state.parameters, strict=True):
            before = self._copies.get(id(parameter))
            if before is not None:
                self._record("update", name, parameter.detach() - before, pending)
            self._record("weight", name, parameter, pending)
        self._copies = {}


def affected_by_mode(root: torch.nn.Module) -> list[str]:
    """The modules of a model that behave otherwise in training: dropout and batch normalisation."""
    from torch.nn.modules.batchnorm import _BatchNorm
    from torch.nn.modules.dropout import _DropoutNd

    return [
        f"{name or 'the model'} ({type(module).__name__})"
        for name, module in root.named_modules()
        if (isinstance(module, _DropoutNd) and module.p > 0)
        or (isinstance(module, _BatchNorm) and module.track_running_stats)
    ]
