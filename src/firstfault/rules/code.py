# SPDX-License-Identifier: Apache-2.0
"""Mistakes in the training loop that show in what it does, not in numbers. Runs in training and offline."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from firstfault.records.encoding import from_json
from firstfault.records.finding import Evidence, FaultLocation, Finding
from firstfault.records.step import Location, StepRecord, Update
from firstfault.rules.protocol import Rule


@dataclass
class GradientsNeverCleared(Rule):
    """Gradients of the last update are still there when those of the next are added.

    Symptom: the loss falls at first, then wanders or explodes; gradient norms grow with the steps.
    Evidence: at every backward since an optimizer's last update, some gradients were the very tensors, unwritten,
        that the update had used, and the backward added to them.
    Needs: identity and version of some gradients of each optimizer, spread over its parameters.
    Threshold and its source: two updates in a row. First moment it can be observed: an optimizer's second update.
    False alarms: accumulation clears after its update, by whatever means, and is not flagged; nor is a script
        that scales the old gradients (momentum by hand), since that writes to them.
    What to do: call `optimizer.zero_grad()` before `backward()`.
    """

    name: ClassVar[str] = "gradients_never_cleared"
    num_updates: int = 2
    _streaks: dict[str, int] = field(default_factory=dict)
    _spoken: set[str] = field(default_factory=set)

    def observe(self, step: StepRecord) -> Iterable[Finding]:
        for update in step.updates:
            if update.cleared is None:
                continue
            streak = 0 if update.cleared else self._streaks.get(update.optimizer, 0) + 1
            self._streaks[update.optimizer] = streak
            if streak >= self.num_updates and update.optimizer not in self._spoken:
                self._spoken.add(update.optimizer)
                yield self._finding(step, update, streak)

    def _finding(self, step: StepRecord, update: Update, streak: int) -> Finding:
        variable = _variable_of(update)
        return Finding(
            rule=self.name,
            severity="error",
            step=step.step,
            stage="backward",
            place=step.place,
            message=f"the gradients of {update.optimizer} are never cleared: each step adds to all before it",
            cause="backward() adds to .grad, and nothing sets it back between one update and the next",
            fix=f"{variable}.zero_grad()  # before backward()",
            location=FaultLocation.at(update.location, "edit"),
            confidence=0.97,
            evidence=(
                Evidence(
                    quantity="updates in a row with the gradients of the one before",
                    value=streak,
                    threshold=self.num_updates,
                    step=step.step,
                ),
            ),
        )


@dataclass
class TrainingInEvalMode(Rule):
    """A model is updated while it is in eval mode, though that makes a difference to it.

    Symptom: the training loss looks better than it should, the model overfits, BatchNorm's averages stand still.
    Evidence: the model was called with gradients on and `training` False, then updated, and it has dropout or
        batch normalisation.
    Needs: the mode of each model that the script calls.
    Threshold and its source: two updates in a row. First moment it can be observed: the update that follows.
    False alarms: frozen BatchNorm in fine-tuning puts submodules in eval mode, not the model; a model without
        dropout or BatchNorm; a model that is called but not updated (teacher, target network).
    What to do: `model.train()` before training goes on.
    """

    name: ClassVar[str] = "training_in_eval_mode"
    num_updates: int = 2
    _streaks: dict[str, int] = field(default_factory=dict)
    _spoken: set[str] = field(default_factory=set)

    def observe(self, step: StepRecord) -> Iterable[Finding]:
        seen = {event.subject: event.data for event in step.events_of("eval_mode")}
        if not step.updates:
            return
        for model in list(self._streaks):
            if model not in seen:
                del self._streaks[model]
        for model, facts in seen.items():
            self._streaks[model] = self._streaks.get(model, 0) + 1
            if self._streaks[model] >= self.num_updates and model not in self._spoken:
                self._spoken.add(model)
                yield self._finding(step, model, facts)

    def _finding(self, step: StepRecord, model: str, facts: Any) -> Finding:
        affected = list(facts["affected"])
        where = facts.get("eval_location")
        location = from_json(Location, where) if where else None
        return Finding(
            rule=self.name,
            severity="error",
            step=step.step,
            stage="forward",
            place=step.place,
            message=f"{model} is trained in eval mode: {', '.join(affected[:3])} behave as in evaluation",
            cause="eval() was called and train() was not called before training went on"
            if location
            else "the model was never put in training mode",
            fix="model.train()  # at the start of each epoch, and after each validation",
            location=FaultLocation.at(location or (step.updates[-1].location), "edit" if location else "ran"),
            confidence=0.95 if location else 0.8,
            evidence=(
                Evidence(
                    quantity="updates in a row in eval mode",
                    value=self._streaks[model],
                    threshold=self.num_updates,
                    step=step.step,
                ),
                Evidence(quantity="modules that behave otherwise in training", value=len(affected), threshold=0),
            ),
        )


_STEP_CALL = re.compile(r"([A-Za-z_][\w.]*)\.step\(\s*([A-Za-z_][\w.]*)?")


def _variable_of(update: Update) -> str:
    """What the script calls the optimizer, from the line that called its step."""
    match = _STEP_CALL.search(update.location.code if update.location is not None else "")
    if match is None:
        return "optimizer"
    owner, argument = match.groups()
    return (argument or "optimizer") if "scaler" in owner.lower() else owner
