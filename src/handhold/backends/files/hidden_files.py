"""Find files that may not be read: by name, and by other names of the same file.

Rules are about names, but commands open files. So before a command starts, all denied files must be found: in every
folder where a rule can match, ignored or not, and under every name below the roots that leads to the same content.

A link with a denied name stands for its target. A folder that is not accessible is hidden as a whole: its owner could
open it, and its contents are unknown.
"""

import os
import stat
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from threading import Lock
from time import monotonic
from weakref import WeakSet

from handhold.backends.files.folder_listing import FileId
from handhold.backends.files.linked_names import drop_nested_roots, find_mount_point, read_mount_points
from handhold.backends.files.root_scan import DenyCheck, RootScan
from handhold.backends.files.roots import Root
from handhold.backends.quiet_open import open_quietly
from handhold.logs import suppress_and_log

MAX_OUTSIDE_FILES = 200  # read in a folder outside the roots


class HiddenFiles:
    """Implements the port HiddenPaths. Thread-safe."""

    def __init__(
        self,
        roots: Sequence[Root],
        denies: DenyCheck,
        list_excluded: Callable[[], Sequence[str]] = list,
        *,
        tops: Sequence[str] | None = None,
        watching: bool = False,
    ) -> None:
        """`denies` gets canonical places, and must be deterministic. It denies nothing outside `tops`, if given.

        `list_excluded` names folders that are not searched. If `watching`, it must be closed.
        """
        outermost = drop_nested_roots(roots)
        self._scans = [RootScan(root, denies, list_excluded, tops=tops, watching=watching) for root in outermost]
        # Other names of denied files may be anywhere.
        self._scans_for_names = [
            scan if scan.covers_root else RootScan(root, lambda _: False, list_excluded, watching=watching)
            for root, scan in zip(outermost, self._scans, strict=True)
        ]
        self._lock = Lock()

    def paths(self, until: float | None = None) -> tuple[str, ...]:
        """The current denied places in canonical form: the topmost of each, and the targets of links with denied names.

        Raise TimeoutError if they are not known at `until`, on the monotonic clock; the next call continues from there.
        """
        with self._refreshed(until):
            places = {place: None for scan in self._scans for place in scan.iter_hidden()}
            if file_ids := self._find_ids_of_unknown_names():
                for scan in self._scans_for_names:
                    if scan not in self._scans:
                        scan.refresh(until)
                    places |= dict.fromkeys(scan.find_by_id(file_ids))
            return tuple(drop_nested_places(places))

    def files(self, until: float | None = None) -> tuple[str, ...]:
        """The denied files one by one, including those in denied folders and targets of links with denied names."""
        with self._refreshed(until):
            return tuple(dict.fromkeys(place for scan in self._scans for place in scan.iter_files()))

    def hard_links(self) -> Mapping[FileId, str]:
        """Denied files with several names, each with a denied one."""
        with self._refreshed():
            return {file_id: place for scan in self._scans for file_id, place, _ in scan.iter_hard_linked()}

    def close(self) -> None:
        for scan in {*self._scans, *self._scans_for_names}:
            scan.close()

    @contextmanager
    def _refreshed(self, until: float | None = None) -> Generator[None]:
        with hold_until(self._lock, until):
            for scan in self._scans:
                scan.refresh(until)
            yield

    def _find_ids_of_unknown_names(self) -> frozenset[FileId]:
        """The denied files that have more names than denied ones on the same mount."""
        linked = [each for scan in self._scans for each in scan.iter_hard_linked()]
        points = read_mount_points() if linked else ()
        names = [(file_id, find_mount_point(place, points), count) for file_id, place, count in linked]
        denied_names = Counter(names)
        return frozenset(name[0] for name in names if denied_names[name] < name[2])

    def read_outside(self, place: str, count: int) -> Iterator[tuple[str, bytes]]:
        """The first bytes of a file outside the roots, or of the first files in a folder, with their names."""
        folder, name = os.path.split(place)
        names = [name]
        if os.path.isdir(place):
            with suppress_and_log(OSError), os.scandir(place) as entries:
                folder, names = place, [entry.name for entry in islice(entries, MAX_OUTSIDE_FILES)]
        for name in names:
            with suppress_and_log(OSError):
                fd = os.open(os.path.join(folder, name), os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
                try:
                    if stat.S_ISREG(os.fstat(fd).st_mode):  # a pipe or a device could block
                        yield name, read_head(f"/proc/self/fd/{fd}", count)
                finally:
                    os.close(fd)


class OpenHiddenFiles:
    """The denied files of one workspace, by different rules, that are in use."""

    def __init__(self, roots: Sequence[Root]) -> None:
        self._roots = roots
        self._open: WeakSet[HiddenFiles] = WeakSet()
        self._lock = Lock()

    def open(
        self, denies: DenyCheck, tops: Sequence[str] | None, list_excluded: Callable[[], Sequence[str]]
    ) -> HiddenFiles:
        opened = HiddenFiles(self._roots, denies, list_excluded, tops=tops, watching=True)
        with self._lock:
            self._open.add(opened)
        return opened

    def close(self) -> None:
        with self._lock:
            for each in list(self._open):
                each.close()


@contextmanager
def hold_until(lock: Lock, until: float | None) -> Generator[None]:
    """Hold a lock. Raise TimeoutError if another thread, which may have more time, does not release it by then."""
    if not lock.acquire(timeout=-1 if until is None else max(0.0, until - monotonic())):
        raise TimeoutError
    try:
        yield
    finally:
        lock.release()


def read_head(path: str, count: int) -> bytes:
    fd = open_quietly(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return os.read(fd, count)
    finally:
        os.close(fd)


def drop_nested_places(places: dict[str, None]) -> Iterator[str]:
    """In order, without places inside another."""
    last = ""
    for place in sorted(places, key=lambda each: each.split("/")):
        if not last or not place.startswith(last.rstrip("/") + "/"):
            yield (last := place)
