"""List folders without changing anything: not even access times, where that is possible."""

import errno
import os
import stat
from collections.abc import Sequence
from hashlib import blake2b
from struct import Struct
from typing import NamedTuple

from handhold.backends.quiet_open import open_quietly

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
# It just disappeared, or something else has its name now.
VANISHED_ERRNOS = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO)

FORMAT_MASK = 0o170000  # of a mode: what S_IFMT does, without a call

_STATUS = Struct("<IIIQQqq")


class ListedEntry(NamedTuple):
    name: bytes
    packed: bytes
    status: os.stat_result


class FolderSummary(NamedTuple):
    """A digest of everything in a folder, and the names of the folders in it that are on the same file system."""

    digest: bytes
    folders: Sequence[bytes]
    newest_ns: int  # the latest time of change of a file


def pack_status(status: os.stat_result) -> bytes:
    """What changes with an entry. A folder changes with its entries, which have their own."""
    mode, uid, gid, inode = status.st_mode, status.st_uid, status.st_gid, status.st_ino
    if stat.S_ISDIR(mode):
        return _STATUS.pack(mode, uid, gid, 0, inode, 0, 0)
    return _STATUS.pack(mode, uid, gid, status.st_size, inode, status.st_mtime_ns, status.st_ctime_ns)


class UnpackedStatus(NamedTuple):
    mode: int
    uid: int
    gid: int
    size: int
    inode: int
    mtime_ns: int
    ctime_ns: int


def unpack_status(packed: bytes) -> UnpackedStatus:
    return UnpackedStatus(*_STATUS.unpack(packed))


def summarize_folder(fd: int, device: int) -> FolderSummary:
    """What an open folder contains, as short as possible: in most folders nothing has changed."""
    names: list[str] = []
    packed: list[bytes] = []
    folders: list[bytes] = []
    newest = 0
    add_name, add_packed, pack = names.append, packed.append, _STATUS.pack  # this loop is nearly all that a scan does
    with os.scandir(fd) as entries:
        for entry in entries:
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            mode = found.st_mode
            add_name(entry.name)
            if mode & FORMAT_MASK == stat.S_IFDIR:
                add_packed(pack(mode, found.st_uid, found.st_gid, 0, found.st_ino, 0, 0))
                if found.st_dev == device:
                    folders.append(os.fsencode(entry.name))
                continue
            changed, time = found.st_ctime_ns, found.st_mtime_ns
            add_packed(pack(mode, found.st_uid, found.st_gid, found.st_size, found.st_ino, time, changed))
            if changed > newest:
                newest = changed
    return FolderSummary(_make_digest(os.fsencode("/".join(names)), packed), folders, newest)


def list_folder(fd: int) -> list[ListedEntry]:
    """The entries of an open folder. Those that disappear meanwhile are left out."""
    listed: list[ListedEntry] = []
    with os.scandir(fd) as entries:
        for entry in entries:
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            listed.append(ListedEntry(os.fsencode(entry.name), pack_status(found), found))
    return listed


def summarize_entries(listed: Sequence[ListedEntry], device: int) -> FolderSummary:
    """The summary of a folder with these entries."""
    folders = [each.name for each in listed if stat.S_ISDIR(each.status.st_mode) and each.status.st_dev == device]
    newest = max((each.status.st_ctime_ns for each in listed if not stat.S_ISDIR(each.status.st_mode)), default=0)
    names = b"/".join(each.name for each in listed)
    return FolderSummary(_make_digest(names, [each.packed for each in listed]), folders, newest)


def _make_digest(names: bytes, packed: Sequence[bytes]) -> bytes:
    return blake2b(names + b"\0" + b"".join(packed), digest_size=16).digest()


class FolderChain:
    """Opens folders below a root one after another, and keeps those open that lead to the last one.

    No link is followed. In a walk from parents to children, nearly every folder costs one call.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._names: list[bytes] = []
        self._fds: list[int] = []

    def open(self, path: bytes) -> int:
        """A descriptor that is valid until the next call."""
        names = path.split(b"/") if path else []
        common = 0
        for known, wanted in zip(self._names, names, strict=False):
            if known != wanted:
                break
            common += 1
        self._shorten(common)
        for name in names[common:]:
            parent = self._fds[-1] if self._fds else self._root
            self._fds.append(open_quietly(name, FOLDER_FLAGS, parent))
            self._names.append(name)
        return self._fds[-1] if self._fds else self._root

    def close(self) -> None:
        self._shorten(0)

    def _shorten(self, length: int) -> None:
        while len(self._fds) > length:
            os.close(self._fds.pop())
            self._names.pop()
