"""Resolve paths component by component, for kernels that cannot be told to stay below a root.

Names are looked up only in open directories, and the kernel follows no link: its target is read and resolved in turn.
So nobody can lead the resolution out of the roots by replacing what it has passed. `..` is never resolved by the kernel
either, because the directory may have been moved out meanwhile: the path is resolved again from the root. (Keeping
every directory on the path open would work too, but not a thousand directories deep.)
"""

import errno
import os
import stat
from collections.abc import Sequence
from types import TracebackType

from handhold.backends.files.file_kinds import is_virtual
from handhold.backends.files.os_errors import to_tool_error
from handhold.backends.files.roots import Root, RootedPath, Roots, split_names
from handhold.core.errors import BadPath, DanglingLink, NotDirectory, OutsideWorkspace, SymlinkLoop

MAX_SYMLINKS = 40  # as on Linux
BASE_OPEN_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
PATH_FLAGS = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class OpenedPath:
    """A descriptor and its canonical path; without a descriptor if nothing exists."""

    __slots__ = ("fd", "place")

    def __init__(self, fd: int | None, place: str) -> None:
        self.fd = fd
        self.place = place

    def __enter__(self) -> "OpenedPath":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.fd is not None:
            os.close(self.fd)


class WalkResolver:
    name = "walk"

    def __init__(self, roots: Roots) -> None:
        self.roots = roots

    def open(self, rooted: RootedPath, flags: int) -> OpenedPath:
        """Resolve a path, following links within the roots. Only regular files and directories are opened with `flags`;
        anything else is opened with O_PATH."""
        try:
            with PathWalk(self.roots, rooted) as walk:
                return walk.resolve(flags | BASE_OPEN_FLAGS)
        except OSError as error:
            raise to_tool_error(error, rooted.path) from error

    def open_directory(self, root: Root, parts: Sequence[str]) -> int:
        """Open a directory for listing and syncing. No component may be a link."""
        fd = descend(root, parts)
        try:
            return os.open(".", os.O_RDONLY | os.O_DIRECTORY | BASE_OPEN_FLAGS, dir_fd=fd)
        finally:
            os.close(fd)


def descend(root: Root, parts: Sequence[str]) -> int:
    with root.folder as folder:
        fd = os.open(".", PATH_FLAGS | os.O_DIRECTORY, dir_fd=folder)
    try:
        for name in parts:
            below = os.open(name, PATH_FLAGS | os.O_DIRECTORY, dir_fd=fd)
            fd, above = below, fd
            os.close(above)
    except BaseException:
        os.close(fd)
        raise
    return fd


class PathWalk:
    """One resolution: the current directory, and the remaining names."""

    def __init__(self, roots: Roots, rooted: RootedPath) -> None:
        self.roots = roots
        self.rooted = rooted
        self.root = rooted.root
        self.fd = descend(rooted.root, ())
        self.names: list[str] = []
        self.remaining = split_names(rooted.rel_path)[::-1]  # in reverse order
        self.caller_remaining = len(self.remaining)  # how many of them the caller wrote; the others come from links
        self.link_count = 0

    def __enter__(self) -> "PathWalk":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self.fd)

    def resolve(self, flags: int) -> OpenedPath:
        while self.remaining:
            from_caller = len(self.remaining) <= self.caller_remaining
            name = self.remaining.pop()
            self.caller_remaining = min(self.caller_remaining, len(self.remaining))
            if name == "..":
                self._go_up(from_caller=from_caller)
            elif opened := self._enter(name, flags, from_caller=from_caller):
                return opened
        if flags & os.O_PATH:
            return OpenedPath(os.dup(self.fd), self._format_place())
        return OpenedPath(os.open(".", flags, dir_fd=self.fd), self._format_place())

    def _enter(self, name: str, flags: int, *, from_caller: bool) -> OpenedPath | None:
        try:
            fd = os.open(name, PATH_FLAGS, dir_fd=self.fd)
        except FileNotFoundError:
            return self._resolve_missing(name, from_caller=from_caller)
        try:
            mode = os.fstat(fd).st_mode
            if stat.S_ISLNK(mode):
                self._follow_link(fd)
            elif stat.S_ISDIR(mode):
                self.fd, fd = fd, self.fd
                self.names.append(name)
            elif self.remaining:
                raise NotDirectory(self.rooted.path)
            elif stat.S_ISREG(mode) and not flags & os.O_PATH:
                return self._open_file(name, flags)
            else:
                return OpenedPath(os.dup(fd), self._format_place(name))
        finally:
            os.close(fd)
        return None

    def _open_file(self, name: str, flags: int) -> OpenedPath | None:
        try:
            return OpenedPath(os.open(name, flags | os.O_NOFOLLOW, dir_fd=self.fd), self._format_place(name))
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
        self._count_link()  # it has just been put there
        self.remaining.append(name)
        return None

    def _resolve_missing(self, name: str, *, from_caller: bool) -> OpenedPath:
        """A path that does not exist: return its canonical form."""
        if not from_caller:
            raise DanglingLink(self.rooted.path)
        if ".." in self.remaining:
            raise BadPath(self.rooted.path, f"'..' after {name!r}, which does not exist")
        return OpenedPath(None, self._format_place(name, *self.remaining[::-1]))

    def _follow_link(self, link: int) -> None:
        self._count_link()
        if is_virtual(link):  # a magic link: its text is not its target
            raise self._outside_error()
        target = os.readlink("", dir_fd=link)
        if target.startswith("/"):
            self._go_to_absolute(target)
        else:
            self.remaining += split_names(target)[::-1]

    def _count_link(self) -> None:
        self.link_count += 1
        if self.link_count > MAX_SYMLINKS:
            raise SymlinkLoop(self.rooted.path)

    def _go_up(self, *, from_caller: bool) -> None:
        if self.names:
            self._move_to(self.root, self.names[:-1])
        elif from_caller:
            raise self._outside_error()
        else:  # a link may lead from one root to another
            above = os.path.dirname(self.root.real)
            while self.remaining and self.remaining[-1] == "..":
                self.remaining.pop()
                above = os.path.dirname(above)
            rest = self.remaining[::-1]
            self.remaining.clear()
            self._go_to_absolute(os.path.join(above, *rest))
            self.caller_remaining = min(self.caller_remaining, len(self.remaining))

    def _go_to_absolute(self, target: str) -> None:
        """Continue at an absolute path, from the root that contains it."""
        found = self.roots.split_absolute(target)
        if found is None:
            raise self._outside_error()
        root, rel_path = found
        self._move_to(root, [])
        self.remaining += split_names(rel_path)[::-1]

    def _move_to(self, root: Root, parts: list[str]) -> None:
        fd = descend(root, parts)
        os.close(self.fd)
        self.fd, self.root, self.names = fd, root, parts

    def _outside_error(self) -> OutsideWorkspace:
        return OutsideWorkspace(self.rooted.path, self.roots.paths)

    def _format_place(self, *rest: str) -> str:
        below = [*self.names, *rest]
        return self.root.prefix + "/".join(below) if below else self.root.real
