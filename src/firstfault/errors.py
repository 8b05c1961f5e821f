# SPDX-License-Identifier: Apache-2.0
"""The errors firstfault raises, one kind for each thing a caller can do about it. Imported everywhere.

A message says what happened (with the values), why it matters, and what to do.
"""

from __future__ import annotations


class FirstfaultError(Exception):
    """Root of all our errors; the command line catches this and nothing else."""


class UsageError(FirstfaultError, ValueError):
    """What the caller passed cannot be used: change the argument."""


class RunNotFoundError(FirstfaultError, LookupError):
    """No run, or more than one, answers to the name given: name another."""


class StoreError(FirstfaultError, OSError):
    """A run directory cannot be written or read: mend the place, or choose another."""


class FormatVersionError(StoreError):
    """A run was written in a format this version does not know: install the version that does."""


class PluginError(FirstfaultError):
    """A rule or framework of somebody else's could not be loaded: mend or leave out that one."""
