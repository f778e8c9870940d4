"""Landlock: whether this kernel has it, and the launcher that applies it to a program before starting it."""

import ctypes
import os

CREATE_RULESET = 444
TELL_VERSION = 1
USABLE = 2  # the first forbids to move a file into another folder, whatever its rules say
TRUNCATION_SINCE = 3
LAUNCHER = os.path.join(os.path.dirname(__file__), "shell", "_built", "inside")


def landlock_version() -> int:
    """0 if this kernel has none, or does not let us ask."""
    libc = ctypes.CDLL(None, use_errno=True)
    return max(0, libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), TELL_VERSION))
