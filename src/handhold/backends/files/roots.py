"""Roots as descriptors, and paths relative to them.

A root is opened once; what its name refers to afterwards does not matter. If the pool closed its idle descriptor, it is
opened again by its path, and refused if another folder is there now. Paths are parsed here without accessing the disk:
which root they are in by name, and the rest.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from handhold.backends.descriptor_pool import EXHAUSTED_ERRNOS, Pooled
from handhold.backends.files.file_kinds import is_virtual
from handhold.backends.files.os_errors import translate_os_errors
from handhold.backends.program_search import distrust
from handhold.core.errors import BadPath, OutsideWorkspace, SystemFailure
from handhold.core.text.path_escaping import unescape_ambiguous, unescape_path
from handhold.logs import log_swallowed

FOLDER_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC

FolderId = tuple[int, int]  # device and inode, which identify the folder, however it is spelled, linked or mounted


@dataclass(frozen=True)
class Root:
    folder: Pooled[int] = field(repr=False)  # `with root.folder as fd`
    given: str  # as the user spells it
    real: str  # with links resolved, when it was opened
    writable: bool
    id: FolderId
    is_virtual: bool = False  # on procfs or sysfs
    prefix: str = field(init=False, repr=False)  # the canonical prefix of everything below it

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefix", self.real.rstrip("/") + "/")

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, writable: bool) -> "Root":
        given = os.path.abspath(path)
        opener = FolderOpener(given)
        folder = Pooled(given, opener.open, os.close)
        with translate_os_errors(given), folder as fd:
            distrust(opener.path)
            return cls(folder, given, opener.path, writable, opener.identify(fd), is_virtual(fd))

    @property
    def device(self) -> int:
        return self.id[0]

    def close(self) -> None:
        self.folder.close()


class FolderOpener:
    """Opens a folder by its path; once it was open, only the same folder."""

    def __init__(self, given: str) -> None:
        self.path = given  # with links resolved, once it was open
        self._id: FolderId | None = None

    def open(self) -> int:
        if self._id is None:
            fd = os.open(self.path, FOLDER_FLAGS)
            self._id, self.path = self.identify(fd), read_path(fd, self.path)
            return fd
        try:
            fd = os.open(self.path, FOLDER_FLAGS)
        except OSError as error:
            if error.errno in EXHAUSTED_ERRNOS:
                raise
            raise SystemFailure(self.path, f"the folder cannot be opened again: {error.strerror}") from error
        if self.identify(fd) != self._id:
            os.close(fd)
            raise SystemFailure(self.path, "another folder is there now")
        return fd

    def identify(self, fd: int) -> FolderId:
        status = os.fstat(fd)
        return status.st_dev, status.st_ino


def read_path(fd: int, given: str) -> str:
    """The path of an open folder, with links resolved."""
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        log_swallowed()
        return os.path.realpath(given)


@dataclass(frozen=True, slots=True)
class RootedPath:
    """A path as far as its spelling tells: a root, and the path relative to it."""

    path: str
    root: Root
    rel_path: str


class Roots:
    """The roots of a workspace, in order."""

    def __init__(self, roots: Sequence[Root], extra: Sequence[Root] = ()) -> None:
        """`extra` can be read like roots, but are not part of the workspace."""
        self.all = tuple(roots)
        self.first = self.all[0]
        self.paths = tuple(dict.fromkeys(root.real for root in self.all))
        # If roots are nested, the inner one applies; if two are the same, the read-only one.
        all_roots = (*self.all, *extra)
        self.devices = {root.device for root in all_roots if not root.is_virtual}
        spelled = [(spelling, root) for root in all_roots for spelling in dict.fromkeys((root.real, root.given))]
        self._by_spelling = sorted(spelled, key=lambda pair: (-len(pair[0]), pair[1].writable))
        self._all_roots = all_roots

    @classmethod
    def open(cls, given: Sequence[tuple[str | os.PathLike[str], bool]], extra: Mapping[str, Path]) -> "Roots":
        """Open roots by path, each writable or not; a folder that is given as both is read-only.

        `extra` maps names used here to folders anywhere.
        """
        opened: list[Root] = []
        others: list[Root] = []
        try:
            for path, writable in given:
                opened.append(Root.open(path, writable=writable))
            for name, folder in extra.items():
                others.append(replace(Root.open(folder, writable=False), given=name, real=name))
        except BaseException:
            for root in (*opened, *others):
                root.close()
            raise
        read_only = {root.id for root in opened if not root.writable}
        opened = [replace(root, writable=root.id not in read_only) for root in opened]
        return cls(opened, others)

    def parse_path(self, path: str) -> RootedPath:
        """Parse a path from the model; raise BadPath or OutsideWorkspace."""
        _check_path(path)
        if not path.startswith("/"):
            return RootedPath(path, self.first, path)
        if path == "/":
            return RootedPath(path, self.first, "")
        if found := self.split_absolute(path):
            return RootedPath(path, *found)
        raise OutsideWorkspace(path, self.paths)

    def split_absolute(self, path: str) -> tuple[Root, str] | None:
        """The root that contains an absolute path by name, and the rest of the path."""
        plain = path if "//" not in path and "/./" not in path else "/" + "/".join(split_names(path))
        for spelling, root in self._by_spelling:
            if (rel_path := _relative_to(spelling, plain)) is not None:
                return root, rel_path
        return None

    def locate(self, place: str) -> tuple[Root, str]:
        """The root of a canonical place, and the relative path."""
        if found := self.split_absolute(unescape_ambiguous(place)):
            return found
        raise OutsideWorkspace(place, self.paths)

    def close(self) -> None:
        for root in self._all_roots:
            root.close()


def unescape_existing_names(path: str, exists: Callable[[str], bool]) -> str:
    """Replace escaped names in a path by the real ones, if `exists` confirms them."""
    if unescape_path(path) is None:
        return path
    parts = path.split("/")
    for at, part in enumerate(parts):
        name = unescape_path(part)
        if name is not None and exists("/".join([*parts[:at], name])):
            parts[at] = name
    return "/".join(parts)


def split_names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _relative_to(top: str, path: str) -> str | None:
    if path == top:
        return ""
    prefix = top if top.endswith("/") else top + "/"
    return path[len(prefix) :] if path.startswith(prefix) else None


def _check_path(path: str) -> None:
    """Raise BadPath for a path that cannot name a file."""
    if not path:
        raise BadPath(path, "it is empty")
    if path != "/" and (path in (".", "..") or path.endswith(("/", "/.", "/.."))):
        raise BadPath(path, "it ends in '/', '.' or '..'")
    if "\0" in path:
        raise BadPath(path, "it contains a NUL")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise BadPath(path, "it contains characters that file names cannot have") from None
