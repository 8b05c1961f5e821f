# SPDX-License-Identifier: Apache-2.0
"""The screen: may this update go ahead? Runs in training, in the step itself.

The L2 norms of the gradients, which are taken anyway, turn non-finite with any element. Where one does, the
step's root calls are run again under the microscope, and all that is learnt goes into the step's record as an
event, so that rules say the same offline.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from firstfault.frameworks.torch import trace_back
from firstfault.frameworks.torch.creations import Creations
from firstfault.frameworks.torch.forwards import Forwards
from firstfault.frameworks.torch.losses import Targets
from firstfault.frameworks.torch.reductions import has_non_finite
from firstfault.frameworks.torch.root_module import RootCall
from firstfault.frameworks.torch.scene import Scene
from firstfault.records.encoding import to_json
from firstfault.records.series import Value
from firstfault.records.step import Location

_MOST_NAMES = 50
_MOST_SILENCED = 20  # closer looks at steps whose findings the user has silenced


class Screen:
    """Looks at the gradients an update is about to consume."""

    def __init__(self, scene: Scene, forwards: Forwards, targets: Targets, creations: Creations) -> None:
        self._scene = scene
        self._forwards = forwards
        self._targets = targets
        self._creations = creations
        self._has_told_output = False
        self._num_silenced = 0
        self.loss: tuple[float | None, Location | None] = (None, None)  #: what backward was last called on

    def look(self, names: Sequence[str], norms: Sequence[Value], gradients: Mapping[str, Tensor]) -> None:
        """Stop the training, if it is to be stopped, where a gradient is non-finite.

        Raises:
            TrainingStopped: a fatal finding was made, and the settings stop at it.
        """
        suspects = [
            n for n, norm in zip(names, norms, strict=True) if type(norm) is float and not math.isfinite(norm)
        ]
        losses = [value for _, value, _ in self._scene.recorder.pending.losses if not math.isfinite(value)]
        if not (suspects or losses) or self._scene.has_tripped:
            return
        bad = [name for name in suspects if has_non_finite(gradients[name])]
        # a loss can be non-finite though its gradients are not: an absolute error of infinity has slope 1
        if bad or losses:
            self._trip(bad, gradients, losses)

    def _trip(self, bad: list[str], gradients: Mapping[str, Tensor], losses: list[float]) -> None:
        scene = self._scene
        scene.has_tripped = True
        value, line = self.loss
        value = losses[0] if losses else value
        facts: dict[str, Any] = {
            "bad_gradients": bad[:_MOST_NAMES],
            "num_bad": len(bad),
            "num_gradients": len(gradients),
            "loss": to_json(value),
            "loss_location": to_json(line),
        }
        if scene.second_run is not None:
            scene.second_run.answer([gradients[name] for name in bad], lambda: self._look_closer(value))
        facts |= self._look_closer(value)
        if self._num_silenced and facts.get("bad_weights"):
            return  # what the silenced step has led to is silenced with it
        scene.recorder.event("screen", **facts)
        if scene.stops_on_fatal():
            scene.recorder.close_withheld()
            scene.poll()
            # the finding was silenced: the update goes ahead, and another fault is still to be found
            scene.recorder.skip_withheld()
            self._num_silenced += 1
            scene.has_tripped = self._num_silenced >= _MOST_SILENCED

    def _look_closer(self, loss: float | None) -> dict[str, Any]:
        """Run the calls again; a failure of ours costs the detail, not the finding."""
        self._scene.is_quiet = True
        began = time.perf_counter()
        try:
            return self._explain(list(self._forwards.calls), self._targets.latest(), loss)
        except Exception as error:  # noqa: BLE001  # the finding itself stands without its detail
            return {"closer_look_failed": f"{type(error).__name__}: {error}"}
        finally:
            self._scene.is_quiet = False
            # a look at a fault is no cost of watching
            self._scene.firewall.seconds -= time.perf_counter() - began

    def _explain(self, calls: list[RootCall], target: Tensor | None, loss: float | None) -> dict[str, Any]:
        facts = trace_back.explain(calls, self._scene.models, target, loss)
        if facts.get("bad_weights") and self._scene.optimizers.num_updates == 0:
            facts["weights_location"] = to_json(self._creations.load_location)
        return facts

    def note_unlearnt_output(self, call: RootCall) -> None:
        """A module that the script called itself returned; nothing has been learnt so far in this run."""
        if self._has_told_output or self._scene.has_tripped or self._scene.recorder.has_backwards:
            return
        if not trace_back.has_bad_output(call):
            return
        self._has_told_output = True
        self._scene.is_quiet = True
        try:
            facts = self._explain([call], None, None)
        finally:
            self._scene.is_quiet = False
        self._scene.recorder.event("output", **facts)
