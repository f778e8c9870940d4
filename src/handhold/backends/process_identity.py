"""Identifies a process by its number and its start time, so that a later one with the same number is not mistaken."""

import os
from functools import cache

STAT_FIELDS_AFTER_NAME = 19  # the start time is the 22nd field; the name before may contain anything


def identify_process() -> str:
    """This process, as `1234:56789`."""
    return _identify_own(os.getpid())


@cache
def _identify_own(pid: int) -> str:
    return f"{pid}:{_read_start_time(pid)}"


def is_same_process(identity: str) -> bool:
    """Whether the process still runs. Where there is no /proc, any process with this number counts."""
    pid, _, start = identity.partition(":")
    if not pid.isdecimal():
        return False
    if start:
        return _read_start_time(int(pid)) == start
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _read_start_time(pid: int) -> str:
    """Empty if there is no such process."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # it has ended
        return ""
    try:
        fields = os.read(fd, 4096).rpartition(b") ")[2].split()
    finally:
        os.close(fd)
    # A process that ended and was not waited for yet still has an entry.
    return "" if not fields or fields[0] in (b"Z", b"X") else fields[STAT_FIELDS_AFTER_NAME].decode()
