"""Landlock: whether this kernel supports it, and the launcher that applies it before starting a program."""

import ctypes
import os

SYS_LANDLOCK_CREATE_RULESET = 444
CREATE_RULESET_VERSION = 1
MIN_ABI_VERSION = 2  # version 1 forbids moving a file to another folder, whatever its rules
TRUNCATE_ABI_VERSION = 3
LAUNCHER_PATH = os.path.join(os.path.dirname(__file__), "shell", "_built", "inside")


def landlock_abi_version() -> int:
    """0 if this kernel does not support it, or does not let us ask."""
    libc = ctypes.CDLL(None, use_errno=True)
    return max(0, libc.syscall(SYS_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), CREATE_RULESET_VERSION))
