"""Open files and folders for reading without changing their access times, where that is possible."""

import os

NO_ACCESS_TIME = getattr(os, "O_NOATIME", 0)  # only the owner of a file may leave its access time alone


def open_quietly(name: bytes | str, flags: int, directory: int | None = None) -> int:
    """Open for reading, without a trace if we own it."""
    if NO_ACCESS_TIME:
        try:
            return os.open(name, flags | NO_ACCESS_TIME, dir_fd=directory)
        except PermissionError:
            pass
    return os.open(name, flags, dir_fd=directory)
