"""The locks of a state folder: files that are locked and never read.

A lock belongs to a descriptor, and each holder has its own. So it excludes threads as well as processes, and the kernel
releases it when a process dies. The threads of a process queue up here; the first of them waits in line with other
processes (`lock_queue`).
"""

import os
from _thread import LockType
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from handhold.backends.state.lock_queue import LOCK_FLAGS, TELL_AFTER_SECONDS, Deadline, LockInTurn
from handhold.backends.state.state_errors import to_state_error

LOCK_TIMEOUT_SECONDS = 30.0  # to wait for another holder
QUEUE_SUFFIX = ".queue"


class LockQueues:
    """The waiting threads of this process, in order of arrival."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._queues: dict[str, deque[LockType]] = {}

    def enter(self, name: str, deadline: Deadline) -> LockType:
        """Wait for the head of the queue; return what `leave` needs."""
        mine = Lock()
        with self._lock:
            queue = self._queues.setdefault(name, deque())
            queue.append(mine)
            if queue[0] is mine:
                return mine
            mine.acquire()
        try:
            while not mine.acquire(timeout=deadline.limit_pause(TELL_AFTER_SECONDS)):
                pass
        except BaseException:
            self.leave(name, mine)
            raise
        deadline.end()
        return mine

    def leave(self, name: str, mine: LockType) -> None:
        with self._lock:
            queue = self._queues.get(name)
            if queue is None or mine not in queue:  # in a forked child
                return
            was_first = queue[0] is mine
            queue.remove(mine)
            if not queue:
                del self._queues[name]
            elif was_first:
                queue[0].release()

    @contextmanager
    def hold(self, name: str, *, wait: bool) -> Generator[None]:
        """A lock among the threads of this process."""
        mine = self.enter(name, Deadline(name, LOCK_TIMEOUT_SECONDS if wait else 0.0))
        try:
            yield
        finally:
            self.leave(name, mine)


_lock_queues = LockQueues()
os.register_at_fork(after_in_child=_lock_queues.__init__)  # after a fork, the other waiting threads do not exist


class QueuedLock:
    """A lock to be held once, with `with`: first among the threads of this process, then among processes."""

    __slots__ = ("_lock", "_mine", "_name", "_timeout")

    def __init__(self, name: str, open_lock: Callable[[], int], queue: str, timeout: float) -> None:
        """Busy after `timeout` seconds, under this name."""
        self._name = name
        self._timeout = timeout
        self._lock = LockInTurn(open_lock, queue)

    def __enter__(self) -> None:
        deadline = Deadline(self._name, self._timeout)
        self._mine = _lock_queues.enter(self._name, deadline)
        try:
            self._lock.acquire(deadline)
        except BaseException:
            _lock_queues.leave(self._name, self._mine)
            raise

    def __exit__(self, *_: object) -> None:
        try:
            self._lock.release()
        finally:
            _lock_queues.leave(self._name, self._mine)


def hold_lock(path: Path, *, wait: bool) -> QueuedLock:
    return hold_file_lock(str(path), LOCK_TIMEOUT_SECONDS if wait else 0.0)


def hold_file_lock(path: str, timeout: float) -> QueuedLock:
    def open_lock() -> int:
        try:
            return os.open(path, LOCK_FLAGS, 0o600)
        except OSError as error:
            raise to_state_error(error, path) from error

    return QueuedLock(path, open_lock, path + QUEUE_SUFFIX, timeout)
