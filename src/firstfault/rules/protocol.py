# SPDX-License-Identifier: Apache-2.0
"""What a rule is: a fold over step records. Runs in training (budgeted) and offline alike.

    class LossAboveTen(Rule):
        name = "loss_above_ten"
        def observe(self, step: StepRecord) -> Iterable[Finding]: ...

A rule keeps bounded state of its own. It never queries, waits, writes, logs, or knows which engine runs it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from firstfault.records.finding import Finding
from firstfault.records.step import StepRecord


class Rule:
    """Base of all rules; parameters are typed fields of the (data)class, with defaults."""

    name: ClassVar[str] = ""  #: snake case, as findings and `--ignore` say it
    #: kinds of events without one of which a record cannot interest the rule; empty: every record does
    events: ClassVar[frozenset[str]] = frozenset()
    needs_full: ClassVar[bool] = False  #: only records of steps looked at in full can interest the rule
    scope: ClassVar[Literal["worker", "run"]] = "worker"  #: `run`: sees whole steps of all workers

    def observe(self, step: StepRecord) -> Iterable[Finding]:
        """What this step's record gives reason to say. Records come in step order."""
        raise NotImplementedError(f"{type(self).__name__} has no observe()")
