"""Remote mounts, which may stop responding because another process or machine serves them, and timeouts for them.

A call to a file system that does not respond hangs in the kernel, and often cannot even be killed. So if there is such
a mount below the roots, reads run in a thread of their own, which is abandoned if it does not return. Otherwise this
costs one check whether mounts have changed, by a descriptor that all workspaces share.
"""

import os
import select
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from threading import Event, Lock, Thread
from time import monotonic
from typing import TypeVar

from handhold.backends.descriptor_pool import Pooled
from handhold.core.errors import SystemFailure

MOUNTINFO_PATH = "/proc/self/mountinfo"
MOUNTINFO_ESCAPES = {r"\040": " ", r"\011": "\t", r"\012": "\n", r"\043": "#", r"\134": "\\"}
# Prefixes of their file system types.
REMOTE_TYPE_PREFIXES = ("9p", "afs", "autofs", "beegfs", "ceph", "cifs", "fuse", "lustre", "nfs", "smb", "virtiofs")
# Longer than a search may take, and enough to read a large file remotely.
IO_TIMEOUT_SECONDS = 30.0
POLL_INTERVAL_SECONDS = 0.05  # between two checks for cancellation
MAX_STUCK_THREADS = 64  # abandoned threads; then no more are started until one returns

T = TypeVar("T")


def list_mounts() -> Iterator[tuple[str, str]]:
    """The mount point and type of every visible mount."""
    with open(MOUNTINFO_PATH, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123 — no file of a workspace
        for line in file:
            before, _, after = line.partition(" - ")
            yield unescape_field(before.split(" ", 5)[4]), after.split(" ", 1)[0]


def unescape_field(field: str) -> str:
    """Decode a field of mountinfo."""
    for escape, plain in MOUNTINFO_ESCAPES.items() if "\\" in field else ():
        field = field.replace(escape, plain)
    return field


class MountTable:
    """Tells when the mounts of this process have changed. The descriptor is closed with its last user."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._generation = 0
        # A child would take the news from its parent: the kernel tells each open file once.
        self._file = Pooled(MOUNTINFO_PATH, self._open, os.close, survives_fork=False)

    def _open(self) -> int:
        fd = os.open(MOUNTINFO_PATH, os.O_RDONLY | os.O_CLOEXEC)
        self._generation += 1  # what happened before is unknown
        return fd

    def reset_lock(self) -> None:
        """After a fork: the thread that held it may not exist."""
        self._lock = Lock()

    def add_user(self) -> None:
        with self._lock:
            self._users += 1

    def remove_user(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self._file.close()

    def read_generation(self) -> int:
        """A number that rises with every change. OSError if there is no such table here."""
        with self._lock, self._file as fd:
            poll = select.poll()
            poll.register(fd, select.POLLPRI)
            self._generation += bool(poll.poll(0))
            return self._generation


_mount_table = MountTable()
os.register_at_fork(after_in_child=_mount_table.reset_lock)


class RemoteMounts:
    """The remote mounts that affect some roots, currently."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = roots
        self._lock = Lock()
        self._stuck_threads = 0
        self._known_points: list[str] = []
        self._known_generation = 0  # none yet
        self._is_closed = False
        _mount_table.add_user()

    def close(self) -> None:
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                _mount_table.remove_user()

    @property
    def description(self) -> str:
        """The mount points; empty if there are none."""
        return ", ".join(self._mount_points())

    def list_below_roots(self) -> list[str]:
        """Mounts below a root, not those that contain it."""
        return [
            point
            for point in self._mount_points()
            if any(_is_inside(point, root) and point != root for root in self._roots)
        ]

    def _mount_points(self) -> list[str]:
        with self._lock, suppress(OSError, SystemFailure):  # not available, or out of descriptors: try again next time
            generation = _mount_table.read_generation()
            if generation != self._known_generation:
                self._known_points = self._find_points()
                self._known_generation = generation
        return self._known_points

    def _find_points(self) -> list[str]:
        found = list(list_mounts())
        below = [
            point for point, kind in found if _is_remote(kind) and any(_is_inside(point, root) for root in self._roots)
        ]
        for root in self._roots:
            # The innermost mount has the longest path; of equal ones, the last is on top.
            point, kind = max(
                (each for each in found if _is_inside(root, each[0])), key=lambda each: len(each[0]), default=("", "")
            )
            below += [point] if _is_remote(kind) else []
        return list(dict.fromkeys(below))

    def with_io_timeout(self, work: Callable[[], T], raise_if_cancelled: Callable[[], None]) -> T:
        """Run `work`, which must only read; if it takes too long, abandon it and raise SystemFailure.

        `raise_if_cancelled` raises when nobody waits for the result any more.
        """
        if not (where := self.description):
            return work()
        if self._stuck_threads >= MAX_STUCK_THREADS:
            raise SystemFailure(where, f"{self._stuck_threads} earlier calls are still waiting for its file system")
        results: list[T] = []
        errors: list[BaseException] = []
        ended = Event()
        is_stuck = False

        def run() -> None:
            try:
                results.append(work())
            except BaseException as error:  # noqa: BLE001 — raised again in the waiting thread
                errors.append(error)
            with self._lock:
                ended.set()
                self._stuck_threads -= is_stuck

        Thread(target=run, name="handhold reads from afar", daemon=True).start()
        until = monotonic() + IO_TIMEOUT_SECONDS
        try:
            while not ended.wait(POLL_INTERVAL_SECONDS):
                raise_if_cancelled()
                if monotonic() > until:
                    raise SystemFailure(
                        where, f"its remote file system did not respond within {IO_TIMEOUT_SECONDS:g} s"
                    )
        finally:
            with self._lock:
                is_stuck = not ended.is_set()
                self._stuck_threads += is_stuck
        if errors:
            raise errors[0]
        return results[0]


def _is_remote(kind: str) -> bool:
    return kind.startswith(REMOTE_TYPE_PREFIXES)


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
