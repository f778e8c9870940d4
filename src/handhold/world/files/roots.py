"""Roots as descriptors, and paths as places beneath them.

A root is opened once; what its name means afterwards does not matter. A path is read here, without
touching the disk: which root it lies in, by name, and what is left of it.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from handhold.core.errors import BadPath, OutsideWorkspace
from handhold.core.text.names import real, unescaped
from handhold.world.files.kinds import virtual
from handhold.world.files.trouble import named


@dataclass(frozen=True)
class Root:
    fd: int
    given: str  # as the user spells it
    real: str  # with links resolved, when it was opened
    writable: bool
    device: int
    prefix: str = field(init=False, repr=False)  # of everything below it, really spelled

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefix", self.real.rstrip("/") + "/")

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, writable: bool) -> "Root":
        given = os.path.abspath(path)
        with named(given):
            fd = os.open(given, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                real = os.readlink(f"/proc/self/fd/{fd}")
            except OSError:
                real = os.path.realpath(given)
            return cls(fd, given, real, writable, os.fstat(fd).st_dev)


@dataclass(frozen=True, slots=True)
class Spot:
    """A path as far as its letters tell: a root, and the way down from it."""

    path: str
    root: Root
    way: str


class Roots:
    """The roots of a workspace, in their order."""

    def __init__(self, roots: Sequence[Root], beside: Sequence[Root] = ()) -> None:
        """`beside` are read like roots, and no part of the workspace."""
        self.all = tuple(roots)
        self.first = self.all[0]
        self.names = tuple(dict.fromkeys(root.real for root in self.all))
        # Where one root lies in another, the inner one is meant; where two are the same, what may not be written.
        every = (*self.all, *beside)
        self.devices = {root.device for root in every if root.fd >= 0 and not virtual(root.fd)}
        spelled = [(spelling, root) for root in every for spelling in dict.fromkeys((root.real, root.given))]
        self._spelled = sorted(spelled, key=lambda pair: (-len(pair[0]), pair[1].writable))
        self._open = ExitStack()
        for root in every:
            self._open.callback(os.close, root.fd)

    @classmethod
    def open(cls, given: Sequence[tuple[str | os.PathLike[str], bool]], beside: Mapping[str, Path]) -> "Roots":
        """Roots by their paths, and whether each may be written: a folder that is given as both may not.

        `beside` names folders by what they are called here, wherever they lie.
        """
        opened: list[Root] = []
        others: list[Root] = []
        try:
            for path, writable in given:
                opened.append(Root.open(path, writable=writable))
            for name, folder in beside.items():
                others.append(replace(Root.open(folder, writable=False), given=name, real=name))
            kept = {_folder(root) for root in opened if not root.writable}
            opened = [replace(root, writable=_folder(root) not in kept) for root in opened]
        except BaseException:
            for root in (*opened, *others):
                os.close(root.fd)
            raise
        return cls(opened, others)

    def spot(self, path: str) -> Spot:
        """Where a path of the model's leads; BadPath or OutsideWorkspace."""
        _must_name_something(path)
        if not path.startswith("/"):
            return Spot(path, self.first, path)
        if path == "/":
            return Spot(path, self.first, "")
        if found := self.absolute(path):
            return Spot(path, *found)
        raise OutsideWorkspace(path, self.names)

    def absolute(self, path: str) -> tuple[Root, str] | None:
        """The root that an absolute path lies in, by name, and the rest of it."""
        plain = path if "//" not in path and "/./" not in path else "/" + "/".join(names(path))
        for spelling, root in self._spelled:
            if (way := _below(spelling, plain)) is not None:
                return root, way
        return None

    def of(self, place: str) -> tuple[Root, str]:
        """The root of a place, which is spelled really, and the way down."""
        if found := self.absolute(real(place)):
            return found
        raise OutsideWorkspace(place, self.names)

    def close(self) -> None:
        """Twice is as good as once: by then the number may be somebody else's."""
        self._open.close()


def meant(path: str, stands: Callable[[str], bool]) -> str:
    """A path as the model means it: a name in it may be given as it was shown, if `stands` says that there is one."""
    if unescaped(path) is None:
        return path
    parts = path.split("/")
    for at, part in enumerate(parts):
        name = unescaped(part)
        if name is not None and stands("/".join([*parts[:at], name])):
            parts[at] = name
    return "/".join(parts)


def names(way: str) -> list[str]:
    return [name for name in way.split("/") if name not in ("", ".")]


def _folder(root: Root) -> tuple[int, int]:
    """Which folder it is, however it is spelled, linked or mounted."""
    status = os.fstat(root.fd)
    return status.st_dev, status.st_ino


def _below(top: str, path: str) -> str | None:
    if path == top:
        return ""
    above = top if top.endswith("/") else top + "/"
    return path[len(above) :] if path.startswith(above) else None


def _must_name_something(path: str) -> None:
    """BadPath for what names no file whatever the disk holds."""
    if not path:
        raise BadPath(path, "it is empty")
    if path != "/" and (path in (".", "..") or path.endswith(("/", "/.", "/.."))):
        raise BadPath(path, "it ends in '/', '.' or '..'")
    if "\0" in path:
        raise BadPath(path, "it holds a NUL")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise BadPath(path, "it holds characters that no file name can") from None
