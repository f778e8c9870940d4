"""Kill what is left of a brokered command whose broker was killed.

The broker ends everything that a command started. If it is killed itself, processes may survive: they can change
nothing in the workspace by name, but may hold files that were opened before. Each has a variable in its environment.
"""

import os
import signal
import time
from contextlib import suppress

from handhold.logs import log_swallowed

COMMAND_VARIABLE = "HANDHOLD_COMMAND"
KILL_TIMEOUT_SECONDS = 5.0
POLL_SECONDS = 0.002


def kill_marked(command: str) -> bool:
    """Kill every process of this command, and wait; whether none is left."""
    mark = f"{COMMAND_VARIABLE}={command}".encode()
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
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and mark in _read_environment(name)]


def _read_environment(pid: str) -> list[bytes]:
    try:
        fd = os.open(f"/proc/{pid}/environ", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return []  # gone, or not ours
    try:
        return os.read(fd, 1 << 20).split(b"\0")
    except OSError:
        log_swallowed()
        return []
    finally:
        os.close(fd)
