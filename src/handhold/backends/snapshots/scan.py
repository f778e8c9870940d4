"""Compare a root with its baseline, in one pass.

A folder whose listing has the same digest is unchanged. In the others, entries that look different are compared by
content with their copies: a file that was only touched is no change.
"""

import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from handhold.backends.quiet_open import open_quietly
from handhold.backends.snapshots.copies import MAX_COMPARED_INDEX_BYTES, OTHER_DEVICE, SPECIAL, Copies
from handhold.backends.snapshots.copy_order import CopyOrder
from handhold.backends.snapshots.listing import (
    FILE_FLAGS,
    VANISHED_ERRNOS,
    FolderChain,
    FolderSummary,
    ListedEntry,
    list_folder,
    pack_status,
    summarize_entries,
    summarize_folder,
    unpack_status,
)
from handhold.backends.state.baseline import (
    ABSENT,
    BaselineEntry,
    BaselineUpdate,
    FolderRecord,
    SqliteBaseline,
    join_path,
    list_parents,
)
from handhold.core.tools.git_refresh import INDEX_PATH, has_same_files
from handhold.logs import log_swallowed

T = TypeVar("T")

MAX_DEPTH = 200  # folders below it are not entered: each keeps a descriptor open


class Difference(NamedTuple):
    """An entry that is not what it was. None: it did not exist, or does not any more."""

    folder: bytes
    name: bytes
    before: BaselineEntry | None
    after: os.stat_result | None

    @property
    def path(self) -> bytes:
        return join_path(self.folder, self.name)


@dataclass
class ScanResult:
    differences: list[Difference] = field(default_factory=list[Difference])
    update: BaselineUpdate = field(default_factory=BaselineUpdate)  # makes the baseline equal to the disk


class TreeScan:
    """One pass over a root, or a part of it. It changes nothing."""

    def __init__(self, root: int, device: int, baseline: SqliteBaseline, copies: Copies) -> None:
        self._root = root
        self._device = device
        self._baseline = baseline
        self._copies = copies
        self._order = CopyOrder()
        self._result = ScanResult()
        self._young_from = copies.read_clock()  # what was changed since might change again and look the same
        self._folders: Mapping[bytes, FolderRecord] = {}

    def run(self) -> ScanResult:
        """The whole root. Folders that were never listed are added without being a difference."""
        self._folders = self._baseline.folders()
        self._walk([b""])
        return self._result

    def run_paths(self, paths: Collection[bytes]) -> ScanResult:
        """Only these paths, and what is below them."""
        by_folder: dict[bytes, set[bytes]] = {}
        self._folders = _LazyFolders(self._baseline)
        chain = FolderChain(self._root)
        try:
            known_parents = {self._find_known_parent(chain, path) for path in paths}
            tops = {join_path(folder, name) for folder, name in known_parents}
            for folder, name in known_parents:
                if tops.isdisjoint(list_parents(join_path(folder, name))):  # else it is scanned with what is above it
                    by_folder.setdefault(folder, set()).add(name)
            for folder, names in by_folder.items():
                record = self._baseline.find_folder(folder)
                listed = self._list(chain, folder)
                if record is not None and listed is not None:
                    before = self._baseline.entries(record.id)
                    known = {name: before[name] for name in names if name in before}
                    names = names if record.is_listed else known.keys()  # of others nobody knows what they were
                    chosen = [entry for entry in listed if entry.name in names]
                    below = self._compare(chain, folder, chosen, known)
                    if record.is_listed:
                        self._result.update.listed.append((folder, None))
                    self._walk(below, chain)
        finally:
            chain.close()
        return self._result

    def ingest(self) -> Iterator[tuple[bytes, bytes | None, list[BaselineEntry]]]:
        """List folders that were never listed; each with its digest and entries."""
        self._folders = self._baseline.folders()
        chain = FolderChain(self._root)
        pending = [b""]
        try:
            while pending:
                path = pending.pop()
                if (record := self._folders.get(path)) is not None and record.is_listed:
                    rows = self._baseline.entries(record.id)
                    pending += (join_path(path, name) for name, row in rows.items() if _is_entered(row))
                elif (listed := self._list(chain, path)) is not None:
                    summary = summarize_entries(listed, self._device)
                    yield path, self._digest(summary), self._make_entries(path, chain, listed)
                    pending += (join_path(path, name) for name in self._entered(path, summary))
        finally:
            chain.close()

    def list_named(self, paths: Collection[bytes]) -> None:
        """Take these paths into a baseline that does not have their folders."""
        chain = FolderChain(self._root)
        try:
            for path in paths:
                folder, _, name = path.rpartition(b"/")
                while folder and not self._exists(chain, folder):
                    folder, _, name = folder.rpartition(b"/")
                listed = self._stat(chain, folder, name)
                entry = self._make_entry(folder, chain.open(folder), listed) if listed else BaselineEntry(name, ABSENT)
                self._baseline.add_named(folder, entry)
        finally:
            chain.close()

    def _exists(self, chain: FolderChain, folder: bytes) -> bool:
        try:
            chain.open(folder)
        except OSError:
            log_swallowed()
            return False
        return True

    def _stat(self, chain: FolderChain, folder: bytes, name: bytes) -> ListedEntry | None:
        try:
            status = os.stat(name, dir_fd=chain.open(folder), follow_symlinks=False)
        except OSError:
            log_swallowed()
            return None
        return ListedEntry(name, pack_status(status), status)

    def _find_known_parent(self, chain: FolderChain, path: bytes) -> tuple[bytes, bytes]:
        """The deepest listed folder above a path that still exists, and the name there that leads to it."""
        folder, _, name = path.rpartition(b"/")
        while folder and (self._baseline.find_folder(folder) is None or not self._exists(chain, folder)):
            folder, _, name = folder.rpartition(b"/")
        return folder, name

    # --- folders

    def _walk(self, pending: list[bytes], chain: FolderChain | None = None) -> None:
        own = chain is None
        chain = chain or FolderChain(self._root)
        try:
            while pending:
                path = pending.pop()
                record = self._folders.get(path)
                summary = self._summarize(chain, path) if record and record.digest else None
                if record and summary and record.digest == summary.digest:
                    pending += (join_path(path, name) for name in self._entered(path, summary))
                    continue
                if (listed := self._list(chain, path)) is None:
                    continue
                summary = summarize_entries(listed, self._device)
                if record is None:
                    self._add(path, chain, listed, summary)
                    pending += (join_path(path, name) for name in self._entered(path, summary))
                    continue
                known = self._baseline.entries(record.id)
                if not record.is_listed:  # of the others nobody knows what they were, so they did not change
                    unknown = [each for each in listed if each.name not in known]
                    listed = [each for each in listed if each.name in known]
                    entries = self._make_entries(path, chain, unknown)
                    self._result.update.entries += ((path, entry) for entry in entries)
                    pending += (join_path(path, entry.name) for entry in entries if _is_entered(entry))
                pending += self._compare(chain, path, listed, known)
                if (digest := self._digest(summary)) != record.digest:
                    self._result.update.listed.append((path, digest))
        finally:
            if own:
                chain.close()

    def _summarize(self, chain: FolderChain, path: bytes) -> FolderSummary | None:
        return self._read(lambda: summarize_folder(chain.open(path), self._device))

    def _list(self, chain: FolderChain, path: bytes) -> list[ListedEntry] | None:
        return self._read(lambda: list_folder(chain.open(path)))

    def _read(self, read: Callable[[], T]) -> T | None:
        """None if the folder is gone, or may not be read."""
        try:
            return read()
        except PermissionError:
            return None
        except OSError as error:
            if error.errno not in VANISHED_ERRNOS:
                raise
            return None

    def _add(self, path: bytes, chain: FolderChain, listed: list[ListedEntry], summary: FolderSummary) -> None:
        self._result.update.listed.append((path, self._digest(summary)))
        self._result.update.entries += ((path, entry) for entry in self._make_entries(path, chain, listed))

    def _digest(self, summary: FolderSummary) -> bytes | None:
        return None if summary.newest_ns >= self._young_from else summary.digest

    def _entered(self, path: bytes, summary: FolderSummary) -> Collection[bytes]:
        return summary.folders if path.count(b"/") < MAX_DEPTH else ()

    # --- entries

    def _make_entries(self, path: bytes, chain: FolderChain, listed: Collection[ListedEntry]) -> list[BaselineEntry]:
        directory = chain.open(path)
        self._order.add_folder(path, directory, {entry.name for entry in listed})
        return [self._make_entry(path, directory, each) for each in listed]

    def _make_entry(self, path: bytes, directory: int, listed: ListedEntry) -> BaselineEntry:
        name, packed, status = listed
        mode = status.st_mode
        if stat.S_ISREG(mode):
            size = status.st_size
            rank = self._order.rank(path, name, size, status.st_mtime_ns)
            young = status.st_ctime_ns >= self._young_from
            return BaselineEntry(name, packed, size, rank, status.st_nlink > 1, young, why=None)
        if stat.S_ISLNK(mode):
            return BaselineEntry(name, packed, status.st_size, target=_read_target(directory, name))
        if stat.S_ISDIR(mode):
            return BaselineEntry(name, packed, why="" if status.st_dev == self._device else OTHER_DEVICE)
        return BaselineEntry(name, packed, why=SPECIAL)

    def _compare(
        self, chain: FolderChain, path: bytes, listed: Collection[ListedEntry], known: dict[bytes, BaselineEntry]
    ) -> list[bytes]:
        """Note what differs; returns the folders to go on with."""
        below: list[bytes] = []
        result = self._result
        for each in listed:
            before = known.pop(each.name, None)
            if before is None or before.status == ABSENT:
                self._note(chain, Difference(path, each.name, None, each.status), each)
            elif before.status == each.packed and not before.is_young:
                if stat.S_ISDIR(each.status.st_mode) and not before.why:
                    below.append(join_path(path, each.name))
            elif stat.S_ISDIR(each.status.st_mode) and stat.S_ISDIR(unpack_status(before.status).mode):
                if _has_other_rights(before.status, each.packed):
                    result.differences.append(Difference(path, each.name, before, each.status))
                result.update.entries.append((path, before._replace(status=each.packed)))
                if not before.why:
                    below.append(join_path(path, each.name))
            elif (same := self._find_same(chain, path, each, before)) is not None:
                result.update.entries.append((path, same))
            else:
                self._note(chain, Difference(path, each.name, before, each.status), each)
        for before in known.values():
            if before.status == ABSENT:
                continue
            result.differences.append(Difference(path, before.name, before, None))
            result.update.removed.append((path, before.name))
        return below

    def _note(self, chain: FolderChain, difference: Difference, listed: ListedEntry) -> None:
        """A new or changed entry; of a new folder, with everything in it."""
        update, path = self._result.update, difference.folder
        self._result.differences.append(difference)
        if difference.before is not None:
            update.removed.append((path, difference.name))
        update.entries.append((path, self._make_entry(path, chain.open(path), listed)))
        if stat.S_ISDIR(listed.status.st_mode) and listed.status.st_dev == self._device:
            folders, self._folders = self._folders, {}  # whatever was known below is another folder's
            self._walk([difference.path])
            self._folders = folders

    def _find_same(
        self, chain: FolderChain, path: bytes, listed: ListedEntry, before: BaselineEntry
    ) -> BaselineEntry | None:
        """The new record of an entry that only looks different; None if it is different."""
        old, status = unpack_status(before.status), listed.status
        if stat.S_IFMT(old.mode) != stat.S_IFMT(status.st_mode) or _has_other_rights(before.status, listed.packed):
            return None
        young = status.st_ctime_ns >= self._young_from
        directory = chain.open(path)
        if stat.S_ISLNK(status.st_mode):
            same = before.target == _read_target(directory, listed.name)
            return before._replace(status=listed.packed, size=status.st_size) if same else None
        if not stat.S_ISREG(status.st_mode):
            return before._replace(status=listed.packed) if old.inode == status.st_ino else None
        if before.copy is None:  # known by what stat says, which is the same, or not
            return before._replace(is_young=young) if before.status == listed.packed else None
        try:
            fd = open_quietly(listed.name, FILE_FLAGS, directory)
        except OSError:
            log_swallowed()
            return None
        try:
            same = self._copies.is_same(before, fd, status.st_size) or self._is_refreshed_index(path, before, fd)
            if not same or pack_status(os.fstat(fd)) != listed.packed:
                return None
        finally:
            os.close(fd)
        is_index = before.size != status.st_size or INDEX_PATH.fullmatch(
            os.fsdecode(b"/" + join_path(path, listed.name))
        )
        if is_index or status.st_nlink > 1:
            # With its copy: the stat data in it is old, or another name of the file has another copy by now.
            self._result.update.removed.append((path, listed.name))
            entry = before._replace(status=listed.packed, size=status.st_size, is_linked=status.st_nlink > 1)
            return entry._replace(copy=None, held=0, why=None)
        return before._replace(status=listed.packed, is_young=young, is_linked=False)

    def _is_refreshed_index(self, path: bytes, before: BaselineEntry, fd: int) -> bool:
        """Whether it is a git index in which only stat data changed: every `git status` does that."""
        if not INDEX_PATH.fullmatch(os.fsdecode(b"/" + join_path(path, before.name))):
            return False
        if max(before.size, os.fstat(fd).st_size) > MAX_COMPARED_INDEX_BYTES:
            return False
        os.lseek(fd, 0, os.SEEK_SET)
        with os.fdopen(os.dup(fd), "rb") as file:
            return has_same_files(self._copies.read(before), file.read())


class _LazyFolders(dict[bytes, FolderRecord]):
    """The listed folders, each read when it is asked for."""

    def __init__(self, baseline: SqliteBaseline) -> None:
        super().__init__()
        self._baseline = baseline

    def get(self, key: bytes, default: FolderRecord | None = None) -> FolderRecord | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._baseline.find_folder(key) or default


def _has_other_rights(old: bytes, new: bytes) -> bool:
    before, after = unpack_status(old), unpack_status(new)
    return (before.mode, before.uid, before.gid) != (after.mode, after.uid, after.gid)


def _is_entered(entry: BaselineEntry) -> bool:
    return stat.S_ISDIR(unpack_status(entry.status).mode) and not entry.why


def _read_target(directory: int, name: bytes) -> bytes:
    try:
        return os.readlink(name, dir_fd=directory)
    except OSError:
        log_swallowed()
        return b""  # it is something else by now: the next scan finds it changed
