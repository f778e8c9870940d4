"""Turn what a scan found into a change set that can be undone like a command's.

What an entry was comes from the baseline into a slot of the staging area; what it is stays where it is. Undo exchanges
the two.
"""

import os
import stat
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from handhold.backends.files.manifest import read_entry_state
from handhold.backends.snapshots.copies import SQLITE_SUFFIXES, Copies, database_name
from handhold.backends.snapshots.listing import VANISHED_ERRNOS, FolderChain, unpack_status
from handhold.backends.snapshots.scan import Difference
from handhold.backends.state.baseline import BaselineEntry, SqliteBaseline, join_path
from handhold.core.plans import DirectoryMetadata, FileChange, StagedContent

NOT_YET = "not copied yet"


@dataclass
class Captured:
    changes: list[FileChange] = field(default_factory=list[FileChange])
    not_kept: dict[str, str] = field(default_factory=dict[str, str])  # paths that cannot be undone, and why
    given_up: list[str] = field(default_factory=list[str])  # earlier calls whose undo is dropped to make room


class SlotCapture:
    """Fills the slots of one adopted entry."""

    def __init__(
        self,
        root: int,
        slots: int,
        command: str,
        baseline: SqliteBaseline,
        copies: Copies,
        format_path: Callable[[bytes], str],
    ) -> None:
        self._slots = slots
        self._command = command
        self._baseline = baseline
        self._copies = copies
        self._format_path = format_path
        self._chain = FolderChain(root)
        self._linked: dict[int, str] = {}  # the slot of the first name of a file with several
        self.captured = Captured()

    def close(self) -> None:
        self._chain.close()

    def add_all(self, differences: Sequence[Difference]) -> None:
        lost = self._find_incomplete_databases(differences)
        for n, difference in enumerate(differences, 1):
            self._add(difference, n, lost)

    def _add(self, difference: Difference, n: int, lost: Collection[bytes]) -> None:
        path = self._format_path(difference.path)
        before, after = difference.before, difference.after
        if before is not None and after is not None and stat.S_ISDIR(after.st_mode):
            old = unpack_status(before.status)
            if stat.S_ISDIR(old.mode):
                self.captured.changes.append(FileChange(path, *_folder_rights(old.mode, after.st_mode)))
                return
        if difference.path in lost:
            self.captured.not_kept[path] = "another file of the same database is not kept"
            return
        slot = f"{self._command}/{n}"
        old_content = None
        if before is not None:
            self._restore(difference.folder, before, str(n))
            state = read_entry_state(str(n), dir_fd=self._slots)
            if state is None:
                return  # it is not kept
            old_content = state.to_staged(slot)
        new_content = None if after is None else self._describe(difference, slot)
        if old_content is None and new_content is None:
            return  # it was created, and has disappeared since
        self.captured.changes.append(FileChange(path, old_content, new_content))

    def _describe(self, difference: Difference, slot: str) -> StagedContent | None:
        """What is there now."""
        try:
            directory = self._chain.open(difference.folder)
            state = read_entry_state(os.fsdecode(difference.name), dir_fd=directory)
        except OSError as error:
            if error.errno not in VANISHED_ERRNOS:
                raise
            return None
        return state.to_staged(slot) if state else None

    # --- what was there before

    def _restore(self, folder: bytes, entry: BaselineEntry, place: str) -> None:
        """Create an entry as it was, at a place below the slots."""
        old, slots = unpack_status(entry.status), self._slots
        if not entry.is_kept:
            self.captured.not_kept[self._format_path(join_path(folder, entry.name))] = entry.why or NOT_YET
            return
        if stat.S_ISDIR(old.mode):
            self._restore_folder(join_path(folder, entry.name), place)
        elif stat.S_ISLNK(old.mode):
            os.symlink(entry.target or b"", os.fsencode(place), dir_fd=slots)
        elif entry.copy is not None:
            self._restore_file(entry.copy, place)
        if os.geteuid() == 0:
            os.chown(place, old.uid, old.gid, dir_fd=slots, follow_symlinks=False)
        if not stat.S_ISLNK(old.mode):
            os.chmod(place, stat.S_IMODE(old.mode), dir_fd=slots)
        if not stat.S_ISDIR(old.mode):
            os.utime(place, ns=(old.mtime_ns, old.mtime_ns), dir_fd=slots, follow_symlinks=False)

    def _restore_file(self, copy: bytes, place: str) -> None:
        """Names that were hard links of each other become so again."""
        inode = self._copies.read_inode(copy)
        if (first := self._linked.get(inode)) is not None:
            os.link(first, place, src_dir_fd=self._slots, dst_dir_fd=self._slots, follow_symlinks=False)
        else:
            self._copies.link(copy, self._slots, place)
            self._linked[inode] = place

    def _restore_folder(self, path: bytes, place: str) -> None:
        os.mkdir(place, 0o700, dir_fd=self._slots)
        record = self._baseline.find_folder(path)
        if record is None:
            self.captured.not_kept[self._format_path(path)] = "its contents were not recorded"
            return
        for entry in self._baseline.entries(record.id).values():
            self._restore(path, entry, f"{place}/{os.fsdecode(entry.name)}")

    def _find_incomplete_databases(self, differences: Sequence[Difference]) -> set[bytes]:
        """The files of SQLite databases of which some file is not kept: only together are they a state of it."""
        sets: dict[bytes, list[Difference]] = {}
        for difference in differences:
            if difference.before is not None:
                base = join_path(difference.folder, database_name(difference.name))
                sets.setdefault(base, []).append(difference)
        return {
            each.path
            for members in sets.values()
            if len(members) > 1 or members[0].name.endswith(SQLITE_SUFFIXES)
            if any(not member.before.is_kept for member in members if member.before)
            for each in members
        }


def _folder_rights(old: int, new: int) -> tuple[DirectoryMetadata, DirectoryMetadata]:
    return DirectoryMetadata(stat.S_IMODE(old)), DirectoryMetadata(stat.S_IMODE(new))
