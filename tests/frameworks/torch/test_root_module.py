# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import copy
import dataclasses
import linecache
import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # its usual name
from torch.utils.checkpoint import checkpoint

from firstfault.frameworks.torch.root_module import begin_call, end_call, rerun


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)


def names_of(model: nn.Module) -> dict[int, str]:
    return {id(module): name for name, module in model.named_modules()}


def recorded_call(model, *args, buffers_up_to_bytes=0, **kwargs):
    """What the forward hooks of a session do."""
    call = begin_call(model, args, kwargs, buffers_up_to_bytes=buffers_up_to_bytes)
    output = model(*args, **kwargs)
    end_call(call, output)
    return call, output


def everything(model: nn.Module) -> dict:
    """All that a later step depends on, as objects that can be compared bit for bit."""
    return {
        "parameters": [p.detach().clone() for p in model.parameters()],
        "gradients": [None if p.grad is None else p.grad.clone() for p in model.parameters()],
        "gradient objects": [id(p.grad) for p in model.parameters()],
        "buffers": [b.clone() for b in model.buffers()],
        "buffer objects": [id(b) for b in model.buffers()],
        "buffer versions": [b._version for b in model.buffers()],
        "parameter versions": [p._version for p in model.parameters()],
        "torch": torch.get_rng_state(),
        "python": random.getstate(),
        "numpy": np.random.get_state()[1].tolist(),
        "anomaly": torch.is_anomaly_enabled(),
        "attributes": [{k: id(v) for k, v in vars(m).items()} for m in model.modules()],
    }


def same(left, right) -> bool:
    if isinstance(left, torch.Tensor):
        return torch.equal(torch.nan_to_num(left.double(), 7.0), torch.nan_to_num(right.double(), 7.0))
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    return left == right


class Net(nn.Module):
    def __init__(self, end) -> None:
        super().__init__()
        self.conv = nn.Conv1d(2, 4, 3)
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.4)
        self.fc = nn.Linear(24, 3)
        self.end = end

    def forward(self, x):
        h = self.drop(torch.relu(self.norm(self.conv(x))))
        return self.end(self.fc(h.flatten(1)))


def root_of_squares(x):
    return torch.sqrt(((x - x.detach()) ** 2).sum(1))


def test_a_bad_gradient_is_found_and_nothing_is_changed():
    model = Net(root_of_squares)
    call, output = recorded_call(model, torch.randn(5, 2, 8))
    F.mse_loss(output, torch.ones(5)).backward()
    before = everything(model)
    answer = rerun(call, names_of(model))
    assert same(before, everything(model))
    assert answer.parted is None
    assert answer.failure == ""
    assert answer.ran_backward
    assert answer.gradients_match is True
    assert (answer.bad.operation, answer.bad.stage, answer.bad.module) == ("sqrt", "backward", "")
    code = linecache.getline(__file__, answer.bad.location.line).strip()
    assert code == "return torch.sqrt(((x - x.detach()) ** 2).sum(1))"
    assert answer.bad.samples == (0, 1, 2, 3, 4)


def test_a_bad_output_is_found_in_forward():
    model = Net(lambda x: torch.log(x - x.detach()))
    call, output = recorded_call(model, torch.randn(5, 2, 8))
    (output * 0).sum().backward()
    before = everything(model)
    answer = rerun(call, names_of(model))
    assert same(before, everything(model))
    assert answer.parted is None
    assert answer.output_bad
    assert (answer.bad.operation, answer.bad.stage) == ("log", "forward")


def test_a_bad_loss_says_that_the_module_is_in_order():
    model = Net(lambda x: x)
    call, output = recorded_call(model, torch.randn(5, 2, 8))
    ((output * 0).sum() / torch.zeros(())).backward()
    answer = rerun(call, names_of(model))
    assert answer.bad is None
    assert answer.output_gradient_bad
    assert answer.parted is None


def train(replays: bool) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model = Net(lambda x: x)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(4):
        optimizer.zero_grad()
        call, output = recorded_call(model, torch.randn(5, 2, 8))
        loss = F.cross_entropy(output, torch.randint(3, (5,)))
        loss.backward()
        if replays:
            answer = rerun(call, names_of(model))
            assert (answer.parted, answer.bad, answer.gradients_match) == (None, None, True)
        optimizer.step()
    return [*model.state_dict().values(), torch.get_rng_state(), torch.rand(1)]


def test_a_training_with_a_rerun_at_every_step_is_the_same_bit_for_bit():
    assert same(train(replays=False), train(replays=True))


def test_gradients_accumulated_before_are_kept():
    model = nn.Linear(3, 1)
    model(torch.randn(2, 3)).sum().backward()
    call, output = recorded_call(model, torch.randn(2, 3))
    output.sum().backward()
    before = everything(model)
    answer = rerun(call, {})
    assert same(before, everything(model))
    assert answer.ran_backward
    assert answer.gradients_match is False  # `.grad` holds the sum of two


@dataclasses.dataclass
class Batch:
    features: torch.Tensor
    more: dict


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, batch, *, scale):
        h = self.fc(batch.features) * scale[0]
        return Batch(h, {"pair": (h.exp(), torch.log(batch.more["x"]))})


def test_nested_inputs_and_outputs_are_followed():
    model = Nested()
    earlier = torch.randn(4, 3, requires_grad=True)
    batch = Batch(earlier * 2, {"x": torch.tensor([1.0, 0.0])})
    call, output = recorded_call(model, batch, scale=[torch.tensor(2.0)])
    assert len(call.output) == 3
    output.features.sum().backward()
    gradient = earlier.grad.clone()
    answer = rerun(call, names_of(model))
    assert answer.parted is None
    assert answer.bad.operation == "log"
    assert torch.equal(earlier.grad, gradient)


def test_inputs_changed_in_place_are_refused():
    model = nn.Linear(3, 1)
    x = torch.randn(2, 3)
    call, output = recorded_call(model, x)
    output.sum().backward()
    x.zero_()
    assert "inputs were changed" in rerun(call, {}).parted


def test_changed_weights_are_refused():
    model = nn.Linear(3, 1)
    call, output = recorded_call(model, torch.randn(2, 3))
    output.sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    assert "parameters were changed" in rerun(call, {}).parted


def test_an_output_that_differs_is_said():
    class Counting(nn.Module):
        count = [0]  # noqa: RUF012  # outside of what can be put back

        def forward(self, x):
            self.count[0] += 1
            return x * self.count[0]

    call, _ = recorded_call(Counting(), torch.ones(2))
    assert rerun(call, {}).parted == "output tensor 0 differs from the one recorded"


def test_an_error_in_the_rerun_is_said_and_everything_put_back():
    class Once(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)
            self.register_buffer("total", torch.zeros(()))
            self.ran = []

        def forward(self, x):
            self.total += 1
            if once:
                raise ValueError("twice")
            self.ran.append(1)
            return self.fc(x)

    once: list[int] = []
    model = Once()
    call, output = recorded_call(model, torch.ones(2))
    output.sum().backward()
    once.append(1)
    before = everything(model)
    assert rerun(call, {}).parted == "running it again failed: ValueError: twice"
    assert same(before, everything(model))


def test_attributes_and_generators_of_the_module_are_put_back():
    class Stateful(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0
            self.history = []
            self.generator = torch.Generator().manual_seed(3)
            self.register_buffer("mean", torch.zeros(2))

        def forward(self, x):
            self.calls += 1
            self.history.append(x)
            self.cache = x * 2
            self.mean = self.mean * 0.9 + x.mean(0) * 0.1
            torch.rand(1, generator=self.generator)
            return x + 1

    model = Stateful()
    call, _ = recorded_call(model, torch.ones(3, 2))
    before, state = everything(model), model.generator.get_state()
    assert rerun(call, {}).parted is None
    assert same(before, everything(model))
    assert (model.calls, len(model.history)) == (1, 1)
    assert torch.equal(state, model.generator.get_state())


def test_a_forward_that_reads_what_it_updates_needs_its_buffers_kept():
    class Drifting(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(5, 5)
            self.register_buffer("scale", torch.ones(()))

        def forward(self, x):
            self.scale.mul_(1.5)
            return self.fc(x) * self.scale.clone()

    model = Drifting()
    without, _ = recorded_call(model, torch.randn(2, 5))
    assert rerun(without, {}).parted is not None
    kept, output = recorded_call(model, torch.randn(2, 5), buffers_up_to_bytes=1 << 20)
    output.sum().backward()
    answer = rerun(kept, {})
    assert (answer.parted, answer.gradients_match) == (None, True)


def test_autocast_is_entered_again():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 1))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        call, output = recorded_call(model, torch.randn(3, 4))
        loss = output.float().sum()
    loss.backward()
    answer = rerun(call, {})
    assert (answer.parted, answer.gradients_match) == (None, True)
    assert call.output[0].dtype == torch.bfloat16


def test_a_call_without_gradients_is_run_without():
    model = nn.Linear(4, 4)
    with torch.no_grad():
        call, _ = recorded_call(model, torch.randn(3, 4))
    answer = rerun(call, {})
    assert (answer.parted, answer.ran_backward) == (None, False)
    with torch.inference_mode():
        call, _ = recorded_call(model, torch.randn(3, 4))
    assert rerun(call, {}).parted is None


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpointing_is_run_again(use_reentrant):
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(3, 3)
            self.second = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))

        def forward(self, x):
            h = checkpoint(self.second, self.first(x), use_reentrant=use_reentrant)
            return root_of_squares(h)

    model = Checkpointed()
    call, output = recorded_call(model, torch.randn(4, 3))
    output.sum().backward()
    before = everything(model)
    answer = rerun(call, names_of(model))
    assert same(before, everything(model))
    assert answer.parted is None
    assert answer.gradients_match is True
    assert answer.bad.backward_node == "SqrtBackward0"


def test_hooks_on_accumulation_do_not_run_again():
    model = nn.Linear(3, 1)
    seen = []
    model.weight.register_post_accumulate_grad_hook(lambda _: seen.append(1))
    call, output = recorded_call(model, torch.randn(4, 3))
    output.sum().backward()
    rerun(call, {})
    assert seen == [1]


def test_what_keeps_our_hooks_quiet_is_entered():
    entered = []

    @contextlib.contextmanager
    def quiet():
        entered.append("in")
        yield
        entered.append("out")

    call, _ = recorded_call(nn.Linear(3, 1), torch.randn(4, 3))
    rerun(call, {}, quiet=quiet())
    assert entered == ["in", "out"]


def test_a_compiled_wrapper_is_run_without_the_compiler():
    model = nn.Linear(3, 1)
    compiled = torch.compile(model, backend="eager")
    call, output = recorded_call(compiled, torch.randn(4, 3))
    output.sum().backward()
    answer = rerun(call, {})
    assert (answer.parted, answer.gradients_match) == (None, True)


def test_a_recurrent_net_is_the_same_again():
    model = nn.LSTM(3, 4, num_layers=2, dropout=0.3)
    call, output = recorded_call(model, torch.randn(5, 2, 3))
    output[0].sum().backward()
    before = everything(model)
    answer = rerun(call, {})
    assert same(before, everything(model))
    assert (answer.parted, answer.gradients_match) == (None, True)


def test_a_recorded_call_keeps_no_graph_alive():
    model = nn.Linear(3, 1)
    call, output = recorded_call(model, torch.randn(4, 3))
    import weakref

    node = weakref.ref(output)
    del output
    assert node() is None
    assert call.output is not None


def test_a_model_can_still_be_copied_after_a_rerun():
    model = Net(lambda x: x)
    call, output = recorded_call(model, torch.randn(5, 2, 8))
    output.sum().backward()
    rerun(call, {})
    assert same(copy.deepcopy(model).state_dict(), model.state_dict())
