"""Kill what is left of a brokered command whose broker was killed.

The broker ends everything that a command started. If it is killed itself, processes may survive: they can change
nothing in the workspace by name, but may hold files that were opened before. So each has a mark that it inherits and
cannot lose by accident: the hard limit of a resource that no program uses, which only a lower one could replace.
"""

import os
import signal
import time
from contextlib import suppress

from handhold.logs import log_swallowed

LIMIT_NAME = b"Max realtime timeout"  # RLIMIT_RTTIME, unlimited by default
MARK_BASE, MARK_BITS = 1 << 61, 60
KILL_TIMEOUT_SECONDS = 5.0
POLL_SECONDS = 0.002


def compute_mark(command: str) -> int:
    """The limit by which the processes of a command are known; `command` is its hexadecimal name."""
    return MARK_BASE | int(command, 16) & ((1 << MARK_BITS) - 1)


def kill_marked(command: str) -> bool:
    """Kill every process of this command, and wait; whether none is left."""
    mark = str(compute_mark(command)).encode()
    until = time.monotonic() + KILL_TIMEOUT_SECONDS
    while found := _find_marked(mark):
        if time.monotonic() > until:
            return False
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_SECONDS)
    return True


def _find_marked(mark: bytes) -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and _read_limit(name) == mark]


def _read_limit(pid: str) -> bytes:
    """The hard limit of a process; empty if it has ended, even if nobody has noticed yet."""
    try:
        fd = os.open(f"/proc/{pid}/limits", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""  # gone
    try:
        limit = os.read(fd, 1 << 13).partition(LIMIT_NAME)[2].split()
    except OSError:
        log_swallowed()
        return b""
    finally:
        os.close(fd)
    return limit[1] if len(limit) > 1 else b""
