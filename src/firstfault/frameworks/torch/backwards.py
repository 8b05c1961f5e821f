# SPDX-License-Identifier: Apache-2.0
"""Watches backward: which loss, from which line, and whether old gradients were still there. Runs in training.

`torch.autograd.backward` and `torch.autograd.grad` are wrapped; `Tensor.backward` calls the first.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from firstfault.capture.user_code import user_location
from firstfault.frameworks.torch.forwards import Forwards
from firstfault.frameworks.torch.hand_updates import HandUpdates
from firstfault.frameworks.torch.losses import loss_value
from firstfault.frameworks.torch.patches import Patches
from firstfault.frameworks.torch.scene import Scene, is_watchable
from firstfault.records.step import Location


class Backwards:
    """The losses that backward is called on."""

    def __init__(self, scene: Scene, forwards: Forwards, hand_updates: HandUpdates) -> None:
        self._scene = scene
        self._forwards = forwards
        self._hand_updates = hand_updates
        self._scale: Tensor | None = None
        self._unscaled: Tensor | None = None  # the loss before the scaler's factor, which may make it overflow
        self.latest: Location | None = None  #: the user's line that called backward last
        self.latest_value: float | None = None
        self._before = scene.firewall.guard("losses", self._before_backward)
        self._after = scene.firewall.guard("gradients", self._after_backward)
        self._before_grad = scene.firewall.guard("losses", self._before_autograd_grad)

    def install(self, patches: Patches) -> None:
        patches.wrap(torch.autograd, "backward", self._backward)
        patches.wrap(torch.autograd, "grad", self._grad)
        patches.wrap(torch.amp.GradScaler, "scale", self._scaler_scale)

    def _backward(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self._scene.is_quiet or not is_watchable():
            return original(*args, **kwargs)
        self._before(args[0] if args else kwargs.get("tensors"))
        result = original(*args, **kwargs)
        self._after()
        return result

    def _grad(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if not self._scene.is_quiet and is_watchable() and not kwargs.get("create_graph"):
            self._before_grad(*args[:2], **{k: v for k, v in kwargs.items() if k in ("outputs", "inputs")})
        return original(*args, **kwargs)

    def _scaler_scale(self, original: Callable[..., Any], scaler: Any, outputs: Any) -> Any:
        result = original(scaler, outputs)
        self._scale = getattr(scaler, "_scale", None) if scaler.is_enabled() else None
        self._unscaled = outputs.detach() if isinstance(outputs, Tensor) and outputs.numel() == 1 else None
        return result

    def _before_backward(self, tensors: Tensor | Sequence[Tensor]) -> None:
        self._hand_updates.look()
        self._forwards.note_backward()
        for state in self._scene.optimizers.stepped():
            state.note_backward()
        for tensor in [tensors] if isinstance(tensors, Tensor) else tensors:
            self._note_loss(tensor)
            self._hand_updates.note_graph(tensor)

    def _after_backward(self) -> None:
        recorder = self._scene.recorder
        recorder.backward()
        for state in self._scene.optimizers.stepped():
            state.mark_gradients()
        self._hand_updates.after_backward()

    def _before_autograd_grad(self, outputs: Any, inputs: Any) -> None:
        inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
        outputs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
        if any(isinstance(entry, nn.Parameter) for entry in inputs) and outputs[0].numel() == 1:
            self._hand_updates.look()
            self._note_loss(outputs[0])
            self._scene.recorder.backward()

    def _note_loss(self, loss: Tensor) -> None:
        where = user_location(4)
        subject = f"{os.path.basename(where.file)}:{where.line}" if where is not None else "loss"
        if self._scene.second_run is not None:
            self._scene.second_run.note_loss(loss)
        self.latest = where
        self.latest_value = loss_value(loss, self._scale)
        if self._unscaled is not None and not math.isfinite(self.latest_value):
            self.latest_value = float(self._unscaled)
        self._unscaled = None
        self._scene.recorder.loss(subject, self.latest_value)
