"""What an overlay notes for itself on the things in a layer, and how it is taken off.

The notes are attributes named `user.overlay.*`, and devices numbered 0:0 where something was deleted. A later overlay
would read them, so nothing leaves a layer with one. Attributes of that name that a command tried to set lie there
under a longer one; they go as well.
"""

import os
import stat
from collections.abc import Callable, Iterable, Sequence

from handhold.world.files.commit.copies import opened
from handhold.world.files.commit.likeness import attributes_of
from handhold.world.files.manifest import Thing, thing
from handhold.world.files.roots import names
from handhold.world.files.shelf import remove_tree

OVERLAY = "user.overlay."
OPAQUE = f"{OVERLAY}opaque"  # nothing of the directory below shows through this one
ORIGIN = f"{OVERLAY}origin"  # this was copied from below
WHITEOUT = f"{OVERLAY}whiteout"  # on an empty file: something was deleted
CAPABILITIES = "security.capability"
ELSEWHERE = frozenset((f"{OVERLAY}redirect", f"{OVERLAY}metacopy"))  # the content is not here

STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def grants_privileges(mode: int, attributes: Iterable[str]) -> bool:
    """Whether it is a program with rights that whoever starts it does not have, or a device."""
    if stat.S_ISREG(mode):
        return bool(mode & (stat.S_ISUID | stat.S_ISGID)) or CAPABILITIES in attributes
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)


def is_whiteout(found: os.stat_result) -> bool:
    return found.st_rdev == 0 and stat.S_ISCHR(found.st_mode)


def owners(found: os.stat_result) -> tuple[int, int]:
    return found.st_uid, found.st_gid


def strip(fd: int, attributes: Iterable[str], found: os.stat_result) -> None:
    """Take the notes off a file or directory. Its mode may forbid that, and is the same afterwards."""
    ours = [name for name in attributes if name.startswith(OVERLAY)]
    if not ours:
        return
    try:
        os.removexattr(fd, ours[0])
    except PermissionError:
        mode = stat.S_IMODE(found.st_mode)
        os.fchmod(fd, mode | stat.S_IWUSR)
        try:
            for name in ours:
                os.removexattr(fd, name)
        finally:
            os.fchmod(fd, mode)
    else:
        for name in ours[1:]:
            os.removexattr(fd, name)


Met = Callable[[str, int, Sequence[str]], bool]


def clean(directory: int, name: str, met: Met) -> Thing:
    """Take the notes off whatever stands there, and off all that is in it; what it is then.

    `met` is told the way to each entry, from here, with its mode and, of a file, the names of its attributes. What it
    returns False for is removed.
    """
    return _Cleaning(directory, name, met).run()


class _Cleaning:
    def __init__(self, directory: int, name: str, met: Met) -> None:
        self.directory = directory
        self.name = name
        self.met = met
        self.closed: list[tuple[str, int]] = []  # directories that could not be looked into, and their modes

    def run(self) -> Thing:
        found = os.stat(self.name, dir_fd=self.directory, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode):
            self._strip(self.directory, self.name, found)
        if stat.S_ISDIR(found.st_mode):
            self._open_up(self.directory, self.name, "", found)
        try:
            cleaned = thing(self.name, dir_fd=self.directory, meet=self._meet)
        finally:
            for way, mode in reversed(self.closed):
                self._close(way, mode)
        if self.closed:  # what the tree is to somebody who may not look into all of it
            cleaned = thing(self.name, dir_fd=self.directory)
        assert cleaned is not None
        return cleaned

    def _meet(self, directory: int, name: str, way: str, found: os.stat_result, fd: int) -> bool:
        mode = found.st_mode
        attributes: list[str] = []
        if stat.S_ISREG(mode):
            attributes = attributes_of(fd) if fd >= 0 else self._strip(directory, name, found)
            if attributes:
                if WHITEOUT in attributes and not found.st_size:
                    return self._remove(directory, name)
                if fd >= 0:
                    strip(fd, attributes, found)
        elif stat.S_ISDIR(mode):
            self._strip(directory, name, found)
            self._open_up(directory, name, way, found)
        elif is_whiteout(found):
            return self._remove(directory, name)
        if self.met(way, mode, attributes):
            return True
        return self._remove_tree(directory, name, way) if stat.S_ISDIR(mode) else self._remove(directory, name)

    def _strip(self, directory: int, name: str, found: os.stat_result) -> list[str]:
        fd = opened(directory, name, found)
        try:
            attributes = attributes_of(fd)
            strip(fd, attributes, found)
        finally:
            os.close(fd)
        return attributes

    def _remove(self, directory: int, name: str) -> bool:
        """Without a trace in the time of its directory: whoever wrote there did so before."""
        found = os.fstat(directory)
        try:
            os.unlink(name, dir_fd=directory)
        except PermissionError:
            os.fchmod(directory, 0o700)
            os.unlink(name, dir_fd=directory)
            os.fchmod(directory, stat.S_IMODE(found.st_mode))
        os.utime(directory, ns=(found.st_atime_ns, found.st_mtime_ns))
        return False

    def _remove_tree(self, directory: int, name: str, way: str) -> bool:
        found = os.fstat(directory)
        remove_tree(name, directory)
        self.closed = [each for each in self.closed if each[0] != way]
        os.utime(directory, ns=(found.st_atime_ns, found.st_mtime_ns))
        return False

    def _open_up(self, directory: int, name: str, way: str, found: os.stat_result) -> None:
        mode = stat.S_IMODE(found.st_mode)
        if mode & 0o500 != 0o500:
            os.chmod(name, 0o700, dir_fd=directory)
            self.closed.append((way, mode))

    def _close(self, way: str, mode: int) -> None:
        *above, name = [self.name, *names(way)]
        fd = os.dup(self.directory)
        try:
            for each in above:
                fd, parent = os.open(each, STEP, dir_fd=fd), fd
                os.close(parent)
            os.chmod(name, mode, dir_fd=fd)
        finally:
            os.close(fd)
