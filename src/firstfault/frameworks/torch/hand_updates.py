# SPDX-License-Identifier: Apache-2.0
"""Updates that a script makes by hand (`p -= lr * p.grad`), seen by the parameters' versions. Runs in training."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

from torch import Tensor

from firstfault.frameworks.torch.reductions import norms_of
from firstfault.frameworks.torch.scene import Scene, caller_frame
from firstfault.frameworks.torch.screen import Screen
from firstfault.records.series import NO_GRADIENT, Value
from firstfault.records.step import Update

_KEY = 0  # optimizers' keys begin at 1
_MOST_NODES = 20_000  # of a graph that is searched for parameters outside of models


class HandUpdates:
    """Does nothing once an optimizer has stepped: then updates are the optimizer's."""

    def __init__(self, scene: Scene, screen: Screen) -> None:
        self._scene = scene
        self._screen = screen
        self._leaves: list[weakref.ref[Tensor]] = []
        self._versions: dict[int, int] = {}
        self._count = 0

    @property
    def _is_off(self) -> bool:
        return self._scene.optimizers.has_stepped

    def look(self) -> None:
        """Have parameters changed since the last backward? Then that was an update."""
        if self._is_off or not self._versions:
            return
        changed = any(self._versions.get(id(p), p._version) != p._version for p in self._parameters())
        if changed:
            self._versions = {}
            recorder = self._scene.recorder
            recorder.before_update(_KEY)
            update = Update(
                optimizer="by hand",
                count=self._count,
                learning_rates=(),
                location=None,
                by_hand=True,
                num_backwards=recorder.pending.num_backwards,
            )
            recorder.after_update(_KEY, update)
            self._count += 1
            if self._scene.second_run is not None:
                self._scene.second_run.begin_interval()
            self._scene.poll()

    def note_graph(self, loss: Tensor) -> None:
        """Find the parameters outside of models that the loss depends on, while none is known."""
        if self._is_off or self._leaves or len(self._scene.models):
            return
        self._leaves = [weakref.ref(leaf) for leaf in _leaves_of(loss.grad_fn)]

    def after_backward(self) -> None:
        if self._is_off:
            return
        parameters = list(self._parameters())
        self._versions = {id(parameter): parameter._version for parameter in parameters}
        if self._scene.optimizers.any_created:
            return
        frame = caller_frame()
        names = tuple(self._scene.models.name_of(p, f"parameter {i}", frame) for i, p in enumerate(parameters))
        gradients = [(i, p.grad) for i, p in enumerate(parameters) if p.grad is not None]
        values: list[Value] = [NO_GRADIENT] * len(parameters)
        for (i, _), norm in zip(gradients, norms_of([g for _, g in gradients]), strict=True):
            values[i] = norm
        pending = self._scene.recorder.pending
        pending.norm_names, pending.norm_values = names, tuple(values)
        self._screen.look(names, values, {names[i]: gradient for i, gradient in gradients})

    def _parameters(self) -> Iterator[Tensor]:
        for _, parameter in self._scene.models.trainable():
            yield parameter
        for reference in self._leaves:
            leaf = reference()
            if leaf is not None:
                yield leaf


def _leaves_of(node: Any) -> Iterator[Tensor]:
    seen: set[Any] = set()
    waiting = [node]
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None:
            yield variable
        waiting.extend(following for following, _ in node.next_functions)
