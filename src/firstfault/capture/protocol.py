# SPDX-License-Identifier: Apache-2.0
"""What a session offers a framework's capture, and what it asks of it. Runs in training."""

from __future__ import annotations

from typing import Any, Protocol

from firstfault.capture.firewall import Firewall
from firstfault.capture.recorder import Recorder


class Hub(Protocol):
    """The session, as a framework's capture sees it."""

    recorder: Recorder
    firewall: Firewall

    def stops_on_fatal(self) -> bool:
        """Whether a fatal finding would stop the training, unless the user has silenced it."""

    def poll(self) -> None:
        """Act on what the engine has asked for; called at step boundaries, in the user's frame.

        Raises:
            TrainingStopped: the training is to stop here.
        """


class Capture(Protocol):
    """What watches one framework."""

    def finish(self) -> None:
        """The run ends: tell the recorder what is left to tell, and put the framework back as it was."""

    def watch(self, model: Any, optimizer: Any = None) -> None:
        """Name a model's parameters before anything calls it, and know of an optimizer before it steps."""
