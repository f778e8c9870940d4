"""Remove what has not been used for a week: /tmp folders of sessions, kept versions of conflicts.

Once a day, since it looks at all of them.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

from handhold.backends.files.staging_area import LIST_FLAGS, remove_tree

MAX_AGE_SECONDS = 7 * 24 * 3600.0
INTERVAL_SECONDS = 24 * 3600.0
STAMP_FILE = ".cleaned"  # its mtime is the last time
STAMP_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def mark_used(folder: Path) -> None:
    """Mark as used now. A long session may leave no other trace."""
    os.utime(folder)


def remove_unused(folder: Path) -> None:
    """Remove older subfolders."""
    try:
        fd = os.open(folder, LIST_FLAGS)
    except FileNotFoundError:
        return
    try:
        if not _is_due(fd):
            return
        before = time.time() - MAX_AGE_SECONDS
        with os.scandir(fd) as entries:
            old = [
                entry.name for entry in entries if entry.is_dir(follow_symlinks=False) and _read_mtime(entry) < before
            ]
        for name in old:
            with suppress(OSError):  # retried at the next cleanup
                remove_tree(name, fd)
    finally:
        os.close(fd)


def _is_due(folder: int) -> bool:
    """Whether a day has passed; if so, the next one begins now."""
    stamp = os.open(STAMP_FILE, STAMP_FLAGS, 0o600, dir_fd=folder)
    try:
        found = os.fstat(stamp)
        # A new file is empty. If the clock was set back, it is due.
        if found.st_size and 0 <= time.time() - found.st_mtime < INTERVAL_SECONDS:
            return False
        os.write(stamp, b".")
        return True
    finally:
        os.close(stamp)


def _read_mtime(entry: "os.DirEntry[str]") -> float:
    try:
        return entry.stat(follow_symlinks=False).st_mtime
    except FileNotFoundError:  # another process removed it
        return time.time()
