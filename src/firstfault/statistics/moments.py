# SPDX-License-Identifier: Apache-2.0
"""The statistics of one tensor, said plainly in numpy: an oracle for tests, not for the hot path."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from firstfault.records.series import Series, TensorStatistics


def statistics_of(values: NDArray[np.floating], series: Series, call: int = 0) -> TensorStatistics:
    """All statistics of an array of real numbers, calculated in float64.

    Args:
        values: of any shape and real dtype. NaN and infinity are counted, and make the moments non-finite.
    """
    flat = np.asarray(values, dtype=np.float64).ravel()
    if flat.size == 0:
        return TensorStatistics(series=series, call=call, numel=0, zeros=0)
    with np.errstate(all="ignore"):
        return TensorStatistics(
            series=series,
            call=call,
            numel=flat.size,
            mean=float(flat.mean()),
            std=float(flat.std()),
            min=float(flat.min()),
            max=float(flat.max()),
            absmax=float(np.abs(flat).max()),
            l2=float(np.sqrt((flat * flat).sum())),
            zeros=int((flat == 0).sum()),
            nans=int(np.isnan(flat).sum()),
            infs=int(np.isinf(flat).sum()),
        )
