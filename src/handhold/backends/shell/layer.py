"""Read what a command left in its overlay layer as changes.

An overlay keeps what a command created and changed in a separate folder, and marks what it deleted. Each entry that
differs from the root becomes one change. A new tree is one change, however large, and is moved into its slot by a
single rename.

Somebody else may have changed the root while the command ran. Anything modified after the command's start is theirs
and stays; the command's version is kept where it can be read.
"""

import errno
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from handhold.backends.files.commit.directory_metadata import open_proc_path_at
from handhold.backends.files.commit.file_metadata import list_xattrs, lstat_at, read_own_xattrs
from handhold.backends.files.commit.tree_copier import force_open
from handhold.backends.files.content_hash import hash_file
from handhold.backends.files.manifest import (
    LIST_FLAGS,
    EntryState,
    allocated_bytes,
    file_id,
    other_owner_of,
    read_entry_state,
)
from handhold.backends.files.roots import Root, split_names
from handhold.backends.files.walk_resolver import descend
from handhold.backends.shell.layer_comparison import LayerDirectory, is_same_file, is_same_link
from handhold.backends.shell.layer_extraction import LayerExtractor
from handhold.backends.shell.move_detection import MoveDetector
from handhold.backends.shell.overlay_xattrs import (
    OPAQUE_XATTR,
    ORIGIN_XATTR,
    PARTIAL_COPY_XATTRS,
    WHITEOUT_XATTR,
    clean_tree,
    get_owner_ids,
    is_opaque,
    is_privileged,
    is_whiteout,
    strip_xattrs,
)
from handhold.core.errors import SystemFailure
from handhold.core.facts import ConflictKind
from handhold.core.plans import Conflict, DirectoryMetadata, FileChange, FolderMtime
from handhold.core.text.path_escaping import escape_ambiguous


class Layer:
    """The layer over one root. `read` empties it, once."""

    def __init__(
        self,
        root: Root,
        upper: str,
        *,
        started_ns: int,
        extractor: LayerExtractor,
        is_protected: Callable[[str], bool],
        is_withheld: Callable[[str], bool],
    ) -> None:
        """`started_ns` is the command's start by the file system's clock. New `is_withheld` entries are omitted."""
        self._root = root
        self._started_ns = started_ns
        self._extractor = extractor
        self._is_protected = is_protected
        self._is_withheld = is_withheld
        self._upper_root = Root.open(upper, writable=True)
        self._move_detector = MoveDetector(root, self._upper_root)
        self._pending_dirs: list[str] = []
        self._split_links: list[str] = []  # files with other hard links
        self._closed_roots: list[str] = []  # roots that the command made inaccessible
        self._withheld_paths: list[str] = []  # omitted new entries
        self._entry_protected: list[str] = []  # protected places of the current entry, reported if the entry is
        self._entry_privileged: list[str] = []  # likewise, its files that grant privileges
        self.files: list[FileChange] = []
        self.conflicts: list[Conflict] = []
        self.times: list[FolderMtime] = []
        self.protected: set[str] = set()
        self.privileged: set[str] = set()

    def read(self) -> None:
        try:
            self._compare_roots()
            self._pending_dirs = [""]
            while self._pending_dirs:
                self._read_directory(self._pending_dirs.pop())
        finally:
            self._upper_root.close()

    @property
    def notes(self) -> list[str]:
        """Where the overlay behaved differently from a plain folder."""
        said: list[str] = []
        if self._split_links:
            said.append(
                f"{_format_paths(self._split_links)}: other names (hard links) of the file keep the old content"
            )
        if self._closed_roots:
            said.append(
                f"{_format_paths(self._closed_roots)}: mode, owner and attributes were kept, because"
                " the change would make the folder inaccessible"
            )
        if self._withheld_paths:
            said.append(
                f"{_format_paths(self._withheld_paths, 5)}: left out, because a rule denies reading it;"
                " the other changes were applied"
            )
        return said

    def _read_directory(self, rel_path: str) -> None:
        lower = upper = -1
        try:
            upper = open_listable(self._upper_root, rel_path)
            lower = descend(self._root, split_names(rel_path))
            here = LayerDirectory(rel_path, upper, lower, os.fstat(lower).st_ctime_ns >= self._started_ns)
            for name in os.listdir(upper):
                self._read_entry(here, name)
        except (FileNotFoundError, NotADirectoryError):
            if lower >= 0:
                raise
            self._add_conflict_at(rel_path.rstrip("/"))  # somebody removed it just now
        finally:
            for fd in (upper, lower):
                if fd >= 0:
                    os.close(fd)

    def _read_entry(self, here: LayerDirectory, name: str) -> None:
        self._entry_protected, self._entry_privileged = [], []
        found = os.stat(name, dir_fd=here.upper, follow_symlinks=False)
        lower = lstat_at(here.lower, name)
        mode = found.st_mode
        if (
            lower is None
            and not is_whiteout(found)
            and self._should_leave_out(self._resolve_path(here.rel_path + name))
        ):
            return
        if stat.S_ISREG(mode):
            self._read_file(here, name, found, lower)
        elif stat.S_ISDIR(mode):
            self._read_folder(here, name, found, lower)
        elif is_whiteout(found):
            self._read_deletion(here, name, lower)
        elif not is_same_link(here, name, found, lower):
            self._read_other(here, name, lower)

    def _resolve_path(self, rel_path: str) -> str:
        return escape_ambiguous(self._root.prefix + rel_path)

    # --- kinds of entries in a layer

    def _read_deletion(self, here: LayerDirectory, name: str, lower: os.stat_result | None) -> None:
        if lower is None:
            return
        rel_path = here.rel_path + name
        before = self._snapshot_lower(here, name, lower)
        if before is None or before.newest_ctime_ns >= self._started_ns:
            self.conflicts.append(Conflict(self._resolve_path(rel_path), "deleted"))
        else:
            self._add_change(rel_path, before, None, self._extractor.reserve_slot())

    def _read_file(self, here: LayerDirectory, name: str, found: os.stat_result, lower: os.stat_result | None) -> None:
        rel_path = here.rel_path + name
        fd = force_open(here.upper, name, found)
        try:
            attributes = list_xattrs(fd)
            if not found.st_size and WHITEOUT_XATTR in attributes:
                return self._read_deletion(here, name, lower)
            self._check_complete(attributes, rel_path)
            before = None
            if lower is None:
                may_be_deleted = here.changed_by_others and ORIGIN_XATTR in attributes
                if may_be_deleted and not self._move_detector.has_moved(fd, found):  # deleted by somebody else
                    return self._add_conflict(here.upper, name, rel_path)
            elif is_same_file(here, name, fd, found, lower):
                return None
            else:
                before = self._snapshot_lower(here, name, lower, whole=True)
                if before is None or before.newest_ctime_ns >= self._started_ns:
                    return self._add_conflict(here.upper, name, rel_path)
                if lower.st_nlink > 1 and stat.S_ISREG(lower.st_mode):
                    self._split_links.append(self._resolve_path(rel_path))
            strip_xattrs(fd, attributes, found)
            self._note_privileged(self._resolve_path(rel_path), found.st_mode, attributes)
            hash = hash_file(fd, found)
        finally:
            os.close(fd)
        mode, owner, allocated = stat.S_IMODE(found.st_mode), other_owner_of(found), allocated_bytes(found)
        after = EntryState("file", hash, found.st_size, mode, file_id(found), found.st_mtime_ns, 1, 0, owner, allocated)
        slot, after = self._extractor.move_to_slot(here.upper, name, after)
        return self._add_change(rel_path, before, after, slot)

    def _read_folder(
        self, here: LayerDirectory, name: str, found: os.stat_result, lower: os.stat_result | None
    ) -> None:
        rel_path = here.rel_path + name
        fd = force_open(here.upper, name, found)
        try:
            attributes = list_xattrs(fd)
            self._check_complete(attributes, rel_path)
            # An overlay does not rename folders of the root, so somebody else deleted it there.
            if lower is None and ORIGIN_XATTR in attributes:
                return self._add_conflict(here.upper, name, rel_path)
            if (
                lower is None
                or not stat.S_ISDIR(lower.st_mode)
                or (OPAQUE_XATTR in attributes and is_opaque(fd, found))
            ):
                return self._read_other(here, name, lower)
            # Somebody else replaced it.
            if here.changed_by_others and lower.st_ctime_ns >= self._started_ns > lower.st_mtime_ns:
                return self._add_conflict(here.upper, name, rel_path)
            if os.listdir(fd) and not _is_accessible(here.lower, name):
                # A command may open a closed folder that it owns. We would have to chmod it, and only a commit may.
                return self._add_conflict(here.upper, name, rel_path, "closed")
            self._compare_folders(self._resolve_path(rel_path), fd, found, here.lower, name)
            _make_accessible(fd, found)
        finally:
            os.close(fd)
        self._pending_dirs.append(rel_path + "/")
        return None

    def _read_other(self, here: LayerDirectory, name: str, lower: os.stat_result | None) -> None:
        """A tree, a link or a special file: new, or replacing something else."""
        rel_path = here.rel_path + name
        before = None
        if lower is not None:
            before = self._snapshot_lower(here, name, lower)
            if before is None or before.newest_ctime_ns >= self._started_ns:
                return self._add_conflict(here.upper, name, rel_path)
        path = self._resolve_path(rel_path)

        def keep_entry(inner_path: str, mode: int, attributes: Sequence[str]) -> bool:
            place = f"{path}/{escape_ambiguous(inner_path)}"
            if kept := not self._should_leave_out(place):
                self._note_protected(place)
                self._note_privileged(place, mode, attributes)
            return kept

        self._note_privileged(path, os.stat(name, dir_fd=here.upper, follow_symlinks=False).st_mode, ())
        after = clean_tree(here.upper, name, keep_entry)
        slot, after = self._extractor.move_to_slot(here.upper, name, after)
        return self._add_change(rel_path, before, after, slot)

    # --- comparison with the root

    def _snapshot_lower(
        self, here: LayerDirectory, name: str, found: os.stat_result, *, whole: bool = False
    ) -> EntryState | None:
        """The state of the entry in the root; None if it just disappeared. A tree includes everything in it."""
        prefix = f"{self._resolve_path(here.rel_path + name)}/"

        def visit(_directory: int, _name: str, inner_path: str, _found: os.stat_result, _fd: int) -> bool:
            self._note_protected(prefix + escape_ambiguous(inner_path))
            return True

        try:
            return read_entry_state(name, dir_fd=here.lower, accept=visit, status=found, whole=whole)
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
            return None  # it is being moved

    def _compare_folders(self, path: str, fd: int, found: os.stat_result, directory: int, name: str) -> None:
        """Compare a folder that stays: its mode, owner, attributes and mtime are applied."""
        lower = os.stat(name, dir_fd=directory, follow_symlinks=False)
        before, after = lower.st_mtime_ns, found.st_mtime_ns
        if lower.st_ctime_ns >= self._started_ns:  # somebody else changed it, too
            after = max(before, after)
        if before != after:
            self.times.append(FolderMtime(path, before, after))
        was, now = DirectoryMetadata(stat.S_IMODE(lower.st_mode)), DirectoryMetadata(stat.S_IMODE(found.st_mode))
        if get_owner_ids(lower) != get_owner_ids(found):
            was, now = replace(was, owner=get_owner_ids(lower)), replace(now, owner=get_owner_ids(found))
        with suppress(PermissionError), open_proc_path_at(directory, name) as place:
            old, new = read_own_xattrs(place), read_own_xattrs(fd)
            if old != new:
                was, now = replace(was, xattrs=_sort_attributes(old)), replace(now, xattrs=_sort_attributes(new))
        if was == now:
            return
        if lower.st_ctime_ns >= self._started_ns:
            self.conflicts.append(Conflict(path, "mode"))
        else:
            self._record_change(FileChange(path, was, now))

    def _compare_roots(self) -> None:
        """Compare the layer's own folder, which represents the root."""
        above, name = os.path.split(self._upper_root.real)
        folder = os.open(above, LIST_FLAGS)
        try:
            with self._upper_root.folder as upper:
                found = os.fstat(upper)
            fd = force_open(folder, name, found)
        finally:
            os.close(folder)
        try:
            if found.st_mode & 0o500 == 0o500:
                with self._root.folder as lower:
                    self._compare_folders(self._root.real, fd, found, lower, ".")
            else:  # if we cannot access the root, nothing could be undone
                self._closed_roots.append(self._root.real)
            _make_accessible(fd, found)
        finally:
            os.close(fd)

    def _check_complete(self, attributes: list[str], rel_path: str) -> None:
        if not PARTIAL_COPY_XATTRS.isdisjoint(attributes):
            raise SystemFailure(self._resolve_path(rel_path), "the overlay kept only part of it")

    # --- results

    def _should_leave_out(self, path: str) -> bool:
        left_out = self._is_withheld(path)
        self._withheld_paths += [path] if left_out else []
        return left_out

    def _note_protected(self, path: str) -> None:
        if self._is_protected(path):
            self._entry_protected.append(path)

    def _note_privileged(self, path: str, mode: int, attributes: Sequence[str]) -> None:
        if is_privileged(mode, attributes):
            self._entry_privileged.append(path)

    def _add_change(self, rel_path: str, before: EntryState | None, after: EntryState | None, slot: str) -> None:
        path = self._resolve_path(rel_path)
        self._record_change(FileChange(path, before and before.to_staged(slot), after and after.to_staged(slot)))

    def _record_change(self, change: FileChange) -> None:
        self._note_protected(change.path)
        self.protected.update(self._entry_protected)
        self.privileged.update(self._entry_privileged)
        self.files.append(change)

    def _add_conflict(self, upper: int, name: str, rel_path: str, clash: ConflictKind = "changed") -> None:
        clean_tree(upper, name, lambda _way, _mode, _attributes: True)
        self.conflicts.append(Conflict(self._resolve_path(rel_path), clash, self._extractor.move_aside(upper, name)))

    def _add_conflict_at(self, rel_path: str) -> None:
        above, name = os.path.split(rel_path)
        upper = descend(self._upper_root, split_names(above))
        try:
            self._add_conflict(upper, name, rel_path)
        finally:
            os.close(upper)


def open_listable(root: Root, rel_path: str) -> int:
    fd = descend(root, split_names(rel_path))
    try:
        return os.open(".", LIST_FLAGS, dir_fd=fd)
    finally:
        os.close(fd)


def _is_accessible(directory: int, name: str) -> bool:
    try:
        os.stat(f"{name}/.", dir_fd=directory)
    except PermissionError:
        return False
    return True


def _make_accessible(upper: int, found: os.stat_result) -> None:
    """Entries will be moved out of it. Its mode no longer matters, because it is discarded afterwards."""
    if found.st_mode & 0o700 != 0o700:
        os.fchmod(upper, 0o700)


def _sort_attributes(attributes: dict[str, bytes]) -> tuple[tuple[str, bytes], ...]:
    return tuple(sorted(attributes.items()))


def _format_paths(paths: list[str], max_shown: int = 1) -> str:
    more = len(paths) - max_shown
    return ", ".join(paths[:max_shown]) + (f" and {more} more" if more > 0 else "")
