# SPDX-License-Identifier: Apache-2.0
"""The rung `child`: in a second run of the script, the bad step under the microscope. Runs in that child.

The parent orders a step; the microscope is on from the end of the update before it. Once the screen trips, the
answer is left for the parent and the process ends at once: nothing of the script runs any further.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from firstfault.capture.recorder import Recorder
from firstfault.frameworks.torch.microscope import Microscope
from firstfault.frameworks.torch.models import Models
from firstfault.frameworks.torch.reductions import has_non_finite
from firstfault.frameworks.torch.trace_back import is_fed_by_input, operation_facts
from firstfault.records.encoding import to_json
from firstfault.replay.order import MicroscopeOrder


class SecondRun:
    """Has the ordered step watched operation by operation."""

    def __init__(self, order: MicroscopeOrder, recorder: Recorder, models: Models) -> None:
        self._order = order
        self._recorder = recorder
        self._models = models
        self._scope: Microscope | None = None
        self._bad_losses: list[Tensor] = []
        recorder.loss_history = []
        recorder.keeps_calls = True

    def begin_interval(self) -> None:
        """An update has been made, or the run begins: is the ordered step next?"""
        self._leave()
        self._bad_losses.clear()
        if self._recorder.num_steps > self._order.step + 1:
            self._answer({"parted": f"step {self._order.step} was finite when the script was run again"})
        # the open step has this number until it closes; what comes now belongs to it or to the next one
        upcoming = self._recorder.num_steps + (1 if self._recorder.is_open else 0)
        if self._order.step <= upcoming:
            self._scope = Microscope(self._models.module_names)
            self._scope.__enter__()

    def note_loss(self, loss: Tensor) -> None:
        """Backward is called on `loss`; a bad one is kept, since it is where the trail begins."""
        if has_non_finite(loss):
            self._bad_losses.append(loss.detach())

    def answer(self, bad: Sequence[Tensor], explain: Callable[[], dict[str, Any]]) -> None:
        """The screen has tripped: say where the bad gradients come from, and end.

        Args:
            bad: gradients that are non-finite.
            explain: runs the root calls again, and says what that tells.
        """
        scope = self._scope
        self._leave()
        if scope is None:
            return  # a step before the one ordered, whose finding the user has silenced
        found = scope.first_bad(self._bad_losses or list(bad)) or scope.first_bad()
        facts = explain()
        is_maker = found is not None and (found.origin == "made" or (found.origin == "filled" and found.inputs))
        if found is not None and is_maker and "operation" not in facts:
            facts |= operation_facts(found, found.stage)
            if is_fed_by_input(found, facts.get("absorbed_input")):
                facts["bad_input"] = facts["absorbed_input"]
        if found is not None and facts.get("bad_weights") and found.stage not in ("forward", "backward"):
            facts["weights_location"] = to_json(found.location)
        self._answer({"facts": {**facts, "rung": "child"}, "failure": scope.failure})

    def _leave(self) -> None:
        if self._scope is not None:
            self._scope.__exit__(None, None, None)
            self._scope = None

    def _answer(self, answer: dict[str, Any]) -> None:
        history = self._recorder.loss_history or []
        self._order.write_answer({**answer, "losses": to_json([value.hex() for value in history])})
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(0)
