"""The shelf: a private folder on a root's own file system, where things wait that change places with those in the root.

Each command has a folder of its own there, with one slot for each path that it changed. Filling a slot, committing
it and taking it back are renames; so the shelf must lie on the root's own mount, and outside every root. A command's
folder is locked while the command is under way. Afterwards it stays for as long as the journal needs it; what is
neither locked nor needed is what a dead process left, or what had to go, and is swept.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Protocol

from handhold.world.files.trouble import named

LOCK = "lock"
LEFT = "left"  # in a command's folder: it holds what recovery could not tell, and stays until somebody looks
GOING = "going-"  # before the name of a folder that is being removed

LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
OWN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Root(Protocol):
    @property
    def fd(self) -> int: ...
    @property
    def real(self) -> str: ...


class Shelf:
    """Several processes may use it at once."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._held: dict[str, int] = {}  # the locks of commands under way

    @classmethod
    def for_root(cls, root: Root, state: Path, others: Sequence[Root] = ()) -> "Shelf | None":
        """In the state folder if things can be renamed between it and the root, else beside the root; else None.

        `others` are roots of the same workspace: a shelf lies in none of them.
        """
        above, name = os.path.split(root.real)
        # Beside a root, several states may have their shelves, and none knows the commands of another.
        whose = sha256(os.fsencode(os.path.realpath(state))).hexdigest()[:16]
        for top, *below in ((str(state), "shelf"), (above, f".{name}.handhold", whose)):
            folder = os.path.join(os.path.realpath(top), *below)
            if any(_inside(folder, each.real) for each in (root, *others)) or not _same_mount(root, top):
                continue
            if _made(top, below):
                return cls(folder)
        return None

    # --- slots

    def new(self) -> str:
        """A fresh folder for one command, locked until it is dropped or handed over."""
        command = token_hex(8)
        with named(self.folder), self._alone():
            os.mkdir(self.path(command), 0o700)
            lock = os.open(os.path.join(self.path(command), LOCK), OWN, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._held[command] = lock
        return command

    def path(self, slot: str) -> str:
        return os.path.join(self.folder, slot)

    def open(self, command: str) -> int:
        """A command's folder, as a descriptor; it must be ours."""
        fd = _opened(self.folder)
        try:
            return _opened(command, fd)
        finally:
            os.close(fd)

    def hand_over(self, command: str) -> None:
        """From now on the journal knows what the slots are needed for."""
        if (lock := self._held.pop(command, None)) is not None:
            with suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_UN)  # closing would not do: a process forked meanwhile has it too
            os.close(lock)

    def drop(self, command: str) -> None:
        """Throw a command's slots away, unless a commit took them over."""
        if command in self._held:
            try:
                with named(self.folder), self._alone():
                    self._doom(command)
            finally:  # without a descriptor to spare it stays for a sweep, and its lock goes all the same
                self.hand_over(command)
            self._remove([GOING + command])

    def sweep(self, needed: Callable[[], Collection[str]], among: Collection[str] | None = None) -> None:
        """Remove what no command under way holds and the journal does not need: of all, or among a few."""
        with named(self.folder), self._alone():
            kept = needed()  # by far the most: they are not looked at any closer
            unknown = [command for command in (self._commands() if among is None else among) if command not in kept]
            free = [command for command in unknown if not self._in_use(command)]
            kept = needed() if free else ()  # once more: one may have been handed over in this moment
            for command in free:
                if command not in kept:
                    self._doom(command)
        going = os.listdir(self.folder) if among is None else [GOING + command for command in free]
        self._remove([name for name in going if name.startswith(GOING)])

    def close(self) -> None:
        for command in list(self._held):
            self.hand_over(command)

    def _commands(self) -> list[str]:
        return [name for name in os.listdir(self.folder) if name != LOCK and not name.startswith(GOING)]

    def _in_use(self, command: str) -> bool:
        if os.path.lexists(self.path(f"{command}/{LEFT}")):
            return True
        try:
            lock = os.open(self.path(f"{command}/{LOCK}"), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def _doom(self, command: str) -> None:
        with suppress(FileNotFoundError):
            os.rename(self.path(command), self.path(GOING + command))  # half a folder must not look like a whole one

    def _remove(self, going: Iterable[str]) -> None:
        """What is doomed, and not under the lock: that may take long. What cannot be removed is swept another time."""
        fd = os.open(self.folder, LIST)
        try:
            for name in going:
                with suppress(OSError):
                    remove_tree(name, fd)
        finally:
            os.close(fd)

    @contextmanager
    def _alone(self) -> Generator[None]:
        lock = os.open(self.path(LOCK), OWN, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def remove_tree(name: str, directory: int) -> None:
    """All of it, whatever its permissions and its depth."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
        return os.unlink(name, dir_fd=directory)
    fd = os.dup(directory)
    way: list[str] = []
    try:
        inner = name
        while True:
            if inner:
                _open_up(fd, inner)
                fd, up = os.open(inner, LIST, dir_fd=fd), fd
                way.append(inner)
            else:
                fd, up = os.open("..", LIST, dir_fd=fd), fd
                os.rmdir(way.pop(), dir_fd=fd)
            os.close(up)
            if not way:
                return None
            inner = _emptied(fd)
    finally:
        os.close(fd)


def _emptied(fd: int) -> str:
    """Remove what is no directory; the name of one that is, if there is any."""
    with os.scandir(fd) as entries:
        listed = list(entries)
    directory = ""
    for entry in listed:
        if entry.is_dir(follow_symlinks=False):
            directory = entry.name
        else:
            os.unlink(entry.name, dir_fd=fd)
    return directory


def _open_up(fd: int, name: str) -> None:
    mode = stat.S_IMODE(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)
    if mode & 0o700 != 0o700:
        os.chmod(name, mode | 0o700, dir_fd=fd)


def _made(folder: str, below: Sequence[str]) -> bool:
    """Whether these folders, each in the one before, are there now, and ours."""
    folder = os.path.realpath(folder)
    try:
        for name in below:
            folder = os.path.join(folder, name)
            with suppress(FileExistsError):
                os.mkdir(folder, 0o700)
            os.close(_opened(folder))
    except OSError:
        return False
    return True


def _opened(folder: str, directory: int | None = None) -> int:
    fd = os.open(folder, LIST, dir_fd=directory)
    found = os.fstat(fd)
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        os.close(fd)
        raise PermissionError(errno.EPERM, "a shelf must be for its owner alone")
    return fd


def _same_mount(root: Root, folder: str) -> bool:
    """Whether things can be renamed between them. The kernel looks at the mounts before it looks at the names."""
    with named(folder):
        try:
            if os.stat(folder).st_dev == os.fstat(root.fd).st_dev:
                os.rename(os.path.join(folder, "any"), ".", dst_dir_fd=root.fd)
        except OSError as error:
            if error.errno == errno.EBUSY:
                return True  # "." cannot be replaced, and that was the only objection
            if error.errno not in (errno.EXDEV, errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS):
                raise
    return False


def _inside(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")
