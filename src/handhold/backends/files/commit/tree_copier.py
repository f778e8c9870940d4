"""Copies that are as similar to the original as permissions allow, for when a rename is impossible.

Owners, modes, attributes, times, holes and hard links are preserved. The originals are not changed.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from handhold.backends.files.commit.file_metadata import READ_FLAGS, copy_metadata, file_id
from handhold.backends.files.manifest import LIST_FLAGS
from handhold.logs import suppress_and_log

CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
COPY_CHUNK_BYTES = 1 << 30  # for one call to the kernel
FICLONE = 0x40049409  # shares the blocks of another file


def copy_tree(directory: int, name: str, into: int, to: str) -> None:
    """Copy an entry with everything in it; raise PermissionError if the copy would differ from the original."""
    TreeCopier(into).copy(directory, name, to)


def force_open(directory: int, name: str, status: os.stat_result) -> int:
    """Open a file or directory of ours for reading, whatever its mode, which is restored."""
    flags = LIST_FLAGS if stat.S_ISDIR(status.st_mode) else READ_FLAGS
    try:
        return os.open(name, flags, dir_fd=directory)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=directory)
    try:
        return os.open(name, flags, dir_fd=directory)
    finally:
        os.chmod(name, stat.S_IMODE(status.st_mode), dir_fd=directory)


@dataclass(slots=True)
class _DirectoryCopy:
    """A directory that is being copied."""

    source: int
    target: int
    rel_path: str
    status: os.stat_result
    remaining: Iterator[str]


class TreeCopier:
    """Copies into one folder. Hard links are preserved across calls."""

    def __init__(self, into: int) -> None:
        self._into = into
        self._hard_links: dict[tuple[int, int], str] = {}  # files with several names, and the path of the copy

    def copy(self, directory: int, name: str, to: str) -> None:
        stack: list[_DirectoryCopy] = []
        try:
            self._copy_entry(directory, name, self._into, to, to, stack)
            while stack:
                current = stack[-1]
                depth = len(stack)
                for each in current.remaining:
                    self._copy_entry(current.source, each, current.target, each, f"{current.rel_path}/{each}", stack)
                    if len(stack) > depth:
                        break
                else:
                    _copy_metadata_and_times(current.source, current.target, current.status)
                    _close_directory(stack.pop())
        finally:
            while stack:
                _close_directory(stack.pop())

    def _copy_entry(
        self, directory: int, name: str, into: int, to: str, rel_path: str, stack: list[_DirectoryCopy]
    ) -> None:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        mode = found.st_mode
        if stat.S_ISDIR(mode):
            os.mkdir(to, 0o700, dir_fd=into)
            source = force_open(directory, name, found)
            if mode & 0o500 != 0o500:
                os.fchmod(source, 0o700)
            stack.append(
                _DirectoryCopy(source, os.open(to, LIST_FLAGS, dir_fd=into), rel_path, found, iter(os.listdir(source)))
            )
        elif stat.S_ISREG(mode):
            self._copy_file(directory, name, into, to, rel_path, found)
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

    def _copy_file(self, directory: int, name: str, into: int, to: str, rel_path: str, status: os.stat_result) -> None:
        if status.st_nlink > 1:
            if (first := self._hard_links.get(file_id(status))) is not None:
                return os.link(first, to, src_dir_fd=self._into, dst_dir_fd=into, follow_symlinks=False)
            self._hard_links[file_id(status)] = rel_path
        source = force_open(directory, name, status)
        is_closed = not status.st_mode & stat.S_IRUSR  # then its attributes cannot be read, either
        try:
            if is_closed:
                os.fchmod(source, stat.S_IMODE(status.st_mode) | stat.S_IRUSR)
            target = os.open(to, CREATE_FLAGS, 0o600, dir_fd=into)
            try:
                copy_data(source, target, status.st_size)
                _copy_metadata_and_times(source, target, status)
            finally:
                os.close(target)
        finally:
            if is_closed:
                os.fchmod(source, stat.S_IMODE(status.st_mode))
            os.close(source)
        return None


def _close_directory(folder: _DirectoryCopy) -> None:
    if folder.status.st_mode & 0o500 != 0o500:
        os.fchmod(folder.source, stat.S_IMODE(folder.status.st_mode))
    os.close(folder.source)
    os.close(folder.target)


def copy_data(source: int, target: int, size: int) -> None:
    """Copy the content: by sharing blocks if the file system can, and preserving holes."""
    with suppress_and_log(OSError):
        fcntl.ioctl(target, FICLONE, source)
        return
    at = 0
    while at < size:
        try:
            at = os.lseek(source, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            break  # only a hole is left
        end = os.lseek(source, at, os.SEEK_HOLE)
        os.lseek(target, at, os.SEEK_SET)
        while at < end and (sent := os.sendfile(target, source, at, min(end - at, COPY_CHUNK_BYTES))):
            at += sent
    os.ftruncate(target, size)


def _copy_metadata_and_times(source: int, target: int, status: os.stat_result) -> None:
    if not copy_metadata(source, target, status):
        raise PermissionError(errno.EPERM, "a copy would not have the owner and the attributes of the original")
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
