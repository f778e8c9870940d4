"""Tell what a command created in a folder from what others put there."""

import os
import stat
from collections.abc import Callable
from contextlib import ExitStack

from handhold.backends.files.commit.file_metadata import lstat_at
from handhold.backends.files.commit.tree_copier import force_open

FULL_ACCESS = 0o700
PATH_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
IsBorn = Callable[[os.stat_result, int, str], bool]


def split_foreign(directory: int, name: str, is_born: IsBorn) -> list[str]:
    """The parts of an entry that are the command's alone: only the entry itself, if nobody put anything into it.

    What others put there is left out, with the folders above it. `is_born` gets an entry's status, its folder and name.
    """
    if not stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
        return [name]
    folders, theirs = {name: list[str]()}, set[str]()
    with ExitStack() as stack:
        pending = [name]
        while pending:
            folder = pending.pop()
            for each, found in _list_folder(directory, folder, stack, is_born):
                path = f"{folder}/{each}"
                if found is None:
                    theirs.add(path)
                    continue
                folders[folder].append(path)
                if stat.S_ISDIR(found.st_mode):
                    folders[path] = []
                    pending.append(path)
    above = {path[:at] for path in theirs for at, char in enumerate(path) if char == "/"}
    return [path for folder in sorted(above) for path in folders[folder] if path not in above] if theirs else [name]


def _list_folder(
    directory: int, folder: str, stack: ExitStack, is_born: IsBorn
) -> list[tuple[str, os.stat_result | None]]:
    """The names in a folder, with their status if they are born. A closed folder is open until the stack is closed."""
    fd = _open_below(directory, folder)
    try:
        status = os.fstat(fd)
        if status.st_mode & FULL_ACCESS != FULL_ACCESS:
            os.fchmod(fd, FULL_ACCESS)
            kept = os.dup(fd)
            stack.callback(os.close, kept)
            stack.callback(os.fchmod, kept, stat.S_IMODE(status.st_mode))
        entries = ((name, lstat_at(fd, name)) for name in os.listdir(fd))
        return [(name, found if is_born(found, fd, name) else None) for name, found in entries if found]
    finally:
        os.close(fd)


def _open_below(directory: int, path: str) -> int:
    """Open a folder by a path of any length, without following links."""
    *above, name = path.split("/")
    at = os.dup(directory)
    try:
        for each in above:
            at, before = os.open(each, PATH_FLAGS, dir_fd=at), at
            os.close(before)
        return force_open(at, name, os.stat(name, dir_fd=at, follow_symlinks=False))
    finally:
        os.close(at)
