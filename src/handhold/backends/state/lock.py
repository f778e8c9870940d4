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

from handhold.backends.state.database import translate_state_errors
from handhold.core.errors import Busy

LOCK_TIMEOUT_SECONDS = 30.0  # seconds to wait for somebody else
MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.0005, 0.02  # seconds between two tries
LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class LockQueues:
    """Who waits for what in this process, in the order in which they came."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._queues: dict[Path, deque[Event]] = {}

    @contextmanager
    def wait_turn(self, path: Path, *, wait: bool) -> Generator[None]:
        """At the head of the line; Busy if it does not get there in time."""
        mine, timeout = Event(), LOCK_TIMEOUT_SECONDS if wait else 0.0
        with self._lock:
            queue = self._queues.setdefault(path, deque())
            queue.append(mine)
            if queue[0] is mine:
                mine.set()
        try:
            if not mine.wait(timeout):
                raise Busy(str(path), timeout)
            yield
        finally:
            with self._lock:
                queue.remove(mine)
                if queue:
                    queue[0].set()
                else:
                    self._queues.pop(path, None)


_lock_queues = LockQueues()
os.register_at_fork(after_in_child=_lock_queues.__init__)  # of those who waited, only the one that forked is there


@contextmanager
def hold_lock(path: Path, *, wait: bool) -> Generator[None]:
    until = time.monotonic() + (LOCK_TIMEOUT_SECONDS if wait else 0.0)
    with _lock_queues.wait_turn(path, wait=wait):
        with translate_state_errors(path):
            lock = os.open(path, LOCK_FLAGS, 0o600)
        try:
            _acquire(lock, path, until)
            try:
                yield
            finally:
                with suppress(OSError):
                    # Closing would not do: a process that was forked meanwhile has the descriptor too.
                    fcntl.flock(lock, fcntl.LOCK_UN)
        finally:
            os.close(lock)


def _acquire(lock: int, path: Path, until: float) -> None:
    pause = MIN_RETRY_SECONDS
    while not _try_acquire(lock, path):
        if time.monotonic() >= until:
            raise Busy(str(path), LOCK_TIMEOUT_SECONDS)
        time.sleep(pause)
        pause = min(pause * 1.5, MAX_RETRY_SECONDS)


def _try_acquire(lock: int, path: Path) -> bool:
    with translate_state_errors(path):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
