# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pytest

from firstfault.errors import UsageError
from firstfault.store.layout import RunLayout, new_run_id, run_layouts, write_atomically


def test_an_id_is_date_time_and_four_letters() -> None:
    assert re.fullmatch(r"\d{8}-\d{6}-[a-z]{4}", new_run_id())


def test_a_new_id_moves_no_generator_of_the_user() -> None:
    before = random.getstate(), np.random.get_state()[1].tolist()
    assert len({new_run_id() for _ in range(50)}) > 40
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_the_home_folder_ignores_itself_in_git(tmp_path: Path) -> None:
    layout = RunLayout.under(tmp_path / "home", "p", new_run_id())
    layout.make()
    assert (tmp_path / "home" / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize("project", ["", ".hidden", "a/b", "..", "/etc"])
def test_a_project_that_cannot_be_a_folder_is_refused(project: str) -> None:
    with pytest.raises(UsageError, match="it names a folder"):
        RunLayout.under(Path("home"), project, "id")


def test_a_failed_write_leaves_what_was_there_and_no_draft(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(TypeError):
        write_atomically(tmp_path / "file", "text and not bytes")  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_a_home_that_is_not_there_holds_no_runs(tmp_path: Path) -> None:
    assert list(run_layouts(tmp_path / "nowhere")) == []
