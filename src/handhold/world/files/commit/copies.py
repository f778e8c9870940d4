"""Copies as like their originals as we may make them: for where a rename does not reach.

Owners, modes, attributes, times, holes, and files with several names as such. The originals are left as they are.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from handhold.world.files.commit.likeness import READ, carry, file_of
from handhold.world.files.manifest import LIST

MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
STRETCH = 1 << 30  # bytes the kernel is asked to copy at once
FICLONE = 0x40049409  # one file is made of the blocks of another


def copy_tree(directory: int, name: str, into: int, to: str) -> None:
    """Copy whatever it is, with all that is in it; PermissionError if the copy would not be like the original."""
    Copies(into).copy(directory, name, to)


def opened(directory: int, name: str, found: os.stat_result) -> int:
    """A file or directory of our own, for reading, whatever its mode says; it is the same afterwards."""
    flags = LIST if stat.S_ISDIR(found.st_mode) else READ
    try:
        return os.open(name, flags, dir_fd=directory)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=directory)
    try:
        return os.open(name, flags, dir_fd=directory)
    finally:
        os.chmod(name, stat.S_IMODE(found.st_mode), dir_fd=directory)


@dataclass(slots=True)
class _Folder:
    """A directory that is being copied."""

    source: int
    made: int
    way: str
    found: os.stat_result
    ahead: Iterator[str]


class Copies:
    """Copies into one folder. A file that has several names is one file there too, whichever call copied it."""

    def __init__(self, into: int) -> None:
        self._into = into
        self._made: dict[tuple[int, int], str] = {}  # files with several names, and where a copy lies

    def copy(self, directory: int, name: str, to: str) -> None:
        inside: list[_Folder] = []
        try:
            self._copy(directory, name, self._into, to, to, inside)
            while inside:
                here = inside[-1]
                deep = len(inside)
                for each in here.ahead:
                    self._copy(here.source, each, here.made, each, f"{here.way}/{each}", inside)
                    if len(inside) > deep:
                        break
                else:
                    _make_like(here.source, here.made, here.found)
                    _close(inside.pop())
        finally:
            while inside:
                _close(inside.pop())

    def _copy(self, directory: int, name: str, into: int, to: str, way: str, inside: list[_Folder]) -> None:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        mode = found.st_mode
        if stat.S_ISDIR(mode):
            os.mkdir(to, 0o700, dir_fd=into)
            source = opened(directory, name, found)
            if mode & 0o500 != 0o500:
                os.fchmod(source, 0o700)
            inside.append(_Folder(source, os.open(to, LIST, dir_fd=into), way, found, iter(os.listdir(source))))
        elif stat.S_ISREG(mode):
            self._file(directory, name, into, to, way, found)
        else:
            if stat.S_ISLNK(mode):
                os.symlink(os.readlink(name, dir_fd=directory), to, dir_fd=into)
            else:
                os.mknod(to, mode, found.st_rdev, dir_fd=into)
                os.chmod(to, stat.S_IMODE(mode), dir_fd=into)
            made = os.stat(to, dir_fd=into, follow_symlinks=False)
            if (made.st_uid, made.st_gid) != (found.st_uid, found.st_gid):
                os.chown(to, found.st_uid, found.st_gid, dir_fd=into, follow_symlinks=False)
            os.utime(to, ns=(found.st_atime_ns, found.st_mtime_ns), dir_fd=into, follow_symlinks=False)

    def _file(self, directory: int, name: str, into: int, to: str, way: str, found: os.stat_result) -> None:
        if found.st_nlink > 1:
            if (first := self._made.get(file_of(found))) is not None:
                return os.link(first, to, src_dir_fd=self._into, dst_dir_fd=into, follow_symlinks=False)
            self._made[file_of(found)] = way
        source = opened(directory, name, found)
        try:
            made = os.open(to, MAKE, 0o600, dir_fd=into)
            try:
                _pour(source, made, found.st_size)
                _make_like(source, made, found)
            finally:
                os.close(made)
        finally:
            os.close(source)
        return None


def _close(folder: _Folder) -> None:
    if folder.found.st_mode & 0o500 != 0o500:
        os.fchmod(folder.source, stat.S_IMODE(folder.found.st_mode))
    os.close(folder.source)
    os.close(folder.made)


def _pour(source: int, made: int, size: int) -> None:
    """The content: the same blocks where the file system shares them; where there is a hole, there is one again."""
    with suppress(OSError):
        fcntl.ioctl(made, FICLONE, source)
        return
    at = 0
    while at < size:
        try:
            at = os.lseek(source, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            break  # nothing but a hole is left
        end = os.lseek(source, at, os.SEEK_HOLE)
        os.lseek(made, at, os.SEEK_SET)
        while at < end and (sent := os.sendfile(made, source, at, min(end - at, STRETCH))):
            at += sent
    os.ftruncate(made, size)


def _make_like(source: int, made: int, found: os.stat_result) -> None:
    if not carry(source, made, found):
        raise PermissionError(errno.EPERM, "a copy would not have the owner and the attributes of the original")
    os.utime(made, ns=(found.st_atime_ns, found.st_mtime_ns))
