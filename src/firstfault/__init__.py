# SPDX-License-Identifier: Apache-2.0
"""firstfault: a debugger for the training of models. It names what went wrong first.

    import firstfault
    firstfault.init()                         # in a script or notebook; `firstfault run train.py` needs no call
    …                                         # train
    diagnosis = firstfault.finish()
    steps, losses = firstfault.open_run("last").values("metric/accuracy")

This module is all of the public API. It loads nothing until a name is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = [
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

if TYPE_CHECKING:
    from firstfault.capture.stop import TrainingStopped
    from firstfault.errors import (
        FirstfaultError,
        FormatVersionError,
        PluginError,
        RunNotFoundError,
        StoreError,
        UsageError,
    )
    from firstfault.query.run_view import RunView, open_run
    from firstfault.records.finding import Diagnosis, Evidence, FaultLocation, Finding
    from firstfault.records.series import Histogram, Series, TensorStatistics
    from firstfault.records.step import Event, StepRecord
    from firstfault.rules.protocol import Rule
    from firstfault.settings import Settings
    from firstfault.watching import Watching, finish, init, log, watch

    __version__: str

_MODULES = {
    "capture.stop": ("TrainingStopped",),
    "errors": (
        "FirstfaultError",
        "FormatVersionError",
        "PluginError",
        "RunNotFoundError",
        "StoreError",
        "UsageError",
    ),
    "query.run_view": ("RunView", "open_run"),
    "records.finding": ("Diagnosis", "Evidence", "FaultLocation", "Finding"),
    "records.series": ("Histogram", "Series", "TensorStatistics"),
    "records.step": ("Event", "StepRecord"),
    "rules.protocol": ("Rule",),
    "settings": ("Settings",),
    "watching": ("Watching", "finish", "init", "log", "watch"),
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("firstfault")
    else:
        module = next((module for module, names in _MODULES.items() if name in names), None)
        if module is None:
            raise AttributeError(f"module 'firstfault' has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"firstfault.{module}"), name)
    globals()[name] = value  # found without this function from here on
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
