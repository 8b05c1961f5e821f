# SPDX-License-Identifier: Apache-2.0
"""Watches every operation, forward and backward, and names the one that made a value bad.

Runs inside the training process, while a step is run again (or an armed one for the first time). It changes
neither numbers nor random states, and never raises into what it watches: see `Microscope.failure`.

    with Microscope(names, batch_size=32) as microscope:
        loss = model(batch).mean()
        loss.backward()
    microscope.first_bad(loss, [p.grad for p in model.parameters()])   # FirstBadOperation | None

An infinity is often meant (a mask, `log(0)` that `where` drops), so nothing is judged while it happens: each
bad output is followed forward (`lineage`), and only what reaches the values asked for is named.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from firstfault.frameworks.torch.bad_operation import FirstBadOperation, Origin
from firstfault.frameworks.torch.call_site import call_site, innermost_module, location_in_traceback
from firstfault.frameworks.torch.lineage import Lineage, Trace
from firstfault.frameworks.torch.nested import tensors_in
from firstfault.frameworks.torch.operation_kinds import OperationKind, bind, kind_of
from firstfault.frameworks.torch.operation_names import is_custom, operation_of_node, user_word
from firstfault.frameworks.torch.tensor_look import (
    Look,
    bad_rows,
    look,
    look_before_writing,
    only_negative_infinity,
    summary,
)

_MAX_EVENTS = 2000


@dataclass(slots=True)
class _Cycle:
    """From one backward to the next: tells what comes before the first module (data) from what comes after."""

    module_seen: bool = False
    backward_seen: bool = False


@dataclass(frozen=True, slots=True)
class _Event:
    """One operation that made, or brought in, a bad value."""

    report: FirstBadOperation
    mask_like: bool  #: nothing bad in its output but minus infinity
    before_modules: _Cycle | None  #: the cycle it is in, if no module had run in it yet


class _Watch(TorchDispatchMode):  # type: ignore[misc]  # torch is not followed by the type checker
    supports_higher_order_operators = True

    def __init__(self, microscope: Microscope) -> None:
        super().__init__()
        self._microscope = microscope

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        with _unseen():
            before = self._microscope._before(func, args, kwargs)
        result = func(*args, **kwargs)
        if before is not None:
            with _unseen():
                self._microscope._after(func, args, kwargs, result, before)
        return result


@contextlib.contextmanager
def _unseen() -> Iterator[None]:
    """What is calculated inside is not seen by the modes of the user's program (counters, default devices)."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch._C.DisableTorchFunction())
        if torch._C._len_torch_dispatch_stack():
            stack.enter_context(_disable_current_modes())
        yield


class Microscope:
    """Names the first operation with clean inputs and a bad output that the given values come from.

    Args:
        names: from `id(module)` to the name the user knows; class names where it is empty.
        batch_size: a first dimension of this size is taken for the samples of the batch.
    """

    def __init__(self, names: Mapping[int, str], *, batch_size: int | None = None) -> None:
        self.failure = ""  #: why watching stopped, in words; empty while all is well
        self.num_operations = 0
        self._names = names
        self._batch_size = batch_size
        self._events: list[_Event] = []
        self._known: dict[object, int] = {}  # events that say nothing new when they are met again
        self._lineage = Lineage()
        self._cycle = _Cycle()
        self._module_of_node: dict[int, str] = {}  # by the node's sequence number
        self._entered = contextlib.ExitStack()

    def __enter__(self) -> Microscope:
        with contextlib.ExitStack() as stack:
            if "torch._dynamo" in sys.modules and hasattr(torch.compiler, "set_stance"):
                # compiled code hides its operations, and `fullgraph=True` is an error beneath a mode
                stack.enter_context(torch.compiler.set_stance("force_eager"))
            check_nan = torch.is_anomaly_check_nan_enabled()
            # someone who checks for NaN themselves goes on doing so
            stack.callback(torch.set_anomaly_enabled, torch.is_anomaly_enabled(), check_nan)
            torch.set_anomaly_enabled(True, torch.is_anomaly_enabled() and check_nan)
            stack.enter_context(_Watch(self))
            self._entered = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._entered.__exit__(kind, error, traceback)

    def first_bad(self, *values: Any) -> FirstBadOperation | None:
        """Where the bad values in `values` (tensors, or lists and mappings of them) come from.

        Without values: the earliest operation that made a bad value, whatever became of it.
        None: nothing bad in them, or nothing bad seen.
        """
        try:
            with torch.no_grad(), _unseen():
                return self._first_bad(list(tensors_in(values)))
        except Exception as error:  # noqa: BLE001  # the observer never kills the patient
            self._fail(error)
            return None

    def _first_bad(self, tensors: list[Any]) -> FirstBadOperation | None:
        # memory that was never written is anything: it is a fault only where a value asked for comes from it
        written = (n for n, event in enumerate(self._events) if event.report.origin != "uninitialised")
        everything = Trace(frozenset(written))
        if not tensors:
            return self._answer(everything, traced=False)
        bad = [tensor for tensor in tensors if look(tensor).bad]
        if not bad:
            return None
        traces = [trace for tensor in bad if (trace := self._lineage.of(tensor)) is not None]
        if traces:
            return self._answer(Trace.union(traces), traced=True)
        return self._answer(everything, traced=False)

    def _answer(self, trace: Trace, *, traced: bool) -> FirstBadOperation | None:
        events = [self._events[number] for number in sorted(trace.origins)]
        if not events:
            return None
        event = min(events, key=_precedence)
        report = dataclasses.replace(event.report, traced=traced)
        if event.before_modules is not None and event.before_modules.module_seen and report.stage == "loss":
            report = dataclasses.replace(report, stage="data")
        if trace.nan_maker is None or self._events[trace.nan_maker] is event:
            return report
        return dataclasses.replace(report, became_nan_at=self._events[trace.nan_maker].report)

    def _fail(self, error: Exception) -> None:
        self.failure = self.failure or f"{type(error).__name__}: {error}"

    # Around each operation

    def _before(self, func: Any, args: Any, kwargs: Any) -> dict[int, Look] | None:
        """How the arguments stand that the operation is about to write; None: do not look at it."""
        if self.failure:
            return None
        try:
            self.num_operations += 1
            kind = kind_of(func)
            self._note_module()
            if kind.is_view:
                return None
            return {
                id(tensor): look_before_writing(tensor, keep_mask=kind.pointwise)
                for name, value in bind(kind, args, kwargs)
                if name in kind.written and name not in kind.unread
                for tensor in tensors_in(value)
            }
        except Exception as error:  # noqa: BLE001  # the observer never kills the patient
            self._fail(error)
            return None

    def _after(self, func: Any, args: Any, kwargs: Any, result: Any, before: dict[int, Look]) -> None:
        try:
            kind = kind_of(func)
            outputs = {id(tensor): tensor for tensor in tensors_in(result)}
            if kind.written:
                written = (value for name, value in bind(kind, args, kwargs) if name in kind.written)
                outputs |= {id(tensor): tensor for tensor in tensors_in(list(written))}
            bad = [seen for tensor in outputs.values() if (seen := look(tensor)).bad]
            if bad:
                self._judge(kind, args, kwargs, bad, before)
        except Exception as error:  # noqa: BLE001  # the observer never kills the patient
            self._fail(error)

    def _note_module(self) -> None:
        """Keeps which module the next backward node belongs to: the node itself does not know."""
        if torch._C._current_autograd_node() is not None and not torch.is_grad_enabled():
            if self._cycle.module_seen:
                self._cycle.backward_seen = True
            return
        module = innermost_module(self._names, sys._getframe(3))
        if module is None:
            return
        if self._cycle.backward_seen:
            self._cycle = _Cycle()
        self._cycle.module_seen = True
        if torch.is_grad_enabled():
            # the node is made just before its operation runs, so it holds the last number given out
            self._module_of_node.setdefault(torch.autograd._get_sequence_nr() - 1, module)

    # Judgement of an operation with a bad output

    def _judge(
        self, kind: OperationKind, args: Any, kwargs: Any, outputs: list[Look], before: dict[int, Look]
    ) -> None:
        inputs = self._look_at_inputs(kind, args, kwargs, before)
        bad = [seen for seen in inputs if seen.bad]
        constants = [value for _, value in bind(kind, args, kwargs) if _is_bad_number(value)]
        makes_nan = any(seen.has_nan for seen in outputs) and not any(seen.has_nan for seen in bad)
        makes_nan = makes_nan and not any(math.isnan(value) for value in constants)
        origin: Origin | None = None
        if not bad:
            origin = "uninitialised" if kind.uninitialised else "filled" if constants else "made"
            if constants and makes_nan and inputs:
                origin = "made"  # 0 * inf, where the infinity is a constant in the user's code
        elif kind.pointwise and not constants and self._is_fresh(inputs, outputs):
            origin = "made"  # bad where all inputs are fine, beside places where they are not
        traces = [self._trace_of_input(kind, seen, inputs, outputs) for seen in bad]
        if origin is None and makes_nan and not self._is_made(traces):
            origin = "made"  # NaN of infinities that were meant: the softmax of a row that is masked in full
        if origin is not None:
            number = self._record(kind, origin, inputs, outputs)
            traces.append(Trace(frozenset({number}), number if makes_nan else None))
        trace = Trace.union(traces)
        if makes_nan and trace.nan_maker is None:
            number = self._record(kind, "made", inputs, outputs)
            trace = Trace(trace.origins, number)
        for seen in outputs:
            self._lineage.mark(seen.tensor, trace)

    def _look_at_inputs(self, kind: OperationKind, args: Any, kwargs: Any, before: dict[int, Look]) -> list[Look]:
        return [
            before.get(id(tensor)) or look(tensor, keep_mask=kind.pointwise)
            for name, value in bind(kind, args, kwargs)
            if name not in kind.unread
            for tensor in tensors_in(value)
        ]

    def _trace_of_input(self, kind: OperationKind, seen: Look, inputs: list[Look], outputs: list[Look]) -> Trace:
        trace = self._lineage.of(seen.tensor)
        if trace is None:
            trace = Trace(frozenset({self._record(kind, "arrived", inputs, outputs)}))
            self._lineage.mark(seen.tensor, trace)
        return trace

    def _is_made(self, traces: list[Trace]) -> bool:
        return any(self._events[number].report.origin == "made" for t in traces for number in t.origins)

    @staticmethod
    def _is_fresh(inputs: list[Look], outputs: list[Look]) -> bool:
        """Whether an output of an element-by-element operation is bad where every input is finite."""
        for output in outputs:
            fresh = look(output.tensor, keep_mask=True).mask
            for seen in inputs:
                if seen.bad and seen.mask is None:
                    return False  # not to be told place by place
                if seen.mask is not None and fresh is not None:
                    fresh = fresh & ~seen.mask
            if fresh is not None and bool(fresh.any()):
                return True
        return False

    def _record(self, kind: OperationKind, origin: Origin, inputs: list[Look], outputs: list[Look]) -> int:
        """Writes an event down, and gives its number."""
        if len(self._events) >= _MAX_EVENTS:
            raise RuntimeError(f"more than {_MAX_EVENTS} operations made bad values")
        site = call_site(self._names, sys._getframe(4))
        node = torch._C._current_autograd_node() if site.stage == "backward" else None
        module, location = site.module, site.location
        # an operation that the user wrote into a hook of theirs is called by its own name
        is_derivative = node is not None and (location is None or is_custom(node))
        if node is not None:
            module = self._module_of_node.get(node._sequence_nr(), module)
            location = location or location_in_traceback(node.metadata.get("traceback_") or ())
        key = (origin, kind.label, module, location, None if node is None else node.name())
        if origin != "made" and key in self._known:
            return self._known[key]
        self._known[key] = len(self._events)
        output = outputs[0].tensor
        report = FirstBadOperation(
            operation=operation_of_node(node) if is_derivative else user_word(kind.name),
            aten=kind.label,
            backward_node=None if node is None else _node_name(node),
            stage=site.stage,
            module=module,
            location=location,
            library_location=site.library_location,
            origin=origin,
            inputs=tuple(seen.summary or summary(seen.tensor) for seen in inputs),
            output=summary(output),
            samples=bad_rows(output, self._batch_size),
            recomputed=site.recomputed,
            order=self.num_operations,
        )
        before_modules = None if self._cycle.module_seen else self._cycle
        self._events.append(_Event(report, only_negative_infinity(output), before_modules))
        return len(self._events) - 1


def _node_name(node: Any) -> str:
    name: str = node.name()
    return name.rpartition("::")[2]


def _is_bad_number(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _precedence(event: _Event) -> tuple[int, bool, int]:
    """What was made comes before what was meant; a lone minus infinity, a mask more often than not, comes late."""
    rank = ("made", "uninitialised", "filled", "arrived").index(event.report.origin)
    return rank, event.mask_like, event.report.order
