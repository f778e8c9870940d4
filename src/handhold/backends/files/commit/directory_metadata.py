"""Directories that stay: compare and set their mode, owner and attributes.

A directory is accessed through `/proc/self/fd/…`, since it may not be readable.
"""

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager

from handhold.backends.files.commit.file_metadata import read_own_xattrs
from handhold.core.plans import DirectoryMetadata

DIRECTORY_PATH_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def open_proc_path_at(directory: int, name: str) -> Generator[str]:
    """A link is never followed."""
    fd = os.open(name, DIRECTORY_PATH_FLAGS, dir_fd=directory)
    try:
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


def chmod_at(directory: int, name: str, mode: int) -> None:
    """Change the mode of a directory, which may not be readable."""
    with open_proc_path_at(directory, name) as place:
        os.chmod(place, mode)


def is_before_or_after(
    place: str, before: DirectoryMetadata, after: DirectoryMetadata, extra_mode_bits: int = 0
) -> bool:
    """Whether each changed attribute has its old or its new value: the change may have been interrupted."""
    found = os.stat(place)
    if stat.S_IMODE(found.st_mode) not in {
        side.mode | extra for side in (before, after) for extra in (0, extra_mode_bits)
    }:
        return False
    if before.owner is not None and (found.st_uid, found.st_gid) not in (before.owner, after.owner):
        return False
    if before.xattrs is None:
        return True
    now, old, new = read_own_xattrs(place), dict(before.xattrs), dict(after.xattrs or ())
    return all(now.get(name) in (old.get(name), new.get(name)) for name in {*now, *old, *new})


def apply_folder_metadata(place: str, folder: DirectoryMetadata) -> None:
    """Set the mode last: removing an access list changes it."""
    found = os.stat(place)
    if folder.owner is not None and (found.st_uid, found.st_gid) != folder.owner:
        os.chown(place, *folder.owner)
    if folder.xattrs is not None:
        now, wanted = read_own_xattrs(place), dict(folder.xattrs)
        for name in now.keys() - wanted.keys():
            os.removexattr(place, name)
        for name, value in wanted.items():
            if now.get(name) != value:
                os.setxattr(place, name, value)
    if stat.S_IMODE(os.stat(place).st_mode) != folder.mode:
        os.chmod(place, folder.mode)
