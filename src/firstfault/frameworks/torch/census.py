# SPDX-License-Identifier: Apache-2.0
"""Which parameters learn, and which nobody updates: counted at an optimizer's first updates. Runs in training."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from firstfault.capture.user_code import location_of
from firstfault.frameworks.torch.creations import Creations
from firstfault.frameworks.torch.forwards import CallSite, Forwards
from firstfault.frameworks.torch.models import Models
from firstfault.frameworks.torch.optimizers import Optimizers, WatchedOptimizer
from firstfault.frameworks.torch.reductions import norms_of
from firstfault.records.encoding import to_json
from firstfault.records.step import Location

_MOST_NAMES = 200
_LINES_BEFORE = 6  # a call, where the one before it is in another function
#: what takes a tensor out of the graph, as it is written
_CUTS = re.compile(
    r"\.detach_?\(|\.data\b|no_grad|inference_mode|\.numpy\(|\.item\(|\.tolist\(|torch\.(as_)?tensor\(|argmax|\.round\("
)
NUM_CENSUSES = 3  #: of each optimizer's updates


def take_census(
    optimizer: Optimizer,
    state: WatchedOptimizer,
    models: Models,
    optimizers: Optimizers,
    creations: Creations,
    forwards: Forwards,
) -> dict[str, Any]:
    """The facts about one optimizer's parameters just before it updates them, as an event's data."""
    trainable = list(models.trainable())
    in_models = {id(parameter) for _, parameter in trainable}
    held_here = {id(parameter) for parameter in state.parameters}
    named = list(zip(state.parameter_names, state.parameters, strict=True))
    foreign = [(n, p) for n, p in named if id(p) not in in_models and p.grad is None and p.requires_grad]
    unregistered = list(_unregistered(forwards, creations, in_models))
    held = optimizers.held()
    unheld = [(n, p) for n, p in (*trainable, *unregistered) if p.grad is not None and id(p) not in held]
    before, state.unheld = state.unheld, _gradients_of(unheld)
    if state.num_censuses > 0:  # gradients left over from a training that has ended say nothing of this one
        unheld = [(n, p) for n, p in unheld if before.get(id(p)) != state.unheld[id(p)]]
    moment = state.created.moment if state.created is not None else None
    late = [p for _, p in unheld if moment is not None and creations.moment_of_parameter(p) > moment]
    strays = {id(parameter) for _, parameter in unregistered}
    return {
        "number": state.num_censuses,
        "num_parameters": len(named),
        "without_gradient": _names(n for n, p in named if p.requires_grad and p.grad is None),
        "with_gradient": _names(n for n, p in named if p.grad is not None),
        "foreign": _names(n for n, _ in foreign),
        "foreign_shapes": [list(p.shape) for _, p in foreign[:_MOST_NAMES]],
        "unheld": _names(n for n, _ in unheld),
        "unheld_shapes": [list(p.shape) for _, p in unheld[:_MOST_NAMES]],
        "made_after": _names(n for n, p in unheld if any(p is other for other in late)),
        "unregistered": _names(n for n, p in unheld if id(p) in strays),
        "unheld_location": to_json(_location_of_first(unheld, creations)),
        "partly_held": any(id(parameter) in held_here for _, parameter in trainable),
        "whole_models": _whole_models(unheld, models, held),
        "loaded": creations.load_location is not None,
        "scheduled": any("initial_lr" in group for group in optimizer.param_groups),
        "order": _names(forwards.order),
        "cut_location": to_json(_cut_location(named, forwards.order)),
        "created": to_json(state.created.location if state.created is not None else None),
    }


def _gradients_of(unheld: list[tuple[str, Parameter]]) -> dict[int, tuple[int, int, float]]:
    """Identity, version and L2 norm of each gradient, by the parameter's id: all the same means untouched."""
    gradients = [parameter.grad for _, parameter in unheld if parameter.grad is not None]
    norms = norms_of(gradients)
    return {
        id(parameter): (id(gradient), gradient._version, norm)
        for (_, parameter), gradient, norm in zip(unheld, gradients, norms, strict=True)
    }


def _names(names: Iterable[str]) -> list[str]:
    return list(names)[:_MOST_NAMES]


def _unregistered(forwards: Forwards, creations: Creations, in_models: set[int]) -> Iterator[tuple[str, Parameter]]:
    """Parameters of modules that a model calls and does not know of, as those in a plain list."""
    for module in forwards.unregistered.values():
        made = creations.location_of(module)
        kind = type(module).__name__ + (f" of line {made.line}" if made is not None else "")
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.requires_grad and id(parameter) not in in_models:
                yield f"{kind}: {name}", parameter


def _location_of_first(unheld: list[tuple[str, Parameter]], creations: Creations) -> Location | None:
    return creations.location_of_parameter(unheld[0][1]) if unheld else None


def _cut_location(named: list[tuple[str, Tensor]], order: Mapping[str, CallSite]) -> Location | None:
    """The line that takes a tensor out of the graph, between the last module without and the first with gradient.

    Looked for in the text of the user's function that calls both; the line of the second call where none is found.
    """
    learning = {name.rpartition(".")[0] for name, p in named if p.grad is not None}
    still = {name.rpartition(".")[0] for name, p in named if p.requires_grad and p.grad is None}
    before: CallSite | None = None
    for module, site in order.items():
        if module in learning:
            return None if before is None else _line_that_cuts(before, site)
        if module in still:
            before = site
    return None


def _line_that_cuts(before: CallSite, after: CallSite) -> Location | None:
    if not after.filename:
        return None
    same_function = before[:2] == after[:2]
    first = before.line - 3 if same_function else after.line - _LINES_BEFORE
    for line in range(max(first, 1), after.line + 1):
        if _CUTS.search(linecache.getline(after.filename, line)):
            return location_of(after.filename, line, after.function)
    return location_of(after.filename, after.line, after.function)


def _whole_models(unheld: list[tuple[str, Parameter]], models: Models, held: set[int]) -> str:
    """Whether they all belong to models of which no optimizer holds anything, and the mode of those.

    Returns:
        "no", "training" or "eval"; a model in eval mode is often meant to stay as it is (a perceptual loss).
    """
    left_out = [
        root for _, root in models.roots() if not any(id(parameter) in held for parameter in root.parameters())
    ]
    inside = {id(parameter): root for root in left_out for parameter in root.parameters()}
    if not unheld or not all(id(parameter) in inside for _, parameter in unheld):
        return "no"
    return "training" if any(inside[id(parameter)].training for _, parameter in unheld) else "eval"
