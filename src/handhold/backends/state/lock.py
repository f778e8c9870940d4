"""The lock of a state folder: a file that is locked and never read.

The lock belongs to a descriptor, and each holder has its own. So it excludes threads as well as processes, and the
kernel releases it when a process dies.

Polling alone would be unfair. So the threads of a process queue up, and only the first one polls: each waits about as
long as all before it take.
"""

import fcntl
import os
import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Lock

from handhold.backends.state.database import translate_state_errors
from handhold.core.errors import Busy
from handhold.logs import suppress_and_log

LOCK_TIMEOUT_SECONDS = 30.0  # to wait for another holder
MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.0005, 0.02  # between two tries
LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class LockQueues:
    """The waiting threads of this process, in order of arrival."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._queues: dict[Path, deque[Event]] = {}

    @contextmanager
    def wait_turn(self, path: Path, *, wait: bool) -> Generator[None]:
        """Wait for the head of the queue; raise Busy if that takes too long."""
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
os.register_at_fork(after_in_child=_lock_queues.__init__)  # after a fork, the other waiting threads do not exist


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
                with suppress_and_log(OSError):
                    # Closing is not enough: a process forked meanwhile has the descriptor, too.
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
