"""In which threads calls run: looking, changing and commands each have their own, so that none stalls another.

A command may sleep for minutes and a change may wait for a person; a look is over in a moment. Threads are made when
they are needed, and how many calls may wait is bounded: a server that takes everything answers nobody.
"""

from collections.abc import Generator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager

from handhold.server.tools import Kind

THREADS: dict[Kind, int] = {"look": 16, "change": 32, "command": 64}
WAITING: dict[Kind, int] = {"look": 4096, "change": 2048, "command": 0}  # beyond those that run


class Full(Exception):
    """So many calls of a kind run and wait that one more is refused."""


class Lanes:
    def __init__(self) -> None:
        self._lanes: dict[Kind, Executor] = {
            kind: ThreadPoolExecutor(threads, thread_name_prefix=f"handhold {kind}")
            for kind, threads in THREADS.items()
        }
        self._taken: dict[Kind, int] = {kind: 0 for kind in THREADS}

    @contextmanager
    def place(self, kind: Kind) -> Generator[Executor]:
        """Called in the event loop only, so counting needs no lock."""
        if self._taken[kind] >= THREADS[kind] + WAITING[kind]:
            raise Full
        self._taken[kind] += 1
        try:
            yield self._lanes[kind]
        finally:
            self._taken[kind] -= 1
