"""Compare an entry of a layer with the entry of the same name in the root."""

import os
import stat
from dataclasses import dataclass

from handhold.backends.files.commit.file_metadata import has_same_bytes, read_own_xattrs
from handhold.backends.files.manifest import READ_FLAGS, VANISHED_ERRNOS
from handhold.backends.shell.overlay_xattrs import get_owner_ids


@dataclass(frozen=True, slots=True)
class LayerDirectory:
    """A directory that exists both in the layer and in the root."""

    rel_path: str  # relative to the root, with a trailing slash; empty for the root itself
    upper: int
    lower: int
    changed_by_others: bool  # somebody else created, removed or renamed an entry since the command started


def is_same_file(here: LayerDirectory, name: str, fd: int, found: os.stat_result, lower: os.stat_result) -> bool:
    """Whether it was opened for writing but not changed. A file with hard links always counts as changed."""
    if (
        found.st_nlink > 1
        or lower.st_nlink > 1
        or found.st_mtime_ns != lower.st_mtime_ns
        or (found.st_size, found.st_mode) != (lower.st_size, lower.st_mode)
        or get_owner_ids(found) != get_owner_ids(lower)
    ):
        return False
    try:
        old = os.open(name, READ_FLAGS, dir_fd=here.lower)
    except PermissionError:
        return False
    except OSError as error:
        if error.errno not in VANISHED_ERRNOS:
            raise
        return False
    try:
        same = read_own_xattrs(fd) == read_own_xattrs(old) and has_same_bytes(fd, old)
    finally:
        os.close(old)
    os.lseek(fd, 0, os.SEEK_SET)
    return same


def is_same_link(here: LayerDirectory, name: str, found: os.stat_result, lower: os.stat_result | None) -> bool:
    return (
        lower is not None
        and stat.S_ISLNK(found.st_mode)
        and stat.S_ISLNK(lower.st_mode)
        and found.st_nlink == lower.st_nlink == 1
        and found.st_mtime_ns == lower.st_mtime_ns
        and get_owner_ids(found) == get_owner_ids(lower)
        and os.readlink(name, dir_fd=here.upper) == os.readlink(name, dir_fd=here.lower)
    )
