"""The hands of the commit: each system call that changes a file, in a directory opened beneath a root."""

import errno
import os
import resource
import stat
from collections import OrderedDict
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from hashlib import sha256
from typing import Protocol

from handhold.core.errors import ContentDropped, NotDirectory, NotFound, SystemTrouble, ToolError
from handhold.core.plans import Bytes, Content, Directory, FileChange
from handhold.core.ports import Contents
from handhold.core.text.names import real
from handhold.world.files.commit.folders import directory_at
from handhold.world.files.commit.likeness import PIECE, bytes_of, file_of, fingerprint, mixture, stat_of
from handhold.world.files.commit.system import (
    CAN_SYNC_ALL,
    CANNOT,
    RENAME_EXCHANGE,
    RENAME_NOREPLACE,
    allocate,
    renamed,
    sync_file_system,
)
from handhold.world.files.shelf import Shelf
from handhold.world.files.trouble import trouble

MANY = 32  # files or directories, beyond which one sync of the file system is cheaper than one each
MOST_OPEN = 256  # directories held open at once

WRITE = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
STAGE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Root(Protocol):
    @property
    def fd(self) -> int: ...
    @property
    def real(self) -> str: ...
    @property
    def given(self) -> str: ...
    @property
    def writable(self) -> bool: ...


class Tree(Protocol):
    """What a commit needs of the workspace: directories, opened beneath a root."""

    @property
    def roots_open(self) -> Sequence[Root]: ...

    def root_of(self, place: str, /) -> Root: ...

    @property
    def shelves(self) -> Collection[Shelf]: ...

    def shelf_at(self, place: str, /) -> Shelf | None: ...

    def directory(self, place: str, /) -> AbstractContextManager[tuple[int, str]]: ...


class Hands:
    """The system calls, on directories that are opened beneath a root and followed through no link."""

    def __init__(self, tree: Tree, contents: Contents, *, durable: bool, exchange: bool) -> None:
        self._tree = tree
        self._contents = contents
        self._durable = durable
        self._exchange = exchange
        # A set may touch more directories than a process may hold open: the least recently used are closed.
        self._open: OrderedDict[str, tuple[int, AbstractContextManager[tuple[int, str]]]] = OrderedDict()
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most_open = MOST_OPEN if most == resource.RLIM_INFINITY else max(1, min(MOST_OPEN, most // 4))

    def __enter__(self) -> "Hands":
        return self

    def __exit__(self, *_: object) -> None:
        for directory in list(self._open):
            self._close(directory)

    def open(self, path: str) -> tuple[int, str]:
        """The directory a path lies in, and its name there. The descriptor is good until the next call."""
        parent, _, name = path.rpartition("/")
        name = real(name)
        if parent in self._open:
            self._open.move_to_end(parent)
            return self._open[parent][0], name
        opening = self._tree.directory(path)
        directory, _ = opening.__enter__()
        self._open[parent] = directory, opening
        if len(self._open) > self._most_open:
            self._close(next(iter(self._open)))
        return directory, name

    def open_directory(self, path: str) -> int:
        return self.open(os.path.join(path, "any"))[0]

    def root_of(self, path: str) -> Root:
        return self._tree.root_of(path)

    def stat_directory(self, path: str) -> os.stat_result | None:
        """Of a directory that may be a root itself, and need not be readable; None if there is none."""
        root = self._tree.root_of(path)
        found = os.fstat(root.fd) if path == root.real else self.stat(path)
        return found if found and stat.S_ISDIR(found.st_mode) else None

    @contextmanager
    def directory(self, path: str) -> Generator[str]:
        """A name for a directory that may be a root itself, and need not be readable."""
        root = self._tree.root_of(path)
        if path == root.real:
            yield f"/proc/self/fd/{root.fd}"
        else:
            with directory_at(*self.open(path)) as place:
                yield place

    def chmod_directory(self, path: str, mode: int) -> None:
        with self.directory(path) as place:
            os.chmod(place, mode)

    def _close(self, path: str) -> None:
        _, opening = self._open.pop(path)
        with suppress(OSError):  # nothing was written through it that could be lost
            opening.__exit__(None, None, None)

    # --- looking

    def stat(self, path: str) -> os.stat_result | None:
        try:
            directory, name = self.open(path)
            return os.stat(name, dir_fd=directory, follow_symlinks=False)
        except (FileNotFoundError, NotFound):
            return None

    def is_directory(self, path: str, *, above: str) -> bool:
        """False if nothing stands there; what does must be a directory."""
        try:
            self.open_directory(path)
        except NotFound:
            return False
        except NotDirectory:
            raise NotDirectory(above) from None
        return True

    def fingerprint(self, path: str) -> tuple[os.stat_result | None, str]:
        try:
            directory, name = self.open(path)
        except (NotFound, NotDirectory):
            return None, ""
        return fingerprint(directory, name)

    def find(self, content: Content) -> bytes | None:
        return content.data if isinstance(content, Bytes) else self._contents.get(content.hash)

    def content(self, content: Content, path: str) -> bytes:
        data = self.find(content)
        if data is None:
            raise ContentDropped((path,))
        return data

    # --- names

    def swap(self, directory: int, one: str, other: str, *, into: int | None = None) -> bool:
        """Exchange two names in one step; False where the file system cannot."""
        return self._exchange and renamed(directory, one, other, RENAME_EXCHANGE, into=into)

    def move(self, directory: int, name: str, to: str, *, into: int | None = None) -> None:
        """Rename; FileExistsError if there is something already."""
        target = directory if into is None else into
        if self._exchange and renamed(directory, name, to, RENAME_NOREPLACE, into=target):
            return
        if self.link(directory, name, to, into=target):
            os.unlink(name, dir_fd=directory)
            return
        try:  # neither kept us from replacing: look first, and hope
            os.stat(to, dir_fd=target, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(name, to, src_dir_fd=directory, dst_dir_fd=target)
        else:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), to)

    def link(self, directory: int, name: str, to: str, *, into: int | None = None) -> bool:
        """A second name for a file; False where the file system has none to give."""
        target = directory if into is None else into
        try:
            os.link(name, to, src_dir_fd=directory, dst_dir_fd=target, follow_symlinks=False)
        except OSError as error:
            if error.errno in (errno.EPERM, errno.EMLINK, *CANNOT):
                return False
            raise
        return True

    def move_back(self, directory: int, temp: str, name: str, *, ours: Callable[[os.stat_result], bool]) -> None:
        """What was moved aside returns, unless something new stands in its place."""
        if stat_of(directory, temp) is None:
            return
        try:
            self.move(directory, temp, name)
        except FileExistsError:
            # The old content is in the store. What is not the old content is somebody's only copy: it stays.
            if ours(os.stat(temp, dir_fd=directory, follow_symlinks=False)):
                os.unlink(temp, dir_fd=directory)

    def put_back(self, directory: int, name: str, temp: str, old: str, new: tuple[int, int]) -> bool:
        """The old file takes the place of the new one; False if it lies nowhere."""
        if stat_of(directory, old) is not None:
            os.rename(old, name, src_dir_fd=directory, dst_dir_fd=directory)
            return True
        if stat_of(directory, temp) is None:
            return False
        if not self.swap(directory, temp, name):
            os.rename(temp, name, src_dir_fd=directory, dst_dir_fd=directory)
            return True
        out = stat_of(directory, temp)
        if out is not None and file_of(out) != new:
            self.swap(directory, temp, name)  # somebody replaced the new file a moment ago: theirs stays
        return True

    def clear(self, path: str, *names: str) -> bool:
        """Remove files of our own naming; whether there were any."""
        try:
            directory, _ = self.open(path)
        except (NotFound, NotDirectory):
            return False
        cleared = False
        for name in names:
            try:
                os.unlink(name, dir_fd=directory)
                cleared = True
            except OSError:  # a read-only file system says so even of what is not there
                if stat_of(directory, name) is not None:
                    raise
        return cleared

    def make_directory(self, path: str) -> bool:
        """False if somebody made it a moment ago."""
        directory, name = self.open(path)
        try:
            os.mkdir(name, dir_fd=directory)
        except FileExistsError:
            return False
        return True

    def remove_directory(self, path: str) -> None:
        """If it is there and empty; else it stays."""
        if path in self._open:
            self._close(path)
        try:
            directory, name = self.open(path)
            os.rmdir(name, dir_fd=directory)
        except (FileNotFoundError, NotFound, NotDirectory):
            pass
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY, errno.ENOTDIR):
                raise

    # --- contents

    def write(self, fd: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view[:PIECE]) :]

    def sync(self, fd: int, *, wanted: bool = True) -> None:
        if wanted and self._durable:
            os.fsync(fd)

    def overwrite(self, fd: int, data: bytes) -> None:
        """Write a file in place, with its space set aside first, so that a full disk is noticed while it is whole."""
        found = os.fstat(fd)
        if len(data) > found.st_size:
            try:
                allocate(fd, len(data))
            except OSError:
                os.ftruncate(fd, found.st_size)  # gives back what was set aside before space ran out
                raise
        os.lseek(fd, 0, os.SEEK_SET)
        self.write(fd, data)
        os.ftruncate(fd, len(data))
        if stat.S_IMODE(os.fstat(fd).st_mode) != stat.S_IMODE(found.st_mode):  # writing takes setuid away
            with suppress(PermissionError):
                os.fchmod(fd, stat.S_IMODE(found.st_mode))
        self.sync(fd)

    def restore(self, change: FileChange, directory: int, name: str) -> bool:
        """Write the old content over a new or half-written file; False if it is neither, or the old is gone."""
        assert change.before is not None
        assert change.after is not None
        before = self.find(change.before)
        if before is None:
            return False
        try:
            fd = os.open(name, WRITE, dir_fd=directory)
        except FileNotFoundError:
            return False
        try:
            data = bytes_of(fd)
            hash = sha256(data).hexdigest()
            if hash == change.before.hash:
                return True
            if hash != change.after.hash:
                after = self.find(change.after)
                if after is None or not mixture(data, before, after):
                    return False
            self.overwrite(fd, before)
        finally:
            os.close(fd)
        return True

    # --- durability

    def sync_directories(self, paths: Iterable[str]) -> None:
        """The directories in which these paths lie."""
        if not self._durable:
            return
        of = {os.path.dirname(path): path for path in paths}
        if len(of) > MANY and CAN_SYNC_ALL:
            self.sync_file_systems(of.values())
            return
        for path in of.values():
            try:
                directory, _ = self.open(path)
            except (NotFound, NotDirectory):
                continue
            os.fsync(directory)

    def sync_file_systems(self, paths: Iterable[str]) -> None:
        """One sync for each file system on which these paths lie."""
        if not self._durable:
            return
        synced: set[int] = set()
        for path in {os.path.dirname(path): path for path in paths}.values():
            try:
                directory, _ = self.open(path)
            except (NotFound, NotDirectory):
                continue
            device = os.fstat(directory).st_dev
            if device not in synced:
                sync_file_system(directory)
                synced.add(device)


def chmod_at(directory: int, name: str, mode: int) -> None:
    """Of a directory, which need not be readable."""
    with directory_at(directory, name) as place:
        os.chmod(place, mode)


def clear_up(hands: Hands, transaction: str, files: Sequence[FileChange]) -> None:
    """Remove what was kept for taking back. Directories go last, and only now: until here they held some of it."""
    failed: ToolError | None = None
    kept = [(index, change) for index, change in enumerate(files) if change.before is not None]
    for index, change in sorted(kept, key=lambda each: isinstance(each[1].before, Directory)):
        try:
            if isinstance(change.before, Directory):
                hands.remove_directory(change.path)
            else:
                temp = temp_name(transaction, index)
                if not hands.clear(change.path, temp):
                    hands.clear(change.path, second_name(temp))
        except OSError as error:  # the others need not wait for this one
            failed = trouble_of(error, change.path)
    if failed:
        raise failed


def temp_name(transaction: str, index: int) -> str:
    return f".handhold-{transaction}-{index}"


def second_name(temp: str) -> str:
    return f"{temp}.old"


def trouble_of(error: OSError, path: str) -> ToolError:
    if error.errno == errno.EXDEV:  # of a rename, not of a path that leads out
        return SystemTrouble(path, f"EXDEV: {os.strerror(errno.EXDEV)}")
    return trouble(error, path)
