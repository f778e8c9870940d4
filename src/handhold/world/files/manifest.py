"""What a thing is, whatever it is, in one hash: how it is told from another, or from itself after somebody changed it.

A tree counts by everything in it. Small files count by their content, as long as not too much has to be read; large
ones, and what we may not read, by size and time, which a rename leaves alone, and a good copy. So the hash stays the
same wherever the thing is moved, and a tree of any size costs one look at each of its entries.

`exact_hash` is for approvals, where size and time are not enough: it covers kind, mode, owner, access lists and every
byte, whatever that costs.
"""

import errno
import os
import secrets
import stat
from collections.abc import Callable
from hashlib import sha256
from typing import Literal, NamedTuple

from handhold.core.plans import Shelved
from handhold.core.ports import MOST_EDITABLE

SMALL = 1024 * 1024  # bytes of a file in a tree that is read
MOST_READ = 256 * 1024 * 1024  # bytes read of one tree
PIECE = 1024 * 1024

LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
ACCESS = ("security.capability", "system.posix_acl_access", "system.posix_acl_default")  # attributes that grant rights
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

Meet = Callable[[int, str, str, os.stat_result, int], bool]


class Manifest(NamedTuple):
    hash: str
    entries: int  # everything in the tree, and itself
    size: int  # of its files and links, all together
    newest: int  # the latest change of anything in it, by its ctime
    allocated: int  # bytes on the disk of everything in it, and of itself


class Thing(NamedTuple):
    """What stands under a name."""

    kind: Literal["file", "link", "tree", "other"]
    hash: str
    size: int
    mode: int
    inode: tuple[int, int]
    mtime_ns: int
    entries: int
    newest: int
    owner: int | None = None  # as in Shelved
    allocated: int = 0  # as in Shelved

    def shelved(self, slot: str) -> Shelved:
        kind, size, mode, inode, owner = self.kind, self.size, self.mode, self.inode, self.owner
        return Shelved(slot, kind, self.hash, size, mode, inode, self.mtime_ns, self.entries, owner, self.allocated)


def thing(
    name: str, *, dir_fd: int | None = None, meet: Meet | None = None, found: os.stat_result | None = None
) -> Thing | None:
    """What stands under a name, described; None if nothing does. `meet` is for what lies in a tree.

    `found` is the status of it, where somebody has looked already.
    """
    try:
        found = found or os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
        if stat.S_ISREG(found.st_mode):
            return _thing(found, "file", *_file(name, dir_fd, found))
        if stat.S_ISDIR(found.st_mode):
            hash, entries, size, newest, allocated = manifest(name, dir_fd=dir_fd, meet=meet)
            return _thing(found, "tree", hash, size, entries, newest)._replace(allocated=allocated)
        if stat.S_ISLNK(found.st_mode):
            hash = sha256(os.fsencode(os.readlink(name, dir_fd=dir_fd))).hexdigest()
            return _thing(found, "link", hash, found.st_size)
    except FileNotFoundError:
        return None
    return _thing(found, "other", _other(found), 0)


def manifest(name: str, *, dir_fd: int | None = None, meet: Meet | None = None) -> Manifest:
    """The directory `name`, and everything below it; no link is followed.

    `meet(directory, name, way, status, fd)` is asked before an entry counts, and says whether it does. `fd` is the
    file, open for reading, or -1; `way` leads there from the top.
    """
    return _Walk(meet).run(name, dir_fd)


def exact_hash(name: str, *, dir_fd: int | None = None) -> str:
    """Of all that stands under a name: kind, mode, owner, access lists, content; of a tree, everything in it.

    It is the same for two things only if they are. What cannot be read, or changes meanwhile, has another each time.
    """
    try:
        found = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            return _Walk(None, exact=True).run(name, dir_fd).hash
    except OSError:
        return secrets.token_hex()
    return sha256(_exact_line(name, dir_fd, found).encode()).hexdigest()


def _exact_line(name: str, dir_fd: int | None, found: os.stat_result) -> str:
    """One entry; of a directory, without what is in it."""
    try:
        content = _exact_content(name, dir_fd, found)
        path = name if dir_fd is None else f"/proc/self/fd/{dir_fd}/{name}"
        access = ",".join(_attribute(path, attribute) for attribute in ACCESS)
    except OSError:
        return secrets.token_hex()
    return f"{found.st_mode:o} {found.st_uid}:{found.st_gid} {access} {content}"


def _exact_content(name: str, dir_fd: int | None, found: os.stat_result) -> str:
    if stat.S_ISLNK(found.st_mode):
        return sha256(os.fsencode(os.readlink(name, dir_fd=dir_fd))).hexdigest()
    if not stat.S_ISREG(found.st_mode):
        return _other(found)
    fd = os.open(name, READ, dir_fd=dir_fd)
    try:
        return _content_hash(fd, found.st_size)
    finally:
        os.close(fd)


def _attribute(path: str, name: str) -> str:
    try:
        return os.getxattr(path, name, follow_symlinks=False).hex()
    except OSError as error:
        if error.errno not in (errno.ENODATA, errno.ENOTSUP):
            raise
        return "-"


def file_hash(fd: int, found: os.stat_result) -> str:
    """Of a file that is open at its beginning: of its content, unless that is too much to be read."""
    return unread(found) if found.st_size > MOST_EDITABLE else _content_hash(fd, found.st_size)


def allocated_by(found: os.stat_result) -> int:
    """Bytes that it takes on the disk: a sparse file takes less than its size."""
    return found.st_blocks * 512


def owner_of(found: os.stat_result) -> int | None:
    """The user whose it is, if that is not us."""
    return None if found.st_uid == os.geteuid() else found.st_uid


def _content_hash(fd: int, size: int) -> str:
    piece = os.read(fd, min(size + 1, PIECE))
    state = sha256(piece)
    if len(piece) != size:  # there is more of it, or it has changed
        while piece := os.read(fd, PIECE):
            state.update(piece)
    return state.hexdigest()


def unread(found: os.stat_result) -> str:
    """In place of a file's hash, and never equal to one."""
    return f"unread {found.st_size} {found.st_mtime_ns}"


def _file(name: str, dir_fd: int | None, found: os.stat_result) -> tuple[str, int]:
    if found.st_size > MOST_EDITABLE:
        return unread(found), found.st_size
    try:
        fd = os.open(name, READ, dir_fd=dir_fd)
    except PermissionError:
        return unread(found), found.st_size
    try:
        return file_hash(fd, found), found.st_size
    finally:
        os.close(fd)


def _other(found: os.stat_result) -> str:
    return sha256(b"\0other %o %d\0" % (stat.S_IFMT(found.st_mode), found.st_rdev)).hexdigest()


def _thing(
    found: os.stat_result,
    kind: Literal["file", "link", "tree", "other"],
    hash: str,
    size: int,
    entries: int = 1,
    newest: int = 0,
) -> Thing:
    mode, newest = stat.S_IMODE(found.st_mode), max(newest, found.st_ctime_ns)
    owner, allocated = owner_of(found), allocated_by(found)
    return Thing(kind, hash, size, mode, which(found), found.st_mtime_ns, entries, newest, owner, allocated)


class _Walk:
    def __init__(self, meet: Meet | None, *, exact: bool = False) -> None:
        self.meet = meet
        self.exact = exact
        self.hash = sha256()
        self.entries = 1
        self.size = 0
        self.read = 0
        self.newest = 0
        self.allocated = 0
        self.linked: set[tuple[int, int]] = set()

    def run(self, name: str, dir_fd: int | None) -> Manifest:
        found = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
        self.newest = found.st_ctime_ns
        self.allocated = allocated_by(found)
        if self.exact:
            self.hash.update(_exact_line(name, dir_fd, found).encode() + b"\0")
        else:
            self.hash.update(b"%o\0" % stat.S_IMODE(found.st_mode))
        fd = self._open(name, dir_fd, found)
        if fd is not None:
            self._below(fd)
        return Manifest(self.hash.hexdigest(), self.entries, self.size, self.newest, self.allocated)

    def _below(self, fd: int) -> None:
        # Only one directory is held open, however deep the tree: the way up is `..`, and must lead to where we were.
        above: list[tuple[str, list[tuple[str, os.stat_result]], tuple[int, int]]] = []
        way = ""
        try:
            while True:
                above.append((way, self._list(fd, way), which(os.fstat(fd))))
                while True:
                    way, ahead, _ = above[-1]
                    if ahead:
                        name, found = ahead.pop()
                        below = self._open(name, fd, found)
                        if below is not None:
                            fd, parent = below, fd
                            os.close(parent)
                            way = f"{way}{name}/"
                            break
                    else:
                        above.pop()
                        if not above:
                            return
                        fd, below = os.open("..", LIST, dir_fd=fd), fd
                        os.close(below)
                        if which(os.fstat(fd)) != above[-1][2]:
                            raise OSError(errno.ESTALE, "a directory was moved while it was looked through", way)
        finally:
            os.close(fd)

    def _open(self, name: str, dir_fd: int | None, found: os.stat_result) -> int | None:
        """A directory to be listed; one that may not be is told by its inode and time alone."""
        try:
            fd = os.open(name, LIST, dir_fd=dir_fd)
        except PermissionError:
            fd = None
        except OSError as error:
            if error.errno not in GONE:
                raise
            return None
        else:
            try:
                os.stat(".", dir_fd=fd)  # names could be listed without it, and that is all
                return fd
            except PermissionError:
                os.close(fd)
        closed = secrets.token_bytes() if self.exact else b"%d %d" % (found.st_ino, found.st_mtime_ns)
        self.hash.update(b"closed %s\0" % closed)
        return None

    def _list(self, fd: int, way: str) -> list[tuple[str, os.stat_result]]:
        """Take in what a directory holds; return the directories among it, the last one first."""
        lines: list[str] = []
        directories: list[tuple[str, os.stat_result]] = []
        meet = self.meet
        for name in sorted(os.listdir(fd)):
            try:
                found = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                continue  # it went away this moment
            mode = found.st_mode
            if self.exact:
                line = _exact_line(name, fd, found)
                if stat.S_ISDIR(mode):
                    directories.append((name, found))
            elif stat.S_ISREG(mode):
                line = self._file(fd, name, way, found)
                if line is None:
                    continue
            elif meet is not None and not meet(fd, name, way + name, found, -1):
                continue
            elif stat.S_ISDIR(mode):
                directories.append((name, found))
                line = "d"
            elif stat.S_ISLNK(mode):
                line = "l " + sha256(os.fsencode(os.readlink(name, dir_fd=fd))).hexdigest()
                self.size += found.st_size
            else:
                line = f"o {_other(found)}"
            if found.st_ctime_ns > self.newest:
                self.newest = found.st_ctime_ns
            self._count(found)
            lines.append(f"{way}{name}\0{mode & 0o7777:o} {line}\0")
        self.entries += len(lines)
        self.hash.update(os.fsencode("".join(lines)))
        directories.reverse()
        return directories

    def _count(self, found: os.stat_result) -> None:
        """A file with several names in the tree lies there once."""
        if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
            if which(found) in self.linked:
                return
            self.linked.add(which(found))
        self.allocated += allocated_by(found)

    def _file(self, directory: int, name: str, way: str, found: os.stat_result) -> str | None:
        """How a file is told; None if it does not count."""
        size = found.st_size
        read = size <= SMALL and self.read + size <= MOST_READ
        fd = -1
        if read:
            try:
                fd = os.open(name, READ, dir_fd=directory)
            except PermissionError:
                read = False
            except OSError as error:
                if error.errno not in GONE:
                    raise
                return None
        try:
            if self.meet is not None and not self.meet(directory, name, way + name, found, fd):
                return None
            self.size += size
            if not read:
                return "f " + unread(found)
            self.read += size
            return f"f {size} {sha256(os.read(fd, size + 1) if size else b'').hexdigest()}"
        finally:
            if fd >= 0:
                os.close(fd)


GONE = (errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.ENXIO)  # it went away, or became something else, this moment


def which(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
