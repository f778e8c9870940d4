"""Closes a toolbox while calls run: no new call starts, and resources are released after the last one."""

import threading
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import monotonic

from handhold.core.errors import ToolboxClosed

STEP_SECONDS = 0.05  # between two attempts to interrupt commands


class OpenCalls:
    """The running calls, by thread. `release` is called once, when it is closed and no call runs."""

    def __init__(self, release: Callable[[], None]) -> None:
        self._release = release
        self._threads: Counter[int] = Counter()
        self._changed = threading.Condition()
        self._closed = False
        self._released = False

    @contextmanager
    def enter(self) -> Generator[None]:
        """Register a call. ToolboxClosed after `close`."""
        thread = threading.get_ident()
        with self._changed:
            if self._closed:
                raise ToolboxClosed
            self._threads[thread] += 1
        try:
            yield
        finally:
            with self._changed:
                self._threads[thread] -= 1
                if not self._threads[thread]:
                    del self._threads[thread]
                self._changed.notify_all()
            self._release_if_last()

    def close(self, interrupt: Callable[[], None], timeout: float) -> None:
        """Accept no more calls, and wait for those of other threads. The end of a call that takes longer releases."""
        until, own = monotonic() + timeout, threading.get_ident()
        with self._changed:
            self._closed = True
        interrupt()
        while (left := until - monotonic()) > 0:
            with self._changed:
                if not self._threads.keys() - {own}:
                    break
                self._changed.wait(min(left, STEP_SECONDS))
            interrupt()  # again: a command may have started since
        self._release_if_last()

    def _release_if_last(self) -> None:
        with self._changed:
            if not self._closed or self._threads or self._released:
                return
            self._released = True
        self._release()
