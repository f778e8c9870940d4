"""What a path is, as far as a merge compares it, and how it is read below a folder without following links."""

import os
import stat
from hashlib import sha256
from types import TracebackType
from typing import Literal, NamedTuple, Self

from handhold.backends.files.commit.file_metadata import list_xattrs, read_own_xattrs
from handhold.backends.files.commit.tree_copier import force_open
from handhold.backends.files.manifest import READ_FLAGS
from handhold.backends.shell.overlay_xattrs import CAPABILITY_XATTR, strip_xattrs

FOLDER_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LIST_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
ACCESS_BITS = 0o500  # of a folder, to list what is in it and to open that
CHUNK_BYTES = 1024 * 1024
NOT_HASHED = "not hashed"  # equal to no hash: then only the identity tells whether the entry changed

Kind = Literal["file", "folder", "link", "other"]


class Metadata(NamedTuple):
    """Mode, owner and attributes."""

    mode: int
    owner: tuple[int, int]
    attributes: str = ""  # a hash of those that users set, and of capabilities


class Entry(NamedTuple):
    """A file, folder, link or special file. Equal entries are the same to a merge; times do not count."""

    kind: Kind
    metadata: Metadata
    hash: str = ""  # of a file's content or a link's target; the device number of a special file


Stamp = tuple[int, ...]  # device, inode, size, mtime and ctime: while it stays the same, nobody changed the entry


def make_stamp(found: os.stat_result) -> Stamp:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


class TreeReader:
    """Reads entries below a folder by relative path. The folder that was used last stays open."""

    def __init__(self, top: int, *, is_layer: bool = False) -> None:
        """`top` is an open folder, which the caller closes. In a layer, everything is opened whatever its mode."""
        self.top = top
        self._is_layer = is_layer
        self._open_rel: str = ""
        self._open_fd: int = -1
        self._modes: dict[int, int] = {}  # of open folders that had to be made accessible

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._close_folder()

    def open_folder(self, rel: str) -> int:
        """A descriptor that is valid until the next call; -1 if there is no such folder."""
        if not rel:
            if self._modes:
                self._close_folder()
            return self.top
        if self._open_fd >= 0 and rel == self._open_rel:
            return self._open_fd
        fd = self.top
        try:
            for name in rel.split("/"):
                above, fd = fd, os.open(name, FOLDER_FLAGS, dir_fd=fd)
                self._make_accessible(fd)
                self._close(above)
        except (FileNotFoundError, NotADirectoryError):
            self._close(fd)
            return -1
        except BaseException:
            self._close(fd)
            raise
        self._close_folder()
        self._open_rel, self._open_fd = rel, fd
        return fd

    def _make_accessible(self, fd: int) -> None:
        """Give a folder of a layer a mode with which we can look into it, until it is closed."""
        mode = stat.S_IMODE(os.fstat(fd).st_mode)
        if self._is_layer and mode & ACCESS_BITS != ACCESS_BITS and os.geteuid():
            os.chmod(f"/proc/self/fd/{fd}", mode | ACCESS_BITS)
            self._modes[fd] = mode

    def _close(self, fd: int) -> None:
        if fd in self._modes:
            os.chmod(f"/proc/self/fd/{fd}", self._modes.pop(fd))
        if fd != self.top:
            os.close(fd)

    def _close_folder(self) -> None:
        if self._open_fd >= 0:
            self._close(self._open_fd)
            self._open_fd = -1

    def stat(self, rel: str) -> os.stat_result | None:
        above, name = os.path.split(rel)
        folder = self.open_folder(above)
        if folder < 0:
            return None
        try:
            return os.stat(name or ".", dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def list_names(self, rel: str) -> list[str]:
        """The names in a folder; none if there is no such folder."""
        folder = self.open_folder(rel)
        if folder < 0:
            return []
        fd = os.open(".", LIST_FLAGS, dir_fd=folder)
        try:
            return sorted(os.listdir(fd))
        finally:
            os.close(fd)

    def read(self, rel: str, found: os.stat_result | None = None, *, hashed: bool = True) -> Entry | None:
        """The entry; None if nothing is there. `found` is its stat result. Without `hashed`, no file is read."""
        found = found or self.stat(rel)
        if found is None:
            return None
        above, name = os.path.split(rel)
        folder, mode = self.open_folder(above), found.st_mode
        owner = found.st_uid, found.st_gid
        metadata = Metadata(stat.S_IMODE(mode), owner)
        if stat.S_ISLNK(mode):
            target = os.fsencode(os.readlink(name, dir_fd=folder))
            return Entry("link", Metadata(0o777, owner), sha256(target).hexdigest())
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            return Entry("other", metadata, f"{stat.S_IFMT(mode):o} {found.st_rdev}")
        if not hashed and stat.S_ISREG(mode):
            return Entry("file", metadata, NOT_HASHED)
        fd = self._open(folder, name or ".", found)
        try:
            metadata = metadata._replace(attributes=_hash_attributes(fd))
            return Entry("folder", metadata) if stat.S_ISDIR(mode) else Entry("file", metadata, _hash_content(fd))
        finally:
            os.close(fd)

    def read_bytes(self, rel: str) -> bytes:
        """The content of a file, or the target of a link."""
        above, name = os.path.split(rel)
        folder = self.open_folder(above)
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            return os.fsencode(os.readlink(name, dir_fd=folder))
        with os.fdopen(self._open(folder, name, found), "rb") as file:
            return file.read()

    def strip_xattrs(self, rel: str) -> None:
        """Remove what an overlay noted at a file of a layer."""
        above, name = os.path.split(rel)
        found = os.stat(name, dir_fd=self.open_folder(above), follow_symlinks=False)
        fd = self._open(self.open_folder(above), name, found)
        try:
            strip_xattrs(fd, list_xattrs(fd), found)
        finally:
            os.close(fd)

    def open(self, rel: str) -> int:
        """Open a file or folder for reading. The caller closes it."""
        above, name = os.path.split(rel)
        folder, name = self.open_folder(above), name or "."
        return self._open(folder, name, os.stat(name, dir_fd=folder, follow_symlinks=False))

    def _open(self, folder: int, name: str, found: os.stat_result) -> int:
        if self._is_layer:
            return force_open(folder, name, found)
        return os.open(name, LIST_FLAGS if stat.S_ISDIR(found.st_mode) else READ_FLAGS, dir_fd=folder)


def _hash_content(fd: int) -> str:
    state = sha256()
    while chunk := os.read(fd, CHUNK_BYTES):
        state.update(chunk)
    return state.hexdigest()


def _hash_attributes(fd: int) -> str:
    names = list_xattrs(fd)
    if not names:
        return ""
    attributes = read_own_xattrs(fd)
    if CAPABILITY_XATTR in names:
        attributes[CAPABILITY_XATTR] = os.getxattr(fd, CAPABILITY_XATTR)
    return sha256(repr(sorted(attributes.items())).encode()).hexdigest() if attributes else ""
