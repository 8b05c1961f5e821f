# SPDX-License-Identifier: Apache-2.0
"""Which line of the user's own code is running. Runs inside the training process, on the hot path.

The user's code is what is neither installed, nor the standard library, nor ours: the file that the person can
edit. Cells of a notebook and lines typed at a prompt are theirs too.

    location = user_location()      # Location(file='train.py', line=26, code='loss.backward()', ...)
"""

from __future__ import annotations

import functools
import linecache
import os
import sys
import sysconfig
from types import CodeType, FrameType, TracebackType

from firstfault.records.step import Location

_START = os.getcwd()
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: programs that we ship for trying firstfault out: they stand for a user's script
_DEMO = os.path.join(_OURS, "demo")
_INSTALLED = frozenset({"site-packages", "dist-packages", "debugpy"})
#: libraries that people also build in a checkout of their own, outside `site-packages`
_LIBRARIES = ("torch", "torchvision", "lightning", "pytorch_lightning", "transformers", "accelerate", "numpy")
#: code without a file that a person nevertheless typed
_TYPED = ("<stdin>", "<ipython-input", "<python-input")


@functools.cache
def is_user_file(filename: str) -> bool:
    """Whether a code object's file is one the user wrote."""
    if filename.startswith("<"):
        return filename.startswith(_TYPED)
    path = absolute(filename)
    if _is_below(path, _OURS):
        return _is_below(path, _DEMO)
    if any(_is_below(path, root) for root in (*_library_roots(), *_stdlib_roots())):
        return _START_IS_INSTALLED and _is_below(path, _START) and not _is_installed(path)
    return not _is_installed(path)


def user_location(depth_from: int = 1) -> Location | None:
    """The innermost line of the user's code on this thread's stack, or None.

    Args:
        depth_from: frames to leave out, counted from the caller of this function (1: begin with the caller).
    """
    try:
        frame: FrameType | None = sys._getframe(depth_from)
    except ValueError:  # the stack is not that deep
        return None
    return location_of_frame(frame)


def location_of_frame(frame: FrameType | None) -> Location | None:
    """The innermost line of the user's code at or outside of `frame`, or None."""
    while frame is not None:
        code = frame.f_code
        if is_user_file(code.co_filename):
            return location_of(code.co_filename, frame.f_lineno or code.co_firstlineno, _function_name(code))
        frame = frame.f_back
    return None


def location_of_traceback(traceback: TracebackType | None) -> Location | None:
    """The innermost line of the user's code through which an exception came, or None.

    Lines are those of the traceback: a frame's own has moved on, where a `finally` or `with` has run since.
    """
    found = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if is_user_file(code.co_filename):
            found = (code, traceback.tb_lineno)
        traceback = traceback.tb_next
    if found is None:
        return None
    return location_of(found[0].co_filename, found[1], _function_name(found[0]))


@functools.lru_cache(maxsize=4096)
def location_of(filename: str, line: int, function: str = "") -> Location:
    """A location as it is shown: the file below the starting directory, with the text of the line."""
    return Location(
        file=shown_path(filename),
        line=line,
        code=linecache.getline(filename, line).strip(),
        function="" if function == "<module>" else function,
    )


def shown_path(filename: str) -> str:
    """`filename` relative to the directory the run started in where it lies below it, else absolute.

    A cell of a notebook is called what stands beside it: `In[3]`.
    """
    if (cell := _cell_of(filename)) is not None:
        return cell
    if filename.startswith("<"):
        return filename
    path = absolute(filename)
    return os.path.relpath(path, _START) if _is_below(path, _START) else path


def _cell_of(filename: str) -> str | None:
    """The cell as the notebook labels it, where `filename` is what IPython compiled a cell under."""
    module = sys.modules.get("IPython.core.interactiveshell")
    if module is None or not module.InteractiveShell.initialized():
        return None
    name_of = getattr(module.InteractiveShell.instance().compile, "format_code_name", None)  # IPython 8 and later
    label = None if name_of is None else name_of(filename)
    return None if label is None else str(label[1])


def absolute(filename: str) -> str:
    """`filename` made absolute from the directory the run started in, whatever `chdir` the script did."""
    return os.path.normpath(os.path.join(_START, filename))


def _function_name(code: CodeType) -> str:
    name: str = getattr(code, "co_qualname", code.co_name)  # Python 3.11 and later
    return name.replace("<locals>.", "")


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder if folder.endswith(os.sep) else folder + os.sep)


def _is_installed(path: str) -> bool:
    # Someone may keep a project inside an environment's folder: what lies below it by a plain path is theirs.
    if _START_IS_INSTALLED and _is_below(path, _START):
        path = path[len(_START) :]
    return not _INSTALLED.isdisjoint(path.split(os.sep))


#: the starting directory lies strictly below a `site-packages`
_START_IS_INSTALLED = not _INSTALLED.isdisjoint(os.path.dirname(_START).split(os.sep))


@functools.cache
def _stdlib_roots() -> frozenset[str]:
    paths = sysconfig.get_paths()
    roots = {paths["stdlib"], paths["platstdlib"], os.path.dirname(os.__file__)}
    return frozenset(roots | {os.path.realpath(root) for root in roots})


def _library_roots() -> frozenset[str]:
    modules = (sys.modules.get(name) for name in _LIBRARIES)
    files = (getattr(module, "__file__", None) for module in modules)
    return frozenset(os.path.dirname(file) for file in files if file)
