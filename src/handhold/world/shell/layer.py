"""What a command left in its layer, read as changes.

An overlay keeps what a command made and changed in a folder of its own, and marks there what it deleted. Each thing in
it that differs from the root below becomes one change; a new tree is one thing, however large, and is moved into its
slot by one rename.

Somebody else may have changed the root while the command ran. Whatever bears a later time than the command's start is
theirs, and stays: the command's version of it is put where it can be read.
"""

import errno
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from handhold.core.errors import SystemTrouble
from handhold.core.facts import Clash
from handhold.core.plans import Conflict, FileChange, Folder, FolderTime
from handhold.core.text.names import unmistakable
from handhold.world.files.commit.copies import opened
from handhold.world.files.commit.folders import directory_at
from handhold.world.files.commit.likeness import attributes_of, own_attributes, same_bytes, stat_of
from handhold.world.files.manifest import GONE, LIST, READ, Thing, allocated_by, file_hash, owner_of, thing, which
from handhold.world.files.roots import Root, names
from handhold.world.files.walk import descend
from handhold.world.shell.moves import Moves
from handhold.world.shell.taking import Taking
from handhold.world.shell.traces import (
    ELSEWHERE,
    OPAQUE,
    ORIGIN,
    WHITEOUT,
    clean,
    grants_privileges,
    is_whiteout,
    owners,
    strip,
)


@dataclass(frozen=True, slots=True)
class Here:
    """A directory that is both in the layer and below it."""

    way: str  # from the root, with a slash at its end; empty for the root itself
    upper: int
    lower: int
    stirred: bool  # somebody else made, removed or renamed something in it since the command began


class Layer:
    """The layer over one root. `read` empties it, once."""

    def __init__(
        self,
        root: Root,
        upper: str,
        *,
        since: int,
        taking: Taking,
        protected: Callable[[str], bool],
        withheld: Callable[[str], bool],
    ) -> None:
        """`since` is the command's start, by its file system's clock. What is new and `withheld` is left out."""
        self._root = root
        self._since = since
        self._taking = taking
        self._protected = protected
        self._withheld = withheld
        self._top = Root.open(upper, writable=True)
        self._moves = Moves(root, self._top)
        self._ahead: list[str] = []
        self._parted: list[str] = []  # files that had other names
        self._bare: list[str] = []  # roots that the command closed
        self._left_out: list[str] = []  # what is withheld
        self._asked: list[str] = []  # protected places of the entry at hand: they count if it does
        self._granting: list[str] = []  # those of its files that grant privileges, likewise
        self.files: list[FileChange] = []
        self.conflicts: list[Conflict] = []
        self.times: list[FolderTime] = []
        self.guarded: set[str] = set()
        self.privileged: set[str] = set()

    def read(self) -> None:
        try:
            self._compare_roots()
            self._ahead = [""]
            while self._ahead:
                self._directory(self._ahead.pop())
        finally:
            os.close(self._top.fd)

    @property
    def notes(self) -> list[str]:
        """What a plain folder would have done, and this one did not."""
        said: list[str] = []
        if self._parted:
            said.append(f"{_some(self._parted)}: other names (hard links) of the file keep the old content")
        if self._bare:
            said.append(f"{_some(self._bare)}: mode, owner and attributes are left as they were: it would be closed")
        if self._left_out:
            said.append(f"{_some(self._left_out, 5)}: left out, since a rule denies reading it; the rest counts")
        return said

    def _directory(self, way: str) -> None:
        lower = upper = -1
        try:
            upper = listable(self._top, way)
            lower = descend(self._root, names(way))
            here = Here(way, upper, lower, os.fstat(lower).st_ctime_ns >= self._since)
            for name in os.listdir(upper):
                self._entry(here, name)
        except (FileNotFoundError, NotADirectoryError):
            if lower >= 0:
                raise
            self._conflict_at(way.rstrip("/"))  # somebody took it away this moment
        finally:
            for fd in (upper, lower):
                if fd >= 0:
                    os.close(fd)

    def _entry(self, here: Here, name: str) -> None:
        self._asked, self._granting = [], []
        found = os.stat(name, dir_fd=here.upper, follow_symlinks=False)
        lower = stat_of(here.lower, name)
        mode = found.st_mode
        if lower is None and not is_whiteout(found) and self._leaves_out(self._place(here.way + name)):
            return
        if stat.S_ISREG(mode):
            self._file(here, name, found, lower)
        elif stat.S_ISDIR(mode):
            self._folder(here, name, found, lower)
        elif is_whiteout(found):
            self._deleted(here, name, lower)
        elif not self._same_link(here, name, found, lower):
            self._other(here, name, lower)

    def _place(self, way: str) -> str:
        return unmistakable(self._root.prefix + way)

    # --- the four things that can be in a layer

    def _deleted(self, here: Here, name: str, lower: os.stat_result | None) -> None:
        if lower is None:
            return
        way = here.way + name
        before = self._below(here, name, lower)
        if before is None or before.newest >= self._since:
            self.conflicts.append(Conflict(self._place(way), "deleted"))
        else:
            self._change(way, before, None, self._taking.reserve())

    def _file(self, here: Here, name: str, found: os.stat_result, lower: os.stat_result | None) -> None:
        way = here.way + name
        fd = opened(here.upper, name, found)
        try:
            attributes = attributes_of(fd)
            if not found.st_size and WHITEOUT in attributes:
                return self._deleted(here, name, lower)
            self._must_be_whole(attributes, way)
            before = None
            if lower is None:
                if here.stirred and ORIGIN in attributes and not self._moves.has_moved(fd, found):  # it is deleted
                    return self._conflict(here.upper, name, way)
            elif self._same_file(here, name, fd, found, lower):
                return None
            else:
                before = self._below(here, name, lower)
                if before is None or before.newest >= self._since:
                    return self._conflict(here.upper, name, way)
                if lower.st_nlink > 1 and stat.S_ISREG(lower.st_mode):
                    self._parted.append(self._place(way))
            strip(fd, attributes, found)
            self._note_privileges(self._place(way), found.st_mode, attributes)
            hash = file_hash(fd, found)
        finally:
            os.close(fd)
        mode, owner, allocated = stat.S_IMODE(found.st_mode), owner_of(found), allocated_by(found)
        after = Thing("file", hash, found.st_size, mode, which(found), found.st_mtime_ns, 1, 0, owner, allocated)
        slot, after = self._taking.take(here.upper, name, after)
        return self._change(way, before, after, slot)

    def _folder(self, here: Here, name: str, found: os.stat_result, lower: os.stat_result | None) -> None:
        way = here.way + name
        fd = opened(here.upper, name, found)
        try:
            attributes = attributes_of(fd)
            self._must_be_whole(attributes, way)
            if lower is None and ORIGIN in attributes:  # no rename brings a folder of the root here: it is deleted
                return self._conflict(here.upper, name, way)
            if (
                lower is None
                or not stat.S_ISDIR(lower.st_mode)
                or (OPAQUE in attributes and os.getxattr(fd, OPAQUE) == b"y")
            ):
                return self._other(here, name, lower)
            if here.stirred and lower.st_ctime_ns >= self._since > lower.st_mtime_ns:  # another one was put here
                return self._conflict(here.upper, name, way)
            if os.listdir(fd) and not _is_open(here.lower, name):
                # A command may open a folder that is its own. We would have to do so too, and only a commit may.
                return self._conflict(here.upper, name, way, "closed")
            self._compare(self._place(way), fd, found, here.lower, name)
            _open_up(fd, found)
        finally:
            os.close(fd)
        self._ahead.append(way + "/")
        return None

    def _other(self, here: Here, name: str, lower: os.stat_result | None) -> None:
        """A tree, a link or something odd: new, or in place of something else."""
        way = here.way + name
        before = None
        if lower is not None:
            before = self._below(here, name, lower)
            if before is None or before.newest >= self._since:
                return self._conflict(here.upper, name, way)
        path = self._place(way)

        def met(inside: str, mode: int, attributes: Sequence[str]) -> bool:
            place = f"{path}/{unmistakable(inside)}"
            if kept := not self._leaves_out(place):
                self._ask(place)
                self._note_privileges(place, mode, attributes)
            return kept

        self._note_privileges(path, os.stat(name, dir_fd=here.upper, follow_symlinks=False).st_mode, ())
        after = clean(here.upper, name, met)
        slot, after = self._taking.take(here.upper, name, after)
        return self._change(way, before, after, slot)

    # --- what they are compared with

    def _below(self, here: Here, name: str, found: os.stat_result) -> Thing | None:
        """What stands there in the root; None if it went away just now. All that is in a tree changes with it."""
        prefix = f"{self._place(here.way + name)}/"

        def meet(_directory: int, _name: str, inside: str, _found: os.stat_result, _fd: int) -> bool:
            self._ask(prefix + unmistakable(inside))
            return True

        try:
            return thing(name, dir_fd=here.lower, meet=meet, found=found)
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
            return None  # it is being moved about

    def _same_file(self, here: Here, name: str, fd: int, found: os.stat_result, lower: os.stat_result) -> bool:
        """Whether it was opened for writing, and that was all. One with several names counts in any case."""
        if (
            found.st_nlink > 1
            or lower.st_nlink > 1
            or found.st_mtime_ns != lower.st_mtime_ns
            or (found.st_size, found.st_mode) != (lower.st_size, lower.st_mode)
            or owners(found) != owners(lower)
        ):
            return False
        try:
            old = os.open(name, READ, dir_fd=here.lower)
        except PermissionError:
            return False
        except OSError as error:
            if error.errno not in GONE:
                raise
            return False
        try:
            same = own_attributes(fd) == own_attributes(old) and same_bytes(fd, old)
        finally:
            os.close(old)
        os.lseek(fd, 0, os.SEEK_SET)
        return same

    def _same_link(self, here: Here, name: str, found: os.stat_result, lower: os.stat_result | None) -> bool:
        return (
            lower is not None
            and stat.S_ISLNK(found.st_mode)
            and stat.S_ISLNK(lower.st_mode)
            and found.st_nlink == lower.st_nlink == 1
            and found.st_mtime_ns == lower.st_mtime_ns
            and owners(found) == owners(lower)
            and os.readlink(name, dir_fd=here.upper) == os.readlink(name, dir_fd=here.lower)
        )

    def _compare(self, path: str, fd: int, found: os.stat_result, directory: int, name: str) -> None:
        """A folder that was there and stays: its mode, owner, attributes and time are taken over."""
        lower = os.stat(name, dir_fd=directory, follow_symlinks=False)
        before, after = lower.st_mtime_ns, found.st_mtime_ns
        if lower.st_ctime_ns >= self._since:  # somebody else changed it, too
            after = max(before, after)
        if before != after:
            self.times.append(FolderTime(path, before, after))
        was, now = Folder(stat.S_IMODE(lower.st_mode)), Folder(stat.S_IMODE(found.st_mode))
        if owners(lower) != owners(found):
            was, now = replace(was, owner=owners(lower)), replace(now, owner=owners(found))
        with suppress(PermissionError), directory_at(directory, name) as place:
            old, new = own_attributes(place), own_attributes(fd)
            if old != new:
                was, now = replace(was, attributes=_sorted(old)), replace(now, attributes=_sorted(new))
        if was == now:
            return
        if lower.st_ctime_ns >= self._since:
            self.conflicts.append(Conflict(path, "mode"))
        else:
            self._count(FileChange(path, was, now))

    def _compare_roots(self) -> None:
        """The layer's own folder stands for the root."""
        above, name = os.path.split(self._top.real)
        folder = os.open(above, LIST)
        found = os.fstat(self._top.fd)
        try:
            fd = opened(folder, name, found)
        finally:
            os.close(folder)
        try:
            if found.st_mode & 0o500 == 0o500:
                self._compare(self._root.real, fd, found, self._root.fd, ".")
            else:  # with the root closed to us, nothing could be taken back any more
                self._bare.append(self._root.real)
            _open_up(fd, found)
        finally:
            os.close(fd)

    def _must_be_whole(self, attributes: list[str], way: str) -> None:
        if not ELSEWHERE.isdisjoint(attributes):
            raise SystemTrouble(self._place(way), "the overlay kept only a part of it")

    # --- what comes of it

    def _leaves_out(self, path: str) -> bool:
        withheld = self._withheld(path)
        self._left_out += [path] if withheld else []
        return withheld

    def _ask(self, path: str) -> None:
        if self._protected(path):
            self._asked.append(path)

    def _note_privileges(self, path: str, mode: int, attributes: Sequence[str]) -> None:
        if grants_privileges(mode, attributes):
            self._granting.append(path)

    def _change(self, way: str, before: Thing | None, after: Thing | None, slot: str) -> None:
        path = self._place(way)
        self._count(FileChange(path, before and before.shelved(slot), after and after.shelved(slot)))

    def _count(self, change: FileChange) -> None:
        self._ask(change.path)
        self.guarded.update(self._asked)
        self.privileged.update(self._granting)
        self.files.append(change)

    def _conflict(self, upper: int, name: str, way: str, clash: Clash = "changed") -> None:
        clean(upper, name, lambda _way, _mode, _attributes: True)
        self.conflicts.append(Conflict(self._place(way), clash, self._taking.keep(upper, name)))

    def _conflict_at(self, way: str) -> None:
        above, name = os.path.split(way)
        upper = descend(self._top, names(above))
        try:
            self._conflict(upper, name, way)
        finally:
            os.close(upper)


def listable(root: Root, way: str) -> int:
    fd = descend(root, names(way))
    try:
        return os.open(".", LIST, dir_fd=fd)
    finally:
        os.close(fd)


def _is_open(directory: int, name: str) -> bool:
    try:
        os.stat(f"{name}/.", dir_fd=directory)
    except PermissionError:
        return False
    return True


def _open_up(upper: int, found: os.stat_result) -> None:
    """Things will be taken out of it. Whatever its mode was, it is thrown away then."""
    if found.st_mode & 0o700 != 0o700:
        os.fchmod(upper, 0o700)


def _sorted(attributes: dict[str, bytes]) -> tuple[tuple[str, bytes], ...]:
    return tuple(sorted(attributes.items()))


def _some(paths: list[str], most: int = 1) -> str:
    more = len(paths) - most
    return ", ".join(paths[:most]) + (f" and {more} more" if more > 0 else "")
