# SPDX-License-Identifier: Apache-2.0
"""What a run ran in: interpreter, machine, packages, state of the code. Runs in training, once, at the start."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib import metadata

from firstfault.records.step import Json

_PACKAGES = (
    "firstfault",
    "torch",
    "numpy",
    "lightning",
    "transformers",
    "accelerate",
    "keras",
    "tensorflow",
    "jax",
    "xgboost",
    "lightgbm",
    "scikit-learn",
)


def describe_environment() -> dict[str, Json]:
    """Interpreter, platform and the versions of what people train with; nothing is imported."""
    packages: dict[str, Json] = {}
    for name in _PACKAGES:
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "host": platform.node(),
        "num_cpus": os.cpu_count(),
        "packages": packages,
    }


def describe_git(directory: str) -> dict[str, Json]:
    """Commit, branch and whether files differ from it; empty outside a checkout."""
    commit = _git(directory, "rev-parse", "HEAD")
    if not commit:
        return {}
    return {
        "commit": commit,
        "branch": _git(directory, "rev-parse", "--abbrev-ref", "HEAD"),
        "dirty": bool(_git(directory, "status", "--porcelain", "--untracked-files=no")),
    }


def _git(directory: str, *arguments: str) -> str:
    try:
        answer = subprocess.run(
            ["git", "-C", directory, *arguments],
            capture_output=True,
            text=True,
            timeout=5,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""
