# SPDX-License-Identifier: Apache-2.0
"""What the watching parts of this folder share: one scene of training. Runs in training."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch

from firstfault.capture.firewall import Firewall
from firstfault.capture.recorder import Recorder
from firstfault.frameworks.torch.models import Models
from firstfault.frameworks.torch.optimizers import Optimizers


@dataclass(slots=True, kw_only=True)
class Scene:
    """The recorder, and what is known of the script's models and optimizers."""

    recorder: Recorder
    firewall: Firewall
    stops_on_fatal: Callable[[], bool]  #: whether a fatal finding would stop the training
    poll: Callable[[], None]  #: acts on what the engine has asked for; may raise TrainingStopped
    models: Models = field(default_factory=Models)
    optimizers: Optimizers = field(default_factory=Optimizers)
    second_run: Any = None  #: the `SecondRun` of a child that is to look at one step
    is_quiet: bool = False  #: we are running the user's modules ourselves: look away
    is_compiled: bool = False  #: torch.compile is in use: no hooks on modules from there on
    has_tripped: bool = False  #: the screen has spoken already


def is_watchable() -> bool:
    """Whether a call happens in the script's own eager training, not inside a trace, transform or backward."""
    return not (
        torch.compiler.is_compiling()
        or torch._C._current_graph_task_id() != -1  # recomputed by activation checkpointing
        or torch._C._functorch.peek_interpreter_stack() is not None  # inside vmap, grad, jvp
        or torch._C._get_tracing_state() is not None
    )


def caller_frame(depth: int = 1) -> FrameType | None:
    try:
        return sys._getframe(depth + 1)
    except ValueError:
        return None
