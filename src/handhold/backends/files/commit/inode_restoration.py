"""Give an inode the content and the metadata that an undo log has of it."""

import fcntl
import os
import stat
from collections.abc import Callable
from pathlib import Path

from handhold.backends.files.commit.file_metadata import has_same_bytes, list_xattrs
from handhold.backends.files.commit.tree_copier import TreeCopier, copy_data
from handhold.backends.files.manifest import LIST_FLAGS
from handhold.backends.files.undo_log import UndoRecord
from handhold.logs import log_swallowed, suppress_and_log

COPY_NAME = "copy"
REWRITE_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def has_writer(fd: int) -> bool:
    """Whether somebody has a file open for writing, or might have: a read lease is refused. `fd` may be O_PATH."""
    with suppress_and_log(OSError):
        opened = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.fcntl(opened, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(opened, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        finally:
            os.close(opened)
        return False
    return True


def replace_by_copy(directory: int, name: str, through: Path) -> None:
    """Give a file another inode, by a copy that is made in a folder on the same mount. Its folder keeps its times."""
    copies = os.open(through, LIST_FLAGS)
    try:
        TreeCopier(copies).copy(directory, name, COPY_NAME)
        folder = os.fstat(directory)
        os.rename(COPY_NAME, name, src_dir_fd=copies, dst_dir_fd=directory)
    finally:
        os.close(copies)
    os.utime(f"/proc/self/fd/{directory}", ns=(folder.st_atime_ns, folder.st_mtime_ns))


def restore_content(directory: int, name: str, found: os.stat_result, record: UndoRecord) -> None:
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


def restore_metadata(path: str, record: UndoRecord) -> bool:
    """False if something was denied: only the owner of an inode can set its mode and its times back."""
    found = os.lstat(path)
    is_link = stat.S_ISLNK(found.st_mode)
    is_restored = True
    if (found.st_uid, found.st_gid) != (record.owner, record.group):
        is_restored &= _try(lambda: os.chown(path, record.owner, record.group, follow_symlinks=False))
    if not is_link and stat.S_IMODE(os.lstat(path).st_mode) != stat.S_IMODE(record.mode):
        is_restored &= _try(lambda: os.chmod(path, stat.S_IMODE(record.mode)))
    if not is_link:
        _try(lambda: _restore_xattrs(path, record.read_xattrs()))  # denied: an attribute of the system's own
    times = record.accessed_ns, record.modified_ns
    # Without a copy the command did not write to it: if it has another size, somebody else did, and the time is theirs.
    is_theirs = stat.S_ISREG(found.st_mode) and not record.second and found.st_size != record.size
    if (found.st_atime_ns, found.st_mtime_ns) != times and not is_theirs:
        is_restored &= _try(lambda: os.utime(path, ns=times, follow_symlinks=False))
    return is_restored


def _try(restore: Callable[[], None]) -> bool:
    try:
        restore()
    except PermissionError:
        log_swallowed()
        return False
    return True


def _restore_xattrs(path: str, before: dict[str, bytes]) -> None:
    now = {name: os.getxattr(path, name) for name in list_xattrs(path)}
    for name in now.keys() - before.keys():
        os.removexattr(path, name)
    for name, value in before.items():
        if now.get(name) != value:
            os.setxattr(path, name, value)
