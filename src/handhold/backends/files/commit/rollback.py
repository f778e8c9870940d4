"""Roll back what a brokered command did, from its undo log.

The records are undone from the last to the first, so each path means what it meant when the record was written. Every
step first checks by inode whether there is something to undo. It can therefore be repeated after a kill, and what
somebody else put in the place of a file stays there and is reported. A record that cannot be undone is reported too,
and does not keep the others from being undone.
"""

import errno
import os
import stat
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from handhold.backends.files.commit.born_trees import split_foreign
from handhold.backends.files.commit.file_metadata import file_id, lstat_at
from handhold.backends.files.commit.folder_access import FolderAccess
from handhold.backends.files.commit.inode_restoration import (
    has_writer,
    replace_by_copy,
    restore_content,
    restore_metadata,
)
from handhold.backends.files.commit.syscalls import RENAME_EXCHANGE, read_birth, renameat2
from handhold.backends.files.openat2 import RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, openat2, pack_open_how
from handhold.backends.files.staging_area import UNDO_LOG, remove_tree
from handhold.backends.files.undo_log import (
    OTHER_ROOT_PREFIX,
    REMOVED_FOLDER,
    SAVED_FOLDER,
    Inode,
    InodeKeys,
    UndoRecord,
)

FOLDER_HOW = pack_open_how(os.O_PATH | os.O_DIRECTORY, RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS)
CONFLICT_ERRNOS = (
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EEXIST,
    errno.ELOOP,
    errno.ENOTEMPTY,
    errno.EISDIR,
    errno.EXDEV,
)
FULL_DISK_ERRNOS = (errno.ENOSPC, errno.EDQUOT)


class Rollback:
    """Undoes records. `folders` are those of the command, in the staging area of each root."""

    def __init__(
        self,
        records: Sequence[UndoRecord],
        folders: Sequence[Path],
        shared: Collection[Inode] = (),
        started_ns: int = 0,
        *,
        is_alone: bool,
    ) -> None:
        """`started_ns` is when the log was created: nothing that is older was created by the command."""
        self._records = records
        self._keys = InodeKeys(records)
        self._started_ns = started_ns
        self._shared = shared  # inodes that others write: they keep what is in them
        self._command_folders = folders
        self._is_alone = is_alone
        self._handed_out: dict[Inode, UndoRecord] = {}  # what the command wrote and somebody can still write to
        self._removed_count = 0
        self._index = 0  # of the record that is being undone
        self._born = {record.inode for record in records if record.kind == "created"}
        # Killed between creating and recording: the last name that was about to appear is the command's.
        self._unfinished = records[-1].first if records and records[-1].kind == "create" else ""
        self._recreated: dict[Inode, Inode] = {}  # removed folders, and what they are now
        self._folder = ("", -1)  # the last folder that was opened
        self._access = FolderAccess()
        self.conflicts: list[str] = []  # paths that somebody else has changed meanwhile
        self.unrestored: dict[str, tuple[str, str]] = {}  # by path: why, and the file that has the old content, or ""
        self.denied: list[str] = []  # paths whose owner, mode or time only their owner can restore
        self.dropped_slots = False  # to make room

    def run(self) -> None:
        try:
            for index in range(len(self._records) - 1, -1, -1):
                self._index, record = index, self._records[index]
                try:
                    self._undo_with_room(record)
                except OSError as error:
                    is_lost = any(record.first.startswith(f"{path}/") for path in self.unrestored)
                    if error.errno in CONFLICT_ERRNOS and not is_lost:
                        self._report(record.first)
                    else:
                        self._give_up(record, str(error.strerror))
            for record in self._handed_out.values():
                self._give_new_inode(record)
            restored = {record.inode for record in self._records if record.kind == "save"} | self._born
            self._access.close_again(restored)
        finally:
            self._close_folder()

    def _undo_with_room(self, record: UndoRecord) -> None:
        try:
            return self._undo_with_access(record)
        except OSError as error:
            if error.errno not in FULL_DISK_ERRNOS:
                raise
        self._close_folder()
        self.dropped_slots |= _make_room(self._command_folders)
        try:
            return self._undo_with_access(record)
        except OSError as error:
            if error.errno not in FULL_DISK_ERRNOS or not self._put_copy_in_place(record):
                raise

    def _give_up(self, record: UndoRecord, because: str) -> None:
        has_copy = record.kind in ("keep", "move", "save") and f"/{SAVED_FOLDER}/" in record.second
        self.unrestored[record.first] = because, record.second if has_copy else ""

    def _undo_with_access(self, record: UndoRecord) -> None:
        try:
            self._undo(record)
        except PermissionError:
            self._close_folder()
            paths = [path for path in (record.first, record.second) if path.startswith("/")]
            opened = [self._access.open_above(path) for path in paths]
            if not any(opened):
                raise
            self._undo(record)

    def _undo(self, record: UndoRecord) -> None:
        match record.kind:
            case "move":
                self._move_back(record.second, record.first, record.inode)
            case "exchanged":
                self._exchange_back(record)
            case "keep":
                self._restore_replaced(record)
            case "remove":
                self._recreate_folder(record)
            case "create":
                self._clear(record.first, unfinished=record.first == self._unfinished)
            case "link":
                self._remove_link(record)
            case "save":
                if record.inode not in self._shared:
                    self._restore_inode(record)
            case _:
                pass

    # --- names

    def _move_back(self, now: str, before: str, inode: Inode) -> None:
        if self._inode_at(now) != self._current(inode):
            # What the command created may be gone by now, or taken away already.
            if inode not in self._born and self._inode_at(before) != self._current(inode):
                self._report(before)
            return
        if self._clear(before):
            self._rename(now, before)

    def _restore_replaced(self, record: UndoRecord) -> None:
        if self._inode_at(record.second) != self._current(record.inode):
            return  # it was not needed, or is back already
        if self._inode_at(record.first) == self._current(record.inode):
            directory, name = self._at(record.second)
            os.unlink(name, dir_fd=directory)
        elif self._clear(record.first):
            self._rename(record.second, record.first)
        elif self._inode_at(record.first) in self._born:
            self._give_up(record, "somebody else put something into the folder that is there now")

    def _recreate_folder(self, record: UndoRecord) -> None:
        found = self._lstat(record.first)
        inode = self._inode_at(record.first)
        if found and inode == record.inode:
            return
        if found and (inode in self._born or not stat.S_ISDIR(found.st_mode)) and not self._clear(record.first):
            return
        directory, name = self._at(record.first)
        with suppress(FileExistsError):  # somebody else did, or an earlier attempt of ours
            os.mkdir(name, 0o700, dir_fd=directory)
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        self._recreated[record.inode] = self._identify(found, directory, name)

    def _clear(self, path: str, *, unfinished: bool = False) -> bool:
        """Take away what the command created at a path; whether nothing is there now."""
        found = self._inode_at(path)
        if found is None:
            return True
        if (found in self._born or (unfinished and self._is_new(path))) and self._take_away(path):
            return True
        self._report(path)
        return False

    def _is_born(self, found: os.stat_result, directory: int, name: str) -> bool:
        return self._identify(found, directory, name) in self._born

    def _is_new(self, path: str) -> bool:
        """Whether an entry may have been created by the command, just before its broker was killed."""
        directory, name = self._at(path)
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if (read_birth(directory, name) or found.st_ctime_ns) < self._started_ns:
            return False
        return not stat.S_ISDIR(found.st_mode) or not os.listdir(f"/proc/self/fd/{directory}/{name}")

    def _remove_link(self, record: UndoRecord) -> None:
        found = self._lstat(record.first)
        if found is None or self._identify(found, *self._at(record.first)) != self._current(record.inode):
            return
        is_unfinished = record is self._records[-1]
        if found.st_nlink > 1 and not (is_unfinished and found.st_ctime_ns < self._started_ns):
            self._take_away(record.first)
        else:  # it is the only name, or was one before the command
            self._report(record.first)

    def _take_away(self, path: str) -> bool:
        """Whether nothing is there now: what others put into a folder stays."""
        directory, name = self._at(path)
        parts = split_foreign(directory, name, self._is_born)
        for part in parts:
            self._move_to_removed(path + part.removeprefix(name))
        return parts == [name]

    def _move_to_removed(self, path: str) -> None:
        """To the folder on the same mount, of which nobody has told us."""
        for folder in self._command_folders:
            removed = folder / REMOVED_FOLDER
            removed.mkdir(mode=0o700, exist_ok=True)
            self._removed_count += 1
            while os.path.lexists(place := str(removed / str(self._removed_count))):
                self._removed_count += 1
            try:
                return self._rename(path, place)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)

    def _rename(self, path: str, to: str) -> None:
        from_directory, from_name = self._at(path)
        from_directory = os.dup(from_directory)
        try:
            directory, name = self._at(to)
            found = os.stat(from_name, dir_fd=from_directory, follow_symlinks=False)
            is_closed = stat.S_ISDIR(found.st_mode) and not found.st_mode & stat.S_IWUSR
            if is_closed:  # moving a folder changes its `..` entry
                os.chmod(from_name, stat.S_IMODE(found.st_mode) | stat.S_IWUSR, dir_fd=from_directory)
            try:
                os.rename(from_name, name, src_dir_fd=from_directory, dst_dir_fd=directory)
            except OSError:
                name, directory = from_name, from_directory
                raise
            finally:
                if is_closed:
                    os.chmod(name, stat.S_IMODE(found.st_mode), dir_fd=directory)
        finally:
            os.close(from_directory)
        if stat.S_ISDIR(found.st_mode):
            self._close_folder()

    def _exchange_back(self, record: UndoRecord) -> None:
        """`record` names the second inode of an exchange; the record before it, which comes next, names the first."""
        at = self._index - 1
        partner = self._records[at] if at >= 0 else record
        first, second = partner.first, partner.second
        now = self._inode_at(first), self._inode_at(second)
        one, other = self._current(partner.inode), self._current(record.inode)
        if now == (other, one):
            self._exchange(first, second)
        elif now == (None, one):  # what the command created is taken away already
            self._rename(second, first)
        elif now == (other, None):
            self._rename(first, second)
        elif one != now[0] and other != now[1] and not {partner.inode, record.inode} <= self._born:
            self._report(first)

    def _exchange(self, first: str, second: str) -> None:
        directory, name = self._at(first)
        directory = os.dup(directory)
        try:
            into, to = self._at(second)
            if not renameat2(directory, name, to, RENAME_EXCHANGE, into=into):
                raise OSError(errno.ENOSYS, "two names cannot be exchanged", first)
        finally:
            os.close(directory)
        self._close_folder()

    # --- inodes

    def _restore_inode(self, record: UndoRecord) -> None:
        directory, name = self._at(record.first)
        found = lstat_at(directory, name)
        if found is None or self._identify(found, directory, name) != self._current(record.inode):
            self._report(record.first)
            return
        if record.second:
            restore_content(directory, name, found, record)
            if not self._is_alone and self._has_writer(directory, name):
                self._handed_out[record.inode] = record
        self._restore_metadata(directory, name, record)

    def _has_writer(self, directory: int, name: str) -> bool:
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        try:
            return has_writer(fd)
        finally:
            os.close(fd)

    def _give_new_inode(self, record: UndoRecord) -> None:
        """Replace a file by a copy, wherever it is now. What somebody writes through a descriptor arrives nowhere."""
        names = {name for each in self._records if each.inode == record.inode for name in (each.first, each.second)}
        try:
            for path in sorted(name for name in names if name.startswith("/")):
                if self._inode_at(path) != record.inode:
                    continue
                directory, name = self._at(path)
                replace_by_copy(directory, name, self._find_removed_folder(os.fstat(directory).st_dev))
        except OSError as error:
            self._give_up(record, f"a running command can still write to it: {error.strerror}")

    def _find_removed_folder(self, device: int) -> Path:
        for folder in self._command_folders:
            if folder.stat().st_dev == device:
                (folder / REMOVED_FOLDER).mkdir(mode=0o700, exist_ok=True)
                return folder / REMOVED_FOLDER
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    def _restore_metadata(self, directory: int, name: str, record: UndoRecord) -> None:
        is_restored = restore_metadata(f"/proc/self/fd/{directory}/{name}", record)
        if not is_restored and not stat.S_ISDIR(record.mode) and record.first not in self.denied:
            self.denied.append(record.first)

    def _put_copy_in_place(self, record: UndoRecord) -> bool:
        """The last resort on a full disk: the file gets another inode. Not if it has several names."""
        directory, name = self._at(record.first)
        found = lstat_at(directory, name)
        if record.kind != "save" or not record.second or found is None or found.st_nlink != 1:
            return False
        if self._identify(found, directory, name) != self._current(record.inode):
            return False
        self._rename(record.second, record.first)
        directory, name = self._at(record.first)
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        self._recreated[record.inode] = self._identify(found, directory, name)
        self._restore_metadata(directory, name, record)
        return True

    def _current(self, inode: Inode) -> Inode:
        return self._recreated.get(inode, inode)

    # --- paths

    def _at(self, path: str) -> tuple[int, str]:
        """The folder, opened without following links, and the name in it."""
        above, _, name = path.rpartition("/")
        if self._folder[0] != above or self._folder[1] < 0:
            self._close_folder()
            self._folder = above, openat2(-1, os.fsencode(above or "/"), FOLDER_HOW)
        return self._folder[1], name

    def _close_folder(self) -> None:
        if self._folder[1] >= 0:
            os.close(self._folder[1])
        self._folder = "", -1

    def _lstat(self, path: str) -> os.stat_result | None:
        try:
            return lstat_at(*self._at(path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _inode_at(self, path: str) -> Inode | None:
        found = self._lstat(path)
        return self._identify(found, *self._at(path)) if found else None

    def _identify(self, found: os.stat_result, directory: int, name: str) -> Inode:
        return self._keys.find(file_id(found), lambda: read_birth(directory, name))

    def _report(self, path: str) -> None:
        if path not in self.conflicts:
            self.conflicts.append(path)


def _make_room(folders: Sequence[Path]) -> bool:
    """Remove what the command created, and what it left, if that is in slots already; whether there were slots."""
    had_slots = False
    for folder in folders:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in os.listdir(fd):
                if name not in (SAVED_FOLDER, UNDO_LOG) and not name.startswith(OTHER_ROOT_PREFIX):
                    remove_tree(name, fd)
                    had_slots |= name != REMOVED_FOLDER
        finally:
            os.close(fd)
    return had_slots
