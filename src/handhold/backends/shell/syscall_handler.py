"""Handle one system call of a supervised command: resolve its paths, check them, and make the call."""

import ctypes
import errno
import fcntl
import os
import stat
import struct
from collections.abc import Callable
from contextlib import ExitStack
from threading import Lock
from typing import NoReturn, TypeVar

from handhold.backends.files.openat2 import openat2
from handhold.backends.landlock import landlock_abi_version
from handhold.backends.shell.entry_refs import EntryRef, check_not_mount_point, is_folder, walk_entries
from handhold.backends.shell.name_separation import separate_name
from handhold.backends.shell.seccomp_notify import (
    IOCTL_NOTIF_ID_VALID,
    WRITE_FLAGS,
    SyscallNotification,
    is_refused_by_landlock,
)
from handhold.logs import suppress_and_log

AT_FDCWD, AT_SYMLINK_FOLLOW, AT_REMOVEDIR = -100, 0x400, 0x200
RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
RESOLVE_IN_ROOT = 0x10  # openat2: treat the descriptor as the root, also for links and `..`
MAX_PATH_BYTES = 4096
PAGE_BYTES = 4096

T = TypeVar("T")
# Whether a place is write-protected; the second argument says whether it would be a folder.
WriteGuard = Callable[[str, bool], bool]

_libc = ctypes.CDLL(None, use_errno=True)
_landlock = landlock_abi_version()
_syscall_lock = Lock()  # no other command may move a folder between our check and the use


class ContinueSyscall(Exception):
    """Not our call: the kernel decides, and Landlock with it."""


class SyscallHandler:
    """One call, made for the command if it concerns supervised places."""

    def __init__(
        self,
        notification: SyscallNotification,
        listener: int,
        prefixes: tuple[str, ...],
        is_write_protected: WriteGuard,
        stack: ExitStack,
    ) -> None:
        self._notification = notification
        self._listener = listener
        self._prefixes = prefixes
        self._is_write_protected = is_write_protected
        self._stack = stack

    def handle(self) -> tuple[int, bool] | None:
        """The descriptor for the command, and whether it is close-on-exec; None: the call returns 0.

        All other commands wait meanwhile, so nothing in here may wait for one of them.
        """
        try:
            with _syscall_lock:
                return self._dispatch()
        except ContinueSyscall:
            if is_refused_by_landlock(self._notification, _landlock):
                raise
            raise PermissionError(errno.EACCES, "an old kernel would not refuse it") from None

    def _dispatch(self) -> tuple[int, bool] | None:
        name, arguments = self._notification.name, self._notification.arguments
        here = AT_FDCWD
        try:
            self._root = self._open(f"/proc/{self._notification.pid}/root", os.O_PATH | os.O_DIRECTORY)
        except OSError:
            raise ContinueSyscall from None
        match name:
            case "open":
                return self._open_file(here, arguments[0], arguments[1], arguments[2])
            case "creat":
                return self._open_file(here, arguments[0], os.O_CREAT | os.O_WRONLY | os.O_TRUNC, arguments[1])
            case "openat":
                return self._open_file(_to_signed(arguments[0]), arguments[1], arguments[2], arguments[3])
            case "openat2":
                flags, mode, resolve = struct.unpack("=QQQ", self._read_memory(arguments[2], 24))
                if not flags & WRITE_FLAGS:
                    raise ContinueSyscall
                if resolve:
                    raise OSError(errno.ENOSYS, "as an older kernel would say")
                return self._open_file(_to_signed(arguments[0]), arguments[1], flags, mode)
            case "mkdir" | "mkdirat":
                folder, path, mode = (here, *arguments[:2]) if name == "mkdir" else arguments[:3]
                entry = self._resolve_entry(_to_signed(folder), self._read_path(path))
                self._check_writable(entry, folder=True)
                self._with_umask(lambda: os.mkdir(entry.name, mode & 0o1777, dir_fd=entry.dir_fd))
            case "mknod" | "mknodat":
                folder, path, mode = (here, *arguments[:2]) if name == "mknod" else arguments[:3]
                if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFIFO):
                    raise PermissionError(errno.EPERM, "neither a file nor a pipe")
                entry = self._resolve_entry(_to_signed(folder), self._read_path(path))
                self._check_writable(entry)
                self._with_umask(lambda: os.mknod(entry.name, mode & ~0o6000, dir_fd=entry.dir_fd))
            case "symlink" | "symlinkat":
                target, folder, path = (arguments[0], here, arguments[1]) if name == "symlink" else arguments[:3]
                entry = self._resolve_entry(_to_signed(folder), self._read_path(path))
                self._check_writable(entry)
                os.symlink(self._read_path(target), entry.name, dir_fd=entry.dir_fd)
            case "link" | "linkat":
                if name == "link":
                    self._link(here, arguments[0], here, arguments[1], 0)
                else:
                    self._link(arguments[0], arguments[1], arguments[2], arguments[3], arguments[4])
            case "rename" | "renameat" | "renameat2":
                if name == "rename":
                    self._rename(here, arguments[0], here, arguments[1], 0)
                else:
                    flags = arguments[4] if name == "renameat2" else 0
                    self._rename(arguments[0], arguments[1], arguments[2], arguments[3], flags)
            case "unlink" | "rmdir":
                self._remove(here, arguments[0], folder=name == "rmdir")
            case "unlinkat":
                if arguments[2] & 0xFFFFFFFF & ~AT_REMOVEDIR:
                    raise ContinueSyscall
                self._remove(arguments[0], arguments[1], folder=bool(arguments[2] & AT_REMOVEDIR))
            case "truncate":
                fd = self._open_existing(here, self._read_path(arguments[0]), follow=True)
                os.ftruncate(self._reopen(fd, os.O_WRONLY), ctypes.c_int64(arguments[1]).value)
            case _:
                raise ContinueSyscall
        return None

    # --- system calls

    def _open_file(self, folder: int, path: int, flags: int, mode: int) -> tuple[int, bool]:
        flags &= 0xFFFFFFFF
        if flags & os.O_PATH:
            raise ContinueSyscall  # nothing can be changed through it
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "a file without a name would get one later")
        text, cloexec = self._read_path(path), bool(flags & os.O_CLOEXEC)
        try:
            fd = self._open_existing(folder, text, follow=not flags & os.O_NOFOLLOW)
        except FileNotFoundError:
            if not flags & os.O_CREAT:
                raise ContinueSyscall from None
        else:
            if flags & os.O_CREAT and flags & os.O_EXCL:
                raise FileExistsError(errno.EEXIST, text)
            return self._reopen(fd, flags & ~(os.O_CREAT | os.O_NOFOLLOW)), cloexec
        entry = self._resolve_entry(folder, text)
        self._check_writable(entry)
        create_flags = flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = self._with_umask(lambda: os.open(entry.name, create_flags, mode & 0o1777, dir_fd=entry.dir_fd))
        except FileExistsError:
            if flags & os.O_EXCL:
                raise
            raise ContinueSyscall from None  # a dangling link, or somebody was faster
        self._stack.callback(os.close, fd)
        return fd, cloexec

    def _link(self, old_folder: int, old: int, new_folder: int, new: int, flags: int) -> None:
        source = self._read_path(old)
        target = self._resolve_entry(_to_signed(new_folder), self._read_path(new))
        if flags & ~AT_SYMLINK_FOLLOW:
            raise ContinueSyscall
        entry = self._resolve_entry(_to_signed(old_folder), source, anywhere=True)
        if flags and os.path.islink(f"/proc/self/fd/{entry.dir_fd}/{entry.name}"):
            refuse(entry.path)  # its target has not been checked
        self._check_writable(entry)
        self._check_writable(target)
        os.link(entry.name, target.name, src_dir_fd=entry.dir_fd, dst_dir_fd=target.dir_fd, follow_symlinks=False)

    def _rename(self, old_folder: int, old: int, new_folder: int, new: int, flags: int) -> None:
        old_entry = self._resolve_entry(_to_signed(old_folder), self._read_path(old), anywhere=True)
        new_entry = self._resolve_entry(_to_signed(new_folder), self._read_path(new), anywhere=True)
        if not self._is_supervised(old_entry.path) and not self._is_supervised(new_entry.path):
            raise ContinueSyscall
        if flags & ~(RENAME_NOREPLACE | RENAME_EXCHANGE):
            raise OSError(errno.EINVAL, "flags of rename")
        check_not_mount_point(old_entry)
        check_not_mount_point(new_entry)
        self._check_move(old_entry, new_entry)
        self._check_move(new_entry, old_entry)  # for what is replaced or exchanged
        if _libc.renameat2(
            old_entry.dir_fd, os.fsencode(old_entry.name), new_entry.dir_fd, os.fsencode(new_entry.name), flags
        ):
            raise OSError(ctypes.get_errno(), "rename")

    def _remove(self, above: int, path: int, *, folder: bool) -> None:
        text = self._read_path(path)
        if text.endswith("/") and not folder:
            raise ContinueSyscall
        entry = self._resolve_entry(_to_signed(above), text)
        os.stat(entry.name, dir_fd=entry.dir_fd, follow_symlinks=False)  # a missing entry is not protected either
        check_not_mount_point(entry)
        self._check_writable(entry, folder=is_folder(entry))
        (os.rmdir if folder else os.unlink)(entry.name, dir_fd=entry.dir_fd)

    def _check_move(self, entry: EntryRef, target: EntryRef) -> None:
        """Refuse if the entry, or anything in it, is protected at its old or its new place."""
        folder = is_folder(entry)
        if self._is_write_protected(entry.path, folder) or self._is_write_protected(target.path, folder):
            refuse(entry.path)
        if folder:
            for rel_path, below_is_folder in walk_entries(entry):
                if self._is_write_protected(f"{entry.path}/{rel_path}", below_is_folder) or self._is_write_protected(
                    f"{target.path}/{rel_path}", below_is_folder
                ):
                    refuse(f"{entry.path}/{rel_path}")

    def _check_writable(self, entry: EntryRef, *, folder: bool = False) -> None:
        if self._is_write_protected(entry.path, folder):
            refuse(entry.path)

    # --- path resolution

    def _open_existing(self, folder: int, text: str, *, follow: bool) -> int:
        """A supervised regular file that may be written; raise FileNotFoundError if nothing exists."""
        flags = os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
        fd = self._resolve(self._make_absolute(folder, text), flags)
        place = os.readlink(f"/proc/self/fd/{fd}")
        if not self._is_supervised(place) or not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ContinueSyscall
        if self._is_write_protected(place, False):  # noqa: FBT003
            refuse(place)
        return fd

    def _resolve_entry(self, folder: int, text: str, *, anywhere: bool = False) -> EntryRef:
        """The folder and name of a new entry."""
        above, _, name = self._make_absolute(folder, text).rstrip("/").rpartition("/")
        if name in ("", ".", ".."):
            raise ContinueSyscall
        try:
            fd = self._resolve(above or "/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise ContinueSyscall from None
        place = os.readlink(f"/proc/self/fd/{fd}").rstrip("/") + f"/{name}"
        if not anywhere and not self._is_supervised(place):
            raise ContinueSyscall
        return EntryRef(fd, name, place)

    def _resolve(self, path: str, flags: int) -> int:
        try:
            fd = openat2(self._root, os.fsencode(path), struct.pack("QQQ", flags, 0, RESOLVE_IN_ROOT))
        except FileNotFoundError:
            raise
        except OSError:
            raise ContinueSyscall from None  # the kernel reports the error, or resolves what only it can
        self._stack.callback(os.close, fd)
        # Only now is it certain that these paths belong to the process that waits.
        with suppress_and_log(OSError):
            fcntl.ioctl(self._listener, IOCTL_NOTIF_ID_VALID, struct.pack("=Q", self._notification.id))
            return fd
        raise ContinueSyscall

    def _make_absolute(self, folder: int, text: str) -> str:
        if text.startswith("/"):
            return text
        which = "cwd" if folder == AT_FDCWD else f"fd/{folder}"
        try:
            above = os.readlink(f"/proc/{self._notification.pid}/{which}")
        except OSError:
            raise ContinueSyscall from None
        if not text or not above.startswith("/"):
            raise ContinueSyscall
        return f"{above}/{text}"

    def _is_supervised(self, place: str) -> bool:
        return place.startswith(self._prefixes)

    # --- process state

    def _read_path(self, address: int) -> str:
        data = b""
        while b"\0" not in data and len(data) <= MAX_PATH_BYTES:
            at = address + len(data)
            data += self._read_memory(at, PAGE_BYTES - at % PAGE_BYTES)
        path, end, _ = data.partition(b"\0")
        if not end or not path or len(path) >= MAX_PATH_BYTES:
            raise ContinueSyscall
        return os.fsdecode(path)

    def _read_memory(self, address: int, size: int) -> bytes:
        try:
            fd = os.open(f"/proc/{self._notification.pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
            try:
                data = os.pread(fd, size, address)
            finally:
                os.close(fd)
        except (OSError, OverflowError):
            raise ContinueSyscall from None
        if not data:
            raise ContinueSyscall
        return data

    def _with_umask(self, make: Callable[[], T]) -> T:
        """Create with the process's umask: this thread has its own."""
        with open(f"/proc/{self._notification.pid}/status", encoding="utf-8", errors="replace") as status:  # noqa: PTH123
            umask = next((line.split()[1] for line in status if line.startswith("Umask:")), "077")
        os.umask(int(umask, 8))
        return make()

    def _reopen(self, fd: int, flags: int) -> int:
        """Open a regular file. Without O_NONBLOCK, a lease on it would block us and all other commands."""
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_TRUNC):
            fd = self._separate_name(fd)
        opened = self._open(f"/proc/self/fd/{fd}", flags | os.O_NONBLOCK)
        os.set_blocking(opened, not flags & os.O_NONBLOCK)
        return opened

    def _separate_name(self, fd: int) -> int:
        """The file, or a copy if it has several names: only this one has been checked."""
        found, own = os.fstat(fd), f"/proc/self/fd/{fd}"
        if found.st_nlink <= 1 or not os.access(own, os.W_OK, effective_ids=True):
            return fd  # or opening fails
        above, _, name = os.readlink(own).rpartition("/")
        folder = self._resolve(above or "/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        separate_name(folder, name, found)
        copy = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        self._stack.callback(os.close, copy)
        return copy

    def _open(self, path: str, flags: int) -> int:
        fd = os.open(path, flags | os.O_CLOEXEC)
        self._stack.callback(os.close, fd)
        return fd


def refuse(place: str) -> NoReturn:
    raise PermissionError(errno.EACCES, place)


def _to_signed(number: int) -> int:
    return ctypes.c_int(number & 0xFFFFFFFF).value
