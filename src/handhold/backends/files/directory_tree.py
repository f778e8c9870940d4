"""A tree of folders and files for traversal: on disk by descriptors, or in memory.

On disk, names are looked up only in open folders, and no link is followed. Few folders are open at a time, so a tree
may be five thousand folders deep: to return to a closed folder, the path is descended again.
"""

import errno
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator
from typing import Literal, NamedTuple, Protocol

from handhold.backends.files.file_kinds import is_virtual
from handhold.backends.files.walk_resolver import BASE_OPEN_FLAGS
from handhold.core.text.ignore import GIT_FOLDER, IGNORE_FILES
from handhold.logs import log_swallowed

MAX_OPEN_FOLDERS = 64
JUJUTSU_FOLDER = ".jj"  # another marker of a repository
RULE_MARKERS = {name.encode() for name in (*IGNORE_FILES[:3], GIT_FOLDER, JUJUTSU_FOLDER)}

EntryKind = Literal["file", "directory", "link", "other"]


class TreeEntry(NamedTuple):
    name: bytes
    kind: EntryKind


class DirectoryTree(Protocol):
    """Folders by relative path: b"" for the top, otherwise names that each end with a slash."""

    def iter_entries(self, rel_path: bytes) -> Iterator[tuple[str, EntryKind]]:
        """Iterate over a folder's entries without holding them all; raise OSError."""
        ...

    def list_entries(self, rel_path: bytes) -> list[TreeEntry]:
        """All entries of a folder."""
        ...

    def read_stamp(self, rel_path: bytes) -> str:
        """A stamp that changes whenever an entry is added or removed; raise OSError."""
        ...

    def read_file(self, rel_path: bytes, name: str, max_bytes: int) -> bytes | None:
        """The first bytes of a file in a folder; None if there is no readable file."""
        ...

    def list_markers(self, rel_path: bytes) -> list[TreeEntry]:
        """The entries of a folder that ignore rules depend on; raise OSError."""
        ...

    def get_kind(self, rel_path: bytes, name: bytes) -> EntryKind | None:
        """The kind of an entry; None if it does not exist."""
        ...

    def has_link_target(self, rel_path: bytes, name: bytes) -> bool:
        """Whether a link's target exists."""
        ...


class DiskTree:
    """What is below an open folder. Not thread-safe."""

    def __init__(self, fd: int, may_read: Callable[[bytes, os.stat_result], bool] | None = None) -> None:
        """`may_read` decides by path and status whether a file may be read as an ignore file."""
        self.top_fd = fd
        self._may_read = may_read
        self._open_folders: OrderedDict[bytes, int] = OrderedDict()
        self._allowed_devices = set[int]()  # devices that are not procfs or sysfs

    def __enter__(self) -> "DiskTree":
        return self

    def __exit__(self, *_: object) -> None:
        while self._open_folders:
            os.close(self._open_folders.popitem()[1])

    def iter_entries(self, rel_path: bytes) -> Iterator[tuple[str, EntryKind]]:
        with os.scandir(self.open_folder(rel_path)) as entries:
            for entry in entries:
                yield entry.name, _entry_kind(entry)

    def list_entries(self, rel_path: bytes) -> list[TreeEntry]:
        with os.scandir(self.open_folder(rel_path)) as entries:
            return [TreeEntry(os.fsencode(entry.name), _entry_kind(entry)) for entry in entries]

    def read_stamp(self, rel_path: bytes) -> str:
        status = os.fstat(self.open_folder(rel_path))
        return f"{status.st_ino} {status.st_mtime_ns} {status.st_ctime_ns}"

    def read_file(self, rel_path: bytes, name: str, max_bytes: int) -> bytes | None:
        path = rel_path + os.fsencode(name)
        above, slash, last = path.rpartition(b"/")
        try:
            fd, status = self.open_file(above + slash, last)
        except OSError:
            log_swallowed()
            return None
        try:
            return (
                b"".join(_read_chunks(fd, max_bytes))
                if self._may_read is None or self._may_read(path, status)
                else None
            )
        except OSError:
            log_swallowed()
            return None
        finally:
            os.close(fd)

    def get_kind(self, rel_path: bytes, name: bytes) -> EntryKind | None:
        try:
            mode = os.stat(name, dir_fd=self.open_folder(rel_path), follow_symlinks=False).st_mode
        except OSError:
            log_swallowed()
            return None
        if stat.S_ISREG(mode):
            return "file"
        return "directory" if stat.S_ISDIR(mode) else "link" if stat.S_ISLNK(mode) else "other"

    def list_markers(self, rel_path: bytes) -> list[TreeEntry]:
        self.open_folder(rel_path)  # it may be large, so it is not listed
        return [TreeEntry(name, kind) for name in RULE_MARKERS if (kind := self.get_kind(rel_path, name))]

    def has_link_target(self, rel_path: bytes, name: bytes) -> bool:
        try:
            os.stat(name, dir_fd=self.open_folder(rel_path))
        except OSError:
            log_swallowed()
            return False
        return True

    def open_file(self, rel_path: bytes, name: bytes) -> tuple[int, os.stat_result]:
        """Open a regular file, to be closed by the caller; raise OSError for anything else."""
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | BASE_OPEN_FLAGS, dir_fd=self.open_folder(rel_path))
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "not a regular file")
        except BaseException:
            os.close(fd)
            raise
        return fd, status

    def open_folder(self, rel_path: bytes) -> int:
        """A folder's descriptor, open until others replace it in the cache."""
        if not rel_path:
            return self.top_fd
        if rel_path in self._open_folders:
            self._open_folders.move_to_end(rel_path)
            return self._open_folders[rel_path]
        open_path = rel_path
        while open_path and open_path not in self._open_folders:
            open_path = parent_of(open_path)
        fd = self._open_folders[open_path] if open_path else self.top_fd
        for end in _iter_name_ends(rel_path, len(open_path)):
            name = rel_path[rel_path.rfind(b"/", 0, end) + 1 : end]
            fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | BASE_OPEN_FLAGS, dir_fd=fd)
            self._keep_open(rel_path[: end + 1], fd)
        return fd

    def _keep_open(self, rel_path: bytes, fd: int) -> None:
        self._open_folders[rel_path] = fd
        if len(self._open_folders) > MAX_OPEN_FOLDERS:
            os.close(self._open_folders.popitem(last=False)[1])
        device = os.fstat(fd).st_dev
        if device not in self._allowed_devices:
            if is_virtual(fd):
                del self._open_folders[rel_path]
                os.close(fd)
                raise OSError(errno.EACCES, "a virtual file system of the kernel")
            self._allowed_devices.add(device)


def parent_of(rel_path: bytes) -> bytes:
    """The path of the parent folder."""
    return rel_path[: rel_path.rfind(b"/", 0, -1) + 1]


def _iter_name_ends(rel_path: bytes, start: int) -> Iterator[int]:
    """The end of each name in a path, starting at a position."""
    while (start := rel_path.find(b"/", start) + 1) > 0:
        yield start - 1


def _entry_kind(entry: "os.DirEntry[str]") -> EntryKind:
    try:
        if entry.is_file(follow_symlinks=False):
            return "file"
        if entry.is_dir(follow_symlinks=False):
            return "directory"
        return "link" if entry.is_symlink() else "other"
    except OSError:
        log_swallowed()
        return "other"


def _read_chunks(fd: int, max_bytes: int) -> Generator[bytes]:
    while max_bytes > 0 and (chunk := os.read(fd, min(max_bytes, 1 << 18))):
        yield chunk
        max_bytes -= len(chunk)
