"""Directory entries that the supervisor checks before it moves them."""

import errno
import os
import stat
from collections.abc import Iterator
from typing import NamedTuple, NoReturn


class EntryRef(NamedTuple):
    """A name in an open folder, and its path."""

    dir_fd: int
    name: str
    path: str


def check_not_mount_point(entry: EntryRef) -> None:
    """Refuse mount points: the kernel checks only our mount namespace, and would detach mounts in the command's."""
    try:
        fd = os.open(entry.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=entry.dir_fd)
    except FileNotFoundError:
        return
    try:
        if _read_mount_id(fd) != _read_mount_id(entry.dir_fd):
            raise OSError(errno.EBUSY, entry.path)
    finally:
        os.close(fd)


def _read_mount_id(fd: int) -> str:
    with open(f"/proc/self/fdinfo/{fd}", encoding="utf-8") as info:  # noqa: PTH123
        return next(line for line in info if line.startswith("mnt_id:"))


def is_folder(entry: EntryRef) -> bool:
    try:
        return stat.S_ISDIR(os.stat(entry.name, dir_fd=entry.dir_fd, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def walk_entries(entry: EntryRef) -> Iterator[tuple[str, bool]]:
    """All entries below a folder. Raises for a folder that cannot be listed, since its contents are unknown."""

    def fail(error: OSError) -> NoReturn:
        raise error

    for above, folders, files, _ in os.fwalk(entry.name, dir_fd=entry.dir_fd, follow_symlinks=False, onerror=fail):
        inside = above.removeprefix(entry.name).lstrip("/")
        for names, below in ((folders, True), (files, False)):
            yield from ((f"{inside}/{name}" if inside else name, below) for name in names)
