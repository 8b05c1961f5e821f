# SPDX-License-Identifier: Apache-2.0
"""What holds for all tests: on CI a test that is skipped is a test that failed to run."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# on CI the same examples each time: new ones are looked for where somebody can look at them
settings.register_profile("ci", derandomize=True, deadline=None)
if os.environ.get("CI", "").lower() not in ("", "0", "false"):
    settings.load_profile("ci")


def _skipped(config: pytest.Config) -> int:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return len(reporter.stats.get("skipped", [])) if reporter is not None else 0


def _on_ci() -> bool:
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if exitstatus == pytest.ExitCode.OK and _on_ci() and _skipped(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if _on_ci() and (number := _skipped(config)):
        terminalreporter.write_line(f"CI is set and {number} were skipped: that counts as a failure", red=True)
