"""Mounts that may fall silent, because another process or machine serves them, and how long they are waited for.

Whoever asks a file system that does not answer hangs in the kernel, and often cannot even be killed. So where there is
such a mount beneath the roots, what reads is done in a thread of its own, and left there if it does not come back.
Elsewhere this costs one look at whether mounts have changed.
"""

import os
import select
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from threading import Event, Lock, Thread
from time import monotonic
from typing import TypeVar

from handhold.core.errors import SystemTrouble

MOUNTS = "/proc/self/mountinfo"
ESCAPES = {r"\040": " ", r"\011": "\t", r"\012": "\n", r"\043": "#", r"\134": "\\"}
# How the names of their kinds begin.
SERVED = ("9p", "afs", "autofs", "beegfs", "ceph", "cifs", "fuse", "lustre", "nfs", "smb", "virtiofs")
LONGEST = 30.0  # seconds for an answer: longer than a search may take, and enough to read a large file from afar
STEP = 0.05  # seconds between two looks at whether anybody still waits
MOST_LOST = 64  # threads that never came back; then nobody is sent any more until one does

T = TypeVar("T")


def mounts() -> Iterator[tuple[str, str]]:
    """The point and the kind of every mount that we see."""
    with open(MOUNTS, encoding="utf-8", errors="surrogateescape") as listed:  # noqa: PTH123 — no file of a workspace
        for line in listed:
            before, _, after = line.partition(" - ")
            yield plainly(before.split(" ", 5)[4]), after.split(" ", 1)[0]


def plainly(field: str) -> str:
    """A field of the list of mounts, without its escapes."""
    for escape, plain in ESCAPES.items() if "\\" in field else ():
        field = field.replace(escape, plain)
    return field


class Distant:
    """What of some roots is served from elsewhere, as of now."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = roots
        self._lock = Lock()
        self._lost = 0
        self._found: list[str] | None = None  # unknown yet
        self._changed = select.poll()
        try:
            self._fd = os.open(MOUNTS, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._fd, self._found = -1, []  # nobody can tell
        else:
            self._changed.register(self._fd, select.POLLPRI)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    @property
    def named(self) -> str:
        """The points of such mounts; empty if there are none."""
        return ", ".join(self._points())

    def below_roots(self) -> list[str]:
        """Those that lie below a root, and not around it."""
        return [point for point in self._points() if any(_in(point, root) and point != root for root in self._roots)]

    def _points(self) -> list[str]:
        with self._lock:
            if self._found is None or (self._fd >= 0 and self._changed.poll(0)):
                self._found = None
                with suppress(OSError):  # no descriptor to spare: it is looked up next time
                    self._found = self._look()
            return self._found or []

    def _look(self) -> list[str]:
        found = list(mounts())
        below = [point for point, kind in found if _served(kind) and any(_in(point, root) for root in self._roots)]
        for root in self._roots:
            # Of those that it lies in, the innermost is the longest, and of equal ones the last is on top.
            point, kind = max(
                (each for each in found if _in(root, each[0])), key=lambda each: len(each[0]), default=("", "")
            )
            below += [point] if _served(kind) else []
        return list(dict.fromkeys(below))

    def answered(self, work: Callable[[], T], go_on: Callable[[], None]) -> T:
        """What this work gives. It must only read: SystemTrouble if it takes too long, and then it is forgotten.

        `go_on` raises when nobody waits for the work any more.
        """
        if not (where := self.named):
            return work()
        if self._lost >= MOST_LOST:
            raise SystemTrouble(where, f"{self._lost} earlier calls still wait for an answer from there")
        done: list[T] = []
        failed: list[BaseException] = []
        ended = Event()
        left = False

        def apart() -> None:
            try:
                done.append(work())
            except BaseException as error:  # noqa: BLE001 — it is raised where it is waited for
                failed.append(error)
            with self._lock:
                ended.set()
                self._lost -= left

        Thread(target=apart, name="handhold reads from afar", daemon=True).start()
        until = monotonic() + LONGEST
        try:
            while not ended.wait(STEP):
                go_on()
                if monotonic() > until:
                    raise SystemTrouble(where, f"it is served from elsewhere, and did not answer within {LONGEST:g} s")
        finally:
            with self._lock:
                left = not ended.is_set()
                self._lost += left
        if failed:
            raise failed[0]
        return done[0]


def _served(kind: str) -> bool:
    return kind.startswith(SERVED)


def _in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
