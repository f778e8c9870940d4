"""What is copied first: what git could not give back, then tracked files, and git's objects last."""

import os
from collections.abc import Collection

from handhold.backends.quiet_open import open_quietly
from handhold.backends.snapshots.listing import FILE_FLAGS
from handhold.core.tools.git_refresh import parse_index
from handhold.logs import log_swallowed

UNTRACKED, TRACKED, OBJECTS = range(3)
MAX_INDEX_BYTES = 64 * 1024 * 1024
GIT_FOLDER = b".git"
OBJECTS_FOLDERS = (b"objects", b"lfs")


class CopyOrder:
    """Ranks the files of a tree that is listed from parents to children."""

    def __init__(self) -> None:
        self._tracked: dict[bytes, Collection[tuple[bytes, int, int]]] = {}  # by the folder of a repository

    def add_folder(self, path: bytes, fd: int, names: Collection[bytes]) -> None:
        """Take note of a repository, before its files are ranked."""
        if GIT_FOLDER in names:
            self._tracked[path] = _read_tracked(fd)

    def rank(self, folder: bytes, name: bytes, size: int, mtime_ns: int) -> int:
        parts = folder.split(b"/")
        if GIT_FOLDER in parts:
            inside = parts[parts.index(GIT_FOLDER) + 1 :]
            return OBJECTS if any(part in OBJECTS_FOLDERS for part in inside) else UNTRACKED
        path = folder + b"/" + name if folder else name
        if (repository := self._find_repository(folder)) is None:
            return UNTRACKED
        below = path[len(repository) + 1 :] if repository else path
        # What differs from the index is dirty.
        return TRACKED if (below, size, mtime_ns // 10**9) in self._tracked[repository] else UNTRACKED

    def _find_repository(self, folder: bytes) -> bytes | None:
        while self._tracked:
            if folder in self._tracked:
                return folder
            if not folder:
                break
            folder = folder.rpartition(b"/")[0]
        return None


def _read_tracked(fd: int) -> Collection[tuple[bytes, int, int]]:
    """The files in a repository's index: path, size and the second of its last change. Empty if it cannot be read."""
    try:
        index = open_quietly(b".git/index", FILE_FLAGS, fd)
    except OSError:
        log_swallowed()
        return ()
    with os.fdopen(index, "rb") as file:
        data = file.read(MAX_INDEX_BYTES)
    try:
        return {(entry.path, entry.size, entry.mtime) for entry in parse_index(data)}
    except (ValueError, IndexError):
        log_swallowed()
        return ()
