"""Closing while calls are under way: no new ones begin, and what they use is released after the last of them."""

import threading
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import monotonic

from handhold.core.errors import ToolboxClosed

STEP_SECONDS = 0.05  # between two attempts to interrupt what runs


class OpenCalls:
    """The calls under way, by thread. `release` is run once, when it is closed and none is left."""

    def __init__(self, release: Callable[[], None]) -> None:
        self._release = release
        self._threads: Counter[int] = Counter()
        self._changed = threading.Condition()
        self._closed = False
        self._released = False

    @contextmanager
    def enter(self) -> Generator[None]:
        """ToolboxClosed if it is."""
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
        """Let no more calls begin, and wait for those of other threads. What lasts longer releases when it ends."""
        until, own = monotonic() + timeout, threading.get_ident()
        with self._changed:
            self._closed = True
        interrupt()
        while (left := until - monotonic()) > 0:
            with self._changed:
                if not self._threads.keys() - {own}:
                    break
                self._changed.wait(min(left, STEP_SECONDS))
            interrupt()  # again: a command may not have begun before
        self._release_if_last()

    def _release_if_last(self) -> None:
        with self._changed:
            if not self._closed or self._threads or self._released:
                return
            self._released = True
        self._release()
