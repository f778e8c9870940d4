"""All system calls of a commit that change files, relative to directories opened below a root."""

import errno
import os
import resource
import stat
from collections import OrderedDict
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from hashlib import sha256
from typing import Protocol

from handhold.backends.files.commit.directory_metadata import open_proc_path_at
from handhold.backends.files.commit.file_metadata import (
    CHUNK_BYTES,
    file_id,
    fingerprint,
    is_partial_write,
    lstat_at,
    read_all,
)
from handhold.backends.files.commit.syscalls import (
    HAS_SYNCFS,
    RENAME_EXCHANGE,
    RENAME_NOREPLACE,
    UNSUPPORTED_ERRNOS,
    preallocate,
    renameat2,
    sync_file_system,
)
from handhold.backends.files.os_errors import to_tool_error
from handhold.backends.files.staging_area import StagingArea
from handhold.core.errors import ContentDropped, NotDirectory, NotFound, SystemFailure, ToolError
from handhold.core.plans import Content, Directory, FileChange, InlineContent
from handhold.core.ports.contents import ContentStore
from handhold.core.text.path_escaping import unescape_ambiguous

FULL_SYNC_THRESHOLD = 32  # with more files or directories, one sync of the file system is cheaper
MAX_OPEN_DIRECTORIES = 256  # open at once

WRITE_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
STAGE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class CommitRoot(Protocol):
    @property
    def folder(self) -> AbstractContextManager[int]: ...
    @property
    def real(self) -> str: ...
    @property
    def given(self) -> str: ...
    @property
    def writable(self) -> bool: ...


class CommitTree(Protocol):
    """What a commit needs from the workspace: directories opened below a root."""

    @property
    def open_roots(self) -> Sequence[CommitRoot]: ...

    def find_root(self, place: str, /) -> CommitRoot: ...

    @property
    def staging_areas(self) -> Collection[StagingArea]: ...

    def find_staging_area(self, place: str, /) -> StagingArea | None: ...

    def open_parent(self, place: str, /) -> AbstractContextManager[tuple[int, str]]: ...


class FileOps:
    """The system calls, on directories opened below a root without following links."""

    def __init__(self, tree: CommitTree, contents: ContentStore, *, durable: bool, exchange: bool) -> None:
        self._tree = tree
        self._contents = contents
        self._durable = durable
        self._exchange = exchange
        # A change set may touch more directories than a process may open: the least recently used are closed.
        self._open_parents: OrderedDict[str, tuple[int, AbstractContextManager[tuple[int, str]]]] = OrderedDict()
        soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._max_open = (
            MAX_OPEN_DIRECTORIES
            if soft_limit == resource.RLIM_INFINITY
            else max(1, min(MAX_OPEN_DIRECTORIES, soft_limit // 4))
        )

    def __enter__(self) -> "FileOps":
        return self

    def __exit__(self, *_: object) -> None:
        for directory in list(self._open_parents):
            self._close(directory)

    def open_parent(self, path: str) -> tuple[int, str]:
        """The directory that contains a path, and the name in it. The descriptor is valid until the next call."""
        parent, _, name = path.rpartition("/")
        name = unescape_ambiguous(name)
        if parent in self._open_parents:
            self._open_parents.move_to_end(parent)
            return self._open_parents[parent][0], name
        opening = self._tree.open_parent(path)
        directory, _ = opening.__enter__()
        self._open_parents[parent] = directory, opening
        if len(self._open_parents) > self._max_open:
            self._close(next(iter(self._open_parents)))
        return directory, name

    def open_directory(self, path: str) -> int:
        return self.open_parent(os.path.join(path, "any"))[0]

    def find_root(self, path: str) -> CommitRoot:
        return self._tree.find_root(path)

    def stat_directory(self, path: str) -> os.stat_result | None:
        """The stat of a directory, which may be a root and may not be readable; None if there is none."""
        root = self._tree.find_root(path)
        if path == root.real:
            with root.folder as folder:
                found = os.fstat(folder)
        else:
            found = self.stat(path)
        return found if found and stat.S_ISDIR(found.st_mode) else None

    @contextmanager
    def open_proc_path(self, path: str) -> Generator[str]:
        """A path for a directory, which may be a root and may not be readable."""
        root = self._tree.find_root(path)
        if path == root.real:
            with root.folder as folder:
                yield f"/proc/self/fd/{folder}"
        else:
            with open_proc_path_at(*self.open_parent(path)) as place:
                yield place

    def chmod_directory(self, path: str, mode: int) -> None:
        with self.open_proc_path(path) as place:
            os.chmod(place, mode)

    def _close(self, path: str) -> None:
        _, opening = self._open_parents.pop(path)
        with suppress(OSError):  # nothing was written through it that could be lost
            opening.__exit__(None, None, None)

    # --- queries

    def stat(self, path: str) -> os.stat_result | None:
        try:
            directory, name = self.open_parent(path)
            return os.stat(name, dir_fd=directory, follow_symlinks=False)
        except (FileNotFoundError, NotFound):
            return None

    def is_directory(self, path: str, *, error_path: str) -> bool:
        """False if nothing exists; raise NotDirectory if it is not a directory."""
        try:
            self.open_directory(path)
        except NotFound:
            return False
        except NotDirectory:
            raise NotDirectory(error_path) from None
        return True

    def fingerprint(self, path: str, expected: Content | None = None) -> tuple[os.stat_result | None, str]:
        try:
            directory, name = self.open_parent(path)
        except (NotFound, NotDirectory):
            return None, ""
        return fingerprint(directory, name, expected if isinstance(expected, InlineContent) else None)

    def has_content(self, content: Content) -> bool:
        return isinstance(content, InlineContent) or self._contents.has(content.hash)

    def find_content(self, content: Content) -> bytes | None:
        return content.data if isinstance(content, InlineContent) else self._contents.get(content.hash)

    def load_content(self, content: Content, path: str) -> bytes:
        data = self.find_content(content)
        if data is None:
            raise ContentDropped((path,))
        return data

    # --- names

    def swap(self, directory: int, one: str, other: str, *, into: int | None = None) -> bool:
        """Exchange two names atomically; False if the file system cannot."""
        return self._exchange and renameat2(directory, one, other, RENAME_EXCHANGE, into=into)

    def move(self, directory: int, name: str, to: str, *, into: int | None = None) -> None:
        """Rename; raise FileExistsError if the target exists."""
        target = directory if into is None else into
        if self._exchange and renameat2(directory, name, to, RENAME_NOREPLACE, into=target):
            return
        if self.link(directory, name, to, into=target):
            os.unlink(name, dir_fd=directory)
            return
        try:  # neither can prevent replacing: check first, and accept the race
            os.stat(to, dir_fd=target, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(name, to, src_dir_fd=directory, dst_dir_fd=target)
        else:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), to)

    def link(self, directory: int, name: str, to: str, *, into: int | None = None) -> bool:
        """Create a hard link; False if the file system has none."""
        target = directory if into is None else into
        try:
            os.link(name, to, src_dir_fd=directory, dst_dir_fd=target, follow_symlinks=False)
        except OSError as error:
            if error.errno in (errno.EPERM, errno.EMLINK, *UNSUPPORTED_ERRNOS):
                return False
            raise
        return True

    def move_back(self, directory: int, temp: str, name: str, *, is_ours: Callable[[os.stat_result], bool]) -> None:
        """Move a file back that was moved aside, unless something new exists in its place."""
        if lstat_at(directory, temp) is None:
            return
        try:
            self.move(directory, temp, name)
        except FileExistsError:
            # The old content is in the store. Any other content is somebody's only copy: it stays.
            if is_ours(os.stat(temp, dir_fd=directory, follow_symlinks=False)):
                os.unlink(temp, dir_fd=directory)

    def put_back(self, directory: int, name: str, temp: str, backup: str, new_file_id: tuple[int, int]) -> bool:
        """Replace the new file with the old one; False if the old one is nowhere."""
        if lstat_at(directory, backup) is not None:
            os.rename(backup, name, src_dir_fd=directory, dst_dir_fd=directory)
            return True
        if lstat_at(directory, temp) is None:
            return False
        if not self.swap(directory, temp, name):
            os.rename(temp, name, src_dir_fd=directory, dst_dir_fd=directory)
            return True
        status = lstat_at(directory, temp)
        if status is not None and file_id(status) != new_file_id:
            self.swap(directory, temp, name)  # somebody has just replaced the new file: theirs stays
        return True

    def remove_files(self, path: str, *names: str) -> bool:
        """Remove files with names of ours; return whether there were any."""
        try:
            directory, _ = self.open_parent(path)
        except (NotFound, NotDirectory):
            return False
        removed = False
        for name in names:
            try:
                os.unlink(name, dir_fd=directory)
                removed = True
            except OSError:  # a read-only file system fails even for missing files
                if lstat_at(directory, name) is not None:
                    raise
        return removed

    def make_directory(self, path: str) -> bool:
        """False if somebody has just created it."""
        directory, name = self.open_parent(path)
        try:
            os.mkdir(name, dir_fd=directory)
        except FileExistsError:
            return False
        return True

    def remove_directory(self, path: str) -> None:
        """Remove it if it exists and is empty."""
        if path in self._open_parents:
            self._close(path)
        try:
            directory, name = self.open_parent(path)
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
            view = view[os.write(fd, view[:CHUNK_BYTES]) :]

    def sync(self, fd: int, *, enabled: bool = True) -> None:
        if enabled and self._durable:
            os.fsync(fd)

    def overwrite(self, fd: int, data: bytes) -> None:
        """Write a file in place. Allocates space first, so that a full disk is noticed before the file changes."""
        found = os.fstat(fd)
        if len(data) > found.st_size:
            try:
                preallocate(fd, len(data))
            except OSError:
                os.ftruncate(fd, found.st_size)  # releases what was allocated before space ran out
                raise
        os.lseek(fd, 0, os.SEEK_SET)
        self.write(fd, data)
        os.ftruncate(fd, len(data))
        if stat.S_IMODE(os.fstat(fd).st_mode) != stat.S_IMODE(found.st_mode):  # writing clears setuid
            with suppress(PermissionError):
                os.fchmod(fd, stat.S_IMODE(found.st_mode))
        self.sync(fd)

    def restore_content(self, change: FileChange, directory: int, name: str) -> bool:
        """Write the old content over a new or partly written file; False if it is neither, or the old one is gone."""
        assert change.before is not None
        assert change.after is not None
        before = self.find_content(change.before)
        if before is None:
            return False
        try:
            fd = os.open(name, WRITE_FLAGS, dir_fd=directory)
        except FileNotFoundError:
            return False
        try:
            data = read_all(fd)
            hash = sha256(data).hexdigest()
            if hash == change.before.hash:
                return True
            if hash != change.after.hash:
                after = self.find_content(change.after)
                if after is None or not is_partial_write(data, before, after):
                    return False
            self.overwrite(fd, before)
        finally:
            os.close(fd)
        return True

    # --- durability

    def sync_directories(self, paths: Iterable[str]) -> None:
        """Sync the directories that contain these paths."""
        if not self._durable:
            return
        path_by_directory = {os.path.dirname(path): path for path in paths}
        if len(path_by_directory) > FULL_SYNC_THRESHOLD and HAS_SYNCFS:
            self.sync_file_systems(path_by_directory.values())
            return
        for path in path_by_directory.values():
            try:
                directory, _ = self.open_parent(path)
            except (NotFound, NotDirectory):
                continue
            os.fsync(directory)

    def sync_file_systems(self, paths: Iterable[str]) -> None:
        """Sync each file system that contains these paths once."""
        if not self._durable:
            return
        synced: set[int] = set()
        for path in {os.path.dirname(path): path for path in paths}.values():
            try:
                directory, _ = self.open_parent(path)
            except (NotFound, NotDirectory):
                continue
            device = os.fstat(directory).st_dev
            if device not in synced:
                sync_file_system(directory)
                synced.add(device)


def remove_backups(ops: FileOps, transaction: str, files: Sequence[FileChange]) -> None:
    """Remove the backups, then the deleted directories, which contained some of them."""
    failed: ToolError | None = None
    kept = [(index, change) for index, change in enumerate(files) if change.before is not None]
    for index, change in sorted(kept, key=lambda each: isinstance(each[1].before, Directory)):
        try:
            if isinstance(change.before, Directory):
                ops.remove_directory(change.path)
            else:
                temp = temp_name(transaction, index)
                if not ops.remove_files(change.path, temp):
                    ops.remove_files(change.path, backup_name(temp))
        except OSError as error:  # continue with the others
            failed = to_commit_error(error, change.path)
    if failed:
        raise failed


def temp_name(transaction: str, index: int) -> str:
    return f".handhold-{transaction}-{index}"


def backup_name(temp: str) -> str:
    return f"{temp}.old"


def to_commit_error(error: OSError, path: str) -> ToolError:
    if error.errno == errno.EXDEV:  # from a rename, not from a path that leads out
        return SystemFailure(path, f"EXDEV: {os.strerror(errno.EXDEV)}")
    return to_tool_error(error, path)
