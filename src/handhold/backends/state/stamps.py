"""Work that is due once in a while: the mtime of a small file is when it was last done."""

import os
import time

STAMP_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def is_due(stamp: str, seconds: float, *, folder: int | None = None) -> bool:
    """Whether that many seconds have passed; if so, they begin again now."""
    fd = os.open(stamp, STAMP_FLAGS, 0o600, dir_fd=folder)
    try:
        found = os.fstat(fd)
        # A new file is empty. If the clock was set back, it is due.
        if found.st_size and 0 <= time.time() - found.st_mtime < seconds:
            return False
        os.write(fd, b".")
        return True
    finally:
        os.close(fd)
