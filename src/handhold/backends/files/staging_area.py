"""The staging area: a private folder on a root's own file system, for entries that are exchanged with those in the
root.

Each command has its own folder there, with one slot for each path that it changed. Filling, committing and undoing a
slot are renames, so the staging area must be on the root's own mount, and outside every root. A command's folder is
locked while the command is in progress. Afterwards it is kept as long as the journal needs it. What is neither locked
nor needed was dropped or left by a dead process, and is swept.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Protocol

from handhold.backends.descriptor_pool import EXHAUSTED_ERRNOS, to_exhausted_error
from handhold.backends.files.os_errors import translate_os_errors
from handhold.logs import log_swallowed, suppress_and_log

LOCK_FILE = "lock"
KEEP_FILE = "left"  # in a command's folder: it holds what recovery could not identify, and is kept for inspection
REMOVING_PREFIX = "going-"  # prefix of a folder that is being removed

LIST_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class StagingRoot(Protocol):
    @property
    def folder(self) -> AbstractContextManager[int]: ...
    @property
    def real(self) -> str: ...


class StagingArea:
    """Safe for concurrent use by several processes."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._locks: dict[str, int] = {}  # of commands in progress

    @classmethod
    def for_root(cls, root: StagingRoot, state: Path, others: Sequence[StagingRoot] = ()) -> "StagingArea | None":
        """In the state folder if entries can be renamed between it and the root, else next to the root; else None.

        `others` are roots of the same workspace: a staging area is inside none of them.
        """
        above, name = os.path.split(root.real)
        # Next to a root there may be staging areas of several states, which do not know each other's commands.
        state_id = sha256(os.fsencode(os.path.realpath(state))).hexdigest()[:16]
        for top, *below in ((str(state), "shelf"), (above, f".{name}.handhold", state_id)):
            folder = os.path.join(os.path.realpath(top), *below)
            if any(_is_inside(folder, each.real) for each in (root, *others)) or not _is_same_mount(root, top):
                continue
            if _make_private_folders(top, below):
                return cls(folder)
        return None

    # --- slots

    def create_folder(self) -> str:
        """A new folder for one command, locked until it is dropped or released."""
        command = token_hex(8)
        with translate_os_errors(self.folder), self._exclusive():
            os.mkdir(self.path(command), 0o700)
            lock = os.open(os.path.join(self.path(command), LOCK_FILE), LOCK_FLAGS, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._locks[command] = lock
        return command

    def path(self, slot: str) -> str:
        return os.path.join(self.folder, slot)

    def open_folder(self, command: str) -> int:
        """Open a command's folder, which must be ours."""
        fd = _open_private(self.folder)
        try:
            return _open_private(command, fd)
        finally:
            os.close(fd)

    def release(self, command: str) -> None:
        """Release the lock: from now on the journal knows what the slots are needed for."""
        if (lock := self._locks.pop(command, None)) is not None:
            with suppress_and_log(OSError):
                fcntl.flock(lock, fcntl.LOCK_UN)  # closing is not enough: a process forked meanwhile has the lock, too
            os.close(lock)

    def drop(self, command: str) -> None:
        """Discard a command's slots, unless a commit took them over."""
        if command in self._locks:
            try:
                with translate_os_errors(self.folder), self._exclusive():
                    self._mark_for_removal(command)
            finally:  # if out of descriptors, it is left for a sweep, but the lock is released
                self.release(command)
            self._remove_marked([REMOVING_PREFIX + command])

    def sweep(self, needed: Callable[[], Collection[str]], only: Collection[str] | None = None) -> None:
        """Remove what is neither in use by a command nor needed by the journal: of all folders, or of `only`."""
        with translate_os_errors(self.folder), self._exclusive():
            needed_now = needed()  # by far the most, which need no further check
            unknown = [
                command for command in (self._list_commands() if only is None else only) if command not in needed_now
            ]
            free = [command for command in unknown if not self._is_in_use(command)]
            needed_now = needed() if free else ()  # again: one may just have been handed over
            for command in free:
                if command not in needed_now:
                    self._mark_for_removal(command)
        names = os.listdir(self.folder) if only is None else [REMOVING_PREFIX + command for command in free]
        self._remove_marked([name for name in names if name.startswith(REMOVING_PREFIX)])

    def close(self) -> None:
        for command in list(self._locks):
            self.release(command)

    def _list_commands(self) -> list[str]:
        return [name for name in os.listdir(self.folder) if name != LOCK_FILE and not name.startswith(REMOVING_PREFIX)]

    def _is_in_use(self, command: str) -> bool:
        if os.path.lexists(self.path(f"{command}/{KEEP_FILE}")):
            return True
        try:
            lock = os.open(self.path(f"{command}/{LOCK_FILE}"), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def _mark_for_removal(self, command: str) -> None:
        with suppress(FileNotFoundError):
            # A partly removed folder must not look like a complete one.
            os.rename(self.path(command), self.path(REMOVING_PREFIX + command))

    def _remove_marked(self, names: Iterable[str]) -> None:
        """Remove marked folders, without the lock, since it may take long. What cannot be removed is swept later."""
        fd = os.open(self.folder, LIST_FLAGS)
        try:
            for name in names:
                with suppress_and_log(OSError):
                    remove_tree(name, fd)
        finally:
            os.close(fd)

    @contextmanager
    def _exclusive(self) -> Generator[None]:
        lock = os.open(self.path(LOCK_FILE), LOCK_FLAGS, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def remove_tree(name: str, directory: int) -> None:
    """Remove a tree, whatever its permissions and depth."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
        return os.unlink(name, dir_fd=directory)
    fd = os.dup(directory)
    parents: list[str] = []
    try:
        inner = name
        while True:
            if inner:
                _make_accessible(fd, inner)
                fd, up = os.open(inner, LIST_FLAGS, dir_fd=fd), fd
                parents.append(inner)
            else:
                fd, up = os.open("..", LIST_FLAGS, dir_fd=fd), fd
                os.rmdir(parents.pop(), dir_fd=fd)
            os.close(up)
            if not parents:
                return None
            inner = _remove_files(fd)
    finally:
        os.close(fd)


def _remove_files(fd: int) -> str:
    """Remove everything but directories; return the name of a directory, if there is one."""
    with os.scandir(fd) as entries:
        listed = list(entries)
    directory = ""
    for entry in listed:
        if entry.is_dir(follow_symlinks=False):
            directory = entry.name
        else:
            os.unlink(entry.name, dir_fd=fd)
    return directory


def _make_accessible(fd: int, name: str) -> None:
    mode = stat.S_IMODE(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)
    if mode & 0o700 != 0o700:
        os.chmod(name, mode | 0o700, dir_fd=fd)


def _make_private_folders(folder: str, below: Sequence[str]) -> bool:
    """Create these nested folders; return whether they exist and are ours."""
    folder = os.path.realpath(folder)
    try:
        for name in below:
            folder = os.path.join(folder, name)
            with suppress(FileExistsError):
                os.mkdir(folder, 0o700)
            os.close(_open_private(folder))
    except OSError as error:
        if error.errno in EXHAUSTED_ERRNOS:  # there will be a staging area when there are descriptors
            raise to_exhausted_error(error, folder) from error
        log_swallowed()
        return False
    return True


def _open_private(folder: str, directory: int | None = None) -> int:
    fd = os.open(folder, LIST_FLAGS, dir_fd=directory)
    found = os.fstat(fd)
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        os.close(fd)
        raise PermissionError(errno.EPERM, "the staging folder must be accessible only to its owner")
    return fd


def _is_same_mount(root: StagingRoot, folder: str) -> bool:
    """Whether entries can be renamed between them. The kernel checks mounts before names."""
    with translate_os_errors(folder), root.folder as top:
        try:
            if os.stat(folder).st_dev == os.fstat(top).st_dev:
                os.rename(os.path.join(folder, "any"), ".", dst_dir_fd=top)
        except OSError as error:
            if error.errno == errno.EBUSY:
                return True  # "." cannot be replaced, which is the only objection
            if error.errno not in (errno.EXDEV, errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS):
                raise
    return False


def _is_inside(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")
