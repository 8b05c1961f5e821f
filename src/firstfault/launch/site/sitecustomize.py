# SPDX-License-Identifier: Apache-2.0
"""Found first by the interpreter that `firstfault run` starts: begins the session, then makes way.

Runs in training, before the script. What stood in the way of this file (a `sitecustomize` of the machine's own)
is run as it would have been.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _make_way() -> None:
    """Take this folder off the path, for this process and for those it starts."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != _HERE]
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    kept = [entry for entry in entries if os.path.abspath(entry or os.curdir) != _HERE]
    if kept and kept != [""]:
        os.environ["PYTHONPATH"] = os.pathsep.join(kept)
    else:
        os.environ.pop("PYTHONPATH", None)


def _run_the_machines_own() -> None:
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401  # if there is one
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        # the import system looks itself up by this name when it is done with us
        if ours is not None:
            sys.modules.setdefault("sitecustomize", ours)


def _attach() -> None:
    try:
        from firstfault.launch.attach import attach
    except ImportError:  # another environment's interpreter, without firstfault
        return
    attach()


_make_way()
try:
    _attach()
finally:
    _run_the_machines_own()
