"""Order the calls of one turn that a framework starts in separate threads."""

import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager

START_TIMEOUT_SECONDS = 3.0  # how long to wait for an earlier call to start
MAX_REMEMBERED_TURNS = 64


class ThreadCallSequencer:
    """Runs calls one after another, in the order of the turn.

    An earlier call that does not start is not waited for; the application may have answered it.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._started: dict[str, set[str]] = {}
        self._running: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    @contextmanager
    def exclusive(self, turn: str, call_id: str, earlier: Sequence[str]) -> Generator[None]:
        """Hold the lock during the block, after all calls in `earlier`."""
        self._start(turn, call_id)
        try:
            self._wait_for_earlier(turn, earlier)
            with self._lock:
                yield
        finally:
            with self._condition:
                self._running.discard((turn, call_id))
                self._condition.notify_all()

    def _start(self, turn: str, call_id: str) -> None:
        with self._condition:
            self._started.setdefault(turn, set()).add(call_id)
            while len(self._started) > MAX_REMEMBERED_TURNS:
                del self._started[next(iter(self._started))]
            self._running.add((turn, call_id))
            self._condition.notify_all()

    def _wait_for_earlier(self, turn: str, earlier: Sequence[str]) -> None:
        with self._condition:
            self._condition.wait_for(lambda: self._started.get(turn, set()).issuperset(earlier), START_TIMEOUT_SECONDS)
            self._condition.wait_for(lambda: not any((turn, each) in self._running for each in earlier))
