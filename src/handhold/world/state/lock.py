"""The lock of a state folder: a file that is locked and never read.

The lock belongs to a descriptor, and each holder has one of its own: so it counts between threads as it does
between processes, and the kernel lets go of it when a process dies.

Whoever tries again and again is lucky or not. So the threads of a process stand in line, and only the first of them
tries: then each waits about as long as all before it take.
"""

import fcntl
import os
import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Lock

from handhold.core.errors import Busy
from handhold.world.state.database import told

PATIENCE = 30.0  # seconds to wait for somebody else
SHORTEST, LONGEST = 0.0005, 0.02  # seconds between two tries
OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Lines:
    """Who waits for what in this process, in the order in which they came."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._lines: dict[Path, deque[Event]] = {}

    @contextmanager
    def turn(self, path: Path, *, wait: bool) -> Generator[None]:
        """At the head of the line; Busy if it does not get there in time."""
        mine, patience = Event(), PATIENCE if wait else 0.0
        with self._lock:
            line = self._lines.setdefault(path, deque())
            line.append(mine)
            if line[0] is mine:
                mine.set()
        try:
            if not mine.wait(patience):
                raise Busy(str(path), patience)
            yield
        finally:
            with self._lock:
                line.remove(mine)
                if line:
                    line[0].set()
                else:
                    self._lines.pop(path, None)


_lines = Lines()
os.register_at_fork(after_in_child=_lines.__init__)  # of those who waited, only the one that forked is there


@contextmanager
def locked(path: Path, *, wait: bool) -> Generator[None]:
    until = time.monotonic() + (PATIENCE if wait else 0.0)
    with _lines.turn(path, wait=wait):
        with told(path):
            lock = os.open(path, OPEN, 0o600)
        try:
            _take(lock, path, until)
            try:
                yield
            finally:
                with suppress(OSError):
                    # Closing would not do: a process that was forked meanwhile has the descriptor too.
                    fcntl.flock(lock, fcntl.LOCK_UN)
        finally:
            os.close(lock)


def _take(lock: int, path: Path, until: float) -> None:
    pause = SHORTEST
    while not _taken(lock, path):
        if time.monotonic() >= until:
            raise Busy(str(path), PATIENCE)
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST)


def _taken(lock: int, path: Path) -> bool:
    with told(path):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
