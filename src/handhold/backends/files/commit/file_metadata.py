"""Detect whether a file is still the same, and copy metadata to a new file."""

import errno
import os
import stat
from contextlib import suppress
from hashlib import sha256

from handhold.backends.files.commit.syscalls import UNSUPPORTED_ERRNOS
from handhold.core.facts import FileIdentity
from handhold.core.plans import InlineContent

PAGE_BYTES = 4096  # the kernel writes a page completely or not at all
SECTOR_BYTES = 512  # the least that a file grows by while it is written
CHUNK_BYTES = 1024 * 1024

READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def _size_and_times(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def file_id(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def is_same_file(status: os.stat_result, expected: FileIdentity | None) -> bool:
    """Ignores ctime, which our own rename changes."""
    return (
        expected is not None
        and status.st_ino == expected.inode
        and status.st_size == expected.size
        and status.st_mtime_ns == expected.mtime_ns
        and status.st_dev == expected.device
    )


def lstat_at(directory: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def fingerprint(directory: int, name: str, expected: InlineContent | None = None) -> tuple[os.stat_result | None, str]:
    """The stat of an entry, and its hash if it is a regular file that does not change meanwhile."""
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode):
            return found, ""
        fd = os.open(name, READ_FLAGS, dir_fd=directory)
    except FileNotFoundError:
        return None, ""
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return found, ""
        hash = hash_fd(fd, found.st_size, expected)
        return found, hash if _size_and_times(os.fstat(fd)) == _size_and_times(found) else ""
    finally:
        os.close(fd)


def hash_fd(fd: int, size: int, expected: InlineContent | None = None) -> str:
    """The hash of a file from its start. The expected content is compared first, which is faster than hashing."""
    if expected is not None and size == expected.size:
        if _has_content(fd, expected.data):
            return expected.hash
        os.lseek(fd, 0, os.SEEK_SET)
    state = sha256()
    while chunk := os.read(fd, min(size + 1, CHUNK_BYTES)):
        state.update(chunk)
    return state.hexdigest()


def _has_content(fd: int, data: bytes) -> bool:
    at = 0
    while chunk := os.read(fd, CHUNK_BYTES):
        if data[at : at + len(chunk)] != chunk:
            return False
        at += len(chunk)
    return at == len(data)


def read_all(fd: int) -> bytes:
    chunks: list[bytes] = []
    while chunk := os.read(fd, CHUNK_BYTES):
        chunks.append(chunk)
    return b"".join(chunks)


def read_file_at(directory: int, name: str) -> bytes:
    fd = os.open(name, READ_FLAGS, dir_fd=directory)
    try:
        return read_all(fd)
    finally:
        os.close(fd)


def is_partial_write(data: bytes, before: bytes, after: bytes) -> bool:
    """Whether this is the result of an interrupted write in place, forwards or back.

    Each page has the old or the new content, the one over the end of the other, or is not written yet.
    """
    shorter, longer = sorted((len(before), len(after)))
    if len(data) not in (shorter, longer) and not (shorter < len(data) < longer and len(data) % SECTOR_BYTES == 0):
        return False
    for start in range(0, len(data), PAGE_BYTES):
        page = data[start : start + PAGE_BYTES]
        end = start + len(page)
        old, new = before[start:end], after[start:end]
        candidates = (old, new, old + new[len(old) :], new + old[len(new) :], b"")
        if not any(page == each.ljust(len(page), b"\0") for each in candidates):
            return False
    return True


def copy_metadata(old: int, new: int, status: os.stat_result) -> bool:
    """Give a staged file the old one's owner, attributes (including ACLs) and mode; False if that is not permitted."""
    made = os.fstat(new)
    if (made.st_uid, made.st_gid) != (status.st_uid, status.st_gid):
        try:
            os.fchown(new, status.st_uid, status.st_gid)
        except PermissionError:
            return False
    wanted = list_xattrs(old)
    if wanted or list_xattrs(new):  # a directory's default ACL may give a new file what the old one does not have
        for name in set(list_xattrs(new)) - set(wanted):
            with suppress(PermissionError):
                os.removexattr(new, name)
        for name in wanted:
            try:
                os.setxattr(new, name, os.getxattr(old, name))
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.EACCES, errno.ENODATA, *UNSUPPORTED_ERRNOS):
                    raise
                if not name.startswith(("security.", "trusted.")):
                    return False
    os.fchmod(new, stat.S_IMODE(status.st_mode))
    return True


def read_own_xattrs(path_or_fd: int | str) -> dict[str, bytes]:
    """Attributes set by users: not those of an overlay or of the system."""
    others = ("user.overlay.", "security.", "trusted.")
    return {name: os.getxattr(path_or_fd, name) for name in list_xattrs(path_or_fd) if not name.startswith(others)}


def list_xattrs(path_or_fd: int | str) -> list[str]:
    """All attribute names; none if the file system does not support attributes."""
    try:
        return os.listxattr(path_or_fd)
    except OSError as error:
        if error.errno not in UNSUPPORTED_ERRNOS:
            raise
        return []


def has_same_bytes(one: int, other: int) -> bool:
    """Whether the rest of two files is the same."""
    while True:
        left, right = os.read(one, CHUNK_BYTES), os.read(other, CHUNK_BYTES)
        if left != right:
            return False
        if not left:
            return True
