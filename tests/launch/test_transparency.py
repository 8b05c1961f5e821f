# SPDX-License-Identifier: Apache-2.0
"""A script under `firstfault run` finds its world as it would without us, and its children are left alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from firstfault.store.reader import RunReader

#: everything a script can see of how it was started
_WORLD = """
import json, os, sys, atexit, signal, threading
world = {
    "argv": sys.argv, "orig_argv": sys.orig_argv[1:], "name": __name__, "file": __file__, "cwd": os.getcwd(),
    "stdin": sys.stdin.read(), "path": sys.path, "flags": repr(sys.flags),
    "environ": {k: v for k, v in os.environ.items() if k not in ("_", "SHLVL")},
    "excepthook": sys.excepthook is sys.__excepthook__, "executable": sys.executable,
    "signals": [str(signal.getsignal(s)) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)],
    "package": __package__, "spec": __spec__ and __spec__.name, "doc": __doc__,
    "globals": sorted(globals().keys() - {"json", "os", "sys", "atexit", "signal", "threading"}),
    "tty": [stream.isatty() for stream in (sys.stdin, sys.stdout)],
}
print(json.dumps(world))
sys.exit(4)
"""


def _world(ended: Any) -> dict[str, Any]:
    assert ended.exit_code == 4, ended.stderr
    world: dict[str, Any] = json.loads(ended.stdout)
    world.pop("excepthook")  # ours stands there, so that the error can be told
    return world


@pytest.mark.parametrize(
    "variables", [{}, {"PYTHONPATH": "lib", "PYTHONHASHSEED": "7"}], ids=["plain", "with a path"]
)
def test_arguments_streams_folder_and_environment_are_as_without_us(
    variables: dict[str, str], workplace: Any
) -> None:
    workplace.write(_WORLD)
    arguments = ("train.py", "--lr", "0.1", "--json", "--", "-m", "")
    bare = _world(workplace.bare(*arguments, stdin="ünïcode in\n", **variables))
    watched = _world(workplace.watched(*arguments, stdin="ünïcode in\n", **variables))
    assert watched == bare
    assert watched["stdin"] == "ünïcode in\n"


def test_a_module_is_run_as_python_runs_it(workplace: Any) -> None:
    workplace.write("", "package/__init__.py")
    workplace.write(_WORLD, "package/train.py")
    bare = _world(workplace.bare("-m", "package.train", "--x"))
    ended = workplace.watched("-m", "package.train", "--x")
    assert _world(ended) == bare
    assert ended.described.script == "package.train"


def test_a_command_is_run_as_it_stands_and_its_own_python_is_watched(workplace: Any, training: str) -> None:
    workplace.write(training + "\nprint('trained')\n")
    ended = workplace.watched("--name", "mine", "--", sys.executable, "-u", "train.py", "--json")
    assert (ended.exit_code, ended.stdout) == (0, "trained\n"), ended.stderr
    assert ended.diagnosis.verdict == "clean"
    assert ended.described.script == "train.py"
    assert ended.described.name == "mine"
    assert ended.described.argv[1:] == ("-u", "train.py", "--json")


def test_what_was_named_sitecustomize_before_is_still_run(workplace: Any) -> None:
    workplace.write("import os\nos.environ['MACHINE'] = 'set up'\n", "lib/sitecustomize.py")
    workplace.write(
        "import os, sitecustomize\nprint(os.environ['MACHINE'], sitecustomize.__file__, os.environ['PYTHONPATH'])"
    )
    bare = workplace.bare("train.py", PYTHONPATH="lib")
    watched = workplace.watched("train.py", PYTHONPATH="lib")
    assert watched.stdout == bare.stdout
    assert watched.stdout.startswith("set up ")
    assert watched.runs


def test_a_sitecustomize_that_fails_fails_as_without_us(workplace: Any) -> None:
    workplace.write("raise RuntimeError('of the machine')\n", "lib/sitecustomize.py")
    workplace.write("print('hello')")
    watched = workplace.watched("train.py", PYTHONPATH="lib")
    assert watched.stdout == "hello\n"
    assert "of the machine" in watched.stderr
    assert watched.exit_code == 0


_CHILDREN = """
import multiprocessing, os, subprocess, sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def train(number):
    torch.manual_seed(number)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, in DataLoader(TensorDataset(torch.randn(8, 3)), batch_size=2, num_workers=1 if number == 0 else 0):
        optimizer.zero_grad()
        (model(x) ** 2).mean().backward()
        optimizer.step()

if __name__ == "__main__":
    train(0)
    child = "import sys, os; print('firstfault' in sys.modules, 'FIRSTFAULT_LAUNCH' in os.environ, flush=True)"
    subprocess.run([sys.executable, "-c", child], check=True)
    for method in ("spawn", "fork"):
        process = multiprocessing.get_context(method).Process(target=train, args=(1,))
        process.start()
        process.join()
        assert process.exitcode == 0
    if os.fork() == 0:
        train(2)
        sys.exit(0)
    os.wait()
"""


def test_the_scripts_children_start_no_session_and_add_nothing_to_the_run(workplace: Any) -> None:
    workplace.write(_CHILDREN)
    ended = workplace.watched("train.py")
    assert ended.exit_code == 0, ended.stderr
    assert ended.stdout == "False False\n"
    assert len(ended.runs) == 1
    assert ended.diagnosis.verdict == "clean"
    reader = RunReader(ended.run)
    assert reader.steps() == [0, 1, 2, 3]
    assert reader.workers() == [0]
    assert reader.skipped == ()


_FAULTY = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(8):
    loss = (model(torch.randn(4, 3)) ** 2).mean()
    if step == 5:
        loss = loss * float("nan")
    loss.backward()
    optimizer.step()COMMENT
print("end", float(loss))
"""


@pytest.mark.parametrize(
    ("comment", "options", "exit_code", "rules"),
    [
        ("", (), 3, {"gradients_never_cleared", "non_finite_loss"}),
        ("", ("--stop-on", "error"), 3, {"gradients_never_cleared"}),
        ("", ("--stop-on", "never"), 0, {"gradients_never_cleared", "non_finite_loss"}),
        ("", ("--ignore", "gradients_never_cleared"), 3, {"non_finite_loss"}),
        ("  # firstfault: ok gradients_never_cleared", (), 3, {"non_finite_loss"}),
        ("  # firstfault: ok other_rule", ("--ignore", "non_finite_loss"), 0, {"gradients_never_cleared"}),
    ],
)
def test_what_is_ignored_or_silenced_is_not_said_and_does_not_stop(
    comment: str, options: tuple[str, ...], exit_code: int, rules: set[str], workplace: Any
) -> None:
    workplace.write(_FAULTY.replace("COMMENT", comment))
    ended = workplace.watched(*options, "train.py")
    assert ended.exit_code == exit_code, ended.stderr
    assert ended.stdout.startswith("end ") is (exit_code == 0)
    diagnosis = ended.diagnosis
    told = [*diagnosis.findings, *(diagnosis.first_fault.consequences if diagnosis.first_fault else ())]
    ours = {"gradients_never_cleared", "non_finite_loss"}
    assert {finding.rule for finding in told} & ours == rules
    assert ended.status.state == ("stopped" if exit_code == 3 else "finished")
    assert "Traceback" not in ended.stderr


def test_switched_off_nothing_is_recorded_or_said_and_the_script_is_the_same(workplace: Any) -> None:
    workplace.write(_FAULTY.replace("COMMENT", ""))
    bare, watched = workplace.bare("train.py"), workplace.watched("train.py", FIRSTFAULT="0")
    assert (watched.exit_code, watched.stdout, watched.stderr) == (bare.exit_code, bare.stdout, bare.stderr)
    assert not workplace.home.exists()


_STRANGE = """
import torch
from torch import nn
torch.manual_seed(0)

class Strange(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 4, sparse=True)
        self.spectrum = nn.Parameter(torch.randn(4, dtype=torch.complex64))
        self.nothing = nn.Parameter(torch.zeros(0, 4))
        self.head = nn.Linear(4, 2)
        self.register_buffer("mask", torch.tensor([True, False, True, True]))
        self.register_buffer("count", torch.tensor(0))

    def forward(self, indices, sparse, none=None, **extra):
        self.count += 1
        x = self.table(indices) * self.mask
        x = (x.to(torch.complex64) * self.spectrum).real + sparse.to_dense()[: len(indices)]
        return {"logits": self.head(x), "indices": indices, "parts": (x.to_sparse(), self.nothing, None, "text")}

class Nothing(nn.Module):
    def forward(self, x):
        return x * 2

model, empty = Strange(), Nothing()
dense = torch.optim.Adam([p for n, p in model.named_parameters() if "table" not in n], lr=0.01)
sparse = torch.optim.SparseAdam(model.table.parameters(), lr=0.01)
for step in range(14):
    size = 0 if step % 4 == 3 else 5
    indices = torch.randint(0, 10, (size,))
    out = model(empty(indices) // 2, torch.eye(8, 4).to_sparse(), none=None, meta={"a": [torch.zeros(0)]})
    target = torch.randint(0, 2, (size,))
    loss = nn.functional.cross_entropy(out["logits"], target, reduction="sum") + model.nothing.sum()
    dense.zero_grad()
    sparse.zero_grad()
    loss.backward()
    dense.step()
    sparse.step()
print(sum(float(p.detach().abs().sum()) for p in model.parameters()), int(model.count))
"""


def test_tensors_of_all_kinds_and_empty_batches_are_watched_without_a_word(workplace: Any) -> None:
    workplace.write(_STRANGE)
    bare, watched = workplace.bare("train.py"), workplace.watched("--quiet", "train.py")
    assert (watched.exit_code, watched.stdout) == (0, bare.stdout), watched.stderr
    assert watched.status.warnings == ()
    assert watched.diagnosis.verdict == "clean", watched.diagnosis.findings
    assert watched.stderr == ""
    reader = RunReader(watched.run)
    assert len(reader.steps()) == 14
    assert reader.skipped == ()
    list(reader.records())


def test_a_model_without_parameters_is_unseen_and_not_clean(workplace: Any) -> None:
    workplace.write("import torch\nfrom torch import nn\nprint(nn.ReLU()(torch.randn(3)).shape)\n")
    ended = workplace.watched("train.py")
    assert ended.exit_code == 0, ended.stderr
    assert ended.diagnosis.verdict == "unseen"
    assert ended.status.warnings == ()


def test_the_script_may_take_away_what_we_need(workplace: Any, training: str) -> None:
    workplace.write(
        "import os, sys\nos.environ.clear()\nsys.path.clear()\nsys.meta_path[:] = sys.meta_path\n"
        + "sys.path.extend(PATH)\nsys.setrecursionlimit(300)\nsys.excepthook = lambda *a: print('mine')\n".replace(
            "PATH", repr([entry for entry in sys.path if entry.startswith(("/", os.sep))])
        )
        + training
        + "\nraise ValueError\n"
    )
    ended = workplace.watched("train.py")
    assert (ended.exit_code, ended.stdout) == (1, "mine\n"), ended.stderr
    assert ended.diagnosis.verdict == "failed"
    assert len(RunReader(ended.run).steps()) == 6


def test_an_interpreter_without_firstfault_is_run_unwatched(workplace: Any) -> None:
    workplace.write("print('hello')\n")
    isolated = workplace.watched("--", sys.executable, "-I", "-S", "train.py")
    assert (isolated.exit_code, isolated.stdout) == (0, "hello\n")
    assert isolated.runs == ()
    assert "no run was recorded" in isolated.stderr


def test_output_to_a_closed_pipe_does_not_fail_the_training(workplace: Any, training: str) -> None:
    workplace.write(training)
    line = f"'{sys.executable}' -m firstfault run train.py 2>&1 | true; echo ${{PIPESTATUS[0]}}"
    ended = subprocess.run(
        ["bash", "-c", line],
        cwd=workplace.folder,
        env=workplace.environment({}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout == "0\n"
