# SPDX-License-Identifier: Apache-2.0
"""How a training is stopped: an exception in the user's frame, at the step boundary. Runs in training."""

from __future__ import annotations

EXIT_CODE = 3


class TrainingStopped(SystemExit):
    """Ends the script as `sys.exit(3)` would: `finally` and `atexit` run, and no stack trace is printed."""

    def __init__(self, reason: str) -> None:
        super().__init__(EXIT_CODE)
        self.reason = reason
