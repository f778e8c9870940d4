"""Describe an entry of any kind by one hash, to recognize it and to detect changes.

The hash of a tree covers everything in it. It stays the same wherever the entry is moved. What a command removes gets
a cheap hash: small files by content, up to a total; large ones by size and mtime, so that a tree of any size costs one
stat per entry. What a command leaves gets a hash of every byte: only that tells whether anybody else has written there
since, whatever the times say. Without large files both are the same. Files that we may not read are known by size and
mtime in both.

`exact_hash` is for approvals, where size and mtime are not enough: it covers kind, mode, owner, access lists and every
byte, whatever that costs.
"""

import errno
import os
import secrets
import stat
from collections.abc import Callable
from hashlib import sha256
from typing import Literal, NamedTuple

from handhold.backends.files.content_hash import WHOLE, hash_content, hash_file, placeholder_hash
from handhold.core.plans import StagedContent
from handhold.core.ports.files import MAX_EDITABLE_BYTES
from handhold.logs import log_swallowed

MAX_HASHED_FILE_BYTES = 1024 * 1024  # larger files in a tree are not read for a cheap hash
MAX_HASHED_TREE_BYTES = 256 * 1024 * 1024  # read of one tree for a cheap hash

LIST_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Attributes that grant privileges.
ACCESS_XATTRS = ("security.capability", "system.posix_acl_access", "system.posix_acl_default")
READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

EntryFilter = Callable[[int, str, str, os.stat_result, int], bool]


class Manifest(NamedTuple):
    hash: str
    entry_count: int  # everything in the tree, and itself
    size: int  # of its files and links in total
    newest_ctime_ns: int  # the latest ctime of anything in it
    allocated: int  # bytes on disk, in total


class EntryState(NamedTuple):
    """What exists under a name."""

    kind: Literal["file", "link", "tree", "other"]
    hash: str
    size: int
    mode: int
    inode: tuple[int, int]
    mtime_ns: int
    entry_count: int
    newest_ctime_ns: int
    owner: int | None = None  # as in StagedContent
    allocated: int = 0  # as in StagedContent

    def to_staged(self, slot: str) -> StagedContent:
        kind, size, mode, inode, owner = self.kind, self.size, self.mode, self.inode, self.owner
        return StagedContent(
            slot, kind, self.hash, size, mode, inode, self.mtime_ns, self.entry_count, owner, self.allocated
        )


def read_entry_state(
    name: str,
    *,
    dir_fd: int | None = None,
    accept: EntryFilter | None = None,
    status: os.stat_result | None = None,
    whole: bool = False,
) -> EntryState | None:
    """Describe the entry under a name; None if it does not exist. `accept` filters the entries of a tree.

    `status` is its stat result, if already known. With `whole`, every byte is read.
    """
    try:
        status = status or os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
        if stat.S_ISREG(status.st_mode):
            return _make_entry_state(status, "file", *_hash_file_at(name, dir_fd, status, whole=whole))
        if stat.S_ISDIR(status.st_mode):
            hash, entries, size, newest, allocated = build_manifest(name, dir_fd=dir_fd, accept=accept, whole=whole)
            return _make_entry_state(status, "tree", hash, size, entries, newest)._replace(allocated=allocated)
        if stat.S_ISLNK(status.st_mode):
            hash = sha256(os.fsencode(os.readlink(name, dir_fd=dir_fd))).hexdigest()
            return _make_entry_state(status, "link", hash, status.st_size)
    except FileNotFoundError:
        return None
    return _make_entry_state(status, "other", _hash_special(status), 0)


def build_manifest(
    name: str, *, dir_fd: int | None = None, accept: EntryFilter | None = None, whole: bool = False
) -> Manifest:
    """The directory `name` and everything below it, without following links.

    `accept(directory, name, rel_path, status, fd)` decides whether an entry is included. `fd` is the file, open for
    reading, or -1; `rel_path` is relative to the top.
    """
    return _ManifestWalk(accept, whole=whole).run(name, dir_fd)


def exact_hash(name: str, *, dir_fd: int | None = None) -> str:
    """A hash of an entry's kind, mode, owner, access lists and content; for a tree, of everything in it.

    Equal only for equal entries. An entry that is unreadable, or changes meanwhile, gets a new hash each time.
    """
    try:
        found = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            return _ManifestWalk(None, exact=True).run(name, dir_fd).hash
    except OSError:
        log_swallowed()
        return secrets.token_hex()
    return sha256(_format_exact_line(name, dir_fd, found).encode()).hexdigest()


def _format_exact_line(name: str, dir_fd: int | None, status: os.stat_result) -> str:
    """One entry; for a directory, without its contents."""
    try:
        content = _hash_exact_content(name, dir_fd, status)
        path = name if dir_fd is None else f"/proc/self/fd/{dir_fd}/{name}"
        access = ",".join(_read_xattr_hex(path, attribute) for attribute in ACCESS_XATTRS)
    except OSError:
        log_swallowed()
        return secrets.token_hex()
    return f"{status.st_mode:o} {status.st_uid}:{status.st_gid} {access} {content}"


def _hash_exact_content(name: str, dir_fd: int | None, status: os.stat_result) -> str:
    if stat.S_ISLNK(status.st_mode):
        return sha256(os.fsencode(os.readlink(name, dir_fd=dir_fd))).hexdigest()
    if not stat.S_ISREG(status.st_mode):
        return _hash_special(status)
    fd = os.open(name, READ_FLAGS, dir_fd=dir_fd)
    try:
        return hash_content(fd, status.st_size)
    finally:
        os.close(fd)


def _read_xattr_hex(path: str, name: str) -> str:
    try:
        return os.getxattr(path, name, follow_symlinks=False).hex()
    except OSError as error:
        if error.errno not in (errno.ENODATA, errno.ENOTSUP):
            raise
        return "-"


def allocated_bytes(status: os.stat_result) -> int:
    """Bytes on disk: a sparse file takes less than its size."""
    return status.st_blocks * 512


def other_owner_of(status: os.stat_result) -> int | None:
    """The owner, if that is not us."""
    return None if status.st_uid == os.geteuid() else status.st_uid


def _hash_file_at(name: str, dir_fd: int | None, status: os.stat_result, *, whole: bool) -> tuple[str, int]:
    if status.st_size > MAX_EDITABLE_BYTES and not whole:
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
    def __init__(self, accept: EntryFilter | None, *, exact: bool = False, whole: bool = False) -> None:
        self.accept = accept
        self.exact = exact
        self.whole = whole
        self.has_large = False  # whether a file was read that a cheap hash leaves out
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
        hash = WHOLE * self.has_large + self.hash.hexdigest()
        return Manifest(hash, self.entry_count, self.size, self.newest_ctime_ns, self.allocated)

    def _walk_tree(self, fd: int) -> None:
        # Only one directory is open, however deep the tree: `..` leads up, and must lead to where we were.
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
                            raise OSError(errno.ESTALE, "a folder was moved while it was read", rel_path)
        finally:
            os.close(fd)

    def _open_directory(self, name: str, dir_fd: int | None, status: os.stat_result) -> int | None:
        """Open a directory for listing; one that is not readable is described by inode and mtime only."""
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
                os.stat(".", dir_fd=fd)  # listing names alone would work without it
                return fd
            except PermissionError:
                os.close(fd)
        closed = secrets.token_bytes() if self.exact else b"%d %d" % (status.st_ino, status.st_mtime_ns)
        self.hash.update(b"closed %s\0" % closed)
        return None

    def _add_entries(self, fd: int, rel_path: str) -> list[tuple[str, os.stat_result]]:
        """Add the entries of a directory; return its subdirectories in reverse order."""
        lines: list[str] = []
        directories: list[tuple[str, os.stat_result]] = []
        accept = self.accept
        for name in sorted(os.listdir(fd)):
            try:
                found = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                continue  # it just disappeared
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
        """Count a file with several names in the tree once."""
        if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
            if file_id(status) in self.counted_links:
                return
            self.counted_links.add(file_id(status))
        self.allocated += allocated_bytes(status)

    def _describe_file(self, directory: int, name: str, rel_path: str, status: os.stat_result) -> str | None:
        """The description of a file; None if it is not included."""
        size = status.st_size
        is_cheap = size <= MAX_HASHED_FILE_BYTES and self.bytes_read + size <= MAX_HASHED_TREE_BYTES
        should_read = self.whole or is_cheap
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
            if not is_cheap:
                self.has_large = True
                return f"f {size} {hash_file(fd, status)}"
            self.bytes_read += size
            return f"f {size} {sha256(os.read(fd, size + 1) if size else b'').hexdigest()}"
        finally:
            if fd >= 0:
                os.close(fd)


# It just disappeared, or was replaced by something else.
VANISHED_ERRNOS = (errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.ENXIO)


def file_id(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
