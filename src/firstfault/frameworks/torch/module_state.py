# SPDX-License-Identifier: Apache-2.0
"""Leaves a module as it was, whatever running it again does to it. Runs inside the training process, at replay.

The buffers are not restored but never touched: copies stand in for them. Attributes that the forward pass sets
(counters, caches, lists it appends to) are put back, and so are the generators it draws from.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch


def buffers_of(module: Any) -> list[Any]:
    """Copies of all buffers, in the order that `standing_in` takes them."""
    return [buffer.detach().clone() for buffer in module.buffers()]


@contextlib.contextmanager
def standing_in(module: Any, buffers: Sequence[Any] | None = None) -> Iterator[None]:
    """Within, what happens to the module leaves no trace.

    Args:
        buffers: contents to begin with, from `buffers_of`; as they are now where None.
    """
    attributes = [(part, _copy_attributes(part)) for part in module.modules()]
    gradients = [(parameter, parameter.grad) for parameter in module.parameters()]
    generators = [
        (value, value.get_state())
        for part, _ in attributes
        for value in vars(part).values()
        if isinstance(value, torch.Generator)
    ]
    try:
        _put_in_buffers(module, buffers_of(module) if buffers is None else [b.clone() for b in buffers])
        yield
    finally:
        for part, saved in attributes:
            _put_back(part, saved)
        for parameter, gradient in gradients:
            if parameter.grad is not gradient:
                parameter.grad = gradient
        for generator, state in generators:
            generator.set_state(state)


def _put_in_buffers(module: Any, copies: Sequence[Any]) -> None:
    stand_ins = {id(buffer): new for buffer, new in zip(module.buffers(), copies, strict=True)}
    for part in module.modules():
        for name, buffer in part._buffers.items():
            if buffer is not None:
                part._buffers[name] = stand_ins[id(buffer)]


def _copy_attributes(part: Any) -> dict[str, tuple[Any, Any]]:
    """Every attribute, with a shallow copy where it is a plain container."""
    return {
        name: (value, value.copy() if isinstance(value, list | dict | set) else None)
        for name, value in vars(part).items()
    }


def _put_back(part: Any, saved: dict[str, tuple[Any, Any]]) -> None:
    attributes = vars(part)
    for name in [name for name in attributes if name not in saved]:
        del attributes[name]
    for name, (value, content) in saved.items():
        attributes[name] = value
        if isinstance(value, list):
            value[:] = content
        elif isinstance(value, dict | set) and not _same(value, content):
            value.clear()
            value.update(content)


def _same(container: Any, content: Any) -> bool:
    """Whether a dict or set still holds the very same objects, in the same order."""
    if isinstance(container, set):
        return {id(entry) for entry in container} == {id(entry) for entry in content}
    return list(map(id, container.values())) == list(map(id, content.values())) and list(container) == list(content)
