"""Turn what a scan found into a change set that can be undone like a command's.

What an entry was comes from the baseline into a slot of the staging area; what it is stays where it is. Undo exchanges
the two.
"""

import os
import stat
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from handhold.backends.files.manifest import read_entry_state
from handhold.backends.snapshots.copies import SQLITE_SUFFIXES, Copies, database_name
from handhold.backends.snapshots.listing import VANISHED_ERRNOS, FolderChain, UnpackedStatus, unpack_status
from handhold.backends.snapshots.scan import Difference
from handhold.backends.state.baseline import BaselineEntry, SqliteBaseline, join_path
from handhold.core.plans import DirectoryMetadata, FileChange, StagedContent

NOT_YET = "not copied yet"
COPY_LOST = "its copy was lost"  # a power cut, or somebody removed it
INCOMPLETE_DATABASE = "another file of the same database is not kept"


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
        lost = find_incomplete_databases((each.path, each.before) for each in differences)
        for n, difference in enumerate(differences, 1):
            self._add(difference, n, lost)

    def _add(self, difference: Difference, n: int, lost: Collection[bytes]) -> None:
        path = self._format_path(difference.path)
        before, after = difference.before, difference.after
        if before is not None and after is not None and stat.S_ISDIR(after.st_mode):
            old = unpack_status(before.status)
            if stat.S_ISDIR(old.mode):
                self.captured.changes.append(FileChange(path, *_folder_rights(old, after)))
                return
        if difference.path in lost:
            self.captured.not_kept[path] = INCOMPLETE_DATABASE
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
        if not entry.is_kept or not self._copies.is_whole(entry):
            self.captured.not_kept[self._format_path(join_path(folder, entry.name))] = entry.why or self._why(entry)
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

    def _why(self, entry: BaselineEntry) -> str:
        return NOT_YET if entry.copy is None else COPY_LOST

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
        entries = self._baseline.entries(record.id)
        lost = find_incomplete_databases(entries.items())
        for name, entry in entries.items():
            if name in lost and entry.is_kept:
                self.captured.not_kept[self._format_path(join_path(path, name))] = INCOMPLETE_DATABASE
            else:
                self._restore(path, entry, f"{place}/{os.fsdecode(name)}")


def find_incomplete_databases(entries: Iterable[tuple[bytes, BaselineEntry | None]]) -> set[bytes]:
    """The files of SQLite databases of which some file is not kept: only together are they a state of it.

    None: a file that did not exist. Removing a new log would damage a database that is left as it is.
    """
    sets: dict[bytes, dict[bytes, BaselineEntry | None]] = {}
    for path, entry in entries:
        sets.setdefault(database_name(path), {})[path] = entry
    return {
        path
        for members in sets.values()
        if any(path.endswith(SQLITE_SUFFIXES) for path in members)
        if any(entry is not None and not entry.is_kept for entry in members.values())
        for path in members
    }


def _folder_rights(old: UnpackedStatus, new: os.stat_result) -> tuple[DirectoryMetadata, DirectoryMetadata]:
    before, after = (old.uid, old.gid), (new.st_uid, new.st_gid)
    is_given_away = before != after
    return (
        DirectoryMetadata(stat.S_IMODE(old.mode), before if is_given_away else None),
        DirectoryMetadata(stat.S_IMODE(new.st_mode), after if is_given_away else None),
    )
