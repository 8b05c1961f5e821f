# SPDX-License-Identifier: Apache-2.0
"""The histogram over sign and power of two, said plainly in numpy: an oracle for tests, not for the hot path."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from firstfault.records.series import Histogram, Series


def histogram_of(values: NDArray[np.floating], series: Series, call: int = 0) -> Histogram | None:
    """Exact counts by sign and power of two; None for an empty array.

    The bucket of `x` is `floor(log2(|x|))`, taken from the number's own exponent, so no rounding moves a value.
    """
    flat = np.asarray(values).ravel()
    if flat.size == 0:
        return None
    finite = flat[np.isfinite(flat) & (flat != 0)]
    exponents = np.frexp(finite)[1] - 1
    negative = Counter(exponents[finite < 0].tolist())
    positive = Counter(exponents[finite > 0].tolist())
    first, last = (int(exponents.min()), int(exponents.max())) if finite.size else (0, -1)
    return Histogram(
        series=series,
        call=call,
        first_exponent=first,
        negative=tuple(negative[e] for e in range(first, last + 1)),
        positive=tuple(positive[e] for e in range(first, last + 1)),
        zeros=int((flat == 0).sum()),
        nans=int(np.isnan(flat).sum()),
        infs=int(np.isinf(flat).sum()),
    )
