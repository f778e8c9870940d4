"""Turn what a brokered command did into changes.

While the command ran, the workspace itself changed. Afterwards each path that the undo log names is compared with what
was there before: what the command left there goes to a slot of the staging area, then the workspace is rolled back, and
the two states are a change. So a brokered command is decided on, committed and undone like one on an overlay.
"""

import os
import stat
from bisect import bisect_left
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from handhold.backends.files.commit.born_trees import split_foreign
from handhold.backends.files.commit.file_metadata import file_id, list_xattrs, read_own_xattrs
from handhold.backends.files.commit.folder_access import FolderAccess
from handhold.backends.files.commit.syscalls import read_birth
from handhold.backends.files.commit.tree_copier import TreeCopier
from handhold.backends.files.manifest import EntryState, read_entry_state
from handhold.backends.files.staging_area import remove_tree
from handhold.backends.files.undo_log import Inode, InodeKeys, UndoRecord
from handhold.backends.shell.entry_comparison import (
    has_same_content,
    join_saves,
    read_owner_and_xattrs,
    read_xattrs,
)
from handhold.backends.shell.layer_extraction import LayerExtractor, try_rename
from handhold.backends.shell.overlay_xattrs import clean_tree, is_privileged
from handhold.backends.shell.path_history import PathHistory
from handhold.core.plans import Conflict, DirectoryMetadata, FileChange, FolderMtime
from handhold.core.text.path_escaping import escape_ambiguous
from handhold.logs import log_swallowed

TWO_NAMES = ("move", "exchange", "link")
NAMING_KINDS = ("move", "exchange", "keep", "remove", "create", "link", "save", "touch")


@dataclass
class PendingChange:
    """A path whose entry was created, replaced, changed or deleted, with what the command left there."""

    path: str
    slot: str  # "<command>/<number>"
    after: EntryState | None
    protected: list[str] = field(default_factory=list[str])
    privileged: list[str] = field(default_factory=list[str])


class BrokeredChanges:
    """The changes below one root. First `extract`, then the rollback, then `conclude`."""

    def __init__(
        self,
        root: str,
        records: Sequence[UndoRecord],
        extractor: LayerExtractor,
        slots: int,
        *,
        is_protected: Callable[[str], bool],
        is_withheld: Callable[[str], bool],
        shared: Collection[tuple[int, int]],
        is_alone: bool,
    ) -> None:
        """`slots` is the folder of the command's slots. `shared` inodes stay as they are: others write them.

        Unless the command `is_alone`, others may have descriptors of what it created, which is therefore copied.
        """
        self._root = root
        self._records = records
        self._extractor = extractor
        self._slots = slots
        self._is_protected = is_protected
        self._is_withheld = is_withheld
        self._shared = shared
        self._is_alone = is_alone
        self._shared_paths: list[str] = []
        self._copier = TreeCopier(slots)
        self._access = FolderAccess()
        self._history = PathHistory(records)
        self._keys = InodeKeys(records)
        self._born = {record.inode for record in records if record.kind == "created"}
        self._saved = join_saves(records)
        self._homes = self._history.find_homes()
        self._old_places = sorted(self._list_old_places())
        # Both names of a new hard link are changed, or they would be two files afterwards.
        self._links = {
            path for index, record in enumerate(records) if record.kind == "link" for path in self._history.after(index)
        }
        self._pending: list[PendingChange] = []
        self._untaken: list[str] = []
        self._split_links: list[str] = []
        self._withheld: list[str] = []
        self.files: list[FileChange] = []
        self.conflicts: list[Conflict] = []
        self.times: list[FolderMtime] = []
        self.protected: set[str] = set()
        self.privileged: set[str] = set()

    @property
    def notes(self) -> list[str]:
        said: list[str] = []
        if self._split_links:
            said.append(f"{_list_paths(self._split_links)}: other names (hard links) of the file keep the old content")
        if self._withheld:
            said.append(
                f"{_list_paths(self._withheld)}: left out, because a rule denies reading it;"
                " the other changes were applied"
            )
        return said

    def explain_shared(self) -> list[str]:
        if not self._shared_paths:
            return []
        paths = _list_paths(self._shared_paths)
        return [f"{paths}: a running command has it open for writing, so the change belongs to that one"]

    # --- while the command's version is in the workspace

    def extract(self) -> None:
        whole = ""
        for path in self._list_candidates():
            if whole and path.startswith(whole):
                continue  # part of an entry that changed as a whole
            found = self._lstat(path)
            if found and stat.S_ISDIR(found.st_mode) and self._is_at_home(path, found):
                self._compare_folder(path, found)
            elif found and self._identify(path, found) in self._shared and self._is_at_home(path, found):
                self._shared_paths.append(escape_ambiguous(path))
            elif found is None or not self._is_unchanged(path, found):
                whole = f"{path}/"
                self._pending += [self._take(*part) for part in self._split(path, found)]
        self._access.close_again({*self._saved, *self._born})  # those are restored by the rollback

    def _lstat(self, path: str) -> os.stat_result | None:
        try:
            return os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError:
            if not self._access.open_above(path):
                raise
            return self._lstat(path)

    def _identify(self, path: str, found: os.stat_result) -> Inode:
        return self._keys.find(file_id(found), lambda: read_birth(-1, path))

    def _list_candidates(self) -> list[str]:
        """Paths, as they are called before or after the command, parents first."""
        found: set[str] = set()
        for index, record in enumerate(self._records):
            if record.kind not in NAMING_KINDS:
                continue
            names = 2 if record.kind in TWO_NAMES else 1
            found.update(self._history.before(index)[:names], self._history.after(index)[:names])
        prefix = f"{self._root}/"
        inside = (path for path in found if path.startswith(prefix) or path == self._root)
        return sorted(inside, key=lambda path: path.replace("/", "\0"))

    def _list_old_places(self) -> Iterator[tuple[str, str]]:
        """Where inodes that existed before have got a new name, and what they were called."""
        for index, record in enumerate(self._records):
            if record.inode in self._born:
                continue
            if record.kind in ("move", "exchange", "exchanged"):
                yield self._history.after(index)[1], self._homes[record.inode]
            elif record.kind == "link":
                yield self._history.after(index)[0], self._history.before(index)[1]

    def _is_at_home(self, path: str, found: os.stat_result) -> bool:
        """Whether this inode was at this path before the command."""
        inode = self._identify(path, found)
        return inode not in self._born and path not in self._links and self._homes.get(inode, path) == path

    def _is_unchanged(self, path: str, found: os.stat_result) -> bool:
        if not self._is_at_home(path, found):
            return False
        saved = self._saved.get(self._identify(path, found))
        if saved is None:
            return True
        was = (saved.size, saved.mode, saved.owner, saved.group, saved.modified_ns)
        if was != (found.st_size, found.st_mode, found.st_uid, found.st_gid, found.st_mtime_ns):
            return False
        if saved.read_xattrs() != ({} if stat.S_ISLNK(found.st_mode) else read_xattrs(path)):
            return False
        return not saved.second or has_same_content(path, saved.second)

    def _split(self, path: str, found: os.stat_result | None) -> list[tuple[str, os.stat_result | None]]:
        """The entry, or parts of it, if it is a folder that the command created and others put something into."""
        if found is None or self._identify(path, found) not in self._born or self._has_old_inside(path):
            return [(path, found)]
        with self._open_folder_of(path) as (folder, name):
            parts = [path + part.removeprefix(name) for part in split_foreign(folder, name, self._is_born)]
        return [(part, self._lstat(part)) for part in parts]

    def _is_born(self, found: os.stat_result, directory: int, name: str) -> bool:
        return self._keys.find(file_id(found), lambda: read_birth(directory, name)) in self._born

    @contextmanager
    def _open_folder_of(self, path: str) -> Generator[tuple[int, str]]:
        above, _, name = path.rpartition("/")
        if not os.access(above or "/", os.R_OK | os.W_OK | os.X_OK):
            self._access.open_above(path)
        folder = os.open(above or "/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield folder, name
        finally:
            os.close(folder)

    def _take(self, path: str, found: os.stat_result | None) -> PendingChange:
        """Put what is at a path into a slot."""
        change = PendingChange(path, self._extractor.reserve_slot(), None)
        if found is not None:
            try:
                self._fill_slot(change, path, found)
            except PermissionError:  # something in it belongs to another user
                log_swallowed()
                self._drop_slot(change)
                self._copier = TreeCopier(self._slots)
                self._untaken.append(path)
        return change

    def _fill_slot(self, change: PendingChange, path: str, found: os.stat_result) -> None:
        """By rename if the command created all of it, else a copy."""
        name = change.slot.rpartition("/")[2]
        with self._open_folder_of(path) as (folder, own_name):
            is_born = self._identify(path, found) in self._born
            if self._is_alone and is_born and not self._has_old_inside(path):
                mode = stat.S_IMODE(found.st_mode) if stat.S_ISDIR(found.st_mode) else None
                is_moved = try_rename(folder, own_name, self._slots, name, mode=mode)
            else:
                is_moved = False
            if not is_moved:
                self._copier.copy(folder, own_name, name)

        def keep_entry(inner_path: str, mode: int, attributes: Sequence[str]) -> bool:
            place = escape_ambiguous(f"{path}/{inner_path}")
            if self._is_withheld(place):
                self._withheld.append(place)
                return False
            self._note(change, place, mode, attributes)
            return True

        attributes = () if stat.S_ISLNK(found.st_mode) else list_xattrs(f"/proc/self/fd/{self._slots}/{name}")
        change.privileged += [escape_ambiguous(path)] if is_privileged(found.st_mode, attributes) else []
        change.after = clean_tree(self._slots, name, keep_entry)

    def _has_old_inside(self, path: str) -> bool:
        at = bisect_left(self._old_places, (f"{path}/", ""))
        return at < len(self._old_places) and self._old_places[at][0].startswith(f"{path}/")

    def _list_untaken(self) -> set[str]:
        """Paths that could not be taken, where what is there came from (it is not deleted there, either), and folders
        above."""
        untaken = {*self._untaken}
        found = [*untaken, *(source for place, source in self._old_places if untaken & {*_list_above(place)})]
        return {above for path in found for above in _list_above(path)}

    def _note(self, change: PendingChange, place: str, mode: int, attributes: Sequence[str]) -> None:
        if self._is_protected(place):
            change.protected.append(place)
        if is_privileged(mode, attributes):
            change.privileged.append(place)

    def _compare_folder(self, path: str, found: os.stat_result) -> None:
        """A folder that stays: its mode, owner, attributes and mtime are applied."""
        saved = self._saved.get(self._identify(path, found))
        if saved is None:
            return
        if saved.modified_ns != found.st_mtime_ns:
            self.times.append(FolderMtime(escape_ambiguous(path), saved.modified_ns, found.st_mtime_ns))
        mode = self._access.modes.get(file_id(found), found.st_mode)
        was, now = DirectoryMetadata(stat.S_IMODE(saved.mode)), DirectoryMetadata(stat.S_IMODE(mode))
        owners = (saved.owner, saved.group), (found.st_uid, found.st_gid)
        if owners[0] != owners[1]:
            was, now = replace(was, owner=owners[0]), replace(now, owner=owners[1])
        with suppress(PermissionError):
            new = read_own_xattrs(path)
            old = {name: value for name, value in saved.read_xattrs().items() if _is_own(name)}
            if old != new:
                was = replace(was, xattrs=tuple(sorted(old.items())))
                now = replace(now, xattrs=tuple(sorted(new.items())))
        if was != now:
            self._add(FileChange(escape_ambiguous(path), was, now), [], [])

    # --- after the rollback

    def conclude(self, conflicts: Sequence[str]) -> None:
        """Compare with what was there before. `conflicts` are paths that the rollback left to somebody else."""
        left = {self._history.find_before(path) for path in conflicts}
        untaken = self._list_untaken()
        for change in self._pending:
            path = escape_ambiguous(change.path)
            if change.path in untaken:
                self._drop_slot(change)
                self.conflicts.append(Conflict(path, "owner"))
                continue
            if change.path in left:
                left.discard(change.path)
                self.conflicts.append(self._set_aside(change, path))
                continue

            def visit(_directory: int, _name: str, inner: str, _found: os.stat_result, _fd: int) -> bool:
                self._note(change, escape_ambiguous(f"{change.path}/{inner}"), 0, ())  # noqa: B023 — called at once
                return True

            try:
                before = read_entry_state(change.path, accept=visit, whole=change.after is not None)
            except PermissionError:  # in a folder that was closed before the command: only a commit may open it
                self.conflicts.append(replace(self._set_aside(change, path), kind="closed"))
                continue
            if before is None and change.after and self._is_withheld(path):
                self._withheld.append(path)
                self._drop_slot(change)
            elif before and change.after and self._is_same(change, before, change.after):
                self._drop_slot(change)
            elif before or change.after:
                file_change = FileChange(
                    path, before and before.to_staged(change.slot), change.after and change.after.to_staged(change.slot)
                )
                if self._has_other_names(change):
                    self._split_links.append(path)
                self._add(file_change, change.protected, change.privileged)
        self.conflicts += [
            Conflict(escape_ambiguous(path), "changed") for path in sorted(left) if path.startswith(f"{self._root}/")
        ]

    def _has_other_names(self, change: PendingChange) -> bool:
        """Whether a file was changed that has hard links which the command did not make."""
        is_file = change.after is not None and change.after.kind == "file" and change.path not in self._links
        found = self._lstat(change.path) if is_file else None
        return found is not None and stat.S_ISREG(found.st_mode) and found.st_nlink > 1

    def _is_same(self, change: PendingChange, before: EntryState, after: EntryState) -> bool:
        same = ("kind", "hash", "size", "mode", "mtime_ns", "entry_count", "owner")
        if before.kind == "tree":
            return False  # another folder took its place: attributes and times of what is in it are in no hash
        if change.path in self._links or any(getattr(before, name) != getattr(after, name) for name in same):
            return False
        slot = f"/proc/self/fd/{self._slots}/{change.slot.rpartition('/')[2]}"
        return before.kind == "link" or read_owner_and_xattrs(change.path) == read_owner_and_xattrs(slot)

    def _set_aside(self, change: PendingChange, path: str) -> Conflict:
        if change.after is None:
            return Conflict(path, "deleted")
        name = change.slot.rpartition("/")[2]
        kept = self._extractor.move_aside(self._slots, name, os.path.basename(change.path))
        return Conflict(path, "changed", kept)

    def _drop_slot(self, change: PendingChange) -> None:
        with suppress(FileNotFoundError):
            remove_tree(change.slot.rpartition("/")[2], self._slots)

    def _add(self, change: FileChange, protected: list[str], privileged: list[str]) -> None:
        if self._is_protected(change.path):
            self.protected.add(change.path)
        self.protected.update(protected)
        self.privileged.update(privileged)
        self.files.append(change)


def _is_own(name: str) -> bool:
    return not name.startswith(("user.overlay.", "security.", "trusted."))


def _list_above(path: str) -> Iterator[str]:
    """The path itself, and the folders above it."""
    return (path[:at] for at, char in enumerate(f"{path}/") if char == "/")


def _list_paths(paths: list[str], max_shown: int = 5) -> str:
    more = len(paths) - max_shown
    return ", ".join(paths[:max_shown]) + (f" and {more} more" if more > 0 else "")
