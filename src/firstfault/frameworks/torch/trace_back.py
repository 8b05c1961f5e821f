# SPDX-License-Identifier: Apache-2.0
"""From a non-finite gradient back to where it came from, by the rung `root module`. Runs in training, once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.nn.modules.loss import _Loss

from firstfault.frameworks.torch.bad_operation import FirstBadOperation
from firstfault.frameworks.torch.models import Models
from firstfault.frameworks.torch.nested import first_tensors
from firstfault.frameworks.torch.reductions import has_non_finite, non_finite_rows
from firstfault.frameworks.torch.root_module import RootCall, rerun
from firstfault.records.encoding import to_json


def has_bad_output(call: RootCall) -> bool:
    """Whether a call returned NaN or +inf; -inf alone is how scores are masked."""
    return any(_is_bad_output(tensor) for tensor in first_tensors(call.output))


def _is_bad_output(tensor: Tensor) -> bool:
    if not tensor.is_floating_point() or not has_non_finite(tensor):
        return False
    finite_or_masked = tensor.detach().float().clamp(max=0)  # NaN stays NaN
    return bool(finite_or_masked.isnan().any()) or bool((tensor == math.inf).any())


def explain(calls: Sequence[RootCall], models: Models, target: Tensor | None, loss: float | None) -> dict[str, Any]:
    """What running the calls again tells, as data of an event.

    Args:
        calls: the script's own calls since the last backward, in order.
        target: the target of the latest functional loss, if it is still there.
        loss: what backward was called on.
    """
    facts: dict[str, Any] = {"replayed": 0, "parted": None}
    for call in calls:
        facts |= _bad_inputs(call, models) or {}
        answer = rerun(call, models.module_names)
        facts["replayed"] += 1
        facts["parted"] = facts["parted"] or answer.parted
        bad = answer.bad if answer.bad is not None and answer.bad.origin == "made" else None
        if bad is not None and "bad_between" in facts and any(summary.num_nonfinite for summary in bad.inputs):
            bad = None  # NaN of an infinity that code outside of the model had made
        if bad is not None:
            if not is_fed_by_input(bad, facts.get("bad_input")):
                facts.pop("bad_input", None)
            stage = "loss" if isinstance(call.module, _Loss) else "forward"
            stage = "backward" if bad.stage == "backward" else stage
            return facts | operation_facts(bad, stage) | {"rung": "root_module"}
        if has_bad_output(call):
            facts["bad_output_of"] = models.module_names.get(id(call.module), "") or type(call.module).__name__
            facts["bad_weights"] = _bad_weights(call)
            return facts | {"rung": "root_module"}
    if "bad_input" in facts:  # what came out of it was finite: it was masked or replaced, or squashed
        facts["absorbed_input"] = facts.pop("bad_input")
    if loss is not None and not math.isfinite(loss) and target is not None and has_non_finite(target):
        facts["rung"] = "root_module"
        facts["bad_target"] = {"rows": list(non_finite_rows(target)), "shape": list(target.shape)}
    return facts


def _bad_inputs(call: RootCall, models: Models) -> dict[str, Any] | None:
    """Non-finite inputs of a call: the data's fault only in a call of a whole model, of tensors without a past."""
    is_whole = models.owner_of(call.module) is call.module
    for number, tensor in enumerate(first_tensors((call.args, call.kwargs))):
        if tensor.is_floating_point() and has_non_finite(tensor):
            if not is_whole or tensor.grad_fn is not None:
                return {"bad_between": models.module_names.get(id(call.module), "")}
            facts = {"number": number, "rows": list(non_finite_rows(tensor)), "shape": list(tensor.shape)}
            return {"bad_input": {**facts, "is_mask": _is_mask(tensor)}}
    return None


def _is_mask(tensor: Tensor) -> bool:
    """Whether minus infinity is all that is not finite: scores are masked so."""
    return not bool(tensor.isnan().any()) and not bool((tensor == math.inf).any())


def is_fed_by_input(bad: FirstBadOperation, bad_input: dict[str, Any] | None) -> bool:
    """Whether an operation made NaN only because the script's input was bad already (0 times its infinity)."""
    if bad_input is None or all(summary.num_nonfinite == 0 for summary in bad.inputs):
        return False
    return not (bad_input["is_mask"] and "softmax" in bad.operation)


def _bad_weights(call: RootCall) -> list[str]:
    """Non-finite parameters, and buffers that this very call cannot have made so (BatchNorm's averages)."""
    frozen = [
        (f"{name}.{key}".lstrip("."), buffer)
        for name, module in call.module.named_modules()
        if not module.training
        for key, buffer in module.named_buffers(recurse=False)
    ]
    named = [*call.module.named_parameters(), *frozen]
    return [name for name, tensor in named if tensor.is_floating_point() and has_non_finite(tensor)][:50]


def operation_facts(first_bad: FirstBadOperation, stage: str) -> dict[str, Any]:
    """What the microscope says of an operation, as data of an event.

    Args:
        stage: what the finding is to say; the microscope itself sees only the stack it runs in.
    """
    return {
        "operation": first_bad.operation,
        "backward_node": first_bad.backward_node,
        "operation_stage": stage,
        "module": first_bad.module,
        "location": to_json(first_bad.location),
        "samples": None if first_bad.samples is None else list(first_bad.samples),
        "order": first_bad.order,
        "inputs": to_json(first_bad.inputs),
        "output": to_json(first_bad.output),
    }
