"""Protected names, where a command works on the workspace itself and not on a shadow.

Landlock lets such a command neither make nor remove a name in the workspace, nor open a file there for writing. The
kernel hands these calls to us (seccomp notifications): we resolve the path ourselves, judge the place that it leads to,
and make the call for the command. Every other call goes on as if nobody had looked, and Landlock refuses it. So nothing
that a command changes between our check and its use can matter, and a name need not exist to be kept.
"""

import ctypes
import errno
import fcntl
import os
import select
import socket
import stat
import struct
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from threading import Lock, Thread
from typing import NoReturn, TypeVar

from handhold.world.files.openat2 import openat2
from handhold.world.landlock import landlock_version
from handhold.world.shell.notifications import (
    ADD_FD,
    ADDED,
    CONTINUE,
    IS_VALID,
    NOTIFICATION,
    RECEIVE,
    RESPONSE,
    SEND,
    SEND_TOO,
    WRITES,
    Asked,
    give_up_rights,
    is_guarded,
    numbers,
)
from handhold.world.shell.spots import Spot, entries_of, is_folder, must_not_be_mounted

AT_FDCWD, AT_SYMLINK_FOLLOW, AT_REMOVEDIR = -100, 0x400, 0x200
NO_REPLACE, EXCHANGE = 1, 2
IN_ROOT = 0x10  # openat2: the descriptor is the root, for links and for `..` too
LONGEST_PATH = 4096
PAGE = 4096

T = TypeVar("T")
Holds = Callable[[str, bool], bool]  # whether a place must stay as it is; the second says that a folder would be there

_libc = ctypes.CDLL(None, use_errno=True)
_landlock = landlock_version()
_alone = Lock()  # between judging a place and using it, no other command may move the folder it is in


class GoOn(Exception):
    """The call is none of ours: the kernel decides, and Landlock with it."""


class Supervisor:
    """Answers the calls of one command until it has ended or this is closed."""

    def __init__(self, handed: socket.socket, places: Sequence[str], holds: Holds) -> None:
        """The descriptor comes over `handed`. `places` are the folders that the command may change through us."""
        self._handed = handed
        self._places = tuple(place.rstrip("/") + "/" for place in places)
        self._holds = holds
        self._stop = os.eventfd(0, os.EFD_CLOEXEC)
        self._thread = Thread(target=self._serve, name="handhold-supervisor", daemon=True)
        self._thread.start()

    def close(self) -> None:
        os.eventfd_write(self._stop, 1)
        with suppress(OSError):
            self._handed.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._handed.close()
        os.close(self._stop)

    def _serve(self) -> None:
        try:
            _, fds, _, _ = socket.recv_fds(self._handed, 1, 1)
        except OSError:
            return
        if not fds:
            return  # the command never began
        listener = fds[0]
        try:
            give_up_rights()
            ready = select.poll()
            ready.register(listener, select.POLLIN)
            ready.register(self._stop, select.POLLIN)
            while True:
                events = dict(ready.poll())
                if self._stop in events or not events.get(listener, 0) & select.POLLIN:
                    return
                self._answer(listener)
        finally:
            os.close(listener)  # whatever still waits gets ENOSYS

    def _answer(self, listener: int) -> None:
        data = bytearray(NOTIFICATION.size)
        try:
            fcntl.ioctl(listener, RECEIVE, data)
        except OSError:
            return  # it was killed meanwhile
        call, pid, _, number, _, _, *arguments = NOTIFICATION.unpack(data)
        asked = Asked(call, pid, numbers().get(number, ""), tuple(arguments))
        error, flags = 0, 0
        with ExitStack() as opened:
            try:
                fd = Carrying(asked, listener, self._places, self._holds, opened).carry_out()
                if fd is not None:
                    on_exec = os.O_CLOEXEC if fd[1] else 0
                    fcntl.ioctl(listener, ADD_FD, ADDED.pack(call, SEND_TOO, fd[0], 0, on_exec))
                    return
            except GoOn:
                flags = CONTINUE
            except OSError as problem:
                error = -(problem.errno or errno.EPERM)
            except Exception:  # noqa: BLE001 — a command waits, and a bug of ours must not let it do anything
                error = -errno.EPERM
        with suppress(OSError):
            fcntl.ioctl(listener, SEND, RESPONSE.pack(call, 0, error, flags))


class Carrying:
    """One call, carried out for the command as far as it concerns the places."""

    def __init__(self, asked: Asked, listener: int, places: tuple[str, ...], holds: Holds, opened: ExitStack) -> None:
        self._asked = asked
        self._listener = listener
        self._places = places
        self._holds = holds
        self._opened = opened

    def carry_out(self) -> tuple[int, bool] | None:
        """The descriptor that the command gets, and whether it closes on exec; None: it gets 0.

        Every other command waits meanwhile, so nothing in here may wait for one of them.
        """
        try:
            with _alone:
                return self._carry_out()
        except GoOn:
            if is_guarded(self._asked, _landlock):
                raise
            raise PermissionError(errno.EACCES, "an old kernel would not refuse it") from None

    def _carry_out(self) -> tuple[int, bool] | None:
        name, given = self._asked.name, self._asked.arguments
        here = AT_FDCWD
        try:
            self._root = self._open(f"/proc/{self._asked.pid}/root", os.O_PATH | os.O_DIRECTORY)
        except OSError:
            raise GoOn from None
        match name:
            case "open":
                return self._opens(here, given[0], given[1], given[2])
            case "creat":
                return self._opens(here, given[0], os.O_CREAT | os.O_WRONLY | os.O_TRUNC, given[1])
            case "openat":
                return self._opens(_signed(given[0]), given[1], given[2], given[3])
            case "openat2":
                flags, mode, resolve = struct.unpack("=QQQ", self._memory(given[2], 24))
                if not flags & WRITES:
                    raise GoOn
                if resolve:
                    raise OSError(errno.ENOSYS, "as an older kernel would say")
                return self._opens(_signed(given[0]), given[1], flags, mode)
            case "mkdir" | "mkdirat":
                folder, path, mode = (here, *given[:2]) if name == "mkdir" else given[:3]
                spot = self._spot(_signed(folder), self._text(path))
                self._may(spot, folder=True)
                self._with_umask(lambda: os.mkdir(spot.name, mode & 0o1777, dir_fd=spot.folder))
            case "mknod" | "mknodat":
                folder, path, mode = (here, *given[:2]) if name == "mknod" else given[:3]
                if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFIFO):
                    raise PermissionError(errno.EPERM, "neither a file nor a pipe")
                spot = self._spot(_signed(folder), self._text(path))
                self._may(spot)
                self._with_umask(lambda: os.mknod(spot.name, mode & ~0o6000, dir_fd=spot.folder))
            case "symlink" | "symlinkat":
                target, folder, path = (given[0], here, given[1]) if name == "symlink" else given[:3]
                spot = self._spot(_signed(folder), self._text(path))
                self._may(spot)
                os.symlink(self._text(target), spot.name, dir_fd=spot.folder)
            case "link" | "linkat":
                if name == "link":
                    self._links(here, given[0], here, given[1], 0)
                else:
                    self._links(given[0], given[1], given[2], given[3], given[4])
            case "rename" | "renameat" | "renameat2":
                if name == "rename":
                    self._renames(here, given[0], here, given[1], 0)
                else:
                    flags = given[4] if name == "renameat2" else 0
                    self._renames(given[0], given[1], given[2], given[3], flags)
            case "unlink" | "rmdir":
                self._removes(here, given[0], folder=name == "rmdir")
            case "unlinkat":
                if given[2] & 0xFFFFFFFF & ~AT_REMOVEDIR:
                    raise GoOn
                self._removes(given[0], given[1], folder=bool(given[2] & AT_REMOVEDIR))
            case "truncate":
                fd = self._existing(here, self._text(given[0]), follow=True)
                os.ftruncate(self._reopen(fd, os.O_WRONLY), ctypes.c_int64(given[1]).value)
            case _:
                raise GoOn
        return None

    # --- the calls

    def _opens(self, folder: int, path: int, flags: int, mode: int) -> tuple[int, bool]:
        flags &= 0xFFFFFFFF
        if flags & os.O_PATH:
            raise GoOn  # nothing can be changed through it
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "a file without a name would get one later")
        text, on_exec = self._text(path), bool(flags & os.O_CLOEXEC)
        try:
            fd = self._existing(folder, text, follow=not flags & os.O_NOFOLLOW)
        except FileNotFoundError:
            if not flags & os.O_CREAT:
                raise GoOn from None
        else:
            if flags & os.O_CREAT and flags & os.O_EXCL:
                raise FileExistsError(errno.EEXIST, text)
            return self._reopen(fd, flags & ~(os.O_CREAT | os.O_NOFOLLOW)), on_exec
        spot = self._spot(folder, text)
        self._may(spot)
        made = flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = self._with_umask(lambda: os.open(spot.name, made, mode & 0o1777, dir_fd=spot.folder))
        except FileExistsError:
            if flags & os.O_EXCL:
                raise
            raise GoOn from None  # a link that leads nowhere, or somebody was faster
        self._opened.callback(os.close, fd)
        return fd, on_exec

    def _links(self, old_folder: int, old: int, new_folder: int, new: int, flags: int) -> None:
        source = self._text(old)
        target = self._spot(_signed(new_folder), self._text(new))
        if flags & ~AT_SYMLINK_FOLLOW:
            raise GoOn
        spot = self._spot(_signed(old_folder), source, anywhere=True)
        if flags and os.path.islink(f"/proc/self/fd/{spot.folder}/{spot.name}"):
            refuse(spot.place)  # it leads to a place that nobody has judged
        self._may(spot)
        self._may(target)
        os.link(spot.name, target.name, src_dir_fd=spot.folder, dst_dir_fd=target.folder, follow_symlinks=False)

    def _renames(self, old_folder: int, old: int, new_folder: int, new: int, flags: int) -> None:
        one = self._spot(_signed(old_folder), self._text(old), anywhere=True)
        other = self._spot(_signed(new_folder), self._text(new), anywhere=True)
        if not self._is_ours(one.place) and not self._is_ours(other.place):
            raise GoOn
        if flags & ~(NO_REPLACE | EXCHANGE):
            raise OSError(errno.EINVAL, "flags of rename")
        must_not_be_mounted(one)
        must_not_be_mounted(other)
        self._may_move(one, other)
        self._may_move(other, one)  # what is replaced goes; what is exchanged comes
        if _libc.renameat2(one.folder, os.fsencode(one.name), other.folder, os.fsencode(other.name), flags):
            raise OSError(ctypes.get_errno(), "rename")

    def _removes(self, above: int, path: int, *, folder: bool) -> None:
        text = self._text(path)
        if text.endswith("/") and not folder:
            raise GoOn
        spot = self._spot(_signed(above), text)
        os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False)  # what is not there is not protected either
        must_not_be_mounted(spot)
        self._may(spot, folder=is_folder(spot))
        (os.rmdir if folder else os.unlink)(spot.name, dir_fd=spot.folder)

    def _may_move(self, spot: Spot, to: Spot) -> None:
        """What is there, and what is in it, must be held neither where it is nor where it would be."""
        folder = is_folder(spot)
        if self._holds(spot.place, folder) or self._holds(to.place, folder):
            refuse(spot.place)
        if folder:
            for way, below in entries_of(spot):
                if self._holds(f"{spot.place}/{way}", below) or self._holds(f"{to.place}/{way}", below):
                    refuse(f"{spot.place}/{way}")

    def _may(self, spot: Spot, *, folder: bool = False) -> None:
        if self._holds(spot.place, folder):
            refuse(spot.place)

    # --- where it leads

    def _existing(self, folder: int, text: str, *, follow: bool) -> int:
        """A regular file of ours that may be written; FileNotFoundError if nothing is there."""
        flags = os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
        fd = self._resolve(self._full(folder, text), flags)
        place = os.readlink(f"/proc/self/fd/{fd}")
        if not self._is_ours(place) or not stat.S_ISREG(os.fstat(fd).st_mode):
            raise GoOn
        if self._holds(place, False):  # noqa: FBT003
            refuse(place)
        return fd

    def _spot(self, folder: int, text: str, *, anywhere: bool = False) -> Spot:
        """Where a new name would be."""
        above, _, name = self._full(folder, text).rstrip("/").rpartition("/")
        if name in ("", ".", ".."):
            raise GoOn
        try:
            fd = self._resolve(above or "/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise GoOn from None
        place = os.readlink(f"/proc/self/fd/{fd}").rstrip("/") + f"/{name}"
        if not anywhere and not self._is_ours(place):
            raise GoOn
        return Spot(fd, name, place)

    def _resolve(self, path: str, flags: int) -> int:
        try:
            fd = openat2(self._root, os.fsencode(path), struct.pack("QQQ", flags, 0, IN_ROOT))
        except FileNotFoundError:
            raise
        except OSError:
            raise GoOn from None  # the kernel says what is wrong, or resolves what only it can
        self._opened.callback(os.close, fd)
        # Only now is it certain that the process whose paths these are is the one that waits.
        with suppress(OSError):
            fcntl.ioctl(self._listener, IS_VALID, struct.pack("=Q", self._asked.id))
            return fd
        raise GoOn

    def _full(self, folder: int, text: str) -> str:
        if text.startswith("/"):
            return text
        which = "cwd" if folder == AT_FDCWD else f"fd/{folder}"
        try:
            above = os.readlink(f"/proc/{self._asked.pid}/{which}")
        except OSError:
            raise GoOn from None
        if not text or not above.startswith("/"):
            raise GoOn
        return f"{above}/{text}"

    def _is_ours(self, place: str) -> bool:
        return place.startswith(self._places)

    # --- what the process has

    def _text(self, address: int) -> str:
        data = b""
        while b"\0" not in data and len(data) <= LONGEST_PATH:
            at = address + len(data)
            data += self._memory(at, PAGE - at % PAGE)
        path, end, _ = data.partition(b"\0")
        if not end or not path or len(path) >= LONGEST_PATH:
            raise GoOn
        return os.fsdecode(path)

    def _memory(self, address: int, size: int) -> bytes:
        try:
            fd = os.open(f"/proc/{self._asked.pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
            try:
                data = os.pread(fd, size, address)
            finally:
                os.close(fd)
        except (OSError, OverflowError):
            raise GoOn from None
        if not data:
            raise GoOn
        return data

    def _with_umask(self, make: Callable[[], T]) -> T:
        """This thread has an umask of its own."""
        with open(f"/proc/{self._asked.pid}/status", encoding="ascii", errors="replace") as status:  # noqa: PTH123
            umask = next((line.split()[1] for line in status if line.startswith("Umask:")), "077")
        os.umask(int(umask, 8))
        return make()

    def _reopen(self, fd: int, flags: int) -> int:
        """A regular file. Whoever has a lease on it would let us wait, and every other command with us."""
        opened = self._open(f"/proc/self/fd/{fd}", flags | os.O_NONBLOCK)
        os.set_blocking(opened, not flags & os.O_NONBLOCK)
        return opened

    def _open(self, path: str, flags: int) -> int:
        fd = os.open(path, flags | os.O_CLOEXEC)
        self._opened.callback(os.close, fd)
        return fd


def refuse(place: str) -> NoReturn:
    raise PermissionError(errno.EACCES, place)


def _signed(number: int) -> int:
    return ctypes.c_int(number & 0xFFFFFFFF).value
