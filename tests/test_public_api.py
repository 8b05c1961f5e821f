# SPDX-License-Identifier: Apache-2.0
"""The names of the module `firstfault`, and what watching from inside a script does."""

from __future__ import annotations

import argparse
import math
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import firstfault
from firstfault.launch.active import watched_run
from firstfault.records.step import Update
from firstfault.reports.recorded import load_diagnosis

TIMEOUT = 120
PAGE = Path(__file__).parents[1] / "docs" / "python.md"
TRAINING = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(6):
    optimizer.zero_grad()
    loss = (model(torch.randn(4, 3)) ** 2).mean()
    loss.backward()
    optimizer.step()
    firstfault.log({"error": step})
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("FIRSTFAULT_HOME", str(tmp_path / "home"))
    yield tmp_path / "home"
    if (watched := watched_run()) is not None:
        watched.end()


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a script as it stands, or with `firstfault run` before it."""

    def run(text: str, *before: str, **variables: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "train.py").write_text(textwrap.dedent(text))
        return subprocess.run(
            [sys.executable, *before, "train.py"],
            cwd=tmp_path,
            env={**os.environ, "FIRSTFAULT_HOME": str(tmp_path / "home"), **variables},
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )

    return run


def _update(key: int = 1) -> None:
    watched = watched_run()
    assert watched is not None
    recorder = watched.session.recorder
    recorder.backward()
    recorder.before_update(key)
    recorder.after_update(key, Update(optimizer="SGD", count=0, learning_rates=(0.1,), location=None))


def _metric(run: firstfault.Watching, name: str, **options: int) -> tuple[list[int], list[float]]:
    steps, values = firstfault.open_run(run.path or "").values(f"metric/{name}", **options)
    return steps.tolist(), values.tolist()


# the names


def test_the_public_names_are_these() -> None:
    assert firstfault.__all__ == [
        "Diagnosis",
        "Event",
        "Evidence",
        "FaultLocation",
        "Finding",
        "FirstfaultError",
        "FormatVersionError",
        "Histogram",
        "PluginError",
        "Rule",
        "RunNotFoundError",
        "RunView",
        "Series",
        "Settings",
        "StepRecord",
        "StoreError",
        "TensorStatistics",
        "TrainingStopped",
        "UsageError",
        "Watching",
        "__version__",
        "finish",
        "init",
        "log",
        "open_run",
        "watch",
    ]


def test_every_public_name_is_there_and_no_other_is() -> None:
    for name in firstfault.__all__:
        assert getattr(firstfault, name) is getattr(firstfault, name)
    assert set(firstfault.__all__) <= set(dir(firstfault))
    with pytest.raises(AttributeError, match="no attribute 'trial'"):
        firstfault.trial  # type: ignore[attr-defined]  # noqa: B018  # that is what is tested


def test_importing_firstfault_is_quick_and_loads_nothing_of_ours() -> None:
    code = "import sys, time; t = time.perf_counter(); import firstfault; print(time.perf_counter() - t)\n"
    code += "print(*(name for name in sys.modules if name.startswith('firstfault.')))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, loaded = ended.stdout.split("\n")[:2]
    assert float(seconds) < 0.1
    assert loaded == ""


def test_init_loads_neither_arrow_nor_numpy_nor_a_framework(script) -> None:
    ended = script("""
        import sys, firstfault
        firstfault.init(quiet=True)
        print({"numpy", "pyarrow", "torch", "rich", "click"} & sys.modules.keys())
    """)
    assert (ended.stdout, ended.stderr) == ("set()\n", "")


# a run from inside


@pytest.mark.usefixtures("home")
def test_a_metric_belongs_to_the_update_before_it() -> None:
    run = firstfault.init(quiet=True)
    for step in range(3):
        _update()
        firstfault.log({"after": step, "bad": math.nan})
    assert run.finish().run == run.id
    assert _metric(run, "after") == ([0, 1, 2], [0.0, 1.0, 2.0])
    assert all(map(math.isnan, _metric(run, "bad")[1]))


@pytest.mark.usefixtures("home")
def test_a_metric_belongs_to_the_update_to_come_once_a_backward_was_seen() -> None:
    run = firstfault.init(quiet=True)
    _update()
    recorder = watched_run().session.recorder
    recorder.backward()
    run.log({"before": 5}, step=70)
    _update()
    run.finish()
    assert _metric(run, "before") == ([1], [5.0])
    events = firstfault.open_run(run.path).records(since_step=1)
    assert [dict(event.data) for record in events for event in record.events_of("log")] == [
        {"step": 70, "metrics": ["before"]}
    ]


@pytest.mark.parametrize("number", [1, 250])
@pytest.mark.usefixtures("home")
def test_metrics_without_any_update_are_kept(number: int) -> None:
    with firstfault.init(quiet=True) as run:
        for value in range(number):
            run.log({"score": value})
    assert _metric(run, "score") == ([0] * number, list(map(float, range(number))))


@pytest.mark.usefixtures("home")
def test_a_metric_after_a_step_was_closed_belongs_to_it_all_the_same() -> None:
    run = firstfault.init(quiet=True)
    for epoch in range(2):
        _update()
        _update()
        watched_run().session.recorder.close()  # as at the end of the loader, or before validation
        firstfault.log({"accuracy": epoch})
    assert firstfault.finish().coverage.steps == 4
    assert _metric(run, "accuracy") == ([1, 3], [0.0, 1.0])
    assert firstfault.open_run(run.path).steps == [0, 1, 2, 3]


@pytest.mark.parametrize("value", ["0.9", None, [1, 2], {"a": 1}, 1j, b"1"])
@pytest.mark.usefixtures("home")
def test_what_is_no_number_is_refused_with_its_name_and_value(value: object) -> None:
    run = firstfault.init(quiet=True)
    with pytest.raises(firstfault.UsageError, match=f"metric 'score' is {re.escape(repr(value))}, which is not"):
        firstfault.log({"fine": 1, "score": value})
    firstfault.finish()
    assert firstfault.open_run(run.path).series() == []


@pytest.mark.parametrize(
    "call",
    [
        lambda: firstfault.log([1]),
        lambda: firstfault.log({3: 1}),
        lambda: firstfault.log({"a": 1}, step=0.5),
        lambda: firstfault.watch("model"),
        lambda: firstfault.init(config="lr=0.1"),
        lambda: firstfault.init(stop_on="nan"),
        lambda: firstfault.init(project="a/b"),
    ],
)
@pytest.mark.usefixtures("home")
def test_arguments_that_cannot_be_used_are_refused(call: Callable[[], object]) -> None:
    firstfault.init(quiet=True)
    with pytest.raises(firstfault.UsageError):
        call()


def test_a_configuration_is_kept_with_the_run(home: Path) -> None:
    given = argparse.Namespace(lr=0.1, sizes=(1, 2), path=Path("x"), nested={"deep": None}, warm=True)
    run = firstfault.init("vision", "first", given, quiet=True)
    run.finish()
    view = firstfault.open_run("last", home=home)
    assert (view.run.project, view.run.name, view.run.id) == ("vision", "first", run.id)
    assert view.config == {"lr": 0.1, "sizes": [1, 2], "path": "x", "nested": {"deep": None}, "warm": True}


@pytest.mark.usefixtures("home")
def test_a_block_that_fails_is_a_run_that_failed() -> None:
    def fail(run: firstfault.Watching) -> None:
        with run:
            _update()
            raise KeyError("lost")

    run = firstfault.init(quiet=True)
    with pytest.raises(KeyError):
        fail(run)
    status = firstfault.open_run(run.path).status
    assert (status.state, status.error) == ("failed", "KeyError: 'lost'")
    assert status.error_location.code == 'raise KeyError("lost")'


@pytest.mark.usefixtures("home")
def test_finishing_twice_gives_the_same_diagnosis() -> None:
    run = firstfault.init(quiet=True)
    first = run.finish()
    assert run.finish() == first
    assert firstfault.finish().run == ""


@pytest.mark.usefixtures("home")
def test_a_metric_that_nobody_watches_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.warns(UserWarning, match=r"log\(\) keeps nothing: no run is being watched") as warned:
        firstfault.log({"score": 1})
    assert warned[0].filename == __file__
    monkeypatch.setenv("FIRSTFAULT", "0")
    firstfault.log({"score": 1})


# trainings one after another


@pytest.mark.usefixtures("home")
def test_trainings_one_after_another_are_kept_apart() -> None:
    run = firstfault.init(quiet=True)
    for fold in range(3):
        for step in range(4):
            if fold and not step:
                watched_run().session.recorder.close()
                watched_run().session.recorder.event("training")
            _update(key=fold)
            run.log({"error": 10 * fold + step})
    run.finish()
    view = firstfault.open_run(run.path)
    assert view.trainings == ((0, 0, 3), (1, 4, 7), (2, 8, 11))
    assert _metric(run, "error", training=1) == ([4, 5, 6, 7], [10.0, 11.0, 12.0, 13.0])
    with pytest.raises(firstfault.UsageError, match="no training 3: it has 3"):
        view.values("error", training=3)


# whole scripts


def test_a_script_without_finish_is_finished_when_it_ends(script, tmp_path: Path) -> None:
    ended = script("import firstfault\nfirstfault.init()" + TRAINING)
    assert ended.returncode == 0
    assert "CLEAN" in ended.stderr
    view = firstfault.open_run("last", home=tmp_path / "home")
    assert (view.status.state, view.run.name, view.run.script) == ("finished", "train.py", "train.py")
    assert view.values("error")[1].tolist() == [0, 1, 2, 3, 4, 5]


def test_a_script_that_fails_is_said_to_and_where(script, tmp_path: Path) -> None:
    ended = script("import firstfault\nfirstfault.init()" + TRAINING + "raise ValueError('no more')\n")
    assert ended.returncode == 1
    assert ended.stderr.count("ValueError: no more") == 2  # the interpreter's, and ours in the panel
    status = firstfault.open_run("last", home=tmp_path / "home").status
    assert (status.state, status.error) == ("failed", "ValueError: no more")


def test_under_run_the_script_takes_part_in_the_run_that_began(script, tmp_path: Path) -> None:
    text = """
        import firstfault
        run = firstfault.init(name="mine", config={"lr": 0.01})
        firstfault.init(config={"batch": 4})
    """
    ended = script(
        textwrap.dedent(text) + TRAINING + "print(firstfault.finish().run == run.id)\n", "-m", "firstfault", "run"
    )
    assert ended.stdout == "True\n"
    assert ended.stderr.count("CLEAN") == 1
    assert "init(name='mine') changes nothing here" in ended.stderr
    runs = list((tmp_path / "home").glob("*/*/run.json"))
    assert len(runs) == 1
    view = firstfault.open_run(runs[0].parent)
    assert view.config == {"lr": 0.01, "batch": 4}
    assert view.values("error")[0].tolist() == [0, 1, 2, 3, 4, 5]
    assert load_diagnosis(runs[0].parent).diagnosis.coverage.steps == 6


def test_switched_off_all_calls_do_nothing(script, tmp_path: Path) -> None:
    ended = script("import firstfault\nfirstfault.init()" + TRAINING + "firstfault.finish()\n", FIRSTFAULT="0")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert not (tmp_path / "home").exists()


def test_workers_that_import_the_script_begin_no_run_and_forks_write_into_none(script, tmp_path: Path) -> None:
    ended = script("""
        import multiprocessing, firstfault
        run = firstfault.init(quiet=True)
        def work(number):
            firstfault.log({"lost": number})
            return bool(run.id)
        if __name__ == "__main__":
            for method in ("spawn", "fork"):
                with multiprocessing.get_context(method).Pool(1) as pool:
                    print(method, pool.map(work, [1]))
    """)
    assert ended.stdout == "spawn [False]\nfork [True]\n"
    assert len(list((tmp_path / "home").glob("*/*/run.json"))) == 1
    assert firstfault.open_run("last", home=tmp_path / "home").series() == []


def test_the_snippets_of_the_page_run(script) -> None:
    snippets = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(snippets) == 4
    ended = script("\n".join(snippets) + "\nprint(list(ErrorAboveTen().observe(next(run.records()))))\n")
    assert ended.returncode == 0, ended.stderr
    first, second, third, fourth = ended.stdout.splitlines()
    assert first == "clean 20"
    assert second == "finished 0.1 0"
    assert third.startswith("training 0: steps 0 to 19, last error ")
    assert fourth == "[]"
