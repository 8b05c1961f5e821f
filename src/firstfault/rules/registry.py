# SPDX-License-Identifier: Apache-2.0
"""Which rules there are: ours, installed ones, and those of plain files. Runs in training and offline."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from firstfault.errors import PluginError
from firstfault.plugins import installed_rules, rule_from_file
from firstfault.rules.code import GradientsNeverCleared, TrainingInEvalMode
from firstfault.rules.explosion import ExplodingGradients, ExplodingLoss
from firstfault.rules.numerics import NonFiniteTraining, NonFiniteWeight
from firstfault.rules.optimizer import OptimizerOfAnotherModel, ParameterWithoutOptimizer
from firstfault.rules.protocol import Rule
from firstfault.rules.weights import ParameterWithoutGradient, UpdateChangedNothing

BUILT_IN: tuple[type[Rule], ...] = (
    NonFiniteTraining,
    NonFiniteWeight,
    GradientsNeverCleared,
    TrainingInEvalMode,
    OptimizerOfAnotherModel,
    ParameterWithoutOptimizer,
    ParameterWithoutGradient,
    UpdateChangedNothing,
    ExplodingLoss,
    ExplodingGradients,
)


def rules_for(references: Sequence[str], report: Callable[[str], None]) -> list[Callable[[], Rule]]:
    """Makers of all rules that apply; one that cannot be loaded is reported and left out.

    Args:
        references: rules of plain files, as `file.py:ClassName`.
        report: told in one sentence of each rule left out.
    """
    rules: list[Callable[[], Rule]] = [*BUILT_IN, *installed_rules(report)]
    for reference in references:
        try:
            rules.append(rule_from_file(reference))
        except PluginError as error:
            report(f"{error}; the rule is left out")
    return rules
