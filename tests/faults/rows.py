"""The rules that hold for every nasty, checked with every call.

In time, in little memory, with a stable code and no traceback, one line in the journal, and the workspace unchanged
unless the row says otherwise.
"""

import hashlib
import os
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Self

from bench._memory import peak_kib
from handhold import Reply, Toolbox

SECONDS = 2.0
GROWTH = 64  # MiB
OURS = 0.115  # processor seconds: see `slowness`


class Row:
    """A workspace, its state, and calls that must keep the rules."""

    def __init__(self, home: Path, root: Path | None = None) -> None:
        self.home = home
        self.root = root or home / "ws"
        self.root.mkdir(exist_ok=True)
        self.boxes: dict[tuple[str, str], Toolbox] = {}
        self.state: Callable[[Path], object] = state_of
        self.seconds = 0.0  # duration of the last call, without time spent waiting for a processor
        self.grown = 0  # memory growth of the process in the last call, in KiB

    def put(self, name: str, content: str | bytes = "") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def box(self, dialect: str = "handhold", session: str = "s", **options: Any) -> Toolbox:
        key = (dialect, session)
        if key not in self.boxes:
            state = self.home / "state"
            self.boxes[key] = Toolbox.open(self.root, state=state, dialect=dialect, session=session, **options)
        return self.boxes[key]

    def ask(
        self,
        tool: str,
        *,
        code: str | tuple[str, ...] | None = None,
        changes: bool = False,
        within: float = SECONDS,
        grows: int = GROWTH,
        dialect: str = "handhold",
        session: str = "s",
        **arguments: Any,
    ) -> Reply:
        box = self.box(dialect, session)
        before, lines = (None if changes else self.state(self.root)), len(box.log(everyone=True))
        forget_peak()
        held, started, queued = peak_kib(), perf_counter(), in_queue()
        reply = box.call(tool, arguments)
        self.seconds, self.grown = perf_counter() - started - (in_queue() - queued), peak_kib() - held
        assert reply.code in (code if isinstance(code, tuple) else (code,)), reply.text
        assert "Traceback" not in reply.text
        assert self.seconds <= within * crowd(), f"{tool} took {self.seconds:.2f} s"
        assert self.grown <= grows * 1024, f"{tool} took {self.grown:,} KiB"
        *_, entry = box.log(everyone=True)
        assert len(box.log(everyone=True)) == lines + 1
        assert entry.outcome is not None
        assert (entry.call.tool, entry.outcome.code) == (tool, reply.code)
        if not changes:
            assert self.state(self.root) == before
        return reply

    def close(self) -> None:
        for box in self.boxes.values():
            box.close()
        self.boxes.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def crowd() -> float:
    """How much longer calls may take than on the machine the limits were set for, for load and a slow processor."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)) * slowness()


@cache
def slowness() -> float:
    """Compared with work that took OURS processor seconds there; a faster machine gets no less time."""
    return max(1.0, min(_work() for _ in range(3)) / OURS)


def _work() -> float:
    started, total = process_time(), 0
    for n in range(2_000_000):
        total += n & 7
    return process_time() - started


def in_queue() -> float:
    """Seconds for which this thread was runnable but waited for a processor."""
    return int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9


def forget_peak() -> None:
    """Reset the peak memory."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except PermissionError:
        pass  # not permitted after switching users in a fork; there the peak counts from the fork on


def state_of(root: Path) -> str:
    """Everything below, by metadata that every change alters: for files the inode, the size and ctime.

    Uses `find`, which handles any depth and keeps no list.
    """
    files, folders = r"%y %m %i %s %C@ %n %l %P\0", r"%y %m %l %P\0"
    command = ["find", root, "-type", "d", "-printf", folders, "-o", "-printf", files]
    hash = hashlib.sha256()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as program:
        assert program.stdout
        while piece := program.stdout.read(1 << 20):
            hash.update(piece)
    return hash.hexdigest()
