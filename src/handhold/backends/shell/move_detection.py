"""Distinguish files that a command moved from files that somebody else deleted meanwhile.

In a layer both look alike: a copy of a file that does not exist under this name in the root. A moved file still exists
in the root under its old name, which the layer has deleted, with the same mtime, size, mode and content.
"""

import os
import stat
from collections import defaultdict
from collections.abc import Iterator

from handhold.backends.files.commit.file_metadata import has_same_bytes
from handhold.backends.files.manifest import READ_FLAGS
from handhold.backends.files.roots import Root, split_names
from handhold.backends.files.walk_resolver import descend
from handhold.backends.shell.overlay_xattrs import is_whiteout
from handhold.logs import suppress_and_log

FileSignature = tuple[int, int, int]


class MoveDetector:
    """The files that a layer deleted from its root, collected on first use."""

    def __init__(self, root: Root, layer: Root) -> None:
        self._root = root
        self._layer = layer
        self._deleted_files: dict[FileSignature, list[str]] | None = None  # by signature, with their paths

    def has_moved(self, fd: int, found: os.stat_result) -> bool:
        """Whether this file, open at its start, was moved here. The file position is restored."""
        if self._deleted_files is None:
            self._deleted_files = self._collect_deleted()
        return any(self._is_same(fd, rel_path) for rel_path in self._deleted_files.get(_get_signature(found), ()))

    def _is_same(self, fd: int, rel_path: str) -> bool:
        above, name = os.path.split(rel_path)
        with suppress_and_log(OSError):
            directory = descend(self._root, split_names(above))
            try:
                old = os.open(name, READ_FLAGS, dir_fd=directory)
            finally:
                os.close(directory)
            try:
                return has_same_bytes(fd, old)
            finally:
                os.close(old)
                os.lseek(fd, 0, os.SEEK_SET)
        return False

    def _collect_deleted(self) -> dict[FileSignature, list[str]]:
        found: defaultdict[FileSignature, list[str]] = defaultdict(list)
        with self._layer.folder as layer:
            for folder, _, files, upper in os.fwalk(".", dir_fd=layer):
                deleted = [name for name in files if is_whiteout(os.stat(name, dir_fd=upper, follow_symlinks=False))]
                with suppress_and_log(OSError):
                    directory = descend(self._root, split_names(os.path.normpath(folder).removeprefix(".")))
                    try:
                        for name in deleted:
                            for rel_path, seen in _walk_files(directory, name):
                                found[_get_signature(seen)].append(os.path.join(folder, rel_path))
                    finally:
                        os.close(directory)
        return found


def _walk_files(directory: int, name: str) -> Iterator[tuple[str, os.stat_result]]:
    """A file, or all files below a folder."""
    seen = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if stat.S_ISREG(seen.st_mode):
        yield name, seen
    elif stat.S_ISDIR(seen.st_mode):
        for folder, _, files, fd in os.fwalk(name, dir_fd=directory):
            for each in files:
                yield os.path.join(folder, each), os.stat(each, dir_fd=fd, follow_symlinks=False)


def _get_signature(found: os.stat_result) -> FileSignature:
    return found.st_mtime_ns, found.st_size, found.st_mode
