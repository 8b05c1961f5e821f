# SPDX-License-Identifier: Apache-2.0
"""The one thing that flows back from engine to training; acted on at a step boundary. Runs anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Wish: TypeAlias = Literal["stop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the engine asks of the recorder."""

    wish: Wish
    reason: str  #: the rule and why, as shown to the user
