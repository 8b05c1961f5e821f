# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import linecache
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # its usual name
from torch.utils.checkpoint import checkpoint

from firstfault.frameworks.torch.microscope import Microscope


def names_of(model: nn.Module) -> dict[int, str]:
    return {id(module): name for name, module in model.named_modules()}


def line_of(location) -> str:
    assert location is not None
    return linecache.getline(__file__, location.line).strip()


class Distance(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(3, 3)

    def forward(self, a, b):
        d = self.project(a) - self.project(b)
        return torch.sqrt((d**2).sum(1))


class Model(nn.Module):
    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.encoder = nn.Linear(3, 3)
        self.part = part

    def forward(self, x, *more):
        return self.part(self.encoder(x), *more)


class Exponential(nn.Module):
    def forward(self, x):
        return torch.exp(x * 1000)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def gradients(model: nn.Module) -> list[torch.Tensor]:
    return [p.grad for p in model.parameters() if p.grad is not None]


def test_the_square_root_of_zero_is_named_in_backward_with_its_forward_line():
    model = nn.ModuleDict({"head": Distance()})
    x = torch.randn(4, 3)
    with Microscope(names_of(model), batch_size=4) as scope:
        loss = model["head"](x, torch.cat([torch.randn(3, 3), x[3:]])).mean()
        loss.backward()
    assert scope.failure == ""
    assert scope.first_bad(loss) is None
    bad = scope.first_bad(loss, gradients(model))
    assert (bad.operation, bad.backward_node, bad.stage) == ("sqrt", "SqrtBackward0", "backward")
    assert bad.aten == "aten.div.Tensor"
    assert bad.module == "head"
    assert line_of(bad.location) == "return torch.sqrt((d**2).sum(1))"
    assert bad.samples == (3,)
    assert bad.became_nan_at.backward_node == "PowBackward0"
    assert bad.traced
    assert bad.inputs[0].num_nonfinite == 0
    assert bad.output.num_nonfinite == 1


def test_zero_by_zero_in_the_loss_is_named_in_the_loss():
    model = nn.Linear(3, 1)
    with Microscope(names_of(model)) as scope:
        output = model(torch.randn(4, 3))
        count = torch.zeros(())
        loss = (output * 0).sum() / count
        loss.backward()
    bad = scope.first_bad(loss)
    assert (bad.operation, bad.stage, bad.module, bad.backward_node) == ("div", "loss", None, None)
    assert line_of(bad.location) == "loss = (output * 0).sum() / count"
    assert scope.first_bad(gradients(model)).operation == "div"


def test_the_log_of_zero_is_the_origin_and_the_product_with_zero_the_maker_of_nan():
    weight = torch.zeros(3, requires_grad=True)
    with Microscope({}) as scope:
        logs = torch.log(weight)
        loss = (logs * torch.zeros(3)).sum()
    bad = scope.first_bad(loss)
    assert bad.operation == "log"
    assert line_of(bad.location) == "logs = torch.log(weight)"
    assert bad.became_nan_at.operation == "mul"
    assert line_of(bad.became_nan_at.location) == "loss = (logs * torch.zeros(3)).sum()"


def test_an_overflow_in_a_submodule_carries_its_name():
    model = Model(Exponential())
    with Microscope(names_of(model), batch_size=5) as scope:
        output = model(torch.tensor([[0.0] * 3] * 4 + [[1e6] * 3]))
        loss = (output - output.detach()).mean()
    bad = scope.first_bad(loss)
    assert (bad.operation, bad.stage, bad.module) == ("exp", "forward", "part")
    assert line_of(bad.location) == "return torch.exp(x * 1000)"
    assert 4 in bad.samples
    assert bad.became_nan_at.operation == "sub"


def test_without_names_a_module_is_called_by_its_class():
    model = Model(Exponential())
    with Microscope({}) as scope:
        output = model(torch.full((2, 3), 1e6))
    assert scope.first_bad(output).module == "Exponential"
    assert scope.first_bad().module == "Exponential"


def test_the_softmax_of_a_row_masked_in_full_is_the_fault():
    scores = torch.randn(2, 4, requires_grad=True)
    with Microscope({}, batch_size=2) as scope:
        mask = torch.full((2, 4), float("-inf"))
        mask[0] = 0
        weights = torch.softmax(scores + mask, dim=-1)
        loss = weights.sum()
    bad = scope.first_bad(loss)
    assert (bad.operation, bad.origin) == ("softmax", "made")
    assert bad.samples == (1,)
    assert bad.became_nan_at is None
    assert bad.inputs[0].num_nan == 0
    assert bad.inputs[0].num_nonfinite == 4


def test_a_mask_from_before_the_watch_is_no_origin_either():
    mask = torch.full((2, 4), float("-inf"))
    with Microscope({}) as scope:
        loss = torch.softmax(torch.randn(2, 4) + mask, dim=-1).sum()
    assert scope.first_bad(loss).operation == "softmax"


def test_an_overflow_beside_a_mask_is_told_from_the_mask():
    mask = torch.zeros(2, 4).masked_fill(torch.eye(2, 4).bool(), float("-inf"))
    with Microscope({}) as scope:
        masked = torch.randn(2, 4) * 1e3 + 1e3 + mask
        grown = torch.exp(masked.abs().where(mask == 0, masked))
        loss = (grown / grown.sum(1, keepdim=True)).sum()
    bad = scope.first_bad(loss)
    assert bad.operation == "exp"
    assert bad.became_nan_at.operation == "div"


def test_healthy_masks_and_absorbed_infinities_report_nothing():
    scores = torch.randn(2, 4, requires_grad=True)
    with Microscope({}) as scope:
        causal = torch.full((4, 4), float("-inf")).triu(1)[:2]
        weights = torch.softmax(scores.masked_fill(causal != 0, float("-inf")) + causal, dim=-1)
        logs = torch.where(weights > 0, torch.log(weights.detach()), 0.0)
        top = torch.amax(torch.where(weights > 0, weights, float("-inf")), dim=1)
        loss = (weights * logs).sum() + top.sum()
        loss.backward()
    assert scope.failure == ""
    assert scope.first_bad(loss, scores.grad) is None


def test_the_masked_branch_of_where_is_caught_in_backward():
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    with Microscope({}) as scope:
        loss = torch.where(x > 0, torch.log(x), torch.zeros(())).sum()
        loss.backward()
    bad = scope.first_bad(x.grad)
    assert bad.operation == "log"
    assert line_of(bad.location) == "loss = torch.where(x > 0, torch.log(x), torch.zeros(())).sum()"
    assert scope.first_bad(loss) is None


def test_a_bad_batch_has_arrived_and_was_not_made():
    model = nn.Linear(3, 1)
    batch = torch.tensor([[1.0, 2.0, 3.0], [1.0, float("nan"), 0.0]])
    with Microscope(names_of(model), batch_size=2) as scope:
        loss = model(batch).mean()
    bad = scope.first_bad(loss)
    assert bad.origin == "arrived"
    assert bad.samples == (1,)


def test_an_in_place_operation_shows_its_input_as_it_was():
    x = torch.full((3,), 3e38)
    with Microscope({}) as scope:
        y = x.clone()
        y.mul_(2)
    bad = scope.first_bad(y)
    assert bad.operation == "mul"
    assert bad.inputs[0].num_nonfinite == 0
    assert bad.inputs[0].max == pytest.approx(3e38)
    assert bad.output.num_nonfinite == 3


def test_in_place_relu_and_residual_additions_are_followed():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x):
            y = self.linear(x)
            y += x
            return torch.log(self.relu(y) * 0)

    model = nn.Sequential(Block(), nn.Linear(3, 1))
    with Microscope(names_of(model)) as scope:
        loss = model(torch.rand(2, 3)).mean()
        loss.backward()
    bad = scope.first_bad(loss)
    assert (bad.operation, bad.module) == ("log", "0")
    assert scope.failure == ""


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpointed_parts_are_named_too(use_reentrant):
    model = Distance()
    a = torch.randn(4, 3, requires_grad=True)
    with Microscope(names_of(nn.ModuleDict({"head": model})), batch_size=4) as scope:
        loss = checkpoint(model, a, a, use_reentrant=use_reentrant).sum()
        loss.backward()
    assert scope.failure == ""
    assert scope.first_bad(loss) is None
    bad = scope.first_bad(gradients(model))
    assert (bad.operation, bad.backward_node, bad.stage, bad.module) == (
        "sqrt",
        "SqrtBackward0",
        "backward",
        "head",
    )
    assert line_of(bad.location) == "return torch.sqrt((d**2).sum(1))"


def test_what_is_made_in_the_recomputed_forward_counts_as_forward():
    def part(x):
        return torch.where(x > 1, x, torch.exp(x * 1000)).where(x < 1, x)

    x = torch.tensor([0.0, 0.5, 2.0], requires_grad=True)
    with Microscope({}) as scope:
        loss = checkpoint(part, x, use_reentrant=False).sum()
        loss.backward()
    bad = scope.first_bad(x.grad)
    assert bad.operation == "exp"
    assert line_of(bad.location) == "return torch.where(x > 1, x, torch.exp(x * 1000)).where(x < 1, x)"


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float16, 65504), (torch.bfloat16, 3.3e38)])
def test_overflow_under_autocast_is_named(dtype, limit):
    model = nn.Linear(4, 2, bias=False)
    nn.init.constant_(model.weight, 1.0)
    with Microscope(names_of(nn.ModuleDict({"fc": model}))) as scope, torch.autocast("cpu", dtype=dtype):
        output = model(torch.full((2, 4), limit / 2))
    bad = scope.first_bad(output)
    assert (bad.operation, bad.module) in (("mm", "fc"), ("linear", "fc"))
    assert bad.output.dtype == str(dtype).removeprefix("torch.")
    assert bad.inputs[0].max == pytest.approx(limit / 2, rel=0.01)


def test_a_cast_that_overflows_is_named_beside_a_mask():
    x = torch.tensor([float("-inf"), 1e6, 1.0])
    with Microscope({}) as scope:
        half = x.to(torch.float16)
    bad = scope.first_bad(half)
    assert (bad.operation, bad.origin) == ("to", "made")


def test_embeddings_and_their_gradients_are_followed():
    embedding = nn.Embedding(5, 3, sparse=True)
    with Microscope({id(embedding): "tokens"}) as scope:
        vectors = embedding(torch.tensor([0, 1, 1]))
        loss = (vectors - vectors.detach()).pow(2).sum().sqrt()
        loss.backward()
    assert scope.failure == ""
    assert scope.first_bad(embedding.weight.grad).backward_node == "SqrtBackward0"


def test_outputs_in_tuples_and_mappings_are_looked_into():
    with Microscope({}) as scope:
        variance, mean = torch.var_mean(torch.ones(1))
        low = torch.log(torch.zeros(2))
    assert scope.first_bad({"loss": (mean, [low])}).operation == "log"
    assert scope.first_bad((variance,)).operation == "var_mean"
    assert scope.first_bad([mean]) is None


@dataclasses.dataclass
class Answer:
    loss: torch.Tensor


def test_dataclass_outputs_are_looked_into():
    with Microscope({}) as scope:
        answer = Answer(torch.log(torch.zeros(2)))
    assert scope.first_bad(answer).operation == "log"


def test_odd_tensors_do_not_disturb_it():
    with Microscope({}) as scope:
        sparse = torch.eye(3).to_sparse() * 2
        (sparse @ torch.ones(3, 1)).sum()
        torch.eye(3).to_sparse_csr().sum()
        torch.empty(0, 3).sum()
        (torch.arange(4) // 2).bool().any()
        torch.fft.fft(torch.randn(8)).conj().resolve_conj()
        torch.zeros(3, dtype=torch.float8_e5m2).float()
        torch.empty(3, device="meta") + 1
        torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
        torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged) * 2
        torch._foreach_add_([torch.ones(2), torch.ones(3)], 1.0)
        torch.add(torch.ones(2), 1, out=torch.empty(2))
        F.max_pool1d(torch.randn(1, 1, 8), 2, return_indices=True)
        F.scaled_dot_product_attention(*[torch.randn(1, 2, 4, 8)] * 3)
        nn.LSTM(3, 4)(torch.randn(5, 2, 3))
        torch.func.vmap(torch.sin)(torch.randn(3))
    assert scope.failure == ""
    assert scope.first_bad() is None


def test_complex_and_sparse_values_can_be_at_fault():
    with Microscope({}) as scope:
        signal = torch.fft.fft(torch.ones(4)) / torch.zeros(4)
        sparse = torch.eye(3).to_sparse() * 3e38 * 3e38
    assert scope.first_bad(signal).operation == "div"
    assert scope.first_bad(sparse).operation == "mul"


def test_a_list_operation_is_named_without_its_prefix():
    tensors = [torch.full((2,), 3e38), torch.ones(2)]
    with Microscope({}) as scope:
        torch._foreach_mul_(tensors, 2.0)
    assert scope.first_bad(tensors).operation == "mul"


def test_memory_that_was_never_written_is_not_a_fault_unless_it_is_used():
    with Microscope({}) as scope:
        buffer = torch.empty(4)
        buffer.copy_(torch.ones(4))
        loss = buffer.sum()
    assert scope.first_bad(loss) is None


class BadBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.abs()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x / x.abs()


def test_a_custom_function_is_named_with_the_line_of_its_backward():
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    with Microscope({}, batch_size=2) as scope:
        BadBackward.apply(x).sum().backward()
    bad = scope.first_bad(x.grad)
    assert (bad.operation, bad.backward_node, bad.stage) == ("BadBackward", "BadBackwardBackward", "backward")
    assert line_of(bad.location) == "return grad * x / x.abs()"
    assert bad.samples == (0,)


def test_a_functional_loss_outside_of_modules_is_the_loss_stage():
    model = nn.Linear(3, 2)
    with Microscope(names_of(model)) as scope:
        loss = F.cross_entropy(model(torch.randn(2, 3)), torch.tensor([-100, -100]))
    bad = scope.first_bad(loss)
    assert (bad.operation, bad.stage) == ("nll_loss", "loss")


def test_a_criterion_is_the_loss_stage_though_it_is_a_module():
    model = nn.Linear(3, 2)
    with Microscope(names_of(model)) as scope:
        loss = nn.CrossEntropyLoss()(model(torch.randn(2, 3)), torch.tensor([-100, -100]))
    assert scope.first_bad(loss).stage == "loss"


def test_what_is_done_to_a_batch_before_the_model_is_the_data_stage():
    model = nn.Linear(3, 1)
    batch = torch.ones(4, 3)
    with Microscope(names_of(model)) as scope:
        normal = (batch - batch.mean(0)) / batch.std(0)
        loss = model(normal).mean()
        loss.backward()
    bad = scope.first_bad(loss)
    assert (bad.operation, bad.stage) == ("div", "data")
    assert line_of(bad.location) == "normal = (batch - batch.mean(0)) / batch.std(0)"


def test_numbers_and_random_states_are_the_same_with_it():
    def train() -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Conv1d(2, 8, 3), nn.BatchNorm1d(8), nn.GELU(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(48, 4)
        )
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            F.cross_entropy(model(torch.randn(6, 2, 8)), torch.randint(4, (6,))).backward()
            optimizer.step()
        return [*model.state_dict().values(), torch.get_rng_state()]

    plain = train()
    with Microscope({}) as scope:
        watched = train()
    assert scope.failure == ""
    assert scope.num_operations > 100
    assert all(torch.equal(a, b) for a, b in zip(plain, watched, strict=True))


def test_anomaly_mode_is_left_as_it_was_and_says_nothing():
    assert not torch.is_anomaly_enabled()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Microscope({}):
            assert torch.is_anomaly_enabled()
    assert not torch.is_anomaly_enabled()
    with torch.autograd.set_detect_anomaly(True, check_nan=True):
        with Microscope({}):
            assert torch.is_anomaly_check_nan_enabled()
        assert torch.is_anomaly_check_nan_enabled()


def test_an_error_of_the_user_passes_through_unchanged():
    with pytest.raises(RuntimeError, match="shape"), Microscope({}) as scope:
        torch.ones(2, 3) @ torch.ones(2, 3)
    assert scope.failure == ""


def test_a_failure_of_ours_only_ends_the_watch(monkeypatch):
    from firstfault.frameworks.torch import microscope

    def broken(*_args, **_kwargs):
        raise ValueError("broken on purpose")

    monkeypatch.setattr(microscope, "look", broken)
    with Microscope({}) as scope:
        result = torch.ones(2) + 1
    assert result.tolist() == [2, 2]
    assert scope.failure == "ValueError: broken on purpose"
    assert scope.first_bad(result) is None


def test_modes_of_the_user_do_not_see_us():
    from torch.utils.flop_counter import FlopCounterMode

    def flops(watch: bool) -> int:
        counter = FlopCounterMode(display=False)
        with counter:
            if watch:
                with Microscope({}):
                    torch.ones(4, 4) @ torch.ones(4, 4)
            else:
                torch.ones(4, 4) @ torch.ones(4, 4)
        return counter.get_total_flops()

    assert flops(True) == flops(False)


def test_an_optimizer_that_divides_by_zero_is_the_optimizer_stage():
    parameter = nn.Parameter(torch.ones(2))
    parameter.grad = torch.zeros(2)
    optimizer = torch.optim.Adam([parameter], eps=0.0)
    with Microscope({}) as scope:
        optimizer.step()
    bad = scope.first_bad(parameter.detach())
    assert bad.stage == "optimizer"
    assert line_of(bad.location) == "optimizer.step()"


def test_an_operation_in_a_hook_of_the_user_is_called_by_its_own_name():
    x = torch.ones(3, requires_grad=True)
    with Microscope({}) as scope:
        y = x * 2
        y.register_hook(lambda gradient: gradient / 0)
        y.sum().backward()
    bad = scope.first_bad(x.grad)
    assert (bad.operation, bad.stage) == ("div", "backward")
    assert line_of(bad.location) == "y.register_hook(lambda gradient: gradient / 0)"


@pytest.mark.parametrize("fullgraph", [False, True])
def test_compiled_code_is_run_without_the_compiler(fullgraph):
    compiled = torch.compile(lambda x: torch.log(x), backend="eager", fullgraph=fullgraph)
    compiled(torch.ones(3))
    with Microscope({}) as scope:
        output = compiled(torch.zeros(3))
    assert scope.failure == ""
    assert scope.first_bad(output).operation == "log"


def test_function_transforms_are_looked_into():
    with Microscope({}) as scope:
        gradient = torch.func.grad(lambda x: torch.sqrt(x).sum())(torch.zeros(3))
        rows = torch.func.vmap(torch.log)(torch.zeros(2, 2))
    assert scope.failure == ""
    assert scope.first_bad(gradient).backward_node == "SqrtBackward0"
    assert scope.first_bad(rows).operation == "log"
