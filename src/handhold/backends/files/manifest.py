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

from handhold.core.plans import StagedContent
from handhold.core.ports.files import MAX_EDITABLE_BYTES

MAX_HASHED_FILE_BYTES = 1024 * 1024  # bytes of a file in a tree that is read
MAX_HASHED_TREE_BYTES = 256 * 1024 * 1024  # bytes read of one tree
CHUNK_BYTES = 1024 * 1024

LIST_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Attributes that grant rights.
ACCESS_XATTRS = ("security.capability", "system.posix_acl_access", "system.posix_acl_default")
READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

EntryFilter = Callable[[int, str, str, os.stat_result, int], bool]


class Manifest(NamedTuple):
    hash: str
    entry_count: int  # everything in the tree, and itself
    size: int  # of its files and links, all together
    newest_ctime_ns: int  # the latest change of anything in it, by its ctime
    allocated: int  # bytes on the disk of everything in it, and of itself


class EntryState(NamedTuple):
    """What stands under a name."""

    kind: Literal["file", "link", "tree", "other"]
    hash: str
    size: int
    mode: int
    inode: tuple[int, int]
    mtime_ns: int
    entry_count: int
    newest_ctime_ns: int
    owner: int | None = None  # as in Shelved
    allocated: int = 0  # as in Shelved

    def to_staged(self, slot: str) -> StagedContent:
        kind, size, mode, inode, owner = self.kind, self.size, self.mode, self.inode, self.owner
        return StagedContent(
            slot, kind, self.hash, size, mode, inode, self.mtime_ns, self.entry_count, owner, self.allocated
        )


def read_entry_state(
    name: str, *, dir_fd: int | None = None, accept: EntryFilter | None = None, status: os.stat_result | None = None
) -> EntryState | None:
    """What stands under a name, described; None if nothing does. `accept` is for what lies in a tree.

    `status` is the status of it, where somebody has looked already.
    """
    try:
        status = status or os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
        if stat.S_ISREG(status.st_mode):
            return _make_entry_state(status, "file", *_hash_file_at(name, dir_fd, status))
        if stat.S_ISDIR(status.st_mode):
            hash, entries, size, newest, allocated = build_manifest(name, dir_fd=dir_fd, accept=accept)
            return _make_entry_state(status, "tree", hash, size, entries, newest)._replace(allocated=allocated)
        if stat.S_ISLNK(status.st_mode):
            hash = sha256(os.fsencode(os.readlink(name, dir_fd=dir_fd))).hexdigest()
            return _make_entry_state(status, "link", hash, status.st_size)
    except FileNotFoundError:
        return None
    return _make_entry_state(status, "other", _hash_special(status), 0)


def build_manifest(name: str, *, dir_fd: int | None = None, accept: EntryFilter | None = None) -> Manifest:
    """The directory `name`, and everything below it; no link is followed.

    `accept(directory, name, rel_path, status, fd)` is asked before an entry counts, and says whether it does. `fd` is
    the file, open for reading, or -1; `rel_path` leads there from the top.
    """
    return _ManifestWalk(accept).run(name, dir_fd)


def exact_hash(name: str, *, dir_fd: int | None = None) -> str:
    """Of all that stands under a name: kind, mode, owner, access lists, content; of a tree, everything in it.

    It is the same for two things only if they are. What cannot be read, or changes meanwhile, has another each time.
    """
    try:
        found = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            return _ManifestWalk(None, exact=True).run(name, dir_fd).hash
    except OSError:
        return secrets.token_hex()
    return sha256(_format_exact_line(name, dir_fd, found).encode()).hexdigest()


def _format_exact_line(name: str, dir_fd: int | None, status: os.stat_result) -> str:
    """One entry; of a directory, without what is in it."""
    try:
        content = _hash_exact_content(name, dir_fd, status)
        path = name if dir_fd is None else f"/proc/self/fd/{dir_fd}/{name}"
        access = ",".join(_read_xattr_hex(path, attribute) for attribute in ACCESS_XATTRS)
    except OSError:
        return secrets.token_hex()
    return f"{status.st_mode:o} {status.st_uid}:{status.st_gid} {access} {content}"


def _hash_exact_content(name: str, dir_fd: int | None, status: os.stat_result) -> str:
    if stat.S_ISLNK(status.st_mode):
        return sha256(os.fsencode(os.readlink(name, dir_fd=dir_fd))).hexdigest()
    if not stat.S_ISREG(status.st_mode):
        return _hash_special(status)
    fd = os.open(name, READ_FLAGS, dir_fd=dir_fd)
    try:
        return _hash_content(fd, status.st_size)
    finally:
        os.close(fd)


def _read_xattr_hex(path: str, name: str) -> str:
    try:
        return os.getxattr(path, name, follow_symlinks=False).hex()
    except OSError as error:
        if error.errno not in (errno.ENODATA, errno.ENOTSUP):
            raise
        return "-"


def hash_file(fd: int, status: os.stat_result) -> str:
    """Of a file that is open at its beginning: of its content, unless that is too much to be read."""
    return placeholder_hash(status) if status.st_size > MAX_EDITABLE_BYTES else _hash_content(fd, status.st_size)


def allocated_bytes(status: os.stat_result) -> int:
    """Bytes that it takes on the disk: a sparse file takes less than its size."""
    return status.st_blocks * 512


def other_owner_of(status: os.stat_result) -> int | None:
    """The user whose it is, if that is not us."""
    return None if status.st_uid == os.geteuid() else status.st_uid


def _hash_content(fd: int, size: int) -> str:
    chunk = os.read(fd, min(size + 1, CHUNK_BYTES))
    state = sha256(chunk)
    if len(chunk) != size:  # there is more of it, or it has changed
        while chunk := os.read(fd, CHUNK_BYTES):
            state.update(chunk)
    return state.hexdigest()


def placeholder_hash(status: os.stat_result) -> str:
    """In place of a file's hash, and never equal to one."""
    return f"unread {status.st_size} {status.st_mtime_ns}"


def _hash_file_at(name: str, dir_fd: int | None, status: os.stat_result) -> tuple[str, int]:
    if status.st_size > MAX_EDITABLE_BYTES:
        return placeholder_hash(status), status.st_size
    try:
        fd = os.open(name, READ_FLAGS, dir_fd=dir_fd)
    except PermissionError:
        return placeholder_hash(status), status.st_size
    try:
        return hash_file(fd, status), status.st_size
    finally:
        os.close(fd)


def _hash_special(status: os.stat_result) -> str:
    return sha256(b"\0other %o %d\0" % (stat.S_IFMT(status.st_mode), status.st_rdev)).hexdigest()


def _make_entry_state(
    status: os.stat_result,
    kind: Literal["file", "link", "tree", "other"],
    hash: str,
    size: int,
    entry_count: int = 1,
    newest_ctime_ns: int = 0,
) -> EntryState:
    mode, newest_ctime_ns = stat.S_IMODE(status.st_mode), max(newest_ctime_ns, status.st_ctime_ns)
    owner, allocated = other_owner_of(status), allocated_bytes(status)
    return EntryState(
        kind, hash, size, mode, file_id(status), status.st_mtime_ns, entry_count, newest_ctime_ns, owner, allocated
    )


class _ManifestWalk:
    def __init__(self, accept: EntryFilter | None, *, exact: bool = False) -> None:
        self.accept = accept
        self.exact = exact
        self.hash = sha256()
        self.entry_count = 1
        self.size = 0
        self.bytes_read = 0
        self.newest_ctime_ns = 0
        self.allocated = 0
        self.counted_links: set[tuple[int, int]] = set()

    def run(self, name: str, dir_fd: int | None) -> Manifest:
        found = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
        self.newest_ctime_ns = found.st_ctime_ns
        self.allocated = allocated_bytes(found)
        if self.exact:
            self.hash.update(_format_exact_line(name, dir_fd, found).encode() + b"\0")
        else:
            self.hash.update(b"%o\0" % stat.S_IMODE(found.st_mode))
        fd = self._open_directory(name, dir_fd, found)
        if fd is not None:
            self._walk_tree(fd)
        return Manifest(self.hash.hexdigest(), self.entry_count, self.size, self.newest_ctime_ns, self.allocated)

    def _walk_tree(self, fd: int) -> None:
        # Only one directory is held open, however deep the tree: the way up is `..`, and must lead to where we were.
        above: list[tuple[str, list[tuple[str, os.stat_result]], tuple[int, int]]] = []
        rel_path = ""
        try:
            while True:
                above.append((rel_path, self._add_entries(fd, rel_path), file_id(os.fstat(fd))))
                while True:
                    rel_path, pending, _ = above[-1]
                    if pending:
                        name, found = pending.pop()
                        below = self._open_directory(name, fd, found)
                        if below is not None:
                            fd, parent = below, fd
                            os.close(parent)
                            rel_path = f"{rel_path}{name}/"
                            break
                    else:
                        above.pop()
                        if not above:
                            return
                        fd, below = os.open("..", LIST_FLAGS, dir_fd=fd), fd
                        os.close(below)
                        if file_id(os.fstat(fd)) != above[-1][2]:
                            raise OSError(errno.ESTALE, "a directory was moved while it was looked through", rel_path)
        finally:
            os.close(fd)

    def _open_directory(self, name: str, dir_fd: int | None, status: os.stat_result) -> int | None:
        """A directory to be listed; one that may not be is told by its inode and time alone."""
        try:
            fd = os.open(name, LIST_FLAGS, dir_fd=dir_fd)
        except PermissionError:
            fd = None
        except OSError as error:
            if error.errno not in VANISHED_ERRNOS:
                raise
            return None
        else:
            try:
                os.stat(".", dir_fd=fd)  # names could be listed without it, and that is all
                return fd
            except PermissionError:
                os.close(fd)
        closed = secrets.token_bytes() if self.exact else b"%d %d" % (status.st_ino, status.st_mtime_ns)
        self.hash.update(b"closed %s\0" % closed)
        return None

    def _add_entries(self, fd: int, rel_path: str) -> list[tuple[str, os.stat_result]]:
        """Take in what a directory holds; return the directories among it, the last one first."""
        lines: list[str] = []
        directories: list[tuple[str, os.stat_result]] = []
        accept = self.accept
        for name in sorted(os.listdir(fd)):
            try:
                found = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                continue  # it went away this moment
            mode = found.st_mode
            if self.exact:
                line = _format_exact_line(name, fd, found)
                if stat.S_ISDIR(mode):
                    directories.append((name, found))
            elif stat.S_ISREG(mode):
                line = self._describe_file(fd, name, rel_path, found)
                if line is None:
                    continue
            elif accept is not None and not accept(fd, name, rel_path + name, found, -1):
                continue
            elif stat.S_ISDIR(mode):
                directories.append((name, found))
                line = "d"
            elif stat.S_ISLNK(mode):
                line = "l " + sha256(os.fsencode(os.readlink(name, dir_fd=fd))).hexdigest()
                self.size += found.st_size
            else:
                line = f"o {_hash_special(found)}"
            if found.st_ctime_ns > self.newest_ctime_ns:
                self.newest_ctime_ns = found.st_ctime_ns
            self._add_allocated(found)
            lines.append(f"{rel_path}{name}\0{mode & 0o7777:o} {line}\0")
        self.entry_count += len(lines)
        self.hash.update(os.fsencode("".join(lines)))
        directories.reverse()
        return directories

    def _add_allocated(self, status: os.stat_result) -> None:
        """A file with several names in the tree lies there once."""
        if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
            if file_id(status) in self.counted_links:
                return
            self.counted_links.add(file_id(status))
        self.allocated += allocated_bytes(status)

    def _describe_file(self, directory: int, name: str, rel_path: str, status: os.stat_result) -> str | None:
        """How a file is told; None if it does not count."""
        size = status.st_size
        should_read = size <= MAX_HASHED_FILE_BYTES and self.bytes_read + size <= MAX_HASHED_TREE_BYTES
        fd = -1
        if should_read:
            try:
                fd = os.open(name, READ_FLAGS, dir_fd=directory)
            except PermissionError:
                should_read = False
            except OSError as error:
                if error.errno not in VANISHED_ERRNOS:
                    raise
                return None
        try:
            if self.accept is not None and not self.accept(directory, name, rel_path + name, status, fd):
                return None
            self.size += size
            if not should_read:
                return "f " + placeholder_hash(status)
            self.bytes_read += size
            return f"f {size} {sha256(os.read(fd, size + 1) if size else b'').hexdigest()}"
        finally:
            if fd >= 0:
                os.close(fd)


# It went away, or became something else, this moment.
VANISHED_ERRNOS = (errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.ENXIO)


def file_id(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
