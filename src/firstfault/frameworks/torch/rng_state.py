# SPDX-License-Identifier: Apache-2.0
"""The random states that a piece of training can draw from. Runs inside the training process."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomState:
    """The global random states of PyTorch (CPU and every CUDA device in use), Python and NumPy."""

    cpu: Any  #: tensor of bytes
    cuda: tuple[Any, ...]  #: one a device; empty until CUDA is in use
    python: Any  #: None: not captured
    numpy: Any  #: None: not captured, or NumPy is not imported

    @classmethod
    def capture(cls) -> RandomState:
        numpy = sys.modules.get("numpy")
        return cls(
            cpu=torch.get_rng_state(),
            cuda=tuple(torch.cuda.get_rng_state_all()) if torch.cuda.is_initialized() else (),
            python=random.getstate(),
            numpy=numpy.random.get_state() if numpy is not None else None,
        )

    @classmethod
    def of_torch(cls) -> RandomState:
        """PyTorch's alone: 2 µs instead of 60, and nearly all that a forward draws from."""
        return cls(
            cpu=torch.default_generator.get_state(),
            cuda=tuple(torch.cuda.get_rng_state_all()) if torch.cuda.is_initialized() else (),
            python=None,
            numpy=None,
        )

    def restore(self) -> None:
        torch.set_rng_state(self.cpu)
        if self.cuda:
            torch.cuda.set_rng_state_all(list(self.cuda))
        if self.python is not None:
            random.setstate(self.python)
        if self.numpy is not None:
            sys.modules["numpy"].random.set_state(self.numpy)
