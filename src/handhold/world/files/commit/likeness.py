"""Whether a file is the one it was, and how a new file becomes like an old one."""

import errno
import os
import stat
from contextlib import suppress
from hashlib import sha256

from handhold.core.facts import Identity
from handhold.world.files.commit.system import CANNOT

PAGE = 4096  # what the kernel writes whole or not at all
SECTOR = 512  # what a file grows by, at least, while it is written
PIECE = 1024 * 1024

READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def _state(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def file_of(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def is_same(found: os.stat_result, was: Identity | None) -> bool:
    """Leaves out the time of the last rename: that one was ours."""
    return (
        was is not None
        and found.st_ino == was.inode
        and found.st_size == was.size
        and found.st_mtime_ns == was.mtime_ns
        and found.st_dev == was.device
    )


def stat_of(directory: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def fingerprint(directory: int, name: str) -> tuple[os.stat_result | None, str]:
    """What stands under a name, and the hash of its content if it is a regular file that holds still."""
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode):
            return found, ""
        fd = os.open(name, READ, dir_fd=directory)
    except FileNotFoundError:
        return None, ""
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return found, ""
        hash = hash_of(fd, found.st_size)
        return found, hash if _state(os.fstat(fd)) == _state(found) else ""
    finally:
        os.close(fd)


def hash_of(fd: int, size: int) -> str:
    state = sha256()
    while piece := os.read(fd, min(size + 1, PIECE)):
        state.update(piece)
    return state.hexdigest()


def bytes_of(fd: int) -> bytes:
    pieces: list[bytes] = []
    while piece := os.read(fd, PIECE):
        pieces.append(piece)
    return b"".join(pieces)


def bytes_at(directory: int, name: str) -> bytes:
    fd = os.open(name, READ, dir_fd=directory)
    try:
        return bytes_of(fd)
    finally:
        os.close(fd)


def mixture(data: bytes, before: bytes, after: bytes) -> bool:
    """Whether this is what a write in place leaves when it is cut off, forth or back.

    Each page is of the one content or the other, or the one laid over the other at its end, or not yet written.
    """
    shorter, longer = sorted((len(before), len(after)))
    if len(data) not in (shorter, longer) and not (shorter < len(data) < longer and len(data) % SECTOR == 0):
        return False
    for start in range(0, len(data), PAGE):
        page = data[start : start + PAGE]
        end = start + len(page)
        old, new = before[start:end], after[start:end]
        over = (old, new, old + new[len(old) :], new + old[len(new) :], b"")
        if not any(page == each.ljust(len(page), b"\0") for each in over):
            return False
    return True


def carry(old: int, new: int, found: os.stat_result) -> bool:
    """Give a staged file the owner, the attributes (ACLs among them) and the mode of the old; False if we may not."""
    made = os.fstat(new)
    if (made.st_uid, made.st_gid) != (found.st_uid, found.st_gid):
        try:
            os.fchown(new, found.st_uid, found.st_gid)
        except PermissionError:
            return False
    wanted = attributes_of(old)
    if wanted or attributes_of(new):  # a directory's default ACL gives a new file what the old one may not have
        for name in set(attributes_of(new)) - set(wanted):
            with suppress(PermissionError):
                os.removexattr(new, name)
        for name in wanted:
            try:
                os.setxattr(new, name, os.getxattr(old, name))
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.EACCES, errno.ENODATA, *CANNOT):
                    raise
                if not name.startswith(("security.", "trusted.")):
                    return False
    os.fchmod(new, stat.S_IMODE(found.st_mode))
    return True


def own_attributes(place: int | str) -> dict[str, bytes]:
    """Those that are somebody's own: not an overlay's, and not what the system labels files with."""
    others = ("user.overlay.", "security.", "trusted.")
    return {name: os.getxattr(place, name) for name in attributes_of(place) if not name.startswith(others)}


def attributes_of(place: int | str) -> list[str]:
    """The names of all that it has; none where the file system has no such thing."""
    try:
        return os.listxattr(place)
    except OSError as error:
        if error.errno not in CANNOT:
            raise
        return []


def same_bytes(one: int, other: int) -> bool:
    """Whether two files are the same from here on."""
    while True:
        left, right = os.read(one, PIECE), os.read(other, PIECE)
        if left != right:
            return False
        if not left:
            return True
