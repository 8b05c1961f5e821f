# SPDX-License-Identifier: Apache-2.0
"""Where the engine leaves requests and the recorder finds them at a step boundary. Runs in training."""

from __future__ import annotations

from collections import deque

from firstfault.records.request import Request


class Mailbox:
    """Requests in the order they were left. Threads may leave and take at the same time."""

    def __init__(self) -> None:
        self._requests: deque[Request] = deque()

    def leave(self, request: Request) -> None:
        self._requests.append(request)

    def take(self) -> Request | None:
        return self._requests.popleft() if self._requests else None
