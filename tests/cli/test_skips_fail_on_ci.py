# SPDX-License-Identifier: Apache-2.0
"""The hook in `tests/conftest.py`, tried on a test suite of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_CONFTEST = Path(__file__).parents[1] / "conftest.py"
_SUITE = """
import pytest
def test_runs(): pass
def test_is_skipped(): pytest.skip("not here")
"""


@pytest.mark.parametrize(("ci", "exit_code"), [("true", 1), ("", 0), ("false", 0)])
def test_a_skipped_test_fails_the_session_on_ci_only(tmp_path: Path, ci: str, exit_code: int) -> None:
    (tmp_path / "conftest.py").write_text(_CONFTEST.read_text())
    (tmp_path / "test_suite.py").write_text(_SUITE)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        env={**os.environ, "CI": ci, "PYTEST_ADDOPTS": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == exit_code, ended.stdout
    assert ("counts as a failure" in ended.stdout) == bool(exit_code)
