# SPDX-License-Identifier: Apache-2.0
"""What is written about a rule is where the documentation comes from: it has a form."""

from __future__ import annotations

import inspect
import re

import pytest

from firstfault.rules.protocol import Rule
from firstfault.rules.registry import BUILT_IN, rules_for

HEADINGS = ("Symptom", "Evidence", "Needs", "Threshold and its source", "False alarms", "What to do")

every_rule = pytest.mark.parametrize("rule", BUILT_IN, ids=lambda rule: rule.name)


@every_rule
def test_a_rules_docstring_has_all_headings_in_order_and_none_is_empty(rule: type[Rule]) -> None:
    text = inspect.getdoc(rule) or ""
    summary, _, body = text.partition("\n\n")
    assert summary.endswith("."), summary
    assert "\n" not in summary, summary
    sections = re.findall(r"^([A-Z][A-Za-z ]+): *(\S?)", body, flags=re.MULTILINE)
    assert tuple(name for name, _ in sections) == HEADINGS
    assert all(content for _, content in sections)


@every_rule
def test_a_rules_name_is_in_snake_case_and_its_own(rule: type[Rule]) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", rule.name)
    assert [other.name for other in BUILT_IN].count(rule.name) == 1


@every_rule
def test_a_rule_can_be_made_without_arguments_and_shares_no_state(rule: type[Rule]) -> None:
    first, second = vars(rule()), vars(rule())
    mutable = [name for name, value in first.items() if isinstance(value, dict | set | list)]
    assert all(first[name] is not second[name] for name in mutable)


def test_a_rule_that_cannot_be_loaded_is_reported_and_left_out() -> None:
    told: list[str] = []
    rules = rules_for(("nowhere.py:Mine",), told.append)
    assert rules[: len(BUILT_IN)] == list(BUILT_IN)
    assert len(rules) == len(BUILT_IN)
    assert len(told) == 1
    assert "nowhere.py" in told[0]
