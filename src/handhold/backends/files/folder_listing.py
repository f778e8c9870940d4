"""One folder of a root as it was listed: what in it is denied, and a stamp that tells whether it has changed."""

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from handhold.backends.descriptor_pool import raise_if_exhausted
from handhold.backends.files.directory_tree import DiskTree, EntryKind
from handhold.backends.files.os_errors import translate_os_errors
from handhold.backends.files.roots import Root
from handhold.logs import log_swallowed

FileId = tuple[int, int]  # device and inode, which identify a file whatever its name


# Device, inode and ctime of a folder. Changes if it is replaced, or if entries are added or removed.
FolderStamp = tuple[int, int, int]


@dataclass(slots=True)
class FolderListing:
    """A folder as it was when it was listed."""

    stamp: FolderStamp | None
    is_stable: bool  # whether the stamp would reveal every later change
    subfolders: tuple[bytes, ...] = ()  # relative paths, as the following
    denied: tuple[bytes, ...] = ()  # denied entries that are neither links nor folders
    denied_links: tuple[bytes, ...] = ()
    denied_folders: tuple[bytes, ...] = ()
    is_unreadable: bool = False  # its contents are unknown
    has_visible: bool = False  # something in it may be read
    hard_links: tuple[bytes, ...] | None = None  # other names of denied files; None: not searched

    @property
    def is_notable(self) -> bool:
        """Whether it has denied entries, or must be tried again."""
        return self.stamp is None or bool(self.denied or self.denied_links or self.denied_folders)


def find_names_to_tops(root: Root, tops: Sequence[str] | None) -> dict[bytes, set[bytes]] | None:
    """The names on the way from a root to each of some places below it, by folder; None if one contains the root."""
    if tops is None or any((root.prefix).startswith(top.rstrip("/") + "/") for top in tops):
        return None
    ways = (os.fsencode(top.removeprefix(root.prefix)) for top in tops if top.startswith(root.prefix))
    names: dict[bytes, set[bytes]] = {}
    last = b""
    for way in sorted(ways, key=lambda way: way.split(b"/")):  # else `a.d` would come between `a` and `a/b`
        if last and way.startswith(last + b"/"):  # a top is listed whole
            continue
        last = way
        folder = b""
        for name in way.split(b"/"):
            names.setdefault(folder, set()).add(name)
            folder = folder + b"/" + name if folder else name
    return names


def look_up_entries(tree: DiskTree, prefix: bytes, names: Iterable[bytes]) -> Iterator[tuple[str, EntryKind]]:
    """Those of some names that a folder has."""
    for name in names:
        if kind := tree.get_kind(prefix, name):
            yield os.fsdecode(name), kind


def read_stamp(top_fd: int, rel_path: bytes) -> FolderStamp | None:
    """By path, which is fast. If a link was put in its way, it leads to another folder with another inode."""
    try:
        found = os.stat(rel_path or b".", dir_fd=top_fd, follow_symlinks=False)
    except OSError:  # gone, or too deep for a path
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns


def lstat_below(root: Root, rel_path: bytes) -> os.stat_result | None:
    try:
        with root.folder as folder:
            return os.stat(rel_path, dir_fd=folder, follow_symlinks=False)
    except OSError:
        log_swallowed()
        return None


def find_files_by_id(tree: DiskTree, rel_path: bytes, file_ids: frozenset[FileId]) -> Iterator[bytes]:
    """The relative paths of files directly in a folder that have one of these ids."""
    prefix = rel_path + b"/" if rel_path else b""
    try:
        folder = tree.open_folder(prefix)
        names = [name for name, kind in tree.iter_entries(prefix) if kind == "file"]
    except OSError as error:
        raise_if_exhausted(error, os.fsdecode(rel_path))
        log_swallowed()
        return
    for name in names:
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            log_swallowed()
            continue
        if (found.st_dev, found.st_ino) in file_ids:
            yield prefix + os.fsencode(name)


@contextmanager
def open_tree(root: Root) -> Generator[DiskTree]:
    with translate_os_errors(root.real), root.folder as folder:
        top = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        with DiskTree(top) as tree:
            yield tree
    finally:
        os.close(top)
