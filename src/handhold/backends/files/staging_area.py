"""The staging area: a private folder on a root's own file system, for entries that are exchanged with those in the
root.

Each command has its own folder there, with one slot for each path that it changed. Filling, committing and undoing a
slot are renames, so the staging area must be on the root's own mount, and outside every root. In a fork, a root is a
mount of its own, so there the staging area is a folder in the root that tools cannot reach, and merging leaves out.
While a command is in progress, it has a locked file in another folder, so that nobody has to look at all commands to
find those that a dead process left. Afterwards its folder is kept as long as the journal needs it, and then removed in
portions.
"""

import errno
import fcntl
import os
import stat
import sys
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path
from secrets import token_hex
from typing import Protocol

from handhold.backends.descriptor_pool import EXHAUSTED_ERRNOS, to_exhausted_error
from handhold.backends.files.os_errors import translate_os_errors
from handhold.backends.state.lock_queue import LockDescriptors
from handhold.backends.state.state_folder import FORK_STAGING_FOLDER, find_surrounding_fork
from handhold.logs import log_swallowed, suppress_and_log

LOCK_FILE = "lock"
OPEN_SUFFIX = ".open"  # after the area's name: the folder of commands in progress
KEEP_FILE = "left"  # in a command's folder: it holds what recovery could not identify, and is kept for inspection
UNDO_LOG = "undo.log"  # in a command's folder: the command changed the workspace, and has not been rolled back yet
REMOVING_PREFIX = "going-"  # prefix of a folder that is being removed

NeededSlots = Callable[[Collection[str]], Collection[str]]  # which of these commands the journal needs

LIST_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC

_descriptors = LockDescriptors()


class StagingRoot(Protocol):
    @property
    def folder(self) -> AbstractContextManager[int]: ...
    @property
    def real(self) -> str: ...


class StagingArea:
    """Safe for concurrent use by several processes."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._open_folder = folder + OPEN_SUFFIX
        self._locks_by_process: dict[int, dict[str, int]] = {}

    @property
    def hidden_folder(self) -> str:
        """What commands must not see."""
        above = os.path.dirname(self.folder)
        return above if os.path.basename(above) == FORK_STAGING_FOLDER else self.folder

    @classmethod
    def for_root(cls, root: StagingRoot, state: Path, others: Sequence[StagingRoot] = ()) -> "StagingArea | None":
        """In the state folder if entries can be renamed between it and the root, else next to the root; else None.

        `others` are roots of the same workspace: a staging area is inside none of them.
        """
        for top, *below in _list_places(root, state):
            folder = os.path.join(os.path.realpath(top), *below)
            outside = others if FORK_STAGING_FOLDER in below else (root, *others)
            if any(_is_inside(folder, each.real) for each in outside) or not _is_same_mount(root, top):
                continue
            if _make_private_folders(top, below):
                if FORK_STAGING_FOLDER in below:
                    _ignore_in_git(os.path.dirname(folder))
                return cls(folder)
        return None

    @classmethod
    def recover_all(cls, root: StagingRoot, state: Path, recover: Callable[[str], None]) -> None:
        """Recover interrupted commands, without making a staging area. Costs two system calls if there are none."""
        for top, *below in _list_places(root, state):
            area = cls(os.path.join(os.path.realpath(top), *below))
            area.recover_interrupted(recover)

    # --- slots

    def create_folder(self) -> str:
        """A new folder for one command, locked until it is dropped or released."""
        command = token_hex(8)
        with translate_os_errors(self.folder), self._exclusive():
            with suppress(FileExistsError):
                os.mkdir(self._open_folder, 0o700)
            lock = _descriptors.add(os.open(self._open_path(command), LOCK_FLAGS, 0o600))
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.mkdir(self.path(command), 0o700)
            except BaseException:
                os.unlink(self._open_path(command))
                _descriptors.close(lock)
                raise
        self._locks[command] = lock
        return command

    @property
    def _locks(self) -> dict[str, int]:
        """The locks of this process's commands in progress. A forked child has none of its parent's."""
        return self._locks_by_process.setdefault(os.getpid(), {})

    def _open_path(self, command: str) -> str:
        return os.path.join(self._open_folder, command)

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
        if command in self._locks:
            with suppress_and_log(OSError):
                os.unlink(self._open_path(command))
            self._unlock(command)

    def _unlock(self, command: str) -> None:
        _descriptors.unlock(self._locks.pop(command))

    def abandon(self, command: str) -> None:
        """Leave a command that could not be rolled back to whoever recovers it."""
        if command in self._locks:
            self._unlock(command)

    def drop(self, command: str) -> None:
        """Discard a command's slots, unless a commit took them over."""
        if command in self._locks:
            try:
                with translate_os_errors(self.folder), self._exclusive():
                    self._mark_for_removal(command)
                self._remove_marked([REMOVING_PREFIX + command])
            except BaseException:  # out of descriptors, for example: a sweep finds it
                self._unlock(command)
                raise
            self.release(command)

    def recover_interrupted(self, recover: Callable[[str], None]) -> None:
        """Call `recover` with the folder of each command that a dead process left with an undo log."""
        with translate_os_errors(self.folder):
            try:
                commands = os.listdir(self._open_folder)
            except FileNotFoundError:
                return
            interrupted = [name for name in commands if os.path.lexists(self.path(f"{name}/{UNDO_LOG}"))]
            if interrupted:
                with self._exclusive():
                    for command in interrupted:
                        if not self._is_in_use(command):
                            recover(self.path(command))

    def sweep_abandoned(self, needed: NeededSlots) -> None:
        """Remove what dead processes left of commands in progress, unless the journal needs it."""
        try:
            commands = os.listdir(self._open_folder)
        except FileNotFoundError:
            return
        self._sweep(commands, needed)

    def sweep(self, needed: NeededSlots) -> None:
        """Remove everything that is neither in use by a command nor needed by the journal. Looks at all of it."""
        names = os.listdir(self.folder)
        commands = [name for name in names if name != LOCK_FILE and not name.startswith(REMOVING_PREFIX)]
        self._remove_marked([name for name in names if name.startswith(REMOVING_PREFIX)])
        self.sweep_abandoned(needed)
        self._sweep({*commands}.difference(needed(commands)), needed)  # by far the most are needed

    def _sweep(self, commands: Collection[str], needed: NeededSlots) -> None:
        """Remove those of `commands` that are not in use, nor needed since they were handed over to the journal."""
        if not commands:
            return
        with translate_os_errors(self.folder), self._exclusive():  # else one that is being created looks abandoned
            unused = [command for command in commands if not self._is_in_use(command)]
            gone = {*unused}.difference(needed(unused))
            for command in gone:
                if not any(os.path.lexists(self.path(f"{command}/{name}")) for name in (KEEP_FILE, UNDO_LOG)):
                    self._mark_for_removal(command)
        self._remove_marked([REMOVING_PREFIX + command for command in gone])
        for command in unused:
            if not os.path.lexists(self.path(f"{command}/{UNDO_LOG}")):  # else whoever rolls it back has to find it
                with suppress(FileNotFoundError):
                    os.unlink(self._open_path(command))

    def remove(self, command: str, budget: "RemovalBudget") -> bool:
        """Remove a command that is no longer needed; return whether nothing is left to do."""
        if not os.path.lexists(self.path(f"{command}/{KEEP_FILE}")):
            self._mark_for_removal(command)
        return self._remove_marked([REMOVING_PREFIX + command], budget)

    def close(self) -> None:
        for command in list(self._locks):
            self._unlock(command)  # what is left of it is swept

    def _is_in_use(self, command: str) -> bool:
        """Call it with the area locked: it locks the command for a moment, so its creator could not."""
        # In earlier versions, the lock was in the command's own folder.
        return any(map(self._is_locked, (self._open_path(command), self.path(f"{command}/{LOCK_FILE}"))))

    def _is_locked(self, path: str) -> bool:
        try:
            lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
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

    def _remove_marked(self, names: Iterable[str], budget: "RemovalBudget | None" = None) -> bool:
        """Remove marked folders, without the lock, since it may take long; return whether it got through.

        What cannot be removed is swept later.
        """
        fd = os.open(self.folder, LIST_FLAGS)
        try:
            for name in names:
                with suppress_and_log(OSError):
                    if not remove_tree(name, fd, budget):
                        return False
        finally:
            os.close(fd)
        return True

    @contextmanager
    def _exclusive(self) -> Generator[None]:
        lock = _descriptors.add(os.open(self.path(LOCK_FILE), LOCK_FLAGS, 0o600))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            _descriptors.unlock(lock)


class RemovalBudget:
    """How many entries may still be removed."""

    def __init__(self, entries: int) -> None:
        self.left = entries


def remove_tree(name: str, directory: int, budget: RemovalBudget | None = None) -> bool:
    """Remove a tree, whatever its permissions and depth; return whether the budget sufficed."""
    budget = budget or RemovalBudget(sys.maxsize - 1)
    if not stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=directory)
        return True
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
                budget.left -= 1
            os.close(up)
            if not parents:
                return True
            if budget.left <= 0:
                return False
            inner = _remove_files(fd, budget)
            if budget.left <= 0:
                return False
    finally:
        os.close(fd)


def _remove_files(fd: int, budget: RemovalBudget) -> str:
    """Remove everything but directories, within the budget; return the name of a directory, if there is one."""
    with os.scandir(fd) as entries:
        listed = list(islice(entries, budget.left + 1))
    directory = ""
    for entry in listed:
        if entry.is_dir(follow_symlinks=False):
            directory = entry.name
        elif budget.left > 0:
            os.unlink(entry.name, dir_fd=fd)
            budget.left -= 1
    return directory


def _make_accessible(fd: int, name: str) -> None:
    mode = stat.S_IMODE(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)
    if mode & 0o700 != 0o700:
        os.chmod(name, mode | 0o700, dir_fd=fd)


def _list_places(root: StagingRoot, state: Path) -> tuple[tuple[str, ...], ...]:
    """Where a root's staging area may be: an existing folder, and the names of folders below it."""
    above, name = os.path.split(root.real)
    # Next to a root there may be staging areas of several states, which do not know each other's commands.
    state_id = sha256(os.fsencode(os.path.realpath(state))).hexdigest()[:16]
    if find_surrounding_fork(state):
        return ((root.real, FORK_STAGING_FOLDER, "shelf"),)
    return (str(state), "shelf"), (above, f".{name}.handhold", state_id)


def _ignore_in_git(folder: str) -> None:
    """Let git ignore a folder with everything in it, so that nobody commits it."""
    with suppress(FileExistsError):
        fd = os.open(os.path.join(folder, ".gitignore"), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, b"*\n")
        finally:
            os.close(fd)


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
