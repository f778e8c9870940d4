"""List folders, and find files by name below a root, within a short time limit."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from stat import S_ISDIR
from time import monotonic

from handhold.backends.files.file_kinds import is_virtual
from handhold.core.facts import FolderEntry
from handhold.core.text.default_ignores import DEFAULT_IGNORED_FOLDERS
from handhold.logs import log_swallowed

SEARCH_TIMEOUT_SECONDS = 0.1
MAX_ENTRIES = 50_000


def find_by_name(name: str, open_folder: Callable[[Sequence[str]], int]) -> Iterator[str]:
    """Relative paths of files with this name, ignoring case, shallow ones first.

    Hidden and generated folders are skipped: nobody means a file there.
    """
    wanted, until, left = name.casefold(), monotonic() + SEARCH_TIMEOUT_SECONDS, MAX_ENTRIES
    folders = deque[tuple[str, ...]]([()])
    while folders and left > 0 and monotonic() < until:
        parts = folders.popleft()
        for name, is_folder in list_folder(parts, open_folder):
            left -= 1
            if left <= 0 or (left % 1024 == 0 and monotonic() > until):
                return
            if not is_folder and name.casefold() == wanted:
                yield "/".join((*parts, name))
            elif is_folder and not name.startswith(".") and name not in DEFAULT_IGNORED_FOLDERS:
                folders.append((*parts, name))


def list_folder(parts: Sequence[str], open_folder: Callable[[Sequence[str]], int]) -> Iterator[tuple[str, bool]]:
    """Names in a folder, and which are folders; none if it is gone, not accessible, or on procfs or sysfs."""
    try:
        fd = open_folder(parts)
        try:
            if not is_virtual(fd):
                with os.scandir(fd) as entries:
                    yield from ((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
        finally:
            os.close(fd)
    except OSError:
        log_swallowed()
        return


def list_entries(fd: int) -> list[FolderEntry]:
    """What is in an open folder, which is closed."""
    try:
        with os.scandir(fd) as entries:
            found = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
        return [FolderEntry(name, S_ISDIR(status.st_mode), status.st_mtime_ns) for name, status in found]
    finally:
        os.close(fd)
