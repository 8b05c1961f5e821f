# SPDX-License-Identifier: Apache-2.0
"""Which parameters learn, and which nobody updates: counted at an optimizer's first updates. Runs in training."""

from __future__ import annotations

from typing import Any

from torch.optim import Optimizer

from firstfault.frameworks.torch.creations import Creations
from firstfault.frameworks.torch.models import Models
from firstfault.frameworks.torch.optimizers import Optimizers, WatchedOptimizer
from firstfault.records.encoding import to_json

_MOST_NAMES = 200
NUM_CENSUSES = 3  #: of each optimizer's updates


def take_census(
    optimizer: Optimizer,
    state: WatchedOptimizer,
    models: Models,
    optimizers: Optimizers,
    creations: Creations,
    order: list[str],
) -> dict[str, Any]:
    """The facts about one optimizer's parameters just before it updates them, as an event's data."""
    held_here = {id(parameter) for parameter in state.parameters}
    in_models = {id(parameter) for _, parameter in models.trainable()}
    held = optimizers.held()
    unheld = [
        (name, parameter)
        for name, parameter in models.trainable()
        if parameter.grad is not None and id(parameter) not in held
    ]
    moment = state.created.moment if state.created is not None else None
    named = list(zip(state.parameter_names, state.parameters, strict=True))
    made_after = [
        name
        for name, parameter in unheld
        if moment is not None and creations.moment_of_parameter(parameter) > moment
    ]
    foreign = [(n, p) for n, p in named if id(p) not in in_models and p.grad is None and p.requires_grad]
    partly_held = any(id(parameter) in held_here for _, parameter in models.trainable())
    return {
        "count": state.count,
        "num_parameters": len(named),
        "without_gradient": _names(n for n, p in named if p.requires_grad and p.grad is None),
        "with_gradient": _names(n for n, p in named if p.grad is not None),
        "foreign": _names(n for n, _ in foreign),
        "foreign_shapes": [list(p.shape) for _, p in foreign[:_MOST_NAMES]],
        "unheld": _names(n for n, _ in unheld),
        "unheld_shapes": [list(p.shape) for _, p in unheld[:_MOST_NAMES]],
        "made_after": _names(made_after),
        "made_after_location": to_json(_first_location(unheld, made_after, creations)),
        "partly_held": partly_held,
        "scheduled": any("initial_lr" in group for group in optimizer.param_groups),
        "dtypes": sorted({str(p.dtype).removeprefix("torch.") for p in state.parameters}),
        "order": order[:_MOST_NAMES],
        "created": to_json(state.created.location if state.created is not None else None),
    }


def _names(names: Any) -> list[str]:
    return list(names)[:_MOST_NAMES]


def _first_location(unheld: list[Any], made_after: list[str], creations: Creations) -> Any:
    for name, parameter in unheld:
        if name in made_after:
            return creations.location_of_parameter(parameter)
    return None
