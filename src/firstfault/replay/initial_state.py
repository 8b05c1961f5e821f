# SPDX-License-Identifier: Apache-2.0
"""The random states a script begins with, so that a child can begin with the same. Runs in training; no framework.

A library that is imported later has its state taken (or set) then: call again for it, by name.

    seeds = initial_state.capture()            # at the start: Python, and what is imported already
    seeds |= initial_state.capture("numpy")    # just after `import numpy`
    initial_state.restore(seeds)               # in the child, likewise; ignores what is not imported
"""

from __future__ import annotations

import base64
import os
import random
import sys
from collections.abc import Mapping
from typing import Any

from firstfault.records.step import Json

LIBRARIES = ("python", "numpy", "torch")


def capture(*libraries: str) -> dict[str, Json]:
    """The states of the libraries named (of all, where none is), as JSON data; what is not imported is left out."""
    states: dict[str, Json] = {} if libraries else {"hash_seed": os.environ.get("PYTHONHASHSEED")}
    for library in libraries or LIBRARIES:
        if library == "python":
            version, words, gauss = random.getstate()
            states["python"] = [version, list(words), gauss]
        elif (module := sys.modules.get(library)) is not None:
            states[library] = _of_numpy(module) if library == "numpy" else _of_torch(module)
    return states


def restore(states: Mapping[str, Json], *libraries: str) -> None:
    """Sets the states of the libraries named (of all, where none is) that are imported and were captured."""
    for library in libraries or LIBRARIES:
        state: Any = states.get(library)
        if state is None:
            continue
        if library == "python":
            random.setstate((state[0], tuple(state[1]), state[2]))
        elif (module := sys.modules.get(library)) is not None:
            _into_numpy(module, state) if library == "numpy" else _into_torch(module, state)


def _of_numpy(numpy: Any) -> Json:
    name, words, position, has_gauss, gauss = numpy.random.get_state()
    return [name, [int(word) for word in words], int(position), int(has_gauss), float(gauss)]


def _into_numpy(numpy: Any, state: Any) -> None:
    name, words, position, has_gauss, gauss = state
    numpy.random.set_state((name, numpy.array(words, dtype="uint32"), position, has_gauss, gauss))


def _of_torch(torch: Any) -> Json:
    return base64.b64encode(bytes(torch.get_rng_state().tolist())).decode("ascii")


def _into_torch(torch: Any, state: str) -> None:
    torch.set_rng_state(torch.tensor(list(base64.b64decode(state)), dtype=torch.uint8))
