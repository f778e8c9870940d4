"""Ask everything that a command started to end, so that traps run and programs remove their locks and temporary files.

The shell itself is stopped meanwhile: otherwise it would continue with its next command, and if it ended first, the
kernel would kill all others with the namespace.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator

from handhold.backends.shell import reaper
from handhold.logs import suppress_and_log

POLL_SECONDS = 0.02  # between two checks of what is left


def terminate(top_pid: int, seconds: float, has_ended: Callable[[float], bool]) -> None:
    """Send SIGTERM to everything below the process `top_pid`; to its own children last, after at most `seconds`.

    `has_ended` waits until a time of the monotonic clock, and tells whether the command has ended.
    """
    shells = [(pid, top_pid) for pid in reaper.read_children(top_pid) or ()]
    signalled: set[int] = set()
    for pid, parent in shells:
        send_signal(pid, parent, signal.SIGSTOP)
    until = time.monotonic() + seconds
    while left := [each for pid, _ in shells for each in _walk_descendants(pid)]:
        for pid, parent in left:
            if pid not in signalled:
                send_signal(pid, parent, signal.SIGTERM)
                signalled.add(pid)
        now = time.monotonic()
        if now >= until or has_ended(min(now + POLL_SECONDS, until)):
            break
    for pid, parent in shells:
        send_signal(pid, parent, signal.SIGTERM)
        send_signal(pid, parent, signal.SIGCONT)


def _walk_descendants(pid: int) -> Iterator[tuple[int, int]]:
    """Live descendants of this process, each with its parent."""
    for child in reaper.read_children(pid) or ():
        if not reaper.is_dead(child):
            yield child, pid
        yield from _walk_descendants(child)


def send_signal(pid: int, parent: int, number: int) -> bool:
    """Signal a process by pid, unless the pid has been reused; whether it was sent."""
    with suppress_and_log(OSError):
        fd = os.pidfd_open(pid)
        try:
            if reaper.read_parent(pid) == parent:
                signal.pidfd_send_signal(fd, number)
                return True
        finally:
            os.close(fd)
    return False
