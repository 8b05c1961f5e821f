# SPDX-License-Identifier: Apache-2.0
"""Runs rules over step records: the part that all engines share. Runs in training and offline."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from firstfault.records.finding import Finding
from firstfault.records.step import StepRecord
from firstfault.rules.protocol import Rule

_SILENCE = re.compile(r"#\s*firstfault:\s*ok\b([\w ,]*)")


class RuleLoop:
    """Feeds each record to each rule; a rule that fails is switched off and said so, the others go on."""

    def __init__(self, rules: Sequence[Callable[[], Rule]], *, ignore: Iterable[str] = ()) -> None:
        self._factories = list(rules)
        self._ignore = frozenset(ignore)
        self._rules = self._make()

    def observe(self, record: StepRecord) -> list[Finding]:
        """The findings this record gives rise to, silenced ones left out."""
        if any(event.kind == "training" for event in record.events):
            self._rules = self._make()  # another model is trained from here on: windows start anew
        findings: list[Finding] = []
        kinds = {event.kind for event in record.events}
        for rule in list(self._rules):
            if (rule.needs_full and not record.full) or (rule.events and rule.events.isdisjoint(kinds)):
                continue
            try:
                findings.extend(rule.observe(record))
            except Exception as error:  # noqa: BLE001  # the boundary around each rule
                self._rules.remove(rule)
                findings.append(_rule_failure(rule, record, error))
        return [finding for finding in findings if not self._is_silenced(finding)]

    def _make(self) -> list[Rule]:
        made = [factory() for factory in self._factories]
        return [rule for rule in made if rule.name not in self._ignore]

    def _is_silenced(self, finding: Finding) -> bool:
        if finding.rule in self._ignore:
            return True
        return finding.location is not None and is_silenced_in(finding.location.code, finding.rule)


def is_silenced_in(code: str, rule: str) -> bool:
    """Whether a line of code says `# firstfault: ok RULE` (or `ok` alone, which silences every rule)."""
    match = _SILENCE.search(code)
    if match is None:
        return False
    names = re.split(r"[\s,]+", match.group(1).strip())
    return names == [""] or rule in names or (rule.startswith("non_finite_") and "non_finite" in names)


def _rule_failure(rule: Rule, record: StepRecord, error: Exception) -> Finding:
    name = rule.name or type(rule).__name__
    return Finding(
        rule="rule_failed",
        severity="info",
        step=record.step,
        stage="weights",
        place=record.place,
        message=f"the rule {name} failed and was switched off: {type(error).__name__}: {error}",
        cause="a mistake in the rule, not in the training",
        fix=f"report it, or leave the rule out with --ignore {name}",
    )
