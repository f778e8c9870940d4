"""The default bound for undo data: a share of the free space on its disks."""

import os
from collections.abc import Sequence
from contextlib import closing
from functools import cached_property
from os import PathLike
from pathlib import Path

from handhold.backends.mounts import RemoteMounts
from handhold.backends.state.state_errors import translate_state_errors
from handhold.logs import suppress_and_log

FREE_SPACE_DIVISOR = 4  # a quarter
MIN_BOUND_BYTES = 256 * 1024**2
MAX_BOUND_BYTES = 64 * 1024**3
BYTES_PER_INODE = 16 * 1024  # of disk space, as ext4 has them; with fewer inodes, the bound follows them


class DiskShare:
    """A quarter of the free space, counting undo data as free, so that keeping it does not lower the bound.

    Computed each time: when a disk fills up for whatever reason, undo data makes room.
    """

    def __init__(self, state: str | PathLike[str], roots: Sequence[str | PathLike[str]] = ()) -> None:
        self._state = Path(state)
        self._roots = [os.path.realpath(root) for root in roots]

    def __call__(self, held: int) -> int:
        with translate_state_errors(self._state):
            free = get_free_bytes(str(self._state))
        for root in self._local_roots:
            with suppress_and_log(OSError):  # it is gone: the others still have their space
                free = min(free, get_free_bytes(root))
        return max(MIN_BOUND_BYTES, min((free + held) // FREE_SPACE_DIVISOR, MAX_BOUND_BYTES))

    @cached_property
    def _local_roots(self) -> list[str]:
        """Without roots on remote mounts: one that does not respond would block changes to the others."""
        return [root for root in self._roots if not is_remote(root)]


def get_free_bytes(folder: str) -> int:
    """Free bytes; fewer if inodes are scarce, since undo data needs both."""
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    return min(free, found.f_favail * BYTES_PER_INODE) if found.f_files else free


def is_remote(root: str) -> bool:
    with closing(RemoteMounts([root])) as mounts:
        return bool(mounts.description)
