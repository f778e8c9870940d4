"""Names in open folders: what the supervisor has to know of one before it is moved."""

import errno
import os
import stat
from collections.abc import Iterator
from typing import NamedTuple, NoReturn


class Spot(NamedTuple):
    """A name in an open folder, and the place that it is."""

    folder: int
    name: str
    place: str


def must_not_be_mounted(spot: Spot) -> None:
    """The kernel looks for mount points in our namespace only: what is mounted in the command's would come off."""
    try:
        fd = os.open(spot.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=spot.folder)
    except FileNotFoundError:
        return
    try:
        if _mount(fd) != _mount(spot.folder):
            raise OSError(errno.EBUSY, spot.place)
    finally:
        os.close(fd)


def _mount(fd: int) -> str:
    with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as info:  # noqa: PTH123
        return next(line for line in info if line.startswith("mnt_id:"))


def is_folder(spot: Spot) -> bool:
    try:
        return stat.S_ISDIR(os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def entries_of(spot: Spot) -> Iterator[tuple[str, bool]]:
    """All that is in a folder. One that cannot be listed is not moved: nobody knows what is in it."""

    def fail(error: OSError) -> NoReturn:
        raise error

    for above, folders, files, _ in os.fwalk(spot.name, dir_fd=spot.folder, follow_symlinks=False, onerror=fail):
        inside = above.removeprefix(spot.name).lstrip("/")
        for names, below in ((folders, True), (files, False)):
            yield from ((f"{inside}/{name}" if inside else name, below) for name in names)
