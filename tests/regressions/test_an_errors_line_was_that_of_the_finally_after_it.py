# SPDX-License-Identifier: Apache-2.0
"""The line of an error was read off the frame, which had moved on to the `finally` or `with` around it.

A script that failed inside `with open(...)` was said to have failed at the `with`.
"""

from __future__ import annotations

import sys

from firstfault.launch.exit_watcher import innermost_user_line


def _fail() -> None:
    try:
        raise ValueError("here")
    finally:
        len("and on it goes")


def test_the_line_is_the_one_that_raised() -> None:
    try:
        _fail()
    except ValueError as error:
        location = innermost_user_line(sys.exc_info()[2], error)
    assert location is not None
    assert location.code == 'raise ValueError("here")'
    assert location.function == "_fail"
