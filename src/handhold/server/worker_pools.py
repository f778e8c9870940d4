"""Thread pools for calls: reads, changes and commands each have their own, so that none blocks another.

A command can sleep for minutes and a change can wait for a person, while a read is short. Threads are created on
demand, and the number of waiting calls is bounded.
"""

from collections.abc import Generator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager

from handhold.server.tools import ToolKind

MAX_THREADS: dict[ToolKind, int] = {"look": 16, "change": 32, "command": 64}
MAX_WAITING_CALLS: dict[ToolKind, int] = {"look": 4096, "change": 2048, "command": 0}  # in addition to running calls


class WorkerPoolFull(Exception):
    """Too many calls of a kind are running and waiting."""


class WorkerPools:
    def __init__(self) -> None:
        self._executors: dict[ToolKind, Executor] = {
            kind: ThreadPoolExecutor(threads, thread_name_prefix=f"handhold {kind}")
            for kind, threads in MAX_THREADS.items()
        }
        self._call_counts: dict[ToolKind, int] = {kind: 0 for kind in MAX_THREADS}

    @contextmanager
    def reserve(self, kind: ToolKind) -> Generator[Executor]:
        """Called only in the event loop, so counting needs no lock."""
        if self._call_counts[kind] >= MAX_THREADS[kind] + MAX_WAITING_CALLS[kind]:
            raise WorkerPoolFull
        self._call_counts[kind] += 1
        try:
            yield self._executors[kind]
        finally:
            self._call_counts[kind] -= 1
