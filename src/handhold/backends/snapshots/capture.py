"""Turn what a scan found into a change set that can be undone like a command's.

What an entry was comes from the baseline into a slot of the staging area; what it is stays where it is. Undo exchanges
the two. It removes only what it can bring back: if something that the call replaced or removed was not kept, what the
call created may be the only copy of it, under another name, packed or renamed, and stays.
"""

import os
import stat
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from handhold.backends.files.manifest import read_entry_state
from handhold.backends.quiet_open import open_quietly
from handhold.backends.snapshots.copies import SQLITE_SUFFIXES, Copies, database_name
from handhold.backends.snapshots.listing import (
    FILE_FLAGS,
    VANISHED_ERRNOS,
    FolderChain,
    UnpackedStatus,
    unpack_status,
)
from handhold.backends.snapshots.scan import Difference
from handhold.backends.state.baseline import BaselineEntry, SqliteBaseline, join_path
from handhold.core.kept_texts import MAX_TEXT_BYTES, KeptTexts
from handhold.core.plans import DirectoryMetadata, FileChange, StagedContent
from handhold.logs import log_swallowed

NOT_YET = "not copied yet"
COPY_LOST = "its copy was lost"  # a power cut, or somebody removed it
INCOMPLETE_DATABASE = "another file of the same database is not kept"
MAY_BE_ONLY_COPY = "it may contain what the call removed, which was not kept"


@dataclass
class Captured:
    changes: list[FileChange] = field(default_factory=list[FileChange])
    not_kept: dict[str, str] = field(default_factory=dict[str, str])  # paths that cannot be undone, and why
    texts: KeptTexts = field(default_factory=KeptTexts)
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
        self._places = FolderChain(slots)  # however deep a folder is: a path from the slots may be too long to open
        self._linked: dict[int, bytes] = {}  # the slot of the first name of a file with several
        self._is_lost = False  # whether something is gone that was not kept
        self.captured = Captured()

    def close(self) -> None:
        self._chain.close()
        self._places.close()

    def add_all(self, differences: Sequence[Difference]) -> None:
        lost = find_incomplete_databases((each.path, each.before) for each in differences)
        for n, difference in enumerate(differences, 1):
            self._add(difference, n, lost)
        if self._is_lost:
            self._leave_created()

    def _leave_created(self) -> None:
        created = [change for change in self.captured.changes if change.before is None]
        self.captured.not_kept |= {change.path: MAY_BE_ONLY_COPY for change in created}
        self.captured.changes = [change for change in self.captured.changes if change.before is not None]

    def _add(self, difference: Difference, n: int, lost: Collection[bytes]) -> None:
        path = self._format_path(difference.path)
        before, after = difference.before, difference.after
        if before is not None and after is not None and stat.S_ISDIR(after.st_mode):
            old = unpack_status(before.status)
            if stat.S_ISDIR(old.mode):
                self.captured.changes.append(FileChange(path, *_folder_rights(old, after)))
                return
        if difference.path in lost:
            self._note_lost(difference.path, INCOMPLETE_DATABASE)
            return
        slot = f"{self._command}/{n}"
        old_content = None
        if before is not None:
            self._restore(difference.folder, before, b"%d" % n)
            state = read_entry_state(str(n), dir_fd=self._slots)
            if state is None:
                return  # it is not kept
            old_content = state.to_staged(slot)
        new_content = None if after is None else self._describe(difference, slot)
        if old_content is None and new_content is None:
            return  # it was created, and has disappeared since
        change = FileChange(path, old_content, new_content)
        self.captured.changes.append(change)
        if self.captured.texts.has_room_for(change) and new_content is not None:
            self.captured.texts.add(self._read_text(difference), new_content.hash)

    def _read_text(self, difference: Difference) -> bytes | None:
        try:
            fd = open_quietly(difference.name, FILE_FLAGS, self._chain.open(difference.folder))
        except OSError:
            log_swallowed()  # it is gone, or not for us to read: then later changes of it cannot be merged
            return None
        with os.fdopen(fd, "rb") as file:
            return file.read(MAX_TEXT_BYTES + 1)

    def _describe(self, difference: Difference, slot: str) -> StagedContent | None:
        """What is there now."""
        try:
            directory = self._chain.open(difference.folder)
            state = read_entry_state(os.fsdecode(difference.name), dir_fd=directory, whole=True)
        except OSError as error:
            if error.errno not in VANISHED_ERRNOS:
                raise
            return None
        return state.to_staged(slot) if state else None

    # --- what was there before

    def _restore(self, folder: bytes, entry: BaselineEntry, place: bytes) -> None:
        """Create an entry as it was, at a place below the slots."""
        old = unpack_status(entry.status)
        if not entry.is_kept or not self._copies.is_whole(entry):
            self._note_lost(join_path(folder, entry.name), entry.why or self._why(entry))
            return
        if stat.S_ISDIR(old.mode):
            self._restore_folder(join_path(folder, entry.name), place)
        elif stat.S_ISLNK(old.mode):
            directory, name = self._locate(place)
            os.symlink(entry.target or b"", name, dir_fd=directory)
        elif entry.copy is not None:
            self._restore_file(entry.copy, place)
        directory, name = self._locate(place)
        if os.geteuid() == 0:
            os.chown(name, old.uid, old.gid, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISLNK(old.mode):
            os.chmod(name, stat.S_IMODE(old.mode), dir_fd=directory)
        if not stat.S_ISDIR(old.mode):
            os.utime(name, ns=(old.mtime_ns, old.mtime_ns), dir_fd=directory, follow_symlinks=False)

    def _locate(self, place: bytes) -> tuple[int, bytes]:
        """The folder of a place below the slots, valid until the next one is opened, and the name in it."""
        folder, _, name = place.rpartition(b"/")
        return self._places.open(folder), name

    def _note_lost(self, path: bytes, why: str) -> None:
        self.captured.not_kept[self._format_path(path)] = why
        self._is_lost = True

    def _why(self, entry: BaselineEntry) -> str:
        return NOT_YET if entry.copy is None else COPY_LOST

    def _restore_file(self, copy: bytes, place: bytes) -> None:
        """Names that were hard links of each other become so again."""
        inode = self._copies.read_inode(copy)
        if (first := self._linked.get(inode)) is None:
            self._copies.link(copy, *self._locate(place))
            self._linked[inode] = place
            return
        folder, first_name = self._locate(first)
        folder = os.dup(folder)
        try:
            directory, name = self._locate(place)
            os.link(first_name, name, src_dir_fd=folder, dst_dir_fd=directory, follow_symlinks=False)
        finally:
            os.close(folder)

    def _restore_folder(self, path: bytes, place: bytes) -> None:
        directory, name = self._locate(place)
        os.mkdir(name, 0o700, dir_fd=directory)
        record = self._baseline.find_folder(path)
        if record is None:
            self._note_lost(path, "its contents were not recorded")
            return
        entries = self._baseline.entries(record.id)
        lost = find_incomplete_databases(entries.items())
        for name, entry in entries.items():
            if name in lost and entry.is_kept:
                self._note_lost(join_path(path, name), INCOMPLETE_DATABASE)
            else:
                self._restore(path, entry, place + b"/" + name)


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
