"""Resolving a path by hand, name by name, for kernels that cannot be told to stay beneath a root.

No name is looked up but in a directory already held open, and no link is followed by the kernel: its text
is read and walked in its turn. So nobody can move the walk out of the roots by exchanging what it has
passed. `..` is never asked of the kernel either, because the directory may have been moved out meanwhile:
the way is walked again from the root. (Holding every directory on the way open would do too, but not a
thousand directories deep.)
"""

import errno
import os
import stat
from collections.abc import Sequence
from types import TracebackType

from handhold.core.errors import BadPath, DanglingLink, NotDirectory, OutsideWorkspace, SymlinkLoop
from handhold.world.files.kinds import virtual
from handhold.world.files.roots import Root, Roots, Spot, names
from handhold.world.files.trouble import trouble

MOST_LINKS = 40  # as Linux
ALWAYS = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class Opened:
    """A descriptor and the one spelling of what it is; no descriptor where nothing stands."""

    __slots__ = ("fd", "place")

    def __init__(self, fd: int | None, place: str) -> None:
        self.fd = fd
        self.place = place

    def __enter__(self) -> "Opened":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.fd is not None:
            os.close(self.fd)


class Walk:
    name = "walk"

    def __init__(self, roots: Roots) -> None:
        self.roots = roots

    def open(self, spot: Spot, flags: int) -> Opened:
        """What a path leads to, links followed within the roots. Only regular files and directories are opened
        as `flags` say; anything else is given unopened, as by O_PATH."""
        try:
            with Steps(self.roots, spot) as steps:
                return steps.to_the_end(flags | ALWAYS)
        except OSError as error:
            raise trouble(error, spot.path) from error

    def directory(self, root: Root, way: Sequence[str]) -> int:
        """A directory that can be listed and synced. No name of the way may be a link."""
        fd = descend(root, way)
        try:
            return os.open(".", os.O_RDONLY | os.O_DIRECTORY | ALWAYS, dir_fd=fd)
        finally:
            os.close(fd)


def descend(root: Root, way: Sequence[str]) -> int:
    fd = os.open(".", STEP | os.O_DIRECTORY, dir_fd=root.fd)
    try:
        for name in way:
            below = os.open(name, STEP | os.O_DIRECTORY, dir_fd=fd)
            fd, above = below, fd
            os.close(above)
    except BaseException:
        os.close(fd)
        raise
    return fd


class Steps:
    """One walk: where it stands, and the names ahead."""

    def __init__(self, roots: Roots, spot: Spot) -> None:
        self.roots = roots
        self.spot = spot
        self.root = spot.root
        self.fd = descend(spot.root, ())
        self.names: list[str] = []
        self.ahead = names(spot.way)[::-1]  # the next one last
        self.written = len(self.ahead)  # how many of them the caller wrote; the others come from links
        self.links = 0

    def __enter__(self) -> "Steps":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self.fd)

    def to_the_end(self, flags: int) -> Opened:
        while self.ahead:
            own = len(self.ahead) <= self.written
            name = self.ahead.pop()
            self.written = min(self.written, len(self.ahead))
            if name == "..":
                self._up(own=own)
            elif opened := self._down(name, flags, own=own):
                return opened
        if flags & os.O_PATH:
            return Opened(os.dup(self.fd), self._place())
        return Opened(os.open(".", flags, dir_fd=self.fd), self._place())

    def _down(self, name: str, flags: int, *, own: bool) -> Opened | None:
        try:
            fd = os.open(name, STEP, dir_fd=self.fd)
        except FileNotFoundError:
            return self._nothing(name, own=own)
        try:
            mode = os.fstat(fd).st_mode
            if stat.S_ISLNK(mode):
                self._follow(fd)
            elif stat.S_ISDIR(mode):
                self.fd, fd = fd, self.fd
                self.names.append(name)
            elif self.ahead:
                raise NotDirectory(self.spot.path)
            elif stat.S_ISREG(mode) and not flags & os.O_PATH:
                return self._file(name, flags)
            else:
                return Opened(os.dup(fd), self._place(name))
        finally:
            os.close(fd)
        return None

    def _file(self, name: str, flags: int) -> Opened | None:
        try:
            return Opened(os.open(name, flags | os.O_NOFOLLOW, dir_fd=self.fd), self._place(name))
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
        self._one_more_link()  # put there this moment
        self.ahead.append(name)
        return None

    def _nothing(self, name: str, *, own: bool) -> Opened:
        """The walk ends before the path does: what it would be called if it were there."""
        if not own:
            raise DanglingLink(self.spot.path)
        if ".." in self.ahead:
            raise BadPath(self.spot.path, f"'..' after {name!r}, which does not exist")
        return Opened(None, self._place(name, *self.ahead[::-1]))

    def _follow(self, link: int) -> None:
        self._one_more_link()
        if virtual(link):  # a magic link: its text is not where it leads
            raise self._outside()
        target = os.readlink("", dir_fd=link)
        if target.startswith("/"):
            self._across(target)
        else:
            self.ahead += names(target)[::-1]

    def _one_more_link(self) -> None:
        self.links += 1
        if self.links > MOST_LINKS:
            raise SymlinkLoop(self.spot.path)

    def _up(self, *, own: bool) -> None:
        if self.names:
            self._stand(self.root, self.names[:-1])
        elif own:
            raise self._outside()
        else:  # a link may lead from one root to another
            above = os.path.dirname(self.root.real)
            while self.ahead and self.ahead[-1] == "..":
                self.ahead.pop()
                above = os.path.dirname(above)
            rest = self.ahead[::-1]
            self.ahead.clear()
            self._across(os.path.join(above, *rest))
            self.written = min(self.written, len(self.ahead))

    def _across(self, target: str) -> None:
        """Go on at an absolute place, from the root that it lies in."""
        found = self.roots.absolute(target)
        if found is None:
            raise self._outside()
        root, way = found
        self._stand(root, [])
        self.ahead += names(way)[::-1]

    def _stand(self, root: Root, way: list[str]) -> None:
        fd = descend(root, way)
        os.close(self.fd)
        self.fd, self.root, self.names = fd, root, way

    def _outside(self) -> OutsideWorkspace:
        return OutsideWorkspace(self.spot.path, self.roots.names)

    def _place(self, *rest: str) -> str:
        below = [*self.names, *rest]
        return self.root.prefix + "/".join(below) if below else self.root.real
