# SPDX-License-Identifier: Apache-2.0
"""Which epoch and batch the training is at, seen from its data loaders. Runs in training.

The loader's iterator is watched, never replaced: a generator in its place would change its type, repeat
batches after a `break`, and mispair `zip`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.utils.data import dataloader

from firstfault.capture.firewall import Firewall
from firstfault.frameworks.torch.nested import first_tensors
from firstfault.frameworks.torch.patches import Patches
from firstfault.records.step import Place


@dataclass(slots=True)
class Draw:
    """One batch drawn from a loader."""

    loader: int  #: tells loaders apart
    epoch: int
    batch: int
    addresses: frozenset[int]  #: of the storage of the tensors in it


class Batches:
    """The latest draws of all loaders."""

    def __init__(self, firewall: Firewall, on_exhausted: Callable[[int], None]) -> None:
        self._epochs: dict[int, int] = {}
        self._draws: deque[Draw] = deque(maxlen=16)
        self._on_exhausted = firewall.guard("batches", on_exhausted)
        self._note = firewall.guard("batches", self._note_draw)

    def install(self, patches: Patches) -> None:
        patches.wrap(dataloader._BaseDataLoaderIter, "__next__", self._next)

    def _next(self, original: Callable[[Any], Any], iterator: Any) -> Any:
        number = getattr(iterator, "_num_yielded", 0)
        try:
            batch = original(iterator)
        except StopIteration:
            self._on_exhausted(_loader_key(iterator))
            raise
        self._note(iterator, number, batch)
        return batch

    def _note_draw(self, iterator: Any, number: int, batch: Any) -> None:
        key = _loader_key(iterator)
        if number == 0:
            self._epochs[key] = self._epochs.get(key, -1) + 1
        addresses = frozenset(_address(tensor) for tensor in first_tensors(batch))
        self._draws.append(Draw(loader=key, epoch=self._epochs.get(key, 0), batch=number, addresses=addresses))

    def draw_of(self, inputs: list[Tensor]) -> Draw | None:
        """The draw these inputs came from: by their memory, else the latest one."""
        if not self._draws:
            return None
        addresses = {_address(tensor) for tensor in inputs}
        for draw in reversed(self._draws):
            if not draw.addresses.isdisjoint(addresses):
                return draw
        return self._draws[-1]


def place_of(draw: Draw | None, micro_step: int) -> Place:
    if draw is None:
        return Place(micro_step=micro_step)
    return Place(epoch=draw.epoch, batch=draw.batch, micro_step=micro_step)


def _loader_key(iterator: Any) -> int:
    # an iterator does not know its loader, but they share the sampler
    return id(getattr(iterator, "_index_sampler", iterator))


def _address(tensor: Tensor) -> int:
    try:
        return int(tensor.data_ptr())
    except RuntimeError:  # a sparse tensor, or one without storage
        return id(tensor)
