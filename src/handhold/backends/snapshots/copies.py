"""The copies of a baseline: files in a private folder on the root's own file system.

A copy counts only if the file looked the same before and after it was copied, as it did when it was scanned, and if it
was last changed so long ago that a later change would show in its times.
"""

import errno
import os
import time
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager, suppress
from secrets import token_hex

from handhold.backends.files.commit.file_metadata import has_same_bytes, list_xattrs
from handhold.backends.quiet_open import open_quietly
from handhold.backends.snapshots.clone import NEW_FILE_FLAGS, copy_blocks, share_blocks
from handhold.backends.snapshots.listing import (
    FILE_FLAGS,
    FOLDER_FLAGS,
    VANISHED_ERRNOS,
    FolderChain,
    pack_status,
)
from handhold.backends.state.baseline import BaselineEntry, CopyResult, DueCopy, SqliteBaseline
from handhold.logs import suppress_and_log

FOLDER_SUFFIX = ".baseline"  # after the name of the staging area
CLOCK_FILE = b"clock"
MAX_FILE_BYTES = 64 * 1024 * 1024  # of a file that is copied without sharing its blocks
MAX_TOTAL_BYTES = 2 * 1024**3
MAX_DISK_SHARE = 10  # of the free space, at most one in so many bytes
TICK_NS = 20_000_000  # the granularity of times on a local file system: a tick of the kernel's clock, at most 10 ms
COARSE_TICK_NS = 2_000_000_000  # where times are whole seconds, or two
BATCH_SIZE = 100
UNKNOWN_SECONDS = 3600  # for which a copy without an entry may be one that is being made
MAX_COMPARED_INDEX_BYTES = 64 * 1024 * 1024

# Why there is no copy.
TOO_LARGE = f"larger than {MAX_FILE_BYTES // 1024**2} MiB"
NO_ROOM = "no room in the baseline"
UNREADABLE = "not readable"
DENIED = "denied by a rule"
OTHER_OWNER = "owned by somebody else"
SPECIAL = "not a file, folder or link"
OTHER_DEVICE = "another file system"
CHANGING = "changed while it was copied"

SQLITE_SUFFIXES = (b"-wal", b"-journal")


class Copies:
    """The copies of one root's baseline."""

    def __init__(
        self,
        staging_folder: str,
        baseline: SqliteBaseline,
        *,
        is_denied: Callable[[bytes], bool] = lambda _: False,
        max_bytes: int | None = None,
        share: Callable[[int, int], bool] = share_blocks,
    ) -> None:
        self._baseline = baseline
        self._is_denied = is_denied
        self._share_blocks = share
        self._old_before = 0
        self._linked: dict[bytes, bytes] = {}  # the copies of files with several names that are not recorded yet
        folder = staging_folder + FOLDER_SUFFIX
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        self._fd = os.open(folder, FOLDER_FLAGS)
        found = os.fstat(self._fd)
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            self.close()
            raise PermissionError(errno.EPERM, "the folder of the baseline must be accessible only to its owner")
        self.max_bytes = max_bytes or self._choose_max_bytes()

    def _choose_max_bytes(self) -> int:
        free = os.fstatvfs(self._fd)
        share = self._baseline.held_bytes() + free.f_bavail * free.f_frsize // MAX_DISK_SHARE
        return min(MAX_TOTAL_BYTES, share)

    def close(self) -> None:
        os.close(self._fd)

    # --- the clock of the file system

    def read_clock(self) -> int:
        """The time that a file changed now would get, minus what could pass without being noticed."""
        fd = os.open(CLOCK_FILE, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self._fd)
        try:
            os.utime(fd)
            now = os.fstat(fd).st_mtime_ns
        finally:
            os.close(fd)
        self._old_before = now - (TICK_NS if now % 10**9 else COARSE_TICK_NS)
        return self._old_before

    def wait_until_old(self, changed_ns: int, *, at_most: float) -> None:
        """Wait until a file that was changed then is old enough to be copied."""
        until = time.monotonic() + at_most
        while self.read_clock() <= changed_ns and time.monotonic() < until:
            time.sleep(0.005)

    # --- copying

    def copy_due(self, root: int, *, until: float, max_files: int | None = None) -> bool:
        """Copy what is due until this time, of `time.monotonic`; returns whether nothing is left to do now."""
        self._baseline.retry(CHANGING)  # it may be at rest by now
        if not self._baseline.due(1):
            return True
        room = self.max_bytes - self._baseline.held_bytes()
        chain = FolderChain(root)
        done = 0
        try:
            while due := self._baseline.due(BATCH_SIZE):
                results: list[CopyResult] = []
                self._linked = {}
                for each in due:
                    result = self._copy(chain, each, room)
                    room -= result.held
                    if each.is_linked and result.copy:
                        self._linked[each.status] = result.copy
                    results.append(result)
                    if time.monotonic() > until:
                        break
                self.remove(self._baseline.record_copies(results))
                done += len(results)
                if time.monotonic() > until or (max_files is not None and done >= max_files):
                    return not self._baseline.due(1)
            return True
        finally:
            chain.close()

    def _copy(self, chain: FolderChain, due: DueCopy, room: int) -> CopyResult:
        path = due.folder + b"/" + due.name if due.folder else due.name
        if self._is_denied(path):
            return CopyResult(due, None, 0, DENIED)
        try:
            directory = chain.open(due.folder)
            fd = open_quietly(due.name, FILE_FLAGS, directory)
        except OSError as error:
            if error.errno in VANISHED_ERRNOS:
                return CopyResult(due, None, 0, CHANGING)
            if error.errno not in (errno.EACCES, errno.EPERM):
                raise
            return CopyResult(due, None, 0, UNREADABLE)
        try:
            return self._copy_open(fd, directory, due, room)
        finally:
            os.close(fd)

    def _copy_open(self, fd: int, directory: int, due: DueCopy, room: int) -> CopyResult:
        status = os.fstat(fd)
        if pack_status(status) != due.status:
            return CopyResult(due, None, 0, CHANGING)
        if os.geteuid() not in (0, status.st_uid):
            return CopyResult(due, None, 0, OTHER_OWNER)
        if status.st_ctime_ns >= self._old_before:
            self.wait_until_old(status.st_ctime_ns, at_most=0.05)
            if status.st_ctime_ns >= self._old_before:
                return CopyResult(due, None, 0, CHANGING)
        copy = token_hex(8).encode()
        if due.is_linked and (other := self._linked.get(due.status) or self._baseline.find_linked_copy(due.status)):
            os.link(other, copy, src_dir_fd=self._fd, dst_dir_fd=self._fd)
            return CopyResult(due, copy, 0, None)
        held, why = self._copy_content(fd, due, copy, room)
        if not why and (pack_status(os.fstat(fd)) != due.status or not self._is_set_unchanged(directory, due)):
            why = CHANGING
        if why:
            os.unlink(copy, dir_fd=self._fd)
            return CopyResult(due, None, 0, why)
        return CopyResult(due, copy, held, None)

    def _copy_content(self, fd: int, due: DueCopy, copy: bytes, room: int) -> tuple[int, str]:
        """The bytes that the copy takes; or why it was not made."""
        target = os.open(copy, NEW_FILE_FLAGS, 0o600, dir_fd=self._fd)
        try:
            if self._share_blocks(fd, target):
                held = 0
            elif due.size > MAX_FILE_BYTES:
                return 0, TOO_LARGE
            elif due.size > room:
                return 0, NO_ROOM
            else:
                copy_blocks(fd, target, due.size)
                held = due.size
            for name in list_xattrs(fd):
                if name.startswith("user."):
                    os.setxattr(target, name, os.getxattr(fd, name))
            return held, ""
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            return 0, NO_ROOM
        finally:
            os.close(target)

    def _is_set_unchanged(self, directory: int, due: DueCopy) -> bool:
        """Whether the other files of a SQLite database are as scanned: only together are they a state of it."""
        base = database_name(due.name)
        known = None
        for name in (base, *(base + suffix for suffix in SQLITE_SUFFIXES)):
            if name == due.name:
                continue
            try:
                packed = pack_status(os.stat(name, dir_fd=directory, follow_symlinks=False))
            except FileNotFoundError:
                packed = None
            if packed is None and known is None and base == due.name:
                continue
            known = known or self._baseline.entries(due.folder_id)
            if packed != (known[name].status if name in known else None):
                return False
        return True

    # --- using copies

    def is_same(self, entry: BaselineEntry, fd: int, size: int) -> bool:
        """Whether an open file has the content of an entry's copy."""
        if entry.copy is None or size != entry.size or not self.is_whole(entry):
            return False
        with self.open(entry.copy) as copy:
            return has_same_bytes(copy, fd)

    def is_whole(self, entry: BaselineEntry) -> bool:
        """Whether an entry's copy has its size. Copies are not synced, so a power cut may leave them empty."""
        if entry.copy is None:
            return True
        try:
            return os.stat(entry.copy, dir_fd=self._fd).st_size == entry.size
        except FileNotFoundError:
            return False

    def read(self, entry: BaselineEntry) -> bytes:
        assert entry.copy is not None
        with self.open(entry.copy) as fd, os.fdopen(os.dup(fd), "rb") as file:
            return file.read()

    @contextmanager
    def open(self, copy: bytes) -> Generator[int]:
        fd = os.open(copy, FILE_FLAGS, dir_fd=self._fd)
        try:
            yield fd
        finally:
            os.close(fd)

    def link(self, copy: bytes, directory: int, name: bytes) -> None:
        """Give a copy a second name, in a slot: the first one is removed once the slot counts.

        A copy that other names of the same file have in common is copied: the slot may end up in the workspace.
        """
        if os.stat(copy, dir_fd=self._fd).st_nlink == 1:
            os.link(copy, name, src_dir_fd=self._fd, dst_dir_fd=directory)
            return
        with self.open(copy) as fd:
            target = os.open(name, NEW_FILE_FLAGS, 0o600, dir_fd=directory)
            try:
                if not self._share_blocks(fd, target):
                    copy_blocks(fd, target, os.fstat(fd).st_size)
            finally:
                os.close(target)

    def read_inode(self, copy: bytes) -> int:
        """The same for copies of names that were hard links of each other."""
        return os.stat(copy, dir_fd=self._fd).st_ino

    def remove(self, copies: Collection[bytes]) -> None:
        for copy in copies:
            with suppress_and_log(OSError):
                os.unlink(copy, dir_fd=self._fd)

    def remove_unknown(self) -> None:
        """Remove what a killed process left: copies that no entry refers to, after an hour."""
        old = time.time() - UNKNOWN_SECONDS
        names = {
            os.fsencode(name)
            for name in os.listdir(self._fd)
            if os.stat(name, dir_fd=self._fd, follow_symlinks=False).st_ctime < old
        } - {CLOCK_FILE}
        self.remove(names - self._baseline.known_copies(names))


def database_name(name: bytes) -> bytes:
    """The SQLite database that a file would belong to: itself, or the one whose log it is."""
    return next((name.removesuffix(suffix) for suffix in SQLITE_SUFFIXES if name.endswith(suffix)), name)
