"""Whether a file has a name outside the roots: writing to it in place would change it there, too.

What is mounted in two places shows each name twice. So only the names on one mount are counted.
"""

import os
from collections.abc import Container, Iterator, Sequence
from itertools import islice

from handhold.backends.files.folder_listing import FileId, find_files_by_id, open_tree
from handhold.backends.files.os_errors import translate_os_errors
from handhold.backends.files.roots import Root
from handhold.backends.mounts import MOUNTINFO_PATH, list_mounts
from handhold.core.facts import FileStat
from handhold.core.text.path_escaping import unescape_ambiguous
from handhold.logs import log_swallowed

MAX_FOLDERS = 5_000  # in which a file's other names are searched; beyond that, one is assumed to be outside
MAX_KNOWN_FILES = 1_000


class LinkedNames:
    """The names of files below some roots. A search through all folders is done once for each file."""

    def __init__(self, roots: Sequence[Root]) -> None:
        self._roots = drop_nested_roots(roots)
        self._known: dict[FileId, tuple[int, list[str]]] = {}  # how many names a file has, and those found

    def has_outside_name(self, status: FileStat) -> bool:
        """Whether a file has a name that is not below the roots, or is on another mount."""
        return status.link_count > 1 and len(self.find(status)) < status.link_count

    def find(self, status: FileStat) -> Sequence[str]:
        """The names of a file below the roots, on its own mount; not all if it has some in very many folders."""
        count, file_id = status.link_count, (status.identity.device, status.identity.inode)
        place, points = unescape_ambiguous(status.path), read_mount_points()
        mount = find_mount_point(place, points)

        def is_name(name: str) -> bool:
            return find_mount_point(name, points) == mount

        known_count, names = self._known.get(file_id, (0, []))
        # If one name was outside, it is taken to be there still: at worst a person is asked once more.
        if known_count != count or (
            len(names) == count and not all(is_name(name) and _has_id(name, file_id) for name in names)
        ):
            names = list(islice(filter(is_name, self._search(place, file_id)), count))
            if len(self._known) >= MAX_KNOWN_FILES:
                self._known.clear()
            self._known[file_id] = count, names
        return names

    def _search(self, place: str, file_id: FileId) -> Iterator[str]:
        """The names of a file, those in its own folder first."""
        left = MAX_FOLDERS
        own_folder = os.path.dirname(place)
        for root in sorted(self._roots, key=lambda root: not place.startswith(root.prefix)):
            own = os.fsencode(own_folder.removeprefix(root.prefix)) if own_folder.startswith(root.prefix) else b""
            pending, searched = [b"", own], set[bytes]()
            with open_tree(root) as tree:
                while pending and left:
                    rel_path = pending.pop()
                    if rel_path in searched:
                        continue
                    searched.add(rel_path)
                    left -= 1
                    prefix = rel_path + b"/" if rel_path else b""
                    for found in find_files_by_id(tree, rel_path, frozenset({file_id})):
                        yield root.prefix + os.fsdecode(found)
                    try:
                        pending += [prefix + name for name, kind in tree.list_entries(prefix) if kind == "directory"]
                    except OSError:
                        continue  # not accessible, or gone


def _has_id(name: str, file_id: FileId) -> bool:
    """Whether a file is still at this path, without a link on the way: that may lead outside."""
    if os.path.realpath(name) != name:
        return False
    try:
        status = os.lstat(name)
    except OSError:
        log_swallowed()
        return False
    return (status.st_dev, status.st_ino) == file_id


def read_mount_points() -> frozenset[str]:
    with translate_os_errors(MOUNTINFO_PATH):
        return frozenset(point for point, _ in list_mounts())


def find_mount_point(place: str, points: Container[str]) -> str:
    """The mount that a place is on."""
    while place not in points and place != "/":
        place = os.path.dirname(place)
    return place


def drop_nested_roots(roots: Sequence[Root]) -> list[Root]:
    """The roots without those inside another."""
    by_path = {root.real: root for root in roots}
    return [
        root
        for root in by_path.values()
        if not any(root.prefix.startswith(_above(each)) and root.real != each for each in by_path)
    ]


def _above(path: str) -> str:
    return path.rstrip("/") + "/"
