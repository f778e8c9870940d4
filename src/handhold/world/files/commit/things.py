"""Whether what lies somewhere is the thing that a plan names: by its inode and time, else by what it holds."""

import os
import stat
from contextlib import suppress
from typing import Literal

from handhold.core.plans import Bytes, Content, Directory, Folder, Shelved, Stored
from handhold.world.files.commit.folders import directory_at, is_between
from handhold.world.files.commit.likeness import file_of, fingerprint, stat_of
from handhold.world.files.manifest import owner_of, thing, unread

Kind = Literal["file", "link", "tree", "other"]
KINDS: dict[int, Kind] = {stat.S_IFREG: "file", stat.S_IFLNK: "link", stat.S_IFDIR: "tree"}
WRITABLE = 0o700  # a directory that is moved must be writable, and gets its own mode back afterwards


def kind_of(found: os.stat_result) -> Kind:
    return KINDS.get(stat.S_IFMT(found.st_mode), "other")


def is_thing(found: os.stat_result | None, expected: Shelved) -> bool:
    """Whether it is this very one, and untouched as far as one look tells."""
    if found is None or file_of(found) != expected.inode or kind_of(found) != expected.kind:
        return False
    mode = stat.S_IMODE(found.st_mode)
    if expected.kind == "tree":
        return mode in (expected.mode, expected.mode | WRITABLE)
    if expected.kind == "file" and found.st_size != expected.size:
        return False
    return found.st_mtime_ns == expected.mtime_ns and (expected.kind == "link" or mode == expected.mode)


def is_like(directory: int, name: str, expected: Shelved) -> bool:
    """Whether it holds the same, with the same mode, whichever inode it has. Reads it; a tree from end to end."""
    found = thing(name, dir_fd=directory)
    if found is None or (found.kind, found.hash) != (expected.kind, expected.hash):
        return False
    return expected.kind == "link" or found.mode == expected.mode


def stands(directory: int, name: str, expected: Shelved) -> bool:
    """Whether the thing is there as it was. A tree is one only with all that is in it."""
    if expected.kind != "tree" and is_thing(stat_of(directory, name), expected):
        return True
    try:
        return is_like(directory, name, expected)
    except (FileNotFoundError, PermissionError):  # it went away this moment, or is not what we once could read
        return False


def lies(directory: int, name: str, expected: Shelved) -> bool:
    """Whether the thing lies in a place of our own, where nobody works in it."""
    return is_thing(stat_of(directory, name), expected) or stands(directory, name, expected)


def there(directory: int, name: str, content: Content) -> bool:
    """Whether any content stands under a name."""
    found = stat_of(directory, name)
    match content:
        case Shelved():
            return stands(directory, name, content)
        case Folder():
            if found is None or not stat.S_ISDIR(found.st_mode):
                return False
            with directory_at(directory, name) as place:
                return is_between(place, content, content)
        case Directory():
            return found is not None and stat.S_ISDIR(found.st_mode)
        case Bytes() | Stored():
            return fingerprint(directory, name)[1] == content.hash


def entries_of(directory: int, name: str, slot: str, most: int) -> list[tuple[str, Shelved]]:
    """What lies in a tree, folder by folder, at most so much of it; told by what a look tells."""
    entries: list[tuple[str, Shelved]] = []
    with suppress(PermissionError):  # it ends at a folder that is closed to us
        for folder, folders, files, fd in os.fwalk(name, dir_fd=directory, follow_symlinks=False):
            folders.sort()
            inside = folder.removeprefix(name).lstrip("/")
            for each in sorted((*folders, *files)):
                if len(entries) == most:
                    return entries
                if found := stat_of(fd, each):
                    way = f"{inside}/{each}" if inside else each
                    mode, inode = stat.S_IMODE(found.st_mode), file_of(found)
                    size = 0 if stat.S_ISDIR(found.st_mode) else found.st_size
                    kind = kind_of(found)
                    time, owner = found.st_mtime_ns, owner_of(found)
                    thing = Shelved(f"{slot}/{way}", kind, unread(found), size, mode, inode, time, owner=owner)
                    entries.append((way, thing))
    return entries
