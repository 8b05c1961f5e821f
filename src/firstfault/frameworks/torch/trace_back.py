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
from firstfault.frameworks.torch.reductions import has_non_finite, non_finite_rows, tensors_in
from firstfault.frameworks.torch.root_module import RootCall, rerun
from firstfault.records.encoding import to_json


def has_bad_output(call: RootCall) -> bool:
    """Whether a call returned NaN or +inf; -inf alone is how scores are masked."""
    return any(_is_bad_output(tensor) for tensor in tensors_in(call.output))


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
        facts |= _bad_inputs(call) or {}
        answer = rerun(call, models.module_names)
        facts["replayed"] += 1
        facts["parted"] = facts["parted"] or answer.parted
        if answer.bad is not None and answer.bad.origin == "made":
            facts.pop("bad_input", None)  # what was made bad here was made of good values
            is_loss = isinstance(call.module, _Loss) and answer.bad.stage == "forward"
            return facts | operation_facts(answer.bad, is_loss=is_loss) | {"rung": "root_module"}
        if has_bad_output(call):
            facts["bad_output_of"] = models.module_names.get(id(call.module), "") or type(call.module).__name__
            facts["bad_weights"] = _bad_weights(call)
            return facts
    facts.pop("bad_input", None)  # what came out of it was finite: it was masked or replaced
    if loss is not None and not math.isfinite(loss) and target is not None and has_non_finite(target):
        facts["bad_target"] = {"rows": list(non_finite_rows(target)), "shape": list(target.shape)}
    return facts


def _bad_inputs(call: RootCall) -> dict[str, Any] | None:
    for number, tensor in enumerate(tensors_in((call.args, call.kwargs))):
        if tensor.is_floating_point() and has_non_finite(tensor) and bool(tensor.isnan().any()):
            return {
                "bad_input": {"number": number, "rows": list(non_finite_rows(tensor)), "shape": list(tensor.shape)}
            }
    return None


def _bad_weights(call: RootCall) -> list[str]:
    named = [*call.module.named_parameters(), *call.module.named_buffers()]
    return [name for name, tensor in named if tensor.is_floating_point() and has_non_finite(tensor)][:50]


def operation_facts(first_bad: FirstBadOperation, *, is_loss: bool) -> dict[str, Any]:
    """What the microscope says of an operation, as data of an event."""
    stage = "loss" if is_loss else first_bad.stage
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
