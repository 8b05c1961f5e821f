# SPDX-License-Identifier: Apache-2.0
"""Non-finite numbers: in gradients, losses, activations, weights, inputs and targets. Runs in training and offline.

The screen stops the step whose gradients are non-finite and runs its calls again; what it learnt is an event in
the step's record. `NonFiniteTraining` names the earliest stage that explains it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from firstfault.records.encoding import from_json
from firstfault.records.finding import Evidence, FaultLocation, Finding
from firstfault.records.step import Location, Stage, StepRecord
from firstfault.rules.advice import advice_for
from firstfault.rules.protocol import Rule

_RULE_OF_STAGE: dict[Stage, str] = {
    "data": "non_finite_input",
    "forward": "non_finite_activation",
    "loss": "non_finite_loss",
    "backward": "non_finite_gradient",
    "optimizer": "non_finite_weight",
    "weights": "non_finite_weight",
}
_BAD_INPUT_FIX = (
    "clean or drop the samples before they reach the model:\n"
    "assert torch.isfinite(x).all(), (~torch.isfinite(x)).nonzero()"
)


@dataclass
class NonFiniteTraining(Rule):
    """A step met NaN or infinity: named after the first stage that had it.

    Symptom: the loss becomes NaN, or the model's outputs do, and nothing is learnt from there on.
    Evidence: the L2 norm of a parameter's gradient is non-finite and so is an element of it (a norm alone can
        overflow); or, in a script that only infers, a module returned NaN or +inf.
    Needs: gradient L2 at every step; the screen's closer look.
    Threshold and its source: none; IEEE 754 arithmetic.
    False alarms: a loss scaler skips steps with infinite gradients by design, and these are not looked at. -inf
        in scores is how they are masked, and no finding by itself.
    What to do: the finding's own fix, by the operation that made the first bad value.
    """

    name: ClassVar[str] = "non_finite"  # of the family; findings carry the name of what was non-finite
    events: ClassVar[frozenset[str]] = frozenset({"screen", "output"})

    def observe(self, step: StepRecord) -> Iterable[Finding]:
        for event in step.events:
            if event.kind == "screen":
                yield finding_of_screen(step, event.data)
            elif event.kind == "output":
                yield _of_output(step, event.data)


def finding_of_screen(step: StepRecord, facts: Mapping[str, Any]) -> Finding:
    """The finding for what the screen's event says of a step."""
    loss = _number(facts.get("loss"))
    loss_is_bad = loss is not None and not math.isfinite(loss)
    evidence = []
    if loss is not None:
        evidence.append(Evidence(quantity="loss", value=loss, threshold="finite", step=step.step))
    evidence.append(
        Evidence(
            quantity="parameters with a non-finite gradient",
            value=f"{facts['num_bad']} of {facts['num_gradients']}",
            threshold="0",
            step=step.step,
        )
    )
    common: dict[str, Any] = {
        "severity": "fatal",
        "step": step.step,
        "place": step.place,
        "weights": "unspoilt",
    }
    if facts.get("bad_weights"):
        return _bad_weights(facts, evidence, common)
    if facts.get("bad_input"):
        return _bad_data("input", facts["bad_input"], facts, evidence, common)
    if facts.get("bad_target"):
        return _bad_data("target", facts["bad_target"], facts, evidence, common)
    if facts.get("operation") is not None:
        return _bad_operation(facts, evidence, common)
    return _unlocated(facts, loss_is_bad, evidence, common)


def _of_output(step: StepRecord, facts: Mapping[str, Any]) -> Finding:
    common: dict[str, Any] = {"severity": "error", "step": None, "place": step.place}
    evidence: list[Evidence] = []
    if facts.get("bad_weights"):
        return _bad_weights(facts, evidence, common)
    if facts.get("bad_input"):
        return _bad_data("input", facts["bad_input"], facts, evidence, common)
    if facts.get("operation") is not None:
        return _bad_operation(facts, evidence, common)
    module = str(facts.get("bad_output_of", ""))
    return Finding(
        rule="non_finite_activation",
        stage="forward",
        message=f"the output of {module or 'the model'} is non-finite",
        cause="its input was non-finite already: code between the calls of the model's parts made it so"
        if facts.get("bad_between") is not None
        else "a module made NaN or infinity of finite inputs; running it again did not show which operation",
        fix="look at the module's forward with torch.autograd.set_detect_anomaly or print its intermediate values",
        module=module or None,
        confidence=0.5,
        **common,
    )


def _bad_operation(facts: Mapping[str, Any], evidence: list[Evidence], common: dict[str, Any]) -> Finding:
    stage: Stage = facts["operation_stage"]
    rule = _RULE_OF_STAGE.get(stage, "non_finite_gradient")
    operation = str(facts["operation"])
    node = facts.get("backward_node")
    module = facts.get("module")
    what = f"the gradient of {operation}" if stage == "backward" else f"the result of {operation}"
    where = f" in {module}" if module else ""
    evidence = evidence + _ranges(facts, f"derivative of {operation}" if stage == "backward" else operation)
    advice = advice_for(operation, stage)
    return Finding(
        rule=rule,
        stage=stage,
        message=f"{what}{where} is the first non-finite value" + (f" ({node})" if node else ""),
        cause=advice.cause,
        fix=advice.fix,
        module=module,
        operation=operation,
        location=_location(facts.get("location"), "edit"),
        confidence=0.95 if facts.get("parted") is None else 0.6,
        evidence=tuple(evidence),
        rung=facts.get("rung"),
        samples=_samples(facts.get("samples")),
        order=int(facts.get("order") or 0),
        **common,
    )


def _ranges(facts: Mapping[str, Any], operation: str) -> list[Evidence]:
    """What went into the operation and what came out, where the microscope saw it."""
    shown = []
    for number, summary in enumerate(facts.get("inputs") or ()):
        low, high = summary.get("min"), summary.get("max")
        if low is not None:
            shown.append(Evidence(quantity=f"{operation}, operand {number}", value=f"{low:.4g} … {high:.4g}"))
    output = facts.get("output")
    if output and output.get("num_nonfinite"):
        shown.append(
            Evidence(
                quantity=f"{operation}, non-finite elements",
                value=int(output["num_nonfinite"]),
                threshold=0,
            )
        )
    return shown


def _bad_data(
    kind: Literal["input", "target"],
    bad: Mapping[str, Any],
    facts: Mapping[str, Any],
    evidence: list[Evidence],
    common: dict[str, Any],
) -> Finding:
    rows = tuple(bad["rows"])
    shape = "×".join(str(size) for size in bad["shape"])
    samples = (
        f"sample{'s' if len(rows) > 1 else ''} {', '.join(map(str, rows))} of the batch" if rows else "a value"
    )
    found = Evidence(quantity=f"{kind} ({shape}), samples with NaN or infinity", value=len(rows), threshold=0)
    return Finding(
        rule=f"non_finite_{kind}",
        stage="data",
        message=f"the {kind} holds NaN or infinity: {samples}",
        cause="the data, not the model: a missing or broken value, or a division in its preparation",
        fix=_BAD_INPUT_FIX
        if kind == "input"
        else _BAD_INPUT_FIX.replace("x", "y").replace("the model", "the loss"),
        location=_location(facts.get("loss_location"), "ran"),
        evidence=(*evidence, found),
        samples=rows or None,
        rung=facts.get("rung"),
        confidence=0.95,
        **common,
    )


def _bad_weights(facts: Mapping[str, Any], evidence: list[Evidence], common: dict[str, Any]) -> Finding:
    names = list(facts["bad_weights"])
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    found = Evidence(quantity="weights with NaN or infinity", value=len(names), threshold=0)
    return Finding(
        rule="non_finite_weight",
        stage="weights",
        message=f"weights were non-finite before this step's forward: {shown}",
        cause="they were loaded or assigned so, or the update before this one overflowed",
        fix="check what is loaded or assigned: torch.isfinite(w).all(); lower the learning rate",
        module=names[0].rpartition(".")[0] or None,
        location=_location(facts.get("weights_location"), "edit") or _location(facts.get("loss_location"), "ran"),
        evidence=(*evidence, found),
        rung=facts.get("rung"),
        confidence=0.9,
        **{**common, "weights": "spoilt"},
    )


def _unlocated(
    facts: Mapping[str, Any], loss_is_bad: bool, evidence: list[Evidence], common: dict[str, Any]
) -> Finding:
    names = ", ".join(list(facts["bad_gradients"])[:3])
    rule, stage, message = "non_finite_gradient", "backward", f"gradients are non-finite: {names}"
    cause = "an operation in the model or in the code of the loss has no finite derivative here"
    fix = "keep the argument of sqrt, norm, log or a division away from 0 in the code of the loss"
    if loss_is_bad:
        rule, stage = "non_finite_loss", "loss"
        message = "the loss is non-finite"
        cause = "an operation in the model or the code of the loss divides by zero, or takes the log of zero"
        if facts.get("replayed") and not facts.get("parted"):
            message += ", though the outputs of the model are finite"
            cause = "the code between the outputs and the loss divides by zero, or takes the log of zero"
        fix = (
            "keep the argument of log, sqrt or a division away from 0 there, or skip batches without valid entries"
        )
    if facts.get("bad_output_of") is not None:
        rule, stage = "non_finite_activation", "forward"
        message = f"the output of {facts['bad_output_of'] or 'the model'} is non-finite"
        cause, fix = (
            "an operation in its forward made NaN or infinity of finite inputs",
            "check its intermediate values",
        )
    if facts.get("closer_look_failed"):
        evidence.append(Evidence(quantity="closer look", value=str(facts["closer_look_failed"])))
    if facts.get("parted"):
        evidence.append(Evidence(quantity="running the step again", value=str(facts["parted"])))
    return Finding(
        rule=rule,
        stage=stage,  # type: ignore[arg-type]  # one of the literals above
        message=message,
        cause=cause,
        fix=fix,
        location=_location(facts.get("loss_location"), "ran"),
        evidence=tuple(evidence),
        confidence=0.6,
        **common,
    )


@dataclass
class NonFiniteWeight(Rule):
    """A weight is NaN or infinite after an update.

    Symptom: every output is NaN from the next step on.
    Evidence: counts of NaN and infinite elements in the weights, on steps looked at in full.
    Needs: weight statistics, sampled.
    Threshold and its source: none.
    False alarms: none known; a masked weight is finite.
    What to do: lower the learning rate; check what is assigned to weights.
    """

    name: ClassVar[str] = "non_finite_weight"
    needs_full: ClassVar[bool] = True
    _has_spoken: bool = False

    def observe(self, step: StepRecord) -> Iterable[Finding]:
        if self._has_spoken or any(event.kind == "screen" for event in step.events):
            return
        bad = [entry for entry in step.statistics_of("weight") if (entry.nans or 0) + (entry.infs or 0) > 0]
        if not bad:
            return
        self._has_spoken = True
        finite_gradients = step.gradient_norms is not None and all(
            not isinstance(value, float) or math.isfinite(value) for value in step.gradient_norms.values
        )
        rates = [rate for update in step.updates for rate in update.learning_rates]
        yield Finding(
            rule=self.name,
            severity="fatal",
            step=step.step,
            stage="weights" if finite_gradients else "optimizer",
            place=step.place,
            message=f"the weight {bad[0].series.subject} is non-finite"
            + (f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""),
            cause="the update overflowed, or NaN or infinity was assigned to the weight",
            fix="lower the learning rate, clip the gradients, and check what the script assigns to weights",
            module=bad[0].series.subject.rpartition(".")[0] or None,
            location=FaultLocation.at(step.updates[-1].location if step.updates else None),
            confidence=0.9,
            weights="spoilt",
            evidence=(
                Evidence(
                    quantity=f"non-finite elements of {bad[0].series.subject}",
                    value=(bad[0].nans or 0) + (bad[0].infs or 0),
                    threshold=0,
                    step=step.step,
                ),
                *(Evidence(quantity="learning rate", value=rate, step=step.step) for rate in rates[:1]),
            ),
        )


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _samples(value: Any) -> tuple[int, ...] | None:
    return None if value is None else tuple(int(entry) for entry in value)


def _location(data: Any, role: Literal["edit", "ran"]) -> FaultLocation | None:
    return None if data is None else FaultLocation.at(from_json(Location, data), role)
