"""Roll back what a brokered command did, from its undo log.

The records are undone from the last to the first, so each path means what it meant when the record was written. Every
step first checks by inode whether there is something to undo. It can therefore be repeated after a kill, and what
somebody else put in the place of a file stays there and is reported.
"""

import errno
import os
import stat
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from handhold.backends.files.commit.born_trees import split_foreign
from handhold.backends.files.commit.file_metadata import file_id, has_same_bytes, list_xattrs, lstat_at
from handhold.backends.files.commit.folder_access import FolderAccess
from handhold.backends.files.commit.syscalls import RENAME_EXCHANGE, renameat2
from handhold.backends.files.commit.tree_copier import copy_data
from handhold.backends.files.openat2 import RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, openat2, pack_open_how
from handhold.backends.files.undo_log import UndoRecord
from handhold.logs import log_swallowed

FOLDER_HOW = pack_open_how(os.O_PATH | os.O_DIRECTORY, RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS)
REWRITE_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
Inode = tuple[int, int]


class Rollback:
    """Undoes records. `removed` is a folder on the same mount, for what the command created."""

    def __init__(self, records: Sequence[UndoRecord], removed: Path, shared: Collection[Inode] = ()) -> None:
        self._records = records
        self._shared = shared  # inodes that others write: they keep what is in them
        self._removed = removed
        self._removed_count = 0
        self._index = 0  # of the record that is being undone
        self._born = {record.inode for record in records if record.kind == "created"}
        # Killed between creating and recording: the last name that was about to appear is the command's.
        self._unfinished = records[-1].first if records and records[-1].kind == "create" else ""
        self._recreated: dict[Inode, Inode] = {}  # removed folders, and what they are now
        self._folder = ("", -1)  # the last folder that was opened
        self._access = FolderAccess()
        self.conflicts: list[str] = []  # paths that somebody else has changed meanwhile

    def run(self) -> None:
        self._removed.mkdir(mode=0o700, exist_ok=True)
        try:
            for index in range(len(self._records) - 1, -1, -1):
                self._index, record = index, self._records[index]
                try:
                    self._undo_with_access(record)
                except (FileNotFoundError, NotADirectoryError, FileExistsError):
                    self._report(record.first)
                except OSError as error:
                    if error.errno not in (errno.ELOOP, errno.ENOTEMPTY, errno.EISDIR, errno.EXDEV):
                        raise
                    self._report(record.first)
            restored = {record.inode for record in self._records if record.kind == "save"} | self._born
            self._access.close_again(restored)
        finally:
            self._close_folder()

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
                if self._inode_at(record.first) == record.inode:
                    self._take_away(record.first)
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
        if self._inode_at(record.second) != record.inode:
            return  # it was not needed, or is back already
        if self._inode_at(record.first) == record.inode:
            directory, name = self._at(record.second)
            os.unlink(name, dir_fd=directory)
        elif self._clear(record.first):
            self._rename(record.second, record.first)

    def _recreate_folder(self, record: UndoRecord) -> None:
        found = self._lstat(record.first)
        if found and file_id(found) == record.inode:
            return
        if (
            found
            and (file_id(found) in self._born or not stat.S_ISDIR(found.st_mode))
            and not self._clear(record.first)
        ):
            return
        directory, name = self._at(record.first)
        with suppress(FileExistsError):  # somebody else did, or an earlier attempt of ours
            os.mkdir(name, 0o700, dir_fd=directory)
        self._recreated[record.inode] = file_id(os.stat(name, dir_fd=directory, follow_symlinks=False))

    def _clear(self, path: str, *, unfinished: bool = False) -> bool:
        """Take away what the command created at a path; whether nothing is there now."""
        found = self._inode_at(path)
        if found is None:
            return True
        if (found in self._born or unfinished) and self._take_away(path):
            return True
        self._report(path)
        return False

    def _take_away(self, path: str) -> bool:
        """Whether nothing is there now: what others put into a folder stays."""
        directory, name = self._at(path)
        parts = split_foreign(directory, name, self._born)
        for part in parts:
            self._removed_count += 1
            while os.path.lexists(place := str(self._removed / str(self._removed_count))):
                self._removed_count += 1
            self._rename(path + part.removeprefix(name), place)
        return parts == [name]

    def _rename(self, path: str, to: str) -> None:
        from_directory, from_name = self._at(path)
        from_directory = os.dup(from_directory)
        try:
            directory, name = self._at(to)
            found = os.stat(from_name, dir_fd=from_directory, follow_symlinks=False)
            is_closed = stat.S_ISDIR(found.st_mode) and not found.st_mode & stat.S_IWUSR
            if is_closed:  # moving a folder changes its `..` entry
                os.chmod(from_name, stat.S_IMODE(found.st_mode) | stat.S_IWUSR, dir_fd=from_directory)
            os.rename(from_name, name, src_dir_fd=from_directory, dst_dir_fd=directory)
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
        if now == (record.inode, partner.inode):
            self._exchange(first, second)
        elif now == (None, partner.inode):  # what the command created is taken away already
            self._rename(second, first)
        elif now == (record.inode, None):
            self._rename(first, second)
        elif partner.inode != now[0] and record.inode != now[1] and not {partner.inode, record.inode} <= self._born:
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
        if found is None or file_id(found) != self._current(record.inode):
            self._report(record.first)
            return
        if record.second:
            self._restore_content(directory, name, found, record)
        path = f"/proc/self/fd/{directory}/{name}"
        if (found.st_uid, found.st_gid) != (record.owner, record.group):
            os.chown(path, record.owner, record.group, follow_symlinks=False)
        if not stat.S_ISLNK(found.st_mode):
            if stat.S_IMODE(os.lstat(path).st_mode) != stat.S_IMODE(record.mode):
                os.chmod(path, stat.S_IMODE(record.mode))
            _restore_xattrs(path, record.read_xattrs())
        os.utime(path, ns=(record.accessed_ns, record.modified_ns), follow_symlinks=False)

    def _restore_content(self, directory: int, name: str, found: os.stat_result, record: UndoRecord) -> None:
        """In place: the file keeps its inode and its hard links."""
        saved = os.open(record.second, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if not found.st_mode & stat.S_IWUSR or not found.st_mode & stat.S_IRUSR:
                os.chmod(name, stat.S_IMODE(found.st_mode) | stat.S_IRUSR | stat.S_IWUSR, dir_fd=directory)
            fd = os.open(name, REWRITE_FLAGS, dir_fd=directory)
            try:
                if found.st_size == record.size and has_same_bytes(fd, saved):
                    return
                os.lseek(saved, 0, os.SEEK_SET)
                os.ftruncate(fd, 0)
                os.lseek(fd, 0, os.SEEK_SET)
                copy_data(saved, fd, record.size)
            finally:
                os.close(fd)
        finally:
            os.close(saved)

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
        return file_id(found) if found else None

    def _report(self, path: str) -> None:
        if path not in self.conflicts:
            self.conflicts.append(path)


def _restore_xattrs(path: str, before: dict[str, bytes]) -> None:
    now = {name: os.getxattr(path, name) for name in list_xattrs(path)}
    try:
        for name in now.keys() - before.keys():
            os.removexattr(path, name)
        for name, value in before.items():
            if now.get(name) != value:
                os.setxattr(path, name, value)
    except PermissionError:
        log_swallowed()  # an attribute of the system's own
