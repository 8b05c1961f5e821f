# SPDX-License-Identifier: Apache-2.0
"""The engine over a stored run: the same rules over the same records. Runs outside training."""

from __future__ import annotations

from collections.abc import Iterable

from firstfault.engine.loop import RuleLoop
from firstfault.records.finding import Finding
from firstfault.records.step import StepRecord


def judge(records: Iterable[StepRecord], loop: RuleLoop) -> list[Finding]:
    """All findings that the loop's rules make of the records, in the order they are made."""
    return [finding for record in records for finding in loop.observe(record)]
