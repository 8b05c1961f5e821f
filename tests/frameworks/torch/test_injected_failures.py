# SPDX-License-Identifier: Apache-2.0
"""A failure of ours at every place where a framework calls into us: the training ends with the same weights."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import firstfault
from firstfault.capture.budget import Budget
from firstfault.capture.firewall import Firewall
from firstfault.capture.recorder import Recorder
from firstfault.frameworks.torch.backwards import Backwards
from firstfault.frameworks.torch.batches import Batches
from firstfault.frameworks.torch.capture import TorchCapture
from firstfault.frameworks.torch.creations import Creations
from firstfault.frameworks.torch.forwards import Forwards
from firstfault.frameworks.torch.hand_updates import HandUpdates
from firstfault.frameworks.torch.updates import Updates
from firstfault.records.run import Run
from firstfault.records.step import StepRecord
from firstfault.session import Session
from firstfault.settings import Settings

#: what is guarded in a capture: class, method, and the part it belongs to
GUARDED: tuple[tuple[type, str, str], ...] = (
    (Backwards, "_before_backward", "losses"),
    (Backwards, "_after_backward", "gradients"),
    (Backwards, "_before_autograd_grad", "losses"),
    (Batches, "_note_draw", "batches"),
    (TorchCapture, "_end_of_loader", "batches"),  # `on_exhausted`
    (TorchCapture, "_prepare_for_compile", "torch.compile"),
    (TorchCapture, "_look_at_weights", "weights"),
    (Creations, "_note_module_made", "creations"),
    (Creations, "_note_optimizer_made", "creations"),
    (Creations, "_note_mode_set", "creations"),
    (Creations, "_note_weights_loaded", "creations"),
    (Forwards, "_enter_module", "modules"),
    (Forwards, "_leave_module", "modules"),
    (HandUpdates, "look", "losses gradients"),  # before each backward, and by itself at the end of the run
    (Updates, "_before_step", "optimizers"),
    (Updates, "_before_step_with_gradients", "optimizers"),
    (Updates, "_look_at_gradients", "optimizers gradients"),  # before the update, and where a closure returns
    (Updates, "_after_step", "optimizers"),
    (Updates, "_note_scaler_skip", "optimizers"),
)
#: inner functions that do the work in between: they fail in the middle of it
INNER = (
    (Backwards, "_note_loss", "losses"),
    (Forwards, "_look", "modules"),
    (Forwards, "_begin_root", "modules"),
    (Forwards, "_end_root", "modules"),
    (Updates, "_census", "optimizers"),
    (Updates, "_record_gradients", "optimizers"),
    (Updates, "_record_changes", "optimizers"),
    (Updates, "_take_copies", "optimizers"),
    (Updates, "_name_parameters", "optimizers"),
)


class InjectedError(Exception):
    """Not a failure of the training."""


def _train() -> list[torch.Tensor]:
    """A training that touches everything that is watched; its weights at the end."""
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(12, 3), torch.randn(12, 1))
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=1)
    loss_function = nn.MSELoss()
    model.load_state_dict({name: tensor.clone() for name, tensor in model.state_dict().items()})
    for epoch in range(2):
        model.train()
        for x, y in DataLoader(data, batch_size=3, shuffle=True):
            optimizer.zero_grad()
            loss = loss_function(model(x), y)
            if epoch == 0:
                loss.backward()
                optimizer.step()
            else:
                scaler.scale(loss).backward()  # overflows, and is skipped
                scaler.step(optimizer)
                scaler.update()
        model.eval()
        with torch.no_grad():
            loss_function(model(data.tensors[0]), data.tensors[1])
    model.train()

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_function(model(data.tensors[0]), data.tensors[1])
        loss.backward()
        return loss

    optimizer.step(closure)
    gradients = torch.autograd.grad(
        loss_function(model(data.tensors[0]), data.tensors[1]), list(model.parameters())
    )
    with torch.no_grad():
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter -= 0.01 * gradient
    torch.compile(model, backend="eager")
    return [tensor.detach().clone() for tensor in model.state_dict().values()]


def _same(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> bool:
    return len(ours) == len(theirs) and all(map(torch.equal, ours, theirs))


@pytest.fixture(scope="module")
def unwatched() -> list[torch.Tensor]:
    return _train()


class Watched:
    """A capture with a recorder of its own, and what it said."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.records: list[StepRecord] = []
        firewall = Firewall(self.warnings.append)
        recorder = Recorder(Budget(0.5), firewall, (self.records.append,))
        self.capture = TorchCapture(
            recorder=recorder, firewall=firewall, stops_on_fatal=lambda: False, poll=lambda: None
        )

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        self.capture.install()
        try:
            yield
        finally:
            self.capture.finish()


def _failing(*_: Any, **__: Any) -> Any:
    raise InjectedError("of ours")


def test_watched_without_a_failure_the_weights_are_the_same_and_nothing_is_said(
    unwatched: list[torch.Tensor],
) -> None:
    watched = Watched()
    with watched.watching():
        weights = _train()
    assert _same(weights, unwatched)
    assert watched.warnings == []
    assert len(watched.records) >= 5


@pytest.mark.parametrize(
    ("owner", "name", "part"), GUARDED + INNER, ids=lambda value: getattr(value, "__name__", value)
)
def test_a_failure_of_ours_costs_one_part_and_one_warning_and_no_weight(
    owner: type, name: str, part: str, unwatched: list[torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, _failing)
    watched = Watched()
    with watched.watching():
        weights = _train()
    assert _same(weights, unwatched)
    # one warning a part: the function that is looked at by two of them costs both
    assert [warning.split()[2] for warning in watched.warnings] == part.split()
    assert all(
        "is switched off, the training goes on (InjectedError: of ours)" in line for line in watched.warnings
    )


@pytest.mark.parametrize(("owner", "name", "part"), GUARDED, ids=lambda value: getattr(value, "__name__", value))
def test_a_failure_that_comes_late_costs_no_weight_either(
    owner: type, name: str, part: str, unwatched: list[torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    original, calls = getattr(owner, name), []

    def failing_later(*args: Any, **kwargs: Any) -> Any:
        calls.append(name)
        if len(calls) >= 3:
            raise InjectedError("of ours")
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, failing_later)
    watched = Watched()
    with watched.watching():
        weights = _train()
    assert _same(weights, unwatched)
    expected = part.split() if len(calls) >= 3 else []
    assert [warning.split()[2] for warning in watched.warnings] == expected


def _guarded_in_the_sources() -> set[str]:
    """The names of all functions that any file passes to `Firewall.guard`."""
    names = set()
    for path in Path(firstfault.__path__[0]).rglob("*.py"):
        if path.name == "firewall.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "guard":
                function = node.args[-1]
                if not isinstance(function, ast.Constant | ast.Starred):  # a sandbox guards modules, by their names
                    names.add(getattr(function, "attr", getattr(function, "id", type(function).__name__)))
    return names


def test_every_guarded_function_is_made_to_fail_here() -> None:
    of_the_session = {"_keep", "_judge", "Lambda", "watch", "_log", "finish", "close_rest"}
    renamed = {"on_exhausted": "_end_of_loader"}
    injected = {name for _, name, _ in GUARDED}
    assert {renamed.get(name, name) for name in _guarded_in_the_sources()} == injected | of_the_session


class TestSession:
    """The places that the session guards: sinks of records, start and end of a capture."""

    @pytest.mark.parametrize(
        ("target", "part"),
        [
            ("firstfault.session.Session._keep", "the record"),
            ("firstfault.store.writer.RunWriter.append", "the record"),
            ("firstfault.session.Session._judge", "the rules"),
            ("firstfault.engine.in_process.InProcessEngine.observe", "the rules"),
            ("firstfault.session.Session._begin_capture", "torch"),
            ("firstfault.frameworks.torch.capture.TorchCapture.install", "torch"),
            ("firstfault.frameworks.torch.capture.TorchCapture.watch", "watch()"),
            ("firstfault.session.Session._log", "metrics"),
            ("firstfault.frameworks.torch.capture.TorchCapture.finish", "torch"),
            ("firstfault.capture.recorder.Recorder.close_rest", "the record"),
        ],
    )
    def test_a_failure_in_the_session_costs_no_weight(
        self,
        target: str,
        part: str,
        unwatched: list[torch.Tensor],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(target, _failing)
        patched = {name: getattr(*name) for name in ((torch.autograd, "backward"), (nn.Module, "eval"))}
        said: list[str] = []
        session = _session(tmp_path, said.append)
        session.start()
        session.watch(nn.Linear(1, 1))
        session.log({"accuracy": 0.5})
        weights = _train()
        session.finish()
        assert _same(weights, unwatched)
        switched_off = [line for line in said if "switched off" in line]
        assert len(switched_off) == 1, said
        assert f"watching of {part} is switched off" in switched_off[0]
        if not target.endswith("TorchCapture.finish"):
            assert {name: getattr(*name) for name in patched} == patched  # PyTorch is as it was
        for capture in session._captures.values():
            capture.remove()  # type: ignore[attr-defined]  # of the one whose `finish` failed

    def test_without_a_failure_the_run_is_stored_and_pytorch_is_as_it_was(
        self, unwatched: list[torch.Tensor], tmp_path: Path
    ) -> None:
        before = torch.autograd.backward, torch.optim.Optimizer.__init__, nn.Module.__init__, torch.compile
        said: list[str] = []
        session = _session(tmp_path, said.append)
        session.start()
        weights = _train()
        session.finish()
        session.finish()  # once is enough, twice does no harm
        assert _same(weights, unwatched)
        assert not [line for line in said if "switched off" in line]
        assert (
            torch.autograd.backward,
            torch.optim.Optimizer.__init__,
            nn.Module.__init__,
            torch.compile,
        ) == before


def _session(home: Path, announce: Callable[[str], None]) -> Session:
    run = Run(
        id="20261201-142512-abcd",
        project="default",
        name="test",
        started=0.0,
        script=None,
        argv=(),
        working_directory=str(home),
    )
    return Session(run, Settings(home=home, budget=0.5), announce)
