"""What something takes, counted: the same on a busy machine as on one that has nothing else to do."""

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from handhold.backends.state.sqlite import SqliteStore


def system_calls(work: Callable[[], object]) -> int:
    """How many functions of `os` that ask the kernel this thread calls meanwhile."""
    count = 0

    def called(_: FrameType, event: str, function: object) -> None:
        nonlocal count
        count += event == "c_call" and getattr(function, "__module__", "") == os.name

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def bytes_read(work: Callable[[], object]) -> int:
    """How many bytes this process reads meanwhile, from files and from what is cached of them."""
    before = _read()
    work()
    return _read() - before


def _read() -> int:
    return int(Path("/proc/self/io").read_text(encoding="ascii").split()[1])


def sql_steps(store: SqliteStore, work: Callable[[], object]) -> tuple[int, int]:
    """How many statements SQLite executes meanwhile, and how many of its steps they take, in tens."""
    statements, steps = list[str](), list[None]()
    with store._database.connection as connection:  # pyright: ignore[reportPrivateUsage]
        connection.set_trace_callback(statements.append)
        connection.set_progress_handler(lambda: steps.append(None), 10)
        try:
            work()
        finally:
            connection.set_trace_callback(None)
            connection.set_progress_handler(None, 0)
    return len(statements), len(steps)


@contextmanager
def no_free_numbers() -> Generator[None]:
    """Use all numbers of descriptors below the highest: a limit is about numbers, and other tests leave gaps."""
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    opened: list[int] = []
    try:
        while (fd := os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)) < highest:
            opened.append(fd)
        os.close(fd)
        yield
    finally:
        for fd in opened:
            os.close(fd)
