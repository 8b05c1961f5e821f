# SPDX-License-Identifier: Apache-2.0
"""Weights that do not learn: updates that change nothing, parameters without a gradient.

Runs in training and offline.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from firstfault.records.encoding import from_json
from firstfault.records.finding import Evidence, FaultLocation, Finding
from firstfault.records.step import Location, StepRecord
from firstfault.rules.protocol import Rule


@dataclass
class UpdateChangedNothing(Rule):
    """No parameter has changed in any update so far.

    Symptom: the loss stands still, or only follows the batches.
    Evidence: every parameter equals, bit for bit, what it was before the update.
    Needs: the update's statistics, on steps looked at in full (the first three among them).
    Threshold and its source: two updates, and none before them that changed anything. First moment it can be
        observed: the first update.
    False alarms: warm-up that begins at a learning rate of 0 under a scheduler is not counted for 30 updates, nor
        is an update that a loss scaler skipped; a converged model has changed before; where parameters have no
        gradient because the optimizer holds another model's, that rule speaks.
    What to do: by the cause: a learning rate of 0, gradients of 0, or steps too small for the number format.
    """

    name: ClassVar[str] = "update_changed_nothing"
    num_updates: int = 2
    num_updates_at_rate_0: int = 30
    _at_rate_0: int = 0
    _unchanged: int = 0
    _is_over: bool = False
    _scheduled: bool = False

    def observe(self, step: StepRecord) -> Iterable[Finding]:
        if self._is_over or not step.updates:
            return
        for event in step.events_of("census"):
            self._scheduled = self._scheduled or bool(event.data["scheduled"])
        rates = [rate for update in step.updates for rate in update.learning_rates]
        self._at_rate_0 = self._at_rate_0 + 1 if rates and max(rates) == 0 else 0
        if self._at_rate_0 >= self.num_updates_at_rate_0:
            self._is_over = True
            num_parameters = len(step.gradient_norms.names) if step.gradient_norms else 0
            yield self._finding(step, rates, num_parameters).replace(severity="warning", confidence=0.8)
            return
        changes = [entry for entry in step.statistics_of("update") if entry.l2 is not None]
        if not changes:
            return
        if any(entry.l2 != 0 for entry in changes):
            self._is_over = True
        elif not (self._scheduled and rates and max(rates) == 0):
            self._unchanged += 1
            if self._unchanged >= self.num_updates:
                self._is_over = True
                yield self._finding(step, rates, len(changes))

    def _finding(self, step: StepRecord, rates: list[float], num_parameters: int) -> Finding:
        norms = step.gradient_norms.values if step.gradient_norms is not None else ()
        numbers = [value for value in norms if isinstance(value, float)]
        cause, fix, edit = _why_unchanged(rates, numbers)
        created = [event.data.get("created") for event in step.events_of("census")]
        location = _location(created[0]) if created and edit else None
        return Finding(
            rule=self.name,
            severity="error",
            step=step.step,
            stage="weights",
            place=step.place,
            message="the updates change nothing: every parameter is, bit for bit, what it was before",
            cause=cause,
            fix=fix,
            location=FaultLocation.at(location, "edit") or FaultLocation.at(step.updates[-1].location),
            confidence=0.95,
            evidence=(
                Evidence(
                    quantity="parameters changed by the update",
                    value=f"0 of {num_parameters}",
                    threshold="1",
                    step=step.step,
                ),
                *(Evidence(quantity="learning rate", value=rate, step=step.step) for rate in rates[:1]),
                Evidence(
                    quantity="greatest gradient norm",
                    value=max(numbers, default=0.0) if numbers else "no gradient",
                    step=step.step,
                ),
            ),
        )


def _why_unchanged(rates: list[float], norms: list[float]) -> tuple[str, str, bool]:
    """Cause, fix, and whether the line that made the optimizer is the one to edit."""
    if rates and max(rates) == 0:
        return "the learning rate is 0", "give the optimizer a learning rate: lr=1e-3", True
    if not norms:
        return (
            "no parameter of the optimizer has a gradient when it steps",
            "call backward() before step(), and clear gradients only after the update",
            False,
        )
    if max(norms) == 0:
        return (
            "all gradients are 0: the loss does not depend on the parameters at these values",
            "look for an output that is constant: a dead ReLU before the loss, a clamp, a rounding",
            False,
        )
    return (
        "the steps are too small for the weights' number format and round away",
        "keep the weights in float32, or raise the learning rate",
        True,
    )


@dataclass
class ParameterWithoutGradient(Rule):
    """A trainable parameter never gets a gradient, though its module takes part in the forward.

    Symptom: the first part of the model stays as it was initialised.
    Evidence: `.grad` is None at every update so far; and the modules without gradient are the first in execution
        order, with gradients in all that follows: the graph is cut between them.
    Needs: a census of the parameters, and the modules called with gradients on, at an optimizer's first updates.
    Threshold and its source: three of the optimizer's own updates (mixtures of experts and alternating tasks use
        parameters now and then). First moment it can be observed: the first update.
    False alarms: an output head that the loss leaves out is not first in order, and modules called under
        `no_grad` are frozen on purpose: neither is flagged.
    What to do: remove what cuts the graph: `.detach()`, `.data`, `.item()`, a way through numpy.
    """

    name: ClassVar[str] = "parameter_without_gradient"
    events: ClassVar[frozenset[str]] = frozenset({"census"})
    num_updates: int = 3
    _counts: dict[str, dict[str, int]] = field(default_factory=dict)
    _spoken: set[str] = field(default_factory=set)

    def observe(self, step: StepRecord) -> Iterable[Finding]:
        for event in step.events_of("census"):
            facts: Mapping[str, Any] = event.data
            optimizer = event.subject
            counts = self._counts.setdefault(optimizer, {})
            without = set(facts["without_gradient"]) - set(facts["foreign"])
            for name in list(counts):
                if name not in without:
                    del counts[name]
            if facts["number"] == 0:
                counts.update(dict.fromkeys(without, 0))
            for name in counts:
                counts[name] += 1
            cut = _before_the_cut(facts, [name for name, count in counts.items() if count >= self.num_updates])
            if cut and optimizer not in self._spoken:
                self._spoken.add(optimizer)
                yield self._finding(step, cut, facts)

    def _finding(self, step: StepRecord, names: list[str], facts: Mapping[str, Any]) -> Finding:
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        update = step.updates[-1] if step.updates else None
        return Finding(
            rule=self.name,
            severity="error",
            step=step.step,
            stage="backward",
            place=step.place,
            message=f"no gradient reaches {shown}",
            cause="the graph is cut after these modules: detach(), .data, .item(), numpy, or an argmax",
            fix="keep the tensor in the graph up to the loss; if they are to stay, requires_grad_(False)",
            module=names[-1].rpartition(".")[0] or None,
            location=FaultLocation.at(_location(facts.get("cut_location")), "edit")
            or FaultLocation.at(update.location if update is not None else None),
            confidence=0.85,
            evidence=(
                Evidence(
                    quantity="updates without a gradient",
                    value=self.num_updates,
                    threshold=self.num_updates,
                    step=step.step,
                ),
                Evidence(
                    quantity="trainable parameters without, with a gradient",
                    value=f"{len(names)}, {len(facts['with_gradient'])}",
                ),
            ),
        )


def _before_the_cut(facts: Mapping[str, Any], names: list[str]) -> list[str]:
    """Of the parameters without a gradient, those whose modules all run before the first module with one."""
    order = {module: position for position, module in enumerate(facts["order"])}
    with_gradient = [order[m] for m in map(_module_of, facts["with_gradient"]) if m in order]
    without = [(order[_module_of(name)], name) for name in names if _module_of(name) in order]
    if not with_gradient or not without:
        return []
    first = min(with_gradient)
    return [name for position, name in sorted(without) if position < first]


def _module_of(parameter: str) -> str:
    return parameter.rpartition(".")[0]


def _location(data: Any) -> Location | None:
    return None if data is None else from_json(Location, data)
