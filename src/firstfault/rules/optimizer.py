# SPDX-License-Identifier: Apache-2.0
"""Which parameters an optimizer holds, and which it should. Runs in training and offline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from firstfault.records.encoding import from_json
from firstfault.records.finding import Evidence, FaultLocation, Finding
from firstfault.records.step import Location, StepRecord
from firstfault.rules.protocol import Rule


@dataclass
class OptimizerOfAnotherModel(Rule):
    """The optimizer holds parameters of another model than the one that is trained.

    Symptom: the loss does not fall at all.
    Evidence: none of the optimizer's parameters has a gradient or belongs to a model that is called, while a
        model that is called has gradients that no optimizer holds.
    Needs: a census of the parameters at an optimizer's first updates.
    Threshold and its source: one update. First moment it can be observed: the optimizer's first update.
    False alarms: none known: alternating optimizers (GAN, actor-critic) hold parameters of models that are called.
    What to do: make the optimizer after the model has got its final form.
    """

    name: ClassVar[str] = "optimizer_of_another_model"
    events: ClassVar[frozenset[str]] = frozenset({"census"})
    _spoken: set[str] = field(default_factory=set)

    def observe(self, step: StepRecord) -> Iterable[Finding]:
        for event in step.events_of("census"):
            facts = event.data
            if event.subject not in self._spoken and _holds_another_model(facts):
                self._spoken.add(event.subject)
                yield self._finding(step, event.subject, facts)

    def _finding(self, step: StepRecord, optimizer: str, facts: Mapping[str, Any]) -> Finding:
        same = sorted(map(tuple, facts["foreign_shapes"])) == sorted(map(tuple, facts["unheld_shapes"]))
        return Finding(
            rule=self.name,
            severity="error",
            step=step.step,
            stage="optimizer",
            place=step.place,
            message=f"{optimizer} holds parameters of another model than the one that is trained",
            cause="the model was made anew, copied or replaced after the optimizer had been given its parameters"
            if same
            else "the optimizer was given the parameters of a model that no loss depends on",
            fix="make the optimizer after the model is final: optimizer = ...(model.parameters())",
            location=_created(facts),
            confidence=0.97 if same else 0.9,
            evidence=(
                Evidence(
                    quantity=f"parameters of {optimizer} with a gradient", value=0, threshold=1, step=step.step
                ),
                Evidence(
                    quantity="parameters with a gradient that no optimizer holds",
                    value=len(facts["unheld"]),
                    threshold=0,
                    step=step.step,
                ),
            ),
        )


def _holds_another_model(facts: Mapping[str, Any]) -> bool:
    return (
        bool(facts["unheld"])
        and not facts["with_gradient"]
        and 0 < len(facts["foreign"]) == min(facts["num_parameters"], len(facts["without_gradient"]))
    )


@dataclass
class ParameterWithoutOptimizer(Rule):
    """A trainable parameter gets gradients, and no optimizer holds it.

    Symptom: part of the model stays as it was initialised; the loss stalls too high.
    Evidence: parameters with requires_grad and a gradient that are in no optimizer's groups.
    Needs: a census of the parameters at an optimizer's first updates.
    Threshold and its source: two censuses in a row. First moment it can be observed: the first update.
    False alarms: a model that is frozen by leaving it out of the optimizer; that costs a backward for nothing,
        so a warning says it, and an error only where the parameter was made after the optimizer.
    What to do: give the optimizer all of `model.parameters()`, after the last layer was made; or freeze them by
        `requires_grad_(False)`.
    """

    name: ClassVar[str] = "parameter_without_optimizer"
    events: ClassVar[frozenset[str]] = frozenset({"census"})
    num_censuses: int = 2
    _streaks: dict[str, int] = field(default_factory=dict)
    _spoken: set[str] = field(default_factory=set)

    def observe(self, step: StepRecord) -> Iterable[Finding]:
        for event in step.events_of("census"):
            facts, optimizer = event.data, event.subject
            relevant = facts["unheld"] and facts["partly_held"]
            self._streaks[optimizer] = self._streaks.get(optimizer, 0) + 1 if relevant else 0
            if self._streaks[optimizer] >= self.num_censuses and optimizer not in self._spoken:
                self._spoken.add(optimizer)
                yield self._finding(step, facts)

    def _finding(self, step: StepRecord, facts: Mapping[str, Any]) -> Finding:
        made_after = list(facts["made_after"])
        names = made_after or list(facts["unheld"])
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        where = facts.get("made_after_location")
        return Finding(
            rule=self.name,
            severity="error" if made_after else "warning",
            step=step.step,
            stage="optimizer",
            place=step.place,
            message=f"no optimizer holds {shown}: these never learn",
            cause="they were made after the optimizer had been given the model's parameters"
            if made_after
            else "the optimizer was given only some of the model's parameters",
            fix="make the optimizer after the last layer: optimizer = ...(model.parameters())"
            if made_after
            else "optimizer.add_param_group({'params': ...}); or, if they are to stay, p.requires_grad_(False)",
            module=names[0].rpartition(".")[0] or None,
            location=FaultLocation.at(from_json(Location, where), "edit") if where else _created(facts),
            confidence=0.95 if made_after else 0.7,
            evidence=(
                Evidence(
                    quantity="parameters with a gradient that no optimizer holds",
                    value=len(facts["unheld"]),
                    threshold=0,
                    step=step.step,
                ),
            ),
        )


def _created(facts: Mapping[str, Any]) -> FaultLocation | None:
    where = facts.get("created")
    return FaultLocation.at(from_json(Location, where), "edit") if where else None
