# SPDX-License-Identifier: Apache-2.0
"""Asks the Linux kernel to forbid this process, and all it starts, to write outside of given folders.

Runs in a sandboxed child. This is what holds native code (`safetensors`, `h5py`, `git`), which Python does not see.
Landlock needs Linux 5.13 and no privileges; without it `restrict_writing` says no and changes nothing.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_PATH_BENEATH = 1
_VERSION_FLAG = 1
_PR_SET_NO_NEW_PRIVS = 38
_WRITE_FILE = 1 << 1
#: remove, make of every kind
_CHANGE_FOLDER = sum(1 << bit for bit in range(4, 13))
_REFER = 1 << 13  # rename across folders; version 2
_TRUNCATE = 1 << 14  # version 3
_CONNECT_TCP = 1 << 1  # version 4
_OF_A_FILE = _WRITE_FILE | _TRUNCATE


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64)]  # what ctypes reads


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]  # what ctypes reads


def restrict_writing(folders: Iterable[str]) -> bool:
    """Forbids, for good, writing outside of `folders` and new TCP connections; False where the kernel cannot.

    Holds for the calling thread and every thread and process it starts later.
    """
    if sys.platform != "linux":
        return False
    kernel = ctypes.CDLL(None, use_errno=True)
    version = kernel.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG))
    if version < 3:
        return False  # before that, truncating a file is not forbidden
    rights = _WRITE_FILE | _CHANGE_FOLDER | _REFER | _TRUNCATE
    ruleset = _Ruleset(rights, _CONNECT_TCP if version >= 4 else 0)
    size = ctypes.sizeof(ruleset) if version >= 4 else 8
    handle = kernel.syscall(_CREATE_RULESET, ctypes.byref(ruleset), ctypes.c_size_t(size), ctypes.c_uint32(0))
    if handle < 0:
        return False
    try:
        for folder in folders:
            if not _allow(kernel, handle, folder, rights):
                return False
        if kernel.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            return False
        return bool(kernel.syscall(_RESTRICT_SELF, handle, ctypes.c_uint32(0)) == 0)
    finally:
        os.close(handle)


def _allow(kernel: ctypes.CDLL, handle: int, path: str, rights: int) -> bool:
    if not os.path.exists(path):
        return True
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = _PathBeneath(rights if os.path.isdir(path) else rights & _OF_A_FILE, descriptor)
        added = kernel.syscall(_ADD_RULE, handle, _PATH_BENEATH, ctypes.byref(rule), ctypes.c_uint32(0))
        return bool(added == 0)
    finally:
        os.close(descriptor)
