# SPDX-License-Identifier: Apache-2.0
"""A series (what is followed over steps), and what is known of it at one step. Runs anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeAlias, get_args

Kind: TypeAlias = Literal[
    "weight",
    "gradient",
    "activation",
    "input",
    "target",
    "output",
    "loss",
    "metric",
    "learning_rate",
    "optimizer_state",
    "update",
    "system",
]
KINDS: tuple[Kind, ...] = get_args(Kind)

Statistic: TypeAlias = Literal["numel", "mean", "std", "min", "max", "absmax", "l1", "l2", "zeros", "nans", "infs"]
STATISTICS: tuple[Statistic, ...] = get_args(Statistic)


class Missing(Enum):
    """Why there is no number. Never 0 or NaN in its place: a rule must be able to tell them apart."""

    NOT_OBSERVED = "not_observed"  #: nobody looked at this step
    NO_GRADIENT = "no_gradient"  #: looked, and `.grad` was None


NOT_OBSERVED = Missing.NOT_OBSERVED
NO_GRADIENT = Missing.NO_GRADIENT

Value: TypeAlias = float | Missing


@dataclass(frozen=True, slots=True, order=True)
class Series:
    """What is followed: a kind and the name the user knows, as `gradient/encoder.0.weight`."""

    kind: Kind
    subject: str

    @property
    def name(self) -> str:
        return f"{self.kind}/{self.subject}"

    @classmethod
    def parse(cls, name: str) -> Series:
        """The inverse of `name`.

        Raises:
            ValueError: the part before the first slash is not a kind.
        """
        kind, _, subject = name.partition("/")
        if kind not in KINDS:
            raise ValueError(f"{name!r} is not a series: {kind!r} is not one of {', '.join(KINDS)}")
        return cls(kind, subject)


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorStatistics:
    """Statistics of one tensor at one step. A field that was not looked at is None.

    `mean` … `l2` are over all elements and become non-finite with them; `zeros`, `nans`, `infs` are counts.
    """

    series: Series
    call: int = 0  #: which call of the module within the step (0 but for reused modules)
    numel: int | None = None  #: number of elements
    mean: float | None = None
    std: float | None = None  #: population standard deviation
    min: float | None = None
    max: float | None = None
    absmax: float | None = None
    l1: float | None = None
    l2: float | None = None
    zeros: int | None = None
    nans: int | None = None
    infs: int | None = None

    def get(self, statistic: Statistic) -> Value:
        value = getattr(self, statistic)
        return NOT_OBSERVED if value is None else float(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Counts over fixed buckets of sign and power of two, so exact and mergeable over workers and steps.

    Bucket `exponent` of a sign holds the values with `2**exponent <= |x| < 2**(exponent + 1)`.
    """

    series: Series
    call: int = 0
    first_exponent: int  #: exponent of the first entry in `negative` and `positive`
    negative: tuple[int, ...]  #: counts of negative values, exponents rising
    positive: tuple[int, ...]  #: counts of positive values, exponents rising; same length
    zeros: int
    nans: int
    infs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientNorms:
    """The L2 norm of every parameter's gradient just before an update, in the order of `names`.

    Kept as one block, since it is measured at every step: `names` is one tuple shared by all steps.
    """

    names: tuple[str, ...]  #: parameter names, the subjects of their series
    values: tuple[Value, ...]  #: L2 norms, unscaled; NO_GRADIENT where `.grad` was None

    def get(self, name: str) -> Value:
        try:
            return self.values[self.names.index(name)]
        except ValueError:
            return NOT_OBSERVED
