# SPDX-License-Identifier: Apache-2.0
"""Starts watching PyTorch once it has been imported. Runs in training; the registry's way in."""

from __future__ import annotations

from firstfault.capture.protocol import Capture, Hub
from firstfault.replay.order import MicroscopeOrder


def start(hub: Hub) -> Capture:
    """Watch PyTorch on behalf of a session."""
    from firstfault.frameworks.torch.capture import TorchCapture

    capture = TorchCapture(
        recorder=hub.recorder,
        firewall=hub.firewall,
        stops_on_fatal=hub.stops_on_fatal,
        poll=hub.poll,
        order=MicroscopeOrder.from_environment(),
    )
    capture.install()
    return capture
