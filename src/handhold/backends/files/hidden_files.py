"""Find files that may not be read: by name, and by other names of the same file.

Rules are about names, but commands open files. So before a command starts, all denied files must be found: in every
folder, ignored or not, and under every name below the roots that leads to the same content. All folders are listed
once. Afterwards only their stamps are checked for added or removed entries, which takes a fraction of the time.

A link with a denied name stands for its target. A folder that is not accessible is hidden as a whole: its owner could
open it, and its contents are unknown.
"""

import os
import stat
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from time import monotonic, time_ns
from typing import NamedTuple

from handhold.backends.files.directory_tree import DiskTree, EntryKind
from handhold.backends.files.os_errors import translate_os_errors
from handhold.backends.files.roots import Root
from handhold.core.facts import FileIdentity
from handhold.logs import log_swallowed, suppress_and_log

RACY_NS = 2_000_000_000  # after a change this recent, another may have happened within the same clock tick

MAX_OUTSIDE_FILES = 200  # read in a folder outside the roots

SYSTEM_FOLDERS = ("/etc", "/var", "/tmp", "/opt")
RUNTIME_PREFIXES = (
    "/usr/",
    "/bin/",
    "/sbin/",
    "/lib/",
    "/lib32/",
    "/lib64/",
    "/nix/",
    "/proc/",
    "/sys/",
    "/dev/",
    "/run/",
)

DenyCheck = Callable[[str], bool]
FileId = tuple[int, int]  # device and inode, which identify a file whatever its name


# Device, inode and ctime of a folder. Changes if it is replaced, or if entries are added or removed.
FolderStamp = tuple[int, int, int]


@dataclass
class FolderListing:
    """A folder as it was when it was listed."""

    stamp: FolderStamp | None
    is_stable: bool  # whether the stamp would reveal every later change
    subfolders: tuple[bytes, ...] = ()  # relative paths, as the following
    denied: tuple[bytes, ...] = ()  # denied entries that are neither links nor folders
    denied_links: tuple[bytes, ...] = ()
    denied_folders: tuple[bytes, ...] = ()
    is_unreadable: bool = False  # its contents are unknown
    has_visible: bool = False  # something in it may be read
    hard_links: tuple[bytes, ...] | None = None  # other names of denied files; None: not searched


class HiddenState(NamedTuple):
    paths: tuple[str, ...]
    hard_links: dict[FileId, str]  # denied files with several names, each with a denied one
    files: tuple[str, ...]  # one by one


class HiddenFiles:
    """Implements the port HiddenPaths. Thread-safe."""

    def __init__(
        self, roots: Sequence[Root], denies: DenyCheck, list_excluded: Callable[[], Sequence[str]] = list
    ) -> None:
        """`denies` gets canonical places, and must be deterministic.

        `list_excluded` names folders that are not searched.
        """
        self._scans = [RootScan(root, denies, list_excluded) for root in drop_nested_roots(roots)]
        self._lock = Lock()
        self._known_ids: frozenset[FileId] = frozenset()

    def paths(self, until: float | None = None) -> tuple[str, ...]:
        """The current denied places in canonical form: the topmost of each, and the targets of links with denied names.

        Raise TimeoutError if they are not known at `until`, on the monotonic clock; the next call continues from there.
        """
        return self._refresh(until).paths

    def files(self, until: float | None = None) -> tuple[str, ...]:
        """The denied files one by one, including those in denied folders and targets of links with denied names."""
        return self._refresh(until).files

    def hard_links(self) -> Mapping[FileId, str]:
        """Denied files with several names, each with a denied one."""
        return self._refresh().hard_links

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

    def _refresh(self, until: float | None = None) -> HiddenState:
        with self._lock:
            for scan in self._scans:
                scan.refresh(until)
            hard_links = {number: place for scan in self._scans for number, place in scan.iter_hard_linked()}
            file_ids = frozenset(hard_links)
            places = {place: None for scan in self._scans for place in scan.iter_hidden()}
            for scan in self._scans if file_ids else ():
                places |= {place: None for place in scan.find_by_id(file_ids, rescan=file_ids != self._known_ids)}
            self._known_ids = file_ids
            files = {place: None for scan in self._scans for place in scan.iter_files()}
            return HiddenState(tuple(drop_nested_places(places)), hard_links, tuple(files))


class RootScan:
    """The folders below one root, as far as they are known."""

    def __init__(self, root: Root, denies: DenyCheck, list_excluded: Callable[[], Sequence[str]]) -> None:
        self._root = root
        self._denies = denies
        self._list_excluded = list_excluded
        self._excluded: list[bytes] = []  # relative paths that are left out
        self._listings: dict[bytes, FolderListing] = {}
        self._partial: dict[bytes, FolderListing] = {}  # from a scan that ran out of time
        self._hidden_folders: list[bytes] = []  # aggregated over all listings, as the following
        self._denied: list[bytes] = []
        self._denied_links: list[bytes] = []

    def refresh(self, until: float | None = None) -> None:
        """List new and changed folders, forget removed ones. Raise TimeoutError if it takes longer."""
        excluded = [os.fsencode(each.removeprefix(self._root.prefix)) for each in self._list_excluded()]
        if excluded != self._excluded:
            self._excluded, self._listings, self._partial = excluded, {}, {}
        known, now = self._listings or self._partial, dict[bytes, FolderListing]()
        pending = [b""]
        with open_tree(self._root) as tree:
            if self._listings and self._is_unchanged(tree.top_fd):
                return
            while pending:
                if until is not None and monotonic() > until:
                    self._partial = known | now
                    raise TimeoutError
                rel_path = pending.pop()
                listing = known.get(rel_path)
                if listing is None or not listing.is_stable or listing.stamp != read_stamp(tree.top_fd, rel_path):
                    listing = self._list_folder(tree, rel_path)
                now[rel_path] = listing
                pending += (below for below in listing.subfolders if below not in excluded)
        self._listings, self._partial = now, {}
        self._hidden_folders = [rel_path for rel_path, listing in now.items() if listing.is_unreadable]
        self._hidden_folders += [
            rel_path
            for listing in now.values()
            for rel_path in listing.denied_folders
            if not self._has_visible(rel_path)
        ]
        self._denied = [rel_path for listing in now.values() for rel_path in listing.denied]
        self._denied_links = [rel_path for listing in now.values() for rel_path in listing.denied_links]

    def _is_unchanged(self, top_fd: int) -> bool:
        """Check all folders at once: usually nothing has changed."""
        # Runs before every command for every folder, so `read_stamp` is inlined.
        look, folders = os.stat, self._listings.items()
        try:
            for rel_path, listing in folders:
                found = look(rel_path or b".", dir_fd=top_fd, follow_symlinks=False)
                if not listing.is_stable or (found[2], found[1], found.st_ctime_ns) != listing.stamp:
                    return False
        except OSError:
            log_swallowed()
            return False
        return True

    def _has_visible(self, rel_path: bytes) -> bool:
        """Whether anything in or below a folder may be read: one rule may allow part of what another denies."""
        pending = [rel_path]
        while pending:
            listing = self._listings.get(pending.pop())
            if listing is None or listing.has_visible:
                return True
            pending += listing.subfolders
        return False

    def _list_folder(self, tree: DiskTree, rel_path: bytes) -> FolderListing:
        folder_prefix = rel_path + b"/" if rel_path else b""
        began = time_ns()
        try:
            found = os.fstat(tree.open_folder(folder_prefix))
            entries = list(tree.iter_entries(folder_prefix))
        except OSError:
            log_swallowed()
            return FolderListing(None, is_stable=False, is_unreadable=self._is_ours(rel_path))
        stamp = (found.st_dev, found.st_ino, found.st_ctime_ns)
        prefix, denies = self.to_place(folder_prefix), self._denies
        subfolders: list[bytes] = []
        denied: dict[EntryKind, list[bytes]] = {"file": [], "directory": [], "link": [], "other": []}
        has_visible = False
        for name, kind in entries:
            if kind == "directory":
                subfolders.append(folder_prefix + os.fsencode(name))
            if denies(prefix + name):
                denied[kind].append(folder_prefix + os.fsencode(name))
            else:
                has_visible = True
        return FolderListing(
            stamp,
            is_stable=found.st_ctime_ns < began - RACY_NS,
            subfolders=tuple(subfolders),
            denied=(*denied["file"], *denied["other"]),
            denied_links=tuple(denied["link"]),
            denied_folders=tuple(denied["directory"]),
            has_visible=has_visible,
        )

    def _is_ours(self, rel_path: bytes) -> bool:
        """Whether a command could make a folder accessible that could not be listed."""
        found = self._lstat(rel_path)
        return found is not None and found.st_uid == os.geteuid()

    def to_place(self, rel_path: bytes) -> str:
        return self._root.prefix + os.fsdecode(rel_path)

    # --- results

    def iter_hidden(self) -> Iterator[str]:
        yield from map(self.to_place, self._hidden_folders)
        yield from self.iter_files()

    def iter_files(self) -> Iterator[str]:
        yield from map(self.to_place, self._denied)
        for link in self._denied_links:
            target = os.path.realpath(self.to_place(link))
            if os.path.exists(target) and not (os.path.isdir(target) and self._is_needed_to_run(target)):
                yield target

    def _is_needed_to_run(self, folder: str) -> bool:
        """Whether commands cannot run without a folder: it contains the root, or the system's programs."""
        above = folder.rstrip("/") + "/"
        return self._root.prefix.startswith(above) or folder in SYSTEM_FOLDERS or above.startswith(RUNTIME_PREFIXES)

    def iter_hard_linked(self) -> Iterator[tuple[FileId, str]]:
        """Denied files with several names, by id."""
        for rel_path in self._denied:
            found = self._lstat(rel_path)
            if found and stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
                yield (found.st_dev, found.st_ino), self.to_place(rel_path)

    def find_by_id(self, file_ids: frozenset[FileId], *, rescan: bool) -> Iterator[str]:
        """Files with these ids; those found before, unless `rescan`."""
        with open_tree(self._root) as tree:
            for rel_path, listing in self._listings.items():
                if listing.hard_links is None or rescan:
                    listing.hard_links = tuple(find_files_by_id(tree, rel_path, file_ids))
                yield from map(self.to_place, listing.hard_links)

    def _lstat(self, rel_path: bytes) -> os.stat_result | None:
        try:
            return os.stat(rel_path, dir_fd=self._root.fd, follow_symlinks=False)
        except OSError:
            log_swallowed()
            return None


def read_head(path: str, count: int) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, count)
    finally:
        os.close(fd)


def read_stamp(top_fd: int, rel_path: bytes) -> FolderStamp | None:
    """By path, which is fast. If a link was put in its way, it leads to another folder with another inode."""
    try:
        found = os.stat(rel_path or b".", dir_fd=top_fd, follow_symlinks=False)
    except OSError:  # gone, or too deep for a path
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns


def find_files_by_id(tree: DiskTree, rel_path: bytes, file_ids: frozenset[FileId]) -> Iterator[bytes]:
    """The relative paths of files directly in a folder that have one of these ids."""
    prefix = rel_path + b"/" if rel_path else b""
    try:
        folder = tree.open_folder(prefix)
        names = [name for name, kind in tree.iter_entries(prefix) if kind == "file"]
    except OSError:
        log_swallowed()
        return
    for name in names:
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            log_swallowed()
            continue
        if (found.st_dev, found.st_ino) in file_ids:
            yield prefix + os.fsencode(name)


def count_names(roots: Sequence[Root], identity: FileIdentity, limit: int) -> int:
    """How many names a file has below these roots, counted up to `limit`."""
    file_ids = frozenset({(identity.device, identity.inode)})
    return sum(
        1 for _ in islice((way for root in drop_nested_roots(roots) for way in _walk_by_id(root, file_ids)), limit)
    )


def _walk_by_id(root: Root, file_ids: frozenset[FileId]) -> Iterator[bytes]:
    pending = [b""]
    with open_tree(root) as tree:
        while pending:
            rel_path = pending.pop()
            prefix = rel_path + b"/" if rel_path else b""
            yield from find_files_by_id(tree, rel_path, file_ids)
            try:
                pending += [prefix + name for name, kind in tree.list_entries(prefix) if kind == "directory"]
            except OSError:
                continue  # not accessible, or gone


@contextmanager
def open_tree(root: Root) -> Generator[DiskTree]:
    with translate_os_errors(root.real):
        top = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=root.fd)
    try:
        with DiskTree(top) as tree:
            yield tree
    finally:
        os.close(top)


def drop_nested_roots(roots: Sequence[Root]) -> list[Root]:
    """The roots without those inside another."""
    by_path = {root.real: root for root in roots}
    return [root for root in by_path.values() if not any(_is_inside(root.real, each) for each in by_path)]


def drop_nested_places(places: dict[str, None]) -> Iterator[str]:
    """In order, without places inside another."""
    last = ""
    for place in sorted(places, key=lambda each: each.split("/")):
        if not last or not _is_inside(place, last):
            yield (last := place)


def _is_inside(path: str, top: str) -> bool:
    return path != top and path.startswith(top.rstrip("/") + "/")
