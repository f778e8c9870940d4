"""Remove what has not been used for a week: /tmp folders of sessions, kept versions of conflicts.

Once a day, since it looks at all of them.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

from handhold.backends.files.staging_area import LIST_FLAGS, remove_tree
from handhold.backends.state.stamps import is_due

MAX_AGE_SECONDS = 7 * 24 * 3600.0
INTERVAL_SECONDS = 24 * 3600.0
STAMP_FILE = ".cleaned"  # its mtime is the last time


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
        if not is_due(STAMP_FILE, INTERVAL_SECONDS, folder=fd):
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


def _read_mtime(entry: "os.DirEntry[str]") -> float:
    try:
        return entry.stat(follow_symlinks=False).st_mtime
    except FileNotFoundError:  # another process removed it
        return time.time()
