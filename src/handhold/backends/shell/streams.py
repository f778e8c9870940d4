"""The caller's own descriptors as the standard streams of a command: its output is then neither read nor changed by us.

A descriptor leads out of the sandbox, so what it leads to is checked. A command may open its streams again by name
(`/dev/stderr`), to write only if they are open for writing. It belongs to another session than the caller's terminal,
and the filter refuses what would push input into one.
"""

import fcntl
import os
import stat
from collections.abc import Sequence
from contextlib import ExitStack

from handhold.core.errors import NoShell

StandardStreams = tuple[int, int, int]
FIRST_FREE_FD = 3
TERMINAL_VARIABLES = ("TERM", "COLORTERM", "NO_COLOR", "COLUMNS", "LINES")  # how a program may write to a terminal


def duplicate_streams(streams: Sequence[int], stack: ExitStack, *, has_landlock: bool) -> list[int]:
    """Descriptors to pass on, closed by `stack`. NoShell if one of them would let a command leave the sandbox."""
    for fd in streams:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode):
            raise NoShell("a standard stream is a folder, through which a command could leave the sandbox")
        if stat.S_ISREG(mode) and not has_landlock and not _is_writable(fd):
            raise NoShell("without Landlock, a command could write to the file that it reads; use a pipe instead")
    duplicates = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE_FD) for fd in streams]
    for fd in duplicates:
        stack.callback(os.close, fd)
    return duplicates


def list_writable_paths(streams: Sequence[int]) -> list[str]:
    """The streams by name, as the command may open them again to write."""
    return [f"/proc/self/fd/{fd}" for fd in streams if _is_writable(fd)]


def read_terminal_variables() -> dict[str, str]:
    return {name: os.environ[name] for name in TERMINAL_VARIABLES if name in os.environ}


def _is_writable(fd: int) -> bool:
    return fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
