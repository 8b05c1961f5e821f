# SPDX-License-Identifier: Apache-2.0
"""What an import loads, asked in a fresh interpreter: nobody pays for what they do not use."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("numpy", "pyarrow", "torch", "rich", "click", "plotext", "sklearn")


def _loaded_by(code: str) -> set[str]:
    """The heavy packages that are loaded once the code has run."""
    program = f"{code}\nimport sys\nprint('loaded', *(set({HEAVY!r}) & sys.modules.keys()))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return set(ended.stdout.splitlines()[-1].split()[1:])


def test_importing_firstfault_loads_nothing_heavy() -> None:
    assert _loaded_by("import firstfault") == set()


def test_what_stands_beside_a_training_loads_nothing_heavy() -> None:
    # the session is imported before the script: whatever it loads, the script finds loaded
    assert _loaded_by("import firstfault.session, firstfault.launch.attach") == set()


def test_the_parent_of_a_training_loads_neither_arrow_nor_a_framework() -> None:
    assert _loaded_by("import firstfault.cli.run, firstfault.launch.supervise") == {"click"}


def test_the_parent_of_a_training_does_not_load_the_session() -> None:
    code = "import firstfault.launch.supervise, sys; assert 'firstfault.session' not in sys.modules"
    assert _loaded_by(code) == set()


def test_a_command_line_that_only_answers_help_loads_only_click() -> None:
    code = "from firstfault.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass"
    assert _loaded_by(code) == {"click"}
