"""Descriptors that stay open while they are idle, as long as there is room for them.

A process may open a thousand workspaces, but not a thousand times their descriptors. So what a workspace keeps open
(the folders of its roots, its database) belongs to a pool: it is opened on use, and the longest unused are closed to
make room for others.
"""

import errno
import os
import resource
from collections import OrderedDict
from collections.abc import Callable
from threading import Condition, RLock
from types import TracebackType
from typing import Any, Generic, TypeVar

from handhold.core.errors import SystemFailure
from handhold.logs import suppress_and_log

SHARE_OF_LIMIT = 4  # a quarter of the descriptors that the process may have
MIN_DESCRIPTORS, MAX_DESCRIPTORS = 16, 512
FORK_TIMEOUT_SECONDS = 1.0  # for other threads to end their use of what a forked child must not inherit
EXHAUSTED_ERRNOS = (errno.EMFILE, errno.ENFILE)

T = TypeVar("T")


class Pooled(Generic[T]):
    """Something that needs descriptors. A context manager: open inside, and possibly closed outside.

    Several threads may be inside at once, and a thread more than once. `close` takes effect when nobody is inside;
    a later use opens it again.
    """

    def __init__(
        self,
        name: str,
        open_value: Callable[[], T],
        close_value: Callable[[T], None],
        *,
        descriptors: int = 1,
        survives_fork: bool = True,
    ) -> None:
        """`name` is for errors. `survives_fork` is whether a forked child may go on with it."""
        self.name = name
        self.open_value = open_value
        self.close_value = close_value
        self.descriptors = descriptors
        self.survives_fork = survives_fork
        self.value: T | None = None  # this and the following are the pool's
        self.users = 0
        self.is_recent = False  # used since the pool looked for something to close
        self.is_opening = False
        self.is_closed = False  # to be closed when the last user leaves

    def __enter__(self) -> T:
        with _pool.lock:  # every access to a file comes through here
            value = self.value
            if value is not None:
                self.users += 1
                self.is_recent = True
                return value
        return _pool.open(self)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with _pool.lock:
            self.users -= 1
            if self.users > 0 or not (self.is_closed or _pool.is_fork_waiting):
                return
        _pool.settle(self)

    def close(self) -> None:
        _pool.close(self)


class DescriptorPool:
    """All that is open. To make room, what was not used for long is closed, by the second-chance algorithm."""

    def __init__(self) -> None:
        self.lock = RLock()
        self._changed = Condition(self.lock)
        self._open: OrderedDict[Pooled[Any], None] = OrderedDict()  # or being opened
        self._count = 0  # their descriptors
        self._closing = 0  # what is being closed now
        self.is_fork_waiting = False
        self._abandoned: list[object] = []  # inherited by a fork: never used and never closed

    def open(self, pooled: Pooled[T]) -> T:
        with self.lock:
            while pooled.is_opening:
                self._changed.wait()
            if pooled.value is not None:
                pooled.users += 1
                return pooled.value
            pooled.is_opening, pooled.is_closed = True, False
            self._open[pooled] = None
            self._count += pooled.descriptors
            evicted = self._evict(read_limit())
        self._close_all(evicted)
        try:
            value = self._open_value(pooled)
        except BaseException:
            with self.lock:
                self._remove(pooled)
                self._end_opening(pooled)
            raise
        with self.lock:
            pooled.value, pooled.users, pooled.is_recent = value, 1, True
            self._end_opening(pooled)
        return value

    def _end_opening(self, pooled: Pooled[Any]) -> None:
        pooled.is_opening = False
        self._changed.notify_all()

    def _open_value(self, pooled: Pooled[T]) -> T:
        try:
            return pooled.open_value()
        except OSError as error:
            if error.errno not in EXHAUSTED_ERRNOS:
                raise
        with self.lock:  # the rest of this process needs more than expected
            evicted = self._evict(0)
        self._close_all(evicted)
        try:
            return pooled.open_value()
        except OSError as error:
            if error.errno not in EXHAUSTED_ERRNOS:
                raise
            raise to_exhausted_error(error, pooled.name) from error

    def settle(self, pooled: Pooled[Any]) -> None:
        """Nobody uses it now, and somebody waits for that."""
        with self.lock:
            if pooled.users or pooled.value is None:  # another thread was faster
                return
            evicted = [self._take(pooled)] if pooled.is_closed else []
            self._changed.notify_all()
        self._close_all(evicted)

    def close(self, pooled: Pooled[Any]) -> None:
        with self.lock:
            pooled.is_closed = True
            evicted = [self._take(pooled)] if pooled.value is not None and not pooled.users else []
        self._close_all(evicted)

    def _evict(self, limit: int) -> list[Callable[[], None]]:
        """Take out what is idle until the rest is within the limit. What is in use stays, even beyond it."""
        evicted: list[Callable[[], None]] = []
        for pooled in [*self._open, *self._open] if self._count > limit else ():
            if self._count <= limit:
                break
            if pooled.is_recent:
                pooled.is_recent = False
                self._open.move_to_end(pooled)
            elif pooled.value is not None and not pooled.users:
                evicted.append(self._take(pooled))
        return evicted

    def _take(self, pooled: Pooled[Any]) -> Callable[[], None]:
        """Take it out of the pool. Returns what closes it, to be called without the lock: it may take long."""
        value, pooled.value = pooled.value, None
        self._remove(pooled)
        self._closing += 1
        return lambda: pooled.close_value(value)

    def _remove(self, pooled: Pooled[Any]) -> None:
        del self._open[pooled]
        self._count -= pooled.descriptors

    def _close_all(self, evicted: list[Callable[[], None]]) -> None:
        for close in evicted:
            with suppress_and_log(OSError):  # nothing was written through it that could be lost
                close()
            with self.lock:
                self._closing -= 1
                self._changed.notify_all()

    # --- fork

    def prepare_fork(self) -> None:
        """Close what a child must not inherit, and let no other thread open anything until `fork` has returned."""
        self.lock.acquire()
        self.is_fork_waiting = True
        self._changed.wait_for(self._can_fork, FORK_TIMEOUT_SECONDS)
        unfit = [each for each in self._open if not (each.survives_fork or each.users or each.is_opening)]
        self._close_all([self._take(each) for each in unfit])

    def _can_fork(self) -> bool:
        in_use = any(each.is_opening or (each.users and not each.survives_fork) for each in self._open)
        return not in_use and not self._closing

    def resume_parent(self) -> None:
        self.is_fork_waiting = False
        self.lock.release()

    def resume_child(self) -> None:
        """The other threads do not exist here. What they used and may be used on just stays open."""
        self.lock = RLock()
        self._changed = Condition(self.lock)
        self.is_fork_waiting = False
        self._closing = 0
        for pooled in list(self._open):
            pooled.is_opening = False
            if pooled.value is None or not pooled.survives_fork:
                self._abandoned.append(pooled.value)
                pooled.value = None
                self._remove(pooled)


def to_exhausted_error(error: OSError, path: str) -> SystemFailure:
    """The error for a process or a machine that is out of descriptors, which says so."""
    return SystemFailure(path, f"{errno.errorcode[error.errno or errno.EMFILE]}: {error.strerror}")


def raise_if_exhausted(error: OSError, path: str) -> None:
    if error.errno in EXHAUSTED_ERRNOS:
        raise to_exhausted_error(error, path) from error


def find_exhaustion(descriptors: int) -> OSError | None:
    """The error if the process cannot open this many more descriptors. For libraries that do not say why they fail."""
    opened: list[int] = []
    try:
        for _ in range(descriptors):
            opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error if error.errno in EXHAUSTED_ERRNOS else None
    finally:
        for fd in opened:
            os.close(fd)
    return None


def read_limit() -> int:
    """How many descriptors the pool may keep open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_DESCRIPTORS
    return max(MIN_DESCRIPTORS, min(soft // SHARE_OF_LIMIT, MAX_DESCRIPTORS))


_pool = DescriptorPool()
os.register_at_fork(before=_pool.prepare_fork, after_in_parent=_pool.resume_parent, after_in_child=_pool.resume_child)
