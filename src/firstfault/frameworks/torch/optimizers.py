# SPDX-License-Identifier: Apache-2.0
"""What is known of each optimizer: its name, its parameters, and whether its gradients were cleared.

Runs in training.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from firstfault.records.step import Location

_NUM_WATCHED = 6  # gradients, spread over the parameters, that are followed to tell whether they were cleared


class WatchedOptimizer:
    """One optimizer, held weakly."""

    def __init__(self, key: int, name: str, created: Creation | None) -> None:
        self.key = key  #: tells optimizers apart
        self.name = name  #: `Adam`, or `Adam#1` for the second of its class
        self.created = created
        self.count = 0  #: updates so far
        self.last_update = 0  #: number of its last update among those of all optimizers, from 1
        self.unheld: dict[int, tuple[int, int, float]] = {}  #: gradients that nobody held at the last census
        self.num_censuses = 0  #: since the models last changed
        self.parameters: tuple[Tensor, ...] = ()
        self.parameter_names: tuple[str, ...] = ()
        self.num_models = -1  #: models known when the names were found
        self.num_backwards = 0  #: since the last update
        self._old: list[OldGradient] = []
        self._had_gradients: bool | None = None

    def has_changed(self, optimizer: Optimizer) -> bool:
        """Whether parameters were added or removed since the names were found."""
        return sum(len(group["params"]) for group in optimizer.param_groups) != len(self.parameters)

    # whether gradients of the last update are still there, and added to, when the next one comes

    @property
    def cleared(self) -> bool | None:
        """Whether the last update's gradients were set aside since, by whatever means; None: there were none."""
        return None if self._had_gradients is None else not any(old.grew for old in self._old)

    def note_backward(self) -> None:
        """A backward begins: forget the gradients that somebody cleared, scaled or replaced before it."""
        self.num_backwards += 1
        if self._old:
            self._old = [old for old in self._old if old.is_untouched()]

    def mark_gradients(self) -> None:
        """A backward has ended: has it added to gradients that were there before?"""
        for old in self._old:
            old.follow()

    def begin_interval(self) -> None:
        """An update has been made: its gradients are old ones from here on."""
        self.count += 1
        self.num_backwards = 0
        stride = max(len(self.parameters) // _NUM_WATCHED, 1)
        self._old = [
            OldGradient(parameter, gradient)
            for parameter in self.parameters[::stride]
            if (gradient := parameter.grad) is not None
        ]
        self._had_gradients = True if self._old else None


class OldGradient:
    """A gradient that an update has used, told by its identity and by how often it was written."""

    __slots__ = ("grew", "identity", "parameter", "version")

    def __init__(self, parameter: Tensor, gradient: Tensor) -> None:
        self.parameter = parameter
        self.identity = id(gradient)
        self.version = gradient._version
        self.grew = False  #: a backward has added to it

    def is_untouched(self) -> bool:
        gradient = self.parameter.grad
        return gradient is not None and id(gradient) == self.identity and gradient._version == self.version

    def follow(self) -> None:
        gradient = self.parameter.grad
        if gradient is not None and id(gradient) == self.identity:
            self.grew = self.grew or gradient._version != self.version
            self.version = gradient._version


class Creation:
    """Where and when something was made; `moment` orders optimizers and modules in time."""

    __slots__ = ("location", "moment", "num_updates")
    _moments = itertools.count()

    def __init__(self, location: Location | None, num_updates: int = 0) -> None:
        self.location = location
        self.num_updates = num_updates  #: made by all optimizers until then
        self.moment = next(self._moments)


class Optimizers:
    """All optimizers of the script."""

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Optimizer, WatchedOptimizer] = weakref.WeakKeyDictionary()
        self._creations: weakref.WeakKeyDictionary[Optimizer, Creation] = weakref.WeakKeyDictionary()
        self._keys = itertools.count(1)
        self._names: dict[str, int] = {}
        self._states: tuple[WatchedOptimizer, ...] = ()
        self.num_updates = 0
        self.has_stepped = False  #: an optimizer has made an update, or is making its first

    def note_creation(self, optimizer: Optimizer, location: Location | None) -> None:
        self._creations.setdefault(optimizer, Creation(location, self.num_updates))

    @property
    def any_created(self) -> bool:
        return len(self._creations) > 0

    def watched(self, optimizer: Optimizer) -> WatchedOptimizer:
        """What is known of an optimizer that steps; new ones get their name here."""
        state = self._known.get(optimizer)
        if state is None:
            kind = type(optimizer).__name__
            number = self._names.get(kind, 0)
            self._names[kind] = number + 1
            state = WatchedOptimizer(
                key=next(self._keys),
                name=kind if number == 0 else f"{kind}#{number}",
                created=self._creations.get(optimizer),
            )
            self._known[optimizer] = state
            self._states = (*self._states, state)
            weakref.finalize(optimizer, self._forget, state).atexit = False
        return state

    def _forget(self, state: WatchedOptimizer) -> None:
        self._states = tuple(other for other in self._states if other is not state)

    def stepped(self) -> tuple[WatchedOptimizer, ...]:
        """Those alive that have made an update or are about to make their first."""
        return self._states

    def created(self) -> Iterator[tuple[Optimizer, Creation]]:
        yield from list(self._creations.items())

    def held(self) -> set[int]:
        """Ids of all parameters that some optimizer holds, whether it has stepped or not."""
        optimizers: set[Optimizer] = {*self._creations, *self._known}
        return {id(p) for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]}


def learning_rates_of(optimizer: Optimizer) -> tuple[float, ...]:
    """The learning rate of every parameter group; those without one are left out."""
    rates: list[Any] = [group.get("lr") for group in optimizer.param_groups]
    return tuple(float(rate) for rate in rates if rate is not None)
