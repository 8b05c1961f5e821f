# SPDX-License-Identifier: Apache-2.0
"""Which parameters an optimizer holds, and which it should. Runs in training and offline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from firstfault.records.encoding import from_json
from firstfault.records.finding import Evidence, FaultLocation, Finding, Severity
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
    False alarms: a pretrained model whose first layers are frozen by leaving them out of the optimizer. Where
        weights were loaded and all that is left out runs before all that learns, an info says that it costs a
        backward for nothing; without loaded weights, a warning. What runs last (a head, a decoder), what was
        made after the optimizer, and what is in no model's list is never left out on purpose: an error. A whole
        model that no optimizer holds is a warning where it is in training mode: it may get its own later, as in
        staged training, but is forgotten far more often; an info where it is in eval mode or weights were loaded.
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
        severity, names, cause, fix = _why_unheld(facts)
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        where = (
            facts.get("unheld_location") if facts["made_after"] or facts["unregistered"] else facts.get("created")
        )
        return Finding(
            rule=self.name,
            severity=severity,
            step=step.step,
            stage="optimizer",
            place=step.place,
            message=f"no optimizer holds {shown}: these never learn",
            cause=cause,
            fix=fix,
            module=names[0].rpartition(".")[0] or None,
            location=FaultLocation.at(from_json(Location, where), "edit") if where else _created(facts),
            confidence={"error": 0.95, "warning": 0.7}.get(severity, 0.5),
            evidence=(
                Evidence(
                    quantity="parameters with a gradient that no optimizer holds",
                    value=len(facts["unheld"]),
                    threshold=0,
                    step=step.step,
                ),
            ),
        )


def _why_unheld(facts: Mapping[str, Any]) -> tuple[Severity, list[str], str, str]:
    """Severity, the parameters, cause and fix."""
    if facts["unregistered"]:
        return (
            "error",
            list(facts["unregistered"]),
            "their layers are in a plain list or dict, so the model does not know of them",
            "self.layers = nn.ModuleList([...])  # or nn.ModuleDict, nn.Sequential",
        )
    if facts["made_after"]:
        return (
            "error",
            list(facts["made_after"]),
            "they were made after the optimizer had been given the model's parameters",
            "make the optimizer after the last layer: optimizer = ...(model.parameters())",
        )
    cause = "the optimizer was given only some of the model's parameters"
    fix = "give it all of model.parameters(); or, if these are to stay as they are, p.requires_grad_(False)"
    if facts["whole_models"] != "no":
        is_meant = facts["loaded"] or facts["whole_models"] == "eval"
        return ("info" if is_meant else "warning"), list(facts["unheld"]), "no optimizer was given this model", fix
    if not _runs_before_all_that_learns(facts):
        return "error", list(facts["unheld"]), cause, fix
    return ("info" if facts["loaded"] else "warning"), list(facts["unheld"]), cause, fix


def _runs_before_all_that_learns(facts: Mapping[str, Any]) -> bool:
    order = {module: position for position, module in enumerate(facts["order"])}
    unheld = [order[m] for name in facts["unheld"] if (m := name.rpartition(".")[0]) in order]
    learning = [order[m] for name in facts["with_gradient"] if (m := name.rpartition(".")[0]) in order]
    return not unheld or not learning or max(unheld) < min(learning)


def _created(facts: Mapping[str, Any]) -> FaultLocation | None:
    where = facts.get("created")
    return FaultLocation.at(from_json(Location, where), "edit") if where else None
