# SPDX-License-Identifier: Apache-2.0
"""The causal graph of faults, as data: which finding can explain which. Runs anywhere."""

from __future__ import annotations

_NON_FINITE = frozenset(
    {
        "non_finite_gradient",
        "non_finite_loss",
        "non_finite_activation",
        "non_finite_weight",
        "non_finite_input",
        "non_finite_target",
    }
)
_NUMBERS_GROW = frozenset({"exploding_loss", "exploding_gradients"})
_MADE_NON_FINITE = _NON_FINITE - {"non_finite_input", "non_finite_target"}

#: a rule, and the rules whose findings at the same step or later it explains
EXPLAINS: dict[str, frozenset[str]] = {
    "gradients_never_cleared": _NUMBERS_GROW | _MADE_NON_FINITE,
    "optimizer_of_another_model": frozenset(
        {"update_changed_nothing", "parameter_without_optimizer", "parameter_without_gradient"}
    ),
    "parameter_without_gradient": frozenset({"update_changed_nothing"}),
    "exploding_loss": _NUMBERS_GROW | _MADE_NON_FINITE,
    "exploding_gradients": _NUMBERS_GROW | _MADE_NON_FINITE,
    **dict.fromkeys(_NON_FINITE, _MADE_NON_FINITE | _NUMBERS_GROW),
}


def can_explain(cause: str, effect: str) -> bool:
    """Whether a finding of rule `cause` can be why there is one of rule `effect`."""
    return effect in EXPLAINS.get(cause, ())
