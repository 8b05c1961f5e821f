# SPDX-License-Identifier: Apache-2.0
"""Which bad operations a tensor's bad values come from. Runs inside the training process, during replay.

Kept by storage, not by tensor: what autograd saves and unpacks, views, and `.grad` are other tensors over the
same memory. A weak reference keeps the address of a storage from being given to another while we know of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch.multiprocessing.reductions import StorageWeakRef

from firstfault.frameworks.torch.tensor_look import carrier

_SWEEP_ABOVE = 4096


@dataclass(frozen=True, slots=True)
class Trace:
    """Where bad values come from."""

    origins: frozenset[int]  #: numbers of events
    nan_maker: int | None = None  #: the first event that made NaN of them

    @classmethod
    def union(cls, traces: Iterable[Trace]) -> Trace:
        traces = tuple(traces)
        makers = [trace.nan_maker for trace in traces if trace.nan_maker is not None]
        return cls(frozenset().union(*(trace.origins for trace in traces)), min(makers, default=None))


class Lineage:
    """The traces of all storages that hold bad values."""

    def __init__(self) -> None:
        self._traces: dict[int, tuple[StorageWeakRef, Trace]] = {}

    def of(self, tensor: Any) -> Trace | None:
        storage = _storage(tensor)
        entry = None if storage is None else self._traces.get(storage._cdata)
        return entry[1] if entry else None

    def mark(self, tensor: Any, trace: Trace) -> None:
        """Says that the bad values in `tensor` are of this trace; others in the same memory keep theirs."""
        storage = _storage(tensor)
        if storage is None:
            return
        known = self._traces.get(storage._cdata)
        if known is None:
            if len(self._traces) > _SWEEP_ABOVE:
                self._sweep()
            self._traces[storage._cdata] = (StorageWeakRef(storage), trace)
            return
        plain = carrier(tensor)
        whole = plain is not None and plain.numel() * plain.element_size() >= storage.nbytes()
        self._traces[storage._cdata] = (known[0], trace if whole else Trace.union((known[1], trace)))

    def _sweep(self) -> None:
        self._traces = {key: entry for key, entry in self._traces.items() if not entry[0].expired()}


def _storage(tensor: Any) -> Any | None:
    plain = carrier(tensor)
    return None if plain is None else plain.untyped_storage()
