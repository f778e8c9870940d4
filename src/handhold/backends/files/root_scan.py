"""Find denied files below one root: by listing folders once, and again only what has changed.

Whether a folder has changed is told by its stamp, which takes one system call for each folder, or by the kernel if all
folders are watched. They are from the second time on: many processes ask once.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import monotonic, time_ns
from typing import TYPE_CHECKING
from weakref import finalize

from handhold.backends.descriptor_pool import raise_if_exhausted
from handhold.backends.files.directory_tree import DiskTree, EntryKind
from handhold.backends.files.folder_listing import (
    FileId,
    FolderListing,
    FolderStamp,
    find_files_by_id,
    find_names_to_tops,
    look_up_entries,
    lstat_below,
    open_tree,
    read_stamp,
)
from handhold.backends.files.roots import Root
from handhold.logs import log_swallowed

if TYPE_CHECKING:
    from handhold.backends.files.folder_watch import FolderWatch

RACY_NS = 2_000_000_000  # after a change this recent, another may have happened within the same clock tick
WATCH_RETRY_SECONDS = 10.0  # after folders could not be watched, or events were lost, until the next attempt

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


class RootScan:
    """The folders below one root, as far as they are known. Not thread-safe."""

    def __init__(
        self,
        root: Root,
        denies: DenyCheck,
        list_excluded: Callable[[], Sequence[str]] = list,
        *,
        tops: Sequence[str] | None = None,
        watching: bool = False,
    ) -> None:
        """`tops` are places that contain everything denied; None if that may be anywhere."""
        self._root = root
        self._denies = denies
        self._list_excluded = list_excluded
        self._names_by_folder = find_names_to_tops(root, tops)  # folders that are not listed, and the names to look up
        self._excluded: list[bytes] = []  # relative paths that are left out
        self._listings: dict[bytes, FolderListing] = {}
        self._notable: dict[bytes, FolderListing] = {}  # those of them with something denied
        self._partial: dict[bytes, FolderListing] = {}  # from a scan that ran out of time
        self._hidden_folders: list[bytes] = []  # aggregated over all listings, as the following
        self._denied: list[bytes] = []
        self._denied_links: list[bytes] = []
        self._found_ids: frozenset[FileId] = frozenset()
        self._found_names: list[bytes] | None = None  # of these ids; None after a change
        self._watching = watching
        self._watch: FolderWatch | None = None
        self._abandoning: finalize[[], RootScan] | None = None  # if nobody closes it
        self._retry_watch_at = 0.0

    @property
    def covers_root(self) -> bool:
        """Whether it scans all folders."""
        return self._names_by_folder is None

    def refresh(self, until: float | None = None) -> None:
        """List new and changed folders, forget removed ones. Raise TimeoutError if it takes longer."""
        if self._names_by_folder == {}:
            return
        try:
            self._refresh(until)
        except BaseException:
            # Changes may have been taken and not listed, or folders not be watched: the next call looks at all of them.
            self._listings, self._partial = {}, self._partial or self._listings
            if self._watch:
                self._stop_watching()
            raise

    def _refresh(self, until: float | None) -> None:
        excluded = [os.fsencode(each.removeprefix(self._root.prefix)) for each in self._list_excluded()]
        if excluded != self._excluded:
            self.close()
            self._excluded, self._listings, self._partial = excluded, {}, {}
        if self._watch:
            changed = self._watch.take_changes()
            if changed is not None:
                self._update(changed)
                return
            self._stop_watching()
        is_again = bool(self._listings)
        if is_again and until is None and self._watching and self.covers_root and monotonic() >= self._retry_watch_at:
            self._open_watch()
        with open_tree(self._root) as tree:
            if not (is_again and self._watch is None and self._is_unchanged(tree.top_fd)):
                self._walk(tree, until)

    def close(self) -> None:
        """Stop watching."""
        watch, self._watch = self._watch, None
        if watch:
            watch.close()
        if self._abandoning:
            self._abandoning.detach()

    # --- walking

    def _walk(self, tree: DiskTree, until: float | None) -> None:
        """Look at every folder, and list those that changed."""
        known, now = self._listings or self._partial, dict[bytes, FolderListing]()
        pending = [b""]
        while pending:
            if until is not None and monotonic() > until:
                self._partial = known | now
                raise TimeoutError
            rel_path = pending.pop()
            now[rel_path] = listing = self._look_at(tree, rel_path, known.get(rel_path))
            pending += self._list_subfolders(listing)
        self._listings, self._partial = now, {}
        self._notable = {rel_path: listing for rel_path, listing in now.items() if listing.is_notable}
        self._summarize()

    def _look_at(self, tree: DiskTree, rel_path: bytes, known: FolderListing | None) -> FolderListing:
        """The listing of a folder, made before if it still holds. If folders are watched, so is this one first."""
        stamp = self._watch_folder(tree, rel_path)
        if known and known.is_stable and known.stamp == (stamp or read_stamp(tree.top_fd, rel_path)):
            return known
        listing = self._list_folder(tree, rel_path)
        if self._watch and stamp and listing.stamp and listing.stamp[1] != stamp[1]:  # replaced in between
            self._watch.forget(rel_path)
            self._watch.mark_changed(rel_path.rpartition(b"/")[0])
        return listing

    def _list_subfolders(self, listing: FolderListing) -> Iterator[bytes]:
        return (below for below in listing.subfolders if below not in self._excluded)

    def _is_unchanged(self, top_fd: int) -> bool:
        """Check all folders at once: usually nothing has changed."""
        # Runs for every folder, so `read_stamp` is inlined.
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

    def _summarize(self) -> None:
        self._found_names = None
        notable = self._notable
        self._hidden_folders = [rel_path for rel_path, listing in notable.items() if listing.is_unreadable]
        self._hidden_folders += [
            rel_path
            for listing in notable.values()
            for rel_path in listing.denied_folders
            if not self._has_visible(rel_path)
        ]
        self._denied = [rel_path for listing in notable.values() for rel_path in listing.denied]
        self._denied_links = [rel_path for listing in notable.values() for rel_path in listing.denied_links]

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
            entries = list(self._iter_entries(tree, rel_path, folder_prefix))
        except OSError as error:
            raise_if_exhausted(error, self.to_place(rel_path))
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

    def _iter_entries(self, tree: DiskTree, rel_path: bytes, prefix: bytes) -> Iterator[tuple[str, EntryKind]]:
        if self._names_by_folder is None or rel_path not in self._names_by_folder:
            return tree.iter_entries(prefix)
        return look_up_entries(tree, prefix, self._names_by_folder[rel_path])

    def _is_ours(self, rel_path: bytes) -> bool:
        """Whether a command could make a folder accessible that could not be listed."""
        found = lstat_below(self._root, rel_path)
        return found is not None and found.st_uid == os.geteuid()

    def to_place(self, rel_path: bytes) -> str:
        return self._root.prefix + os.fsdecode(rel_path)

    # --- watching

    def _open_watch(self) -> None:
        from handhold.backends.files.folder_watch import open_watch

        self._watch = open_watch(self._root)
        if self._watch:
            self._abandoning = finalize(self, self._watch.abandon)
        else:
            self._retry_watch_at = monotonic() + WATCH_RETRY_SECONDS

    def _watch_folder(self, tree: DiskTree, rel_path: bytes) -> FolderStamp | None:
        """Watch a folder, if folders are watched, and read its stamp. If that fails, none is watched."""
        if self._watch is None:
            return None
        from handhold.backends.files.folder_watch import WatchFailed

        try:
            found = self._watch.add(rel_path, tree.open_folder(rel_path + b"/" if rel_path else b""))
        except OSError as error:  # it cannot be listed either
            raise_if_exhausted(error, self.to_place(rel_path))
            log_swallowed()
        except WatchFailed:
            log_swallowed()
            self._stop_watching()
        else:
            return found.st_dev, found.st_ino, found.st_ctime_ns
        return None

    def _stop_watching(self) -> None:
        self._retry_watch_at = monotonic() + WATCH_RETRY_SECONDS
        self.close()

    def _update(self, changed: Iterable[bytes]) -> None:
        """List changed folders, and those that could not be listed before."""
        changed = {*changed, *(rel_path for rel_path, listing in self._notable.items() if listing.stamp is None)}
        if not changed:
            return
        with open_tree(self._root) as tree:
            for rel_path in sorted(changed):  # a folder before what is in it
                if rel_path in self._listings:
                    self._update_folder(tree, rel_path)
        self._summarize()

    def _update_folder(self, tree: DiskTree, rel_path: bytes) -> None:
        pending = [rel_path]
        while pending:
            rel_path = pending.pop()
            before = self._listings.get(rel_path)
            listing = self._look_at(tree, rel_path, None)
            for below in {*before.subfolders} - {*listing.subfolders} if before else ():
                self._drop(below)
            self._listings[rel_path] = listing
            self._notable.pop(rel_path, None)
            if listing.is_notable:
                self._notable[rel_path] = listing
            for below in self._list_subfolders(listing):
                if not self._is_still_there(tree, below):
                    self._drop(below)
                    pending.append(below)

    def _is_still_there(self, tree: DiskTree, rel_path: bytes) -> bool:
        """Whether a folder is the one that was listed and is watched: another may have been moved to its name."""
        listing, found = self._listings.get(rel_path), read_stamp(tree.top_fd, rel_path)
        if self._watch is None or listing is None or listing.stamp is None or found is None:
            return False
        return found[:2] == listing.stamp[:2] and self._watch.is_watching(rel_path, found[1])

    def _drop(self, rel_path: bytes) -> None:
        """Forget a folder and everything in it."""
        pending = [rel_path]
        while pending:
            rel_path = pending.pop()
            if listing := self._listings.pop(rel_path, None):
                pending += listing.subfolders
            self._notable.pop(rel_path, None)
            if self._watch:
                self._watch.forget(rel_path)

    # --- results

    def iter_hidden(self) -> Iterator[str]:
        yield from map(self.to_place, self._hidden_folders)
        yield from self.iter_files()

    def iter_files(self) -> Iterator[str]:
        yield from map(self.to_place, self._denied)
        for link in self._denied_links:
            target = os.path.realpath(self.to_place(link))
            if os.path.exists(target) and not (os.path.isdir(target) and _is_needed_to_run(target, self._root)):
                yield target

    def iter_hard_linked(self) -> Iterator[tuple[FileId, str, int]]:
        """Denied files with several names: their ids, a denied name of each, and how many names it has."""
        for rel_path in self._denied:
            found = lstat_below(self._root, rel_path)
            if found and stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
                yield (found.st_dev, found.st_ino), self.to_place(rel_path), found.st_nlink

    def find_by_id(self, file_ids: frozenset[FileId]) -> Iterator[str]:
        """Files with these ids."""
        if self._found_names is None or file_ids != self._found_ids:
            rescan = file_ids != self._found_ids
            names: list[bytes] = []
            with open_tree(self._root) as tree:
                for rel_path, listing in self._listings.items():
                    if listing.hard_links is None or rescan:
                        listing.hard_links = tuple(find_files_by_id(tree, rel_path, file_ids))
                    names += listing.hard_links
            self._found_ids, self._found_names = file_ids, names
        return map(self.to_place, self._found_names)


def _is_needed_to_run(folder: str, root: Root) -> bool:
    """Whether commands cannot run without a folder: it contains the root, or the system's programs."""
    above = folder.rstrip("/") + "/"
    return root.prefix.startswith(above) or folder in SYSTEM_FOLDERS or above.startswith(RUNTIME_PREFIXES)
