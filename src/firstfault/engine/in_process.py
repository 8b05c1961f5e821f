# SPDX-License-Identifier: Apache-2.0
"""The engine inside training: judges each record as it closes, and asks for a stop. Runs in training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from firstfault.engine.loop import RuleLoop
from firstfault.records.finding import SEVERITIES, Finding, Severity
from firstfault.records.request import Request
from firstfault.records.step import StepRecord


class InProcessEngine:
    """Feeds the loop, hands findings on, and leaves one Request where a finding is grave enough."""

    def __init__(
        self,
        loop: RuleLoop,
        *,
        stop_on: Literal["fatal", "error", "warning", "never"],
        on_finding: Callable[[Finding], None],
        on_request: Callable[[Request], None],
    ) -> None:
        self._loop = loop
        self._stop_on = stop_on
        self._on_finding = on_finding
        self._on_request = on_request

    def observe(self, record: StepRecord) -> None:
        for finding in self._loop.observe(record):
            self._on_finding(finding)
            if self.stops_at(finding.severity):
                self._on_request(Request(wish="stop", reason=f"{finding.rule}: {finding.message}"))

    def stops_at(self, severity: Severity) -> bool:
        if self._stop_on == "never":
            return False
        return SEVERITIES.index(severity) <= SEVERITIES.index(self._stop_on)
