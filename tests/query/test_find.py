# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from firstfault.errors import RunNotFoundError
from firstfault.query.find import find_run
from firstfault.store.writer import RunWriter

BeginRun = Callable[..., RunWriter]


@pytest.fixture
def runs(begin_run: BeginRun) -> None:
    for run_id, project in (
        ("20260102-030405-abcd", "vision"),
        ("20260102-030406-abce", "vision"),
        ("20260301-000000-zzzz", "text"),
    ):
        begin_run(run_id, project).close()


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("last", "20260301-000000-zzzz"),
        ("20260102-030405-abcd", "20260102-030405-abcd"),
        ("202603", "20260301-000000-zzzz"),
        ("text/2026", "20260301-000000-zzzz"),
        ("20260102-030406", "20260102-030406-abce"),
    ],
)
def test_a_run_is_found_by_what_names_it(home: Path, name: str, found: str) -> None:
    assert find_run(name, home).name == found


@pytest.mark.usefixtures("runs")
def test_a_path_needs_no_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTFAULT_HOME", "/nowhere")
    path = home / "vision" / "20260102-030405-abcd"
    assert find_run(path) == path
    monkeypatch.chdir(path)
    assert find_run(".").resolve() == path.resolve()


@pytest.mark.usefixtures("runs")
def test_the_home_of_the_settings_is_looked_in(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTFAULT_HOME", str(home))
    assert find_run().name == "20260301-000000-zzzz"


@pytest.mark.usefixtures("runs")
def test_a_name_of_several_runs_lists_them(home: Path) -> None:
    with pytest.raises(
        RunNotFoundError, match=r"2026 could be 3 runs: text/20260301-000000-zzzz, vision/.*give more"
    ):
        find_run("2026", home)


@pytest.mark.usefixtures("runs")
def test_a_name_of_no_run_says_which_there_are(home: Path) -> None:
    with pytest.raises(RunNotFoundError, match=r"there is no run 1999 in .*home, which holds text/20260301"):
        find_run("1999", home)


def test_more_than_five_are_not_listed(begin_run: BeginRun, home: Path) -> None:
    for number in range(7):
        begin_run(f"20260102-03040{number}-abcd").close()
    with pytest.raises(RunNotFoundError, match=r"could be 7 runs: .* and 2 more;"):
        find_run("2026", home)


def test_an_empty_home_says_how_to_make_a_run(home: Path) -> None:
    with pytest.raises(RunNotFoundError, match=r"holds none; make one with `firstfault run train\.py`"):
        find_run("last", home)


def test_of_runs_of_the_same_second_the_later_is_last(begin_run: BeginRun, home: Path) -> None:
    begin_run("20260102-030405-zzzz").close()
    begin_run("20260102-030405-aaaa").close()
    assert find_run("last", home).name == "20260102-030405-aaaa"
