# SPDX-License-Identifier: Apache-2.0
"""Watching PyTorch train: puts the parts of this folder together. Runs in training.

capture = TorchCapture(recorder=…, firewall=…, stops_on_fatal=…, poll=…)
capture.install()
…                       # the script trains
capture.remove()
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from firstfault.capture.firewall import Firewall
from firstfault.capture.recorder import Recorder
from firstfault.frameworks.torch.backwards import Backwards
from firstfault.frameworks.torch.batches import Batches
from firstfault.frameworks.torch.creations import Creations
from firstfault.frameworks.torch.forwards import Forwards
from firstfault.frameworks.torch.hand_updates import HandUpdates
from firstfault.frameworks.torch.losses import Targets
from firstfault.frameworks.torch.patches import Patches
from firstfault.frameworks.torch.reductions import has_non_finite, norms_of, statistics_of
from firstfault.frameworks.torch.root_module import RootCall
from firstfault.frameworks.torch.scene import Scene, caller_frame
from firstfault.frameworks.torch.screen import Screen
from firstfault.frameworks.torch.second_run import SecondRun
from firstfault.frameworks.torch.updates import Updates
from firstfault.records.series import Series
from firstfault.replay.order import MicroscopeOrder


class TorchCapture:
    """All that watches PyTorch in this process."""

    def __init__(
        self,
        *,
        recorder: Recorder,
        firewall: Firewall,
        stops_on_fatal: Callable[[], bool],
        poll: Callable[[], None],
        order: MicroscopeOrder | None = None,
    ) -> None:
        self.scene = Scene(recorder=recorder, firewall=firewall, stops_on_fatal=stops_on_fatal, poll=poll)
        if order is not None:
            self.scene.second_run = SecondRun(order, recorder, self.scene.models)
        self._patches = Patches()
        self._module_patches = Patches()  # taken off once torch.compile is used
        self._targets = Targets()
        self._targets.keeps = order is not None
        self._batches = Batches(firewall, self._end_of_loader)
        self._forwards = Forwards(self.scene, self._batches, self._note_unlearnt_output)
        self._creations = Creations(firewall, self.scene.optimizers)
        self._screen = Screen(self.scene, self._forwards, self._targets, self._creations)
        self._hand_updates = HandUpdates(self.scene, self._screen)
        self._backwards = Backwards(self.scene, self._forwards, self._hand_updates)
        self._updates = Updates(self.scene, self._forwards, self._backwards, self._creations, self._screen)
        self._note_compile = firewall.guard("torch.compile", self._prepare_for_compile)

    def install(self) -> None:
        for part in (self._batches, self._backwards, self._creations, self._updates):
            part.install(self._patches)
        for module_part in (self._forwards, self._targets):
            module_part.install(self._module_patches)
        self._patches.wrap(torch, "compile", self._compile)
        if self.scene.second_run is not None:
            self.scene.second_run.begin_interval()

    def remove(self) -> None:
        """Put PyTorch back as it was."""
        self._module_patches.remove()
        self._patches.remove()

    def finish(self) -> None:
        """The run ends: see an update made by hand since the last backward, then put PyTorch back."""
        self.scene.firewall.guard("gradients", self._hand_updates.look)()
        self.scene.firewall.guard("weights", self._look_at_weights)()
        self.remove()

    def watch(self, model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Name a model's parameters before anything calls it, and know of an optimizer before it steps."""
        if optimizer is not None:
            self.scene.optimizers.note_creation(optimizer, None)
        if id(model) not in self.scene.models.module_names:
            self.scene.models.admit(model, caller_frame(2))

    def _note_unlearnt_output(self, call: RootCall) -> None:
        self._screen.note_unlearnt_output(call)

    def _look_at_weights(self) -> None:
        """What came after the last update, or between two looks, would go unseen otherwise."""
        named = [(name, p) for name, p in self.scene.models.trainable() if p.device.type != "meta"]
        norms = norms_of([parameter.detach() for _, parameter in named])
        suspects = [entry for entry, norm in zip(named, norms, strict=True) if not math.isfinite(norm)]
        bad = [(name, parameter) for name, parameter in suspects if has_non_finite(parameter)]
        if bad and self.scene.recorder.has_backwards:
            recorder = self.scene.recorder
            recorder.event("end")
            recorder.pending.full = True
            recorder.pending.statistics += [statistics_of(p, Series("weight", name)) for name, p in bad]

    def _end_of_loader(self, loader: int) -> None:
        del loader
        self.scene.recorder.close()

    def _compile(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._note_compile()
        return original(*args, **kwargs)

    def _prepare_for_compile(self) -> None:
        """Dynamo warns of global hooks on modules and compiles anew when they change: take them off for good."""
        if not self.scene.is_compiled:
            self.scene.is_compiled = True
            self._module_patches.remove()
            self._forwards.begin_interval()
            self.scene.recorder.not_seen.setdefault(
                "activations and root calls: torch.compile is in use, so modules are not watched"
            )
