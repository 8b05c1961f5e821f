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

_NUM_WATCHED = 4  # gradients looked at to tell whether they were cleared


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
        self.cleared: bool | None = None
        self._baseline: list[tuple[Tensor, int, int]] = []  # parameter, identity and version of its gradient

    def has_changed(self, optimizer: Optimizer) -> bool:
        """Whether parameters were added or removed since the names were found."""
        return sum(len(group["params"]) for group in optimizer.param_groups) != len(self.parameters)

    # whether the gradients of the last update are still there when the next backward begins

    def mark_gradients(self) -> None:
        """Remember the gradients as they are now, just after an update or a backward."""
        self._baseline = []
        for parameter in self.parameters:
            gradient = parameter.grad
            if gradient is not None:
                self._baseline.append((parameter, id(gradient), gradient._version))
                if len(self._baseline) == _NUM_WATCHED:
                    break

    def note_backward(self) -> None:
        """A backward begins: were the gradients changed by anyone since they were marked?"""
        self.num_backwards += 1
        if self.cleared or not self._baseline:
            return
        untouched = 0
        for parameter, identity, version in self._baseline:
            gradient = parameter.grad
            if gradient is not None and id(gradient) == identity and gradient._version == version:
                untouched += 1
        self.cleared = untouched < len(self._baseline)

    def begin_interval(self) -> None:
        """An update has been made: start looking for the clearing of its gradients."""
        self.count += 1
        self.num_backwards = 0
        self.cleared = None
        self.mark_gradients()


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
