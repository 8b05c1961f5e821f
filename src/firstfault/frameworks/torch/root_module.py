# SPDX-License-Identifier: Apache-2.0
"""The first rung of replay: the last call of the root module again, under the microscope.

Runs inside the training process: `begin_call` and `end_call` around each call of the root module (a few dozen
microseconds), `rerun` only once something is wrong and before the optimizer changes the weights. Afterwards
everything is as it was, so that the training could go on bit for bit.

    call = begin_call(model, args, kwargs)      # in the forward pre-hook
    end_call(call, output)                      # in the forward hook
    answer = rerun(call, names, quiet=hooks_off())
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from firstfault.frameworks.torch.bad_operation import FirstBadOperation
from firstfault.frameworks.torch.microscope import Microscope
from firstfault.frameworks.torch.module_state import buffers_of, standing_in
from firstfault.frameworks.torch.nested import map_tensors, tensors_in
from firstfault.frameworks.torch.rng_state import RandomState
from firstfault.frameworks.torch.tensor_look import carrier, look

_SHARDED = ("FullyShardedDataParallel", "DataParallel", "PipelineStage")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallMode:
    """The switches of PyTorch that a result depends on."""

    autocast: tuple[tuple[str, bool, Any], ...]  #: device, enabled, dtype
    autocast_cache: bool
    grad_enabled: bool
    inference: bool

    @classmethod
    def capture(cls) -> CallMode:
        if torch.is_autocast_enabled("cpu") or torch.cuda.is_initialized():
            return cls._capture()
        return _plain_mode(
            torch.is_autocast_cache_enabled(), torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        )

    @classmethod
    def _capture(cls) -> CallMode:
        devices = ("cpu", "cuda") if torch.cuda.is_initialized() else ("cpu",)
        return cls(
            autocast=tuple((device, *_autocast_of(device)) for device in devices),
            autocast_cache=torch.is_autocast_cache_enabled(),
            grad_enabled=torch.is_grad_enabled(),
            inference=torch.is_inference_mode_enabled(),
        )

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(torch.inference_mode(self.inference))
            stack.enter_context(torch.set_grad_enabled(self.grad_enabled))
            for device, enabled, dtype in self.autocast:
                stack.enter_context(
                    torch.autocast(device, dtype=dtype, enabled=enabled, cache_enabled=self.autocast_cache)
                )
            yield


@functools.cache
def _plain_mode(autocast_cache: bool, grad_enabled: bool, inference: bool) -> CallMode:
    """The mode without autocast: the same few objects for nearly all calls there are."""
    return CallMode(
        autocast=(("cpu", *_autocast_of("cpu")),),
        autocast_cache=autocast_cache,
        grad_enabled=grad_enabled,
        inference=inference,
    )


@dataclass(slots=True, kw_only=True)
class RootCall:
    """One call of the root module, as recorded. Holds no graph, and no cycle through one."""

    module: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    rng_state: RandomState
    mode: CallMode
    training: bool
    input_versions: tuple[int | None, ...]
    parameters: Sequence[Any]
    parameter_versions: tuple[int | None, ...]
    buffers: list[Any] | None = None  #: as they were before the call; None: not kept
    output: list[Any] | None = None  #: its tensors, detached; None until the call has ended
    output_versions: tuple[int | None, ...] = ()
    #: one for each tensor of the output, as the last backward brought it; None where none came
    output_gradients: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class RootRerun:
    """What running the call again showed."""

    bad: FirstBadOperation | None  #: None: the call itself is in order
    parted: str | None  #: why it is not proved to be the same call; None: equal bit for bit
    output_bad: bool = False  #: the recorded output was bad already
    output_gradient_bad: bool = False  #: what came back into the module was bad already: look at the loss
    ran_backward: bool = False
    gradients_match: bool | None = None  #: equal to `.grad` bit for bit; None: not run, or nothing to hold against
    failure: str = ""  #: why the microscope stopped watching, if it did


def begin_call(
    module: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    parameters: Sequence[Any] | None = None,
    buffers_up_to_bytes: int = 0,
) -> RootCall:
    """Records what goes into a call.

    Args:
        parameters: those of the module, where the caller has them at hand: finding them costs more than the rest.
        buffers_up_to_bytes: keep copies of the buffers where they are not larger than this; only forward passes
            that read what they also update need it (spectral norm), and it costs a copy at each call.
    """
    keep = buffers_up_to_bytes > 0 and sum(b.nbytes for b in module.buffers()) <= buffers_up_to_bytes
    if parameters is None:
        parameters = list(module.parameters())
    return RootCall(
        module=module,
        args=tuple(args),
        kwargs=dict(kwargs),
        rng_state=RandomState.of_torch(),
        mode=CallMode.capture(),
        training=module.training,
        input_versions=versions((args, kwargs)),
        parameters=parameters,
        parameter_versions=versions(parameters),
        buffers=buffers_of(module) if keep else None,
    )


def end_call(call: RootCall, output: Any) -> None:
    """Records what came out, and asks for the gradients that will come back."""
    tensors = list(tensors_in(output))
    call.output = [tensor.detach() for tensor in tensors]
    call.output_versions = versions(tensors)
    call.output_gradients = [None] * len(tensors)
    for index, tensor in enumerate(tensors):
        if tensor.requires_grad and tensor.grad_fn is not None:
            tensor.register_hook(_keep_in(call.output_gradients, index))


def rerun(
    call: RootCall,
    names: Mapping[int, str],
    *,
    batch_size: int | None = None,
    quiet: AbstractContextManager[Any] | None = None,
) -> RootRerun:
    """Runs the call again, and its backward if the output is finite.

    Args:
        names: from `id(module)` to the name the user knows.
        batch_size: taken from the first tensor of the inputs where None.
        quiet: entered meanwhile; makes our own hooks inert.
    """
    reason = _why_not(call)
    if reason is not None:
        return RootRerun(bad=None, parted=reason)
    before = RandomState.capture()
    try:
        with quiet or nullcontext(), standing_in(_plain(call.module), call.buffers):
            return _rerun(call, names, batch_size or _batch_size(call))
    except Exception as error:  # noqa: BLE001  # the user's forward may fail in any way when it runs again
        return RootRerun(bad=None, parted=f"running it again failed: {type(error).__name__}: {error}")
    finally:
        before.restore()


def versions(value: Any) -> tuple[int | None, ...]:
    """How often each tensor in it was written, as PyTorch counts; None for those that do not count."""
    return tuple([None if t.is_inference() else t._version for t in tensors_in(value)])


def _rerun(call: RootCall, names: Mapping[int, str], batch_size: int | None) -> RootRerun:
    module = _plain(call.module)
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    recorded = [parameter.grad for parameter in parameters]
    call.rng_state.restore()
    args, kwargs = map_tensors(_cut_off, (call.args, call.kwargs))
    with Microscope(names, batch_size=batch_size) as scope:
        with call.mode.again():
            outputs = list(tensors_in(module(*args, **kwargs)))
        parted = _parted(call, outputs)
        bad = scope.first_bad(outputs)
        if bad is not None or any(look(output).bad for output in outputs):
            return RootRerun(bad=bad, parted=parted, output_bad=True, failure=scope.failure)
        pairs = [
            (output, gradient)
            for output, gradient in zip(outputs, call.output_gradients, strict=False)
            if gradient is not None and output.requires_grad
        ]
        if any(look(gradient).bad for _, gradient in pairs):
            return RootRerun(bad=None, parted=parted, output_gradient_bad=True, failure=scope.failure)
        if not pairs or not parameters:
            return RootRerun(bad=None, parted=parted, failure=scope.failure)
        gradients = _backward(pairs, parameters)
        bad = scope.first_bad(gradients)
    return RootRerun(
        bad=bad,
        parted=parted,
        ran_backward=True,
        gradients_match=_all_equal(gradients, recorded),
        failure=scope.failure,
    )


def _backward(pairs: list[tuple[Any, Any]], parameters: list[Any]) -> list[Any]:
    """The gradients of the parameters, without touching `.grad` or what hangs on its accumulation."""
    outputs, gradients = map(list, zip(*pairs, strict=True))
    try:
        with torch.enable_grad():
            return list(torch.autograd.grad(outputs, parameters, gradients, retain_graph=True, allow_unused=True))
    except RuntimeError as error:
        if "heckpoint" not in str(error) or any(_acts_on_accumulation(p) for p in parameters):
            raise
    for parameter in parameters:  # reentrant checkpointing knows only `backward`; `standing_in` puts these back
        parameter.grad = None
    torch.autograd.backward(outputs, gradients)
    return [parameter.grad for parameter in parameters]


def _acts_on_accumulation(parameter: Any) -> bool:
    return bool(getattr(parameter, "_post_accumulate_grad_hooks", None))


def _why_not(call: RootCall) -> str | None:
    """Why the call cannot be run again, or None."""
    if call.output is None:
        return "the call did not end"
    if type(call.module).__name__ in _SHARDED:
        return f"a {type(call.module).__name__} cannot be run again by one worker alone"
    if call.module.training != call.training:
        return "the module was switched between training and evaluation since the call"
    if versions((call.args, call.kwargs)) != call.input_versions:
        return "the inputs were changed in place since the call"
    if versions(call.parameters) != call.parameter_versions:
        return "the parameters were changed since the call"
    return None


def _plain(module: Any) -> Any:
    """The user's module inside of wrappers that would talk to other workers or to a compiler."""
    while True:
        if type(module).__name__ == "DistributedDataParallel":
            module = module.module
        elif type(module).__name__ == "OptimizedModule":
            module = module._orig_mod
        else:
            return module


def _cut_off(tensor: Any) -> Any:
    """The same memory, outside of the graph that it came from."""
    return tensor.detach().requires_grad_(tensor.requires_grad)


def _parted(call: RootCall, outputs: list[Any]) -> str | None:
    recorded = call.output or []
    if versions(recorded) != call.output_versions:
        return "the output was changed in place after the call, so the two cannot be compared"
    if len(recorded) != len(outputs):
        return f"{len(outputs)} tensors came out, {len(recorded)} the first time"
    for index, (old, new) in enumerate(zip(recorded, outputs, strict=True)):
        if not same_numbers(old, new):
            return f"output tensor {index} differs from the one recorded"
    return None


def _all_equal(gradients: list[Any], recorded: list[Any]) -> bool | None:
    pairs = [pair for pair in zip(gradients, recorded, strict=True) if None not in map(_presence, pair)]
    return all(same_numbers(new, old) for new, old in pairs) if pairs else None


def _presence(tensor: Any) -> bool | None:
    return None if tensor is None else True


def same_numbers(left: Any, right: Any) -> bool:
    """Equal in every element, NaN being equal to NaN."""
    if left.shape != right.shape or left.dtype != right.dtype or left.layout != right.layout:
        return False
    left, right = carrier(left.detach()), carrier(right.detach())
    if left is None or right is None:
        return left is right  # no numbers to compare
    if left.shape != right.shape:
        return False
    if left.is_floating_point() or left.is_complex():
        return bool(((left == right) | ((left != left) & (right != right))).all())
    return bool(torch.equal(left, right))


def _keep_in(gradients: list[Any], index: int) -> Callable[[Any], None]:
    def keep(gradient: Any) -> None:
        gradients[index] = gradient

    return keep


def _batch_size(call: RootCall) -> int | None:
    for tensor in tensors_in((call.args, call.kwargs)):
        if tensor.dim() > 0:
            return int(tensor.shape[0])
    return None


def _autocast_of(device: str) -> tuple[bool, Any]:
    if hasattr(torch, "get_autocast_dtype"):  # PyTorch 2.4 and later
        return torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    if device == "cpu":
        return torch.is_autocast_cpu_enabled(), torch.get_autocast_cpu_dtype()
    return torch.is_autocast_enabled(), torch.get_autocast_gpu_dtype()
