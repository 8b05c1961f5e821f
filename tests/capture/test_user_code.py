# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json.decoder
import os
import subprocess
import sys
from pathlib import Path

import pytest

import firstfault
from firstfault.capture.user_code import is_user_file, user_location

SOURCE = Path(__file__).parents[2] / "src"


def test_the_line_that_runs_is_given_with_its_text():
    location = user_location()
    assert location is not None
    assert location.file == os.path.relpath(__file__)
    assert location.code == "location = user_location()"
    assert location.function == "test_the_line_that_runs_is_given_with_its_text"


def test_frames_of_libraries_are_passed_over():
    class Hook:
        location = None

        def default(self, _):
            Hook.location = user_location(depth_from=2)

    json.dumps(object(), default=Hook().default)
    assert Hook.location.code == "json.dumps(object(), default=Hook().default)"


@pytest.mark.parametrize(
    ("filename", "users"),
    [
        (__file__, True),
        ("train.py", True),
        ("<ipython-input-3-abc>", True),
        ("<stdin>", True),
        ("/tmp/ipykernel_12/345.py", True),
        (os.path.join(os.path.dirname(firstfault.__file__), "demo", "train.py"), True),
        (json.decoder.__file__, False),
        (firstfault.__file__, False),
        (pytest.__file__, False),
        ("<frozen importlib._bootstrap>", False),
        ("<string>", False),
        ("<eval_with_key>.1", False),
    ],
)
def test_what_counts_as_the_users_code(filename, users):
    assert is_user_file(filename) is users


def test_a_script_kept_inside_an_environment_is_the_users(tmp_path):
    project = tmp_path / "venv" / "lib" / "site-packages" / "project"
    project.mkdir(parents=True)
    script = project / "train.py"
    script.write_text(
        "import os; from firstfault.capture.user_code import *\n"
        "os.chdir('/')\n"
        "print(user_location().file, is_user_file(os.path.abspath(__file__)[:-8] + '../other/x.py'))\n"
    )
    done = subprocess.run(
        [sys.executable, "train.py"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split()[0] == "train.py"
