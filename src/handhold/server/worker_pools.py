"""In which threads calls run: looking, changing and commands each have their own, so that none stalls another.

A command may sleep for minutes and a change may wait for a person; a look is over in a moment. Threads are made when
they are needed, and how many calls may wait is bounded: a server that takes everything answers nobody.
"""

from collections.abc import Generator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager

from handhold.server.tools import ToolKind

MAX_THREADS: dict[ToolKind, int] = {"look": 16, "change": 32, "command": 64}
MAX_WAITING_CALLS: dict[ToolKind, int] = {"look": 4096, "change": 2048, "command": 0}  # beyond those that run


class WorkerPoolFull(Exception):
    """So many calls of a kind run and wait that one more is refused."""


class WorkerPools:
    def __init__(self) -> None:
        self._executors: dict[ToolKind, Executor] = {
            kind: ThreadPoolExecutor(threads, thread_name_prefix=f"handhold {kind}")
            for kind, threads in MAX_THREADS.items()
        }
        self._call_counts: dict[ToolKind, int] = {kind: 0 for kind in MAX_THREADS}

    @contextmanager
    def reserve(self, kind: ToolKind) -> Generator[Executor]:
        """Called in the event loop only, so counting needs no lock."""
        if self._call_counts[kind] >= MAX_THREADS[kind] + MAX_WAITING_CALLS[kind]:
            raise WorkerPoolFull
        self._call_counts[kind] += 1
        try:
            yield self._executors[kind]
        finally:
            self._call_counts[kind] -= 1
