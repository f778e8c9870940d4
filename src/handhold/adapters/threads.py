"""Calls of one turn that a framework starts each in a thread of its own: they still mean an order."""

import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager

PATIENCE = 3.0  # seconds in which a call that was started earlier has begun
REMEMBERED = 64  # turns


class InThreads:
    """One after another, as they stand in the turn.

    An earlier one that does not begin is not waited for: somebody else may have answered it.
    """

    def __init__(self) -> None:
        self._told = threading.Condition()
        self._begun: dict[str, set[str]] = {}
        self._running: set[tuple[str, str]] = set()
        self._one = threading.Lock()

    @contextmanager
    def alone(self, turn: str, call_id: str, earlier: Sequence[str]) -> Generator[None]:
        """While nobody else is, and after all calls of `earlier`."""
        self._begin(turn, call_id)
        try:
            self._wait(turn, earlier)
            with self._one:
                yield
        finally:
            with self._told:
                self._running.discard((turn, call_id))
                self._told.notify_all()

    def _begin(self, turn: str, call_id: str) -> None:
        with self._told:
            self._begun.setdefault(turn, set()).add(call_id)
            while len(self._begun) > REMEMBERED:
                del self._begun[next(iter(self._begun))]
            self._running.add((turn, call_id))
            self._told.notify_all()

    def _wait(self, turn: str, earlier: Sequence[str]) -> None:
        with self._told:
            self._told.wait_for(lambda: self._begun.get(turn, set()).issuperset(earlier), PATIENCE)
            self._told.wait_for(lambda: not any((turn, each) in self._running for each in earlier))
