"""The default bound for undo data: a share of the free space on its disks."""

import os
from collections.abc import Sequence
from contextlib import closing
from functools import cached_property
from os import PathLike, fspath

from handhold.backends.mounts import RemoteMounts

FREE_SPACE_DIVISOR = 4  # a quarter
MIN_BOUND_BYTES = 256 * 1024**2
MAX_BOUND_BYTES = 64 * 1024**3
BYTES_PER_INODE = 16 * 1024  # of disk space, as ext4 has them; with fewer inodes, the bound follows them


class DiskShare:
    """A quarter of the free space, counting undo data as free, so that keeping it does not lower the bound.

    Computed each time: when a disk fills up for whatever reason, undo data makes room.
    """

    def __init__(self, state: str | PathLike[str], roots: Sequence[str | PathLike[str]] = ()) -> None:
        self._state = fspath(state)
        self._roots = [os.path.realpath(root) for root in roots]

    def __call__(self, held: int) -> int:
        free = min(map(get_free_bytes, self._folders))
        return max(MIN_BOUND_BYTES, min((free + held) // FREE_SPACE_DIVISOR, MAX_BOUND_BYTES))

    @cached_property
    def _folders(self) -> list[str]:
        """Without roots on remote mounts: one that does not respond would block changes to the others."""
        return [self._state, *(root for root in self._roots if not is_remote(root))]


def get_free_bytes(folder: str) -> int:
    """Free bytes; fewer if inodes are scarce, since undo data needs both."""
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    return min(free, found.f_favail * BYTES_PER_INODE) if found.f_files else free


def is_remote(root: str) -> bool:
    with closing(RemoteMounts([root])) as mounts:
        return bool(mounts.description)
