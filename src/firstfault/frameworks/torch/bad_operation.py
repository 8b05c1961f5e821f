# SPDX-License-Identifier: Apache-2.0
"""What the microscope says: the operation that made a value bad, and the tensors it met. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from firstfault.records.step import Location, Stage

#: made: clean inputs, bad output. filled: a bad constant was asked for. uninitialised: memory never written.
#: arrived: bad before it met the first operation that was watched (a batch, a weight, a mask)
Origin: TypeAlias = Literal["made", "filled", "uninitialised", "arrived"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSummary:
    """One tensor as it stood when an operation read or wrote it."""

    shape: tuple[int, ...]
    dtype: str  #: as `float32`
    min: float | None  #: of the finite elements; None where there is none, and for integers
    max: float | None
    num_nonfinite: int  #: elements that are NaN or infinite
    num_nan: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstBadOperation:
    """The first operation that turned good values into bad ones."""

    operation: str  #: the user's word: `sqrt`, also for the derivative of `sqrt`
    aten: str  #: what ran: `aten.div.Tensor`
    backward_node: str | None  #: `SqrtBackward0`; None outside of backward
    stage: Stage
    module: str | None  #: the innermost module, as the user names it; in backward that of the forward operation
    location: Location | None  #: the innermost line of the user's code; in backward that of the forward operation
    library_location: Location | None  #: the innermost line outside of PyTorch, where that is not the user's
    origin: Origin
    inputs: tuple[TensorSummary, ...]
    output: TensorSummary
    samples: tuple[int, ...] | None  #: bad rows of the output where its first dimension is the batch; 16 at most
    recomputed: bool  #: in a checkpointed part that ran forward again during backward
    order: int  #: number of the operation since watching began
    #: where an infinity made here became NaN; None where NaN was made here, or never
    became_nan_at: FirstBadOperation | None = None
    #: the values asked for were followed back to here; False: the link was lost, this is the earliest seen
    traced: bool = True
