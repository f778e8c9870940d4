"""The lock of a state folder: a file that is locked and never read.

The lock belongs to a descriptor, and each holder has one of its own: so it counts between threads as it does
between processes, and the kernel lets go of it when a process dies.
"""

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from handhold.core.errors import Busy
from handhold.world.state.database import told

PATIENCE = 30.0  # seconds to wait for somebody else
SHORTEST, LONGEST = 0.0005, 0.02  # seconds between two tries
OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def locked(path: Path, *, wait: bool) -> Generator[None]:
    with told(path):
        lock = os.open(path, OPEN, 0o600)
    try:
        _take(lock, path, PATIENCE if wait else 0.0)
        try:
            yield
        finally:
            with suppress(OSError):
                # Closing would not do: a process that was forked meanwhile has the descriptor too.
                fcntl.flock(lock, fcntl.LOCK_UN)
    finally:
        os.close(lock)


def _take(lock: int, path: Path, patience: float) -> None:
    deadline = time.monotonic() + patience
    pause = SHORTEST
    while not _taken(lock, path):
        if time.monotonic() >= deadline:
            raise Busy(str(path), patience)
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST)


def _taken(lock: int, path: Path) -> bool:
    with told(path):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
