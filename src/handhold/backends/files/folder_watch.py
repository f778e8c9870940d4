"""Which folders have changed, as the kernel reports it (inotify), so that they need not all be looked at.

The kernel queues an event before the call that changed a folder returns. So whoever reads the queue knows of every
change that was complete when it began to read: no thread collects events, and none are merged by time. A report is
trusted only if nothing can be missing from it:

- All folders are on the root's own file system, of a kind that only this kernel changes.
- A folder is watched before it is listed, or its stamp compared with that of an earlier listing.
- The queue has not overflowed, it is the one with our watches, and it has an event that we have just caused ourselves.
  So a descriptor that was closed or replaced, by whomever, is noticed.
- This process set the watches: after a fork, parent and child would read each other's events.
- Nothing was mounted or unmounted below the root.

Otherwise all watches of the process are given up, and every folder is looked at again.
"""

import ctypes
import os
import socket
import struct
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import RLock

from handhold.backends.files.file_kinds import file_system_type
from handhold.backends.files.roots import Root
from handhold.backends.mounts import MOUNTINFO_PATH, list_mounts
from handhold.logs import log_swallowed

LOCAL_FILE_SYSTEMS = frozenset((0xEF53, 0x58465342, 0x9123683E, 0x01021994))  # ext2 to ext4, XFS, Btrfs, tmpfs
MAX_WATCHES_PATH = "/proc/sys/fs/inotify/max_user_watches"
BEACON_PATH = "/proc/self/status"  # its watch is added and removed to cause an event; no workspace contains it
SHARE_NAME = "\0handhold-watches-{uid}-{index}"  # abstract sockets: each can be bound by one process at a time
MAX_SHARES = 8  # processes of one user that watch
BUFFER_BYTES = 256 * 1024

IN_ATTRIB, IN_MOVED, IN_CREATE, IN_DELETE, IN_DELETE_SELF = 0x4, 0xC0, 0x100, 0x200, 0x400
IN_UNMOUNT, IN_Q_OVERFLOW, IN_IGNORED = 0x2000, 0x4000, 0x8000
IN_ONLYDIR, IN_MASK_CREATE = 0x0100_0000, 0x1000_0000
FOLDER_EVENTS = IN_ATTRIB | IN_MOVED | IN_CREATE | IN_DELETE | IN_DELETE_SELF | IN_ONLYDIR
EVENT = struct.Struct("iIII")

_libc = ctypes.CDLL(None, use_errno=True)
_lock = RLock()  # also held while a queue is used
_queue: "InotifyQueue | None" = None


class WatchFailed(Exception):
    """Not all folders can be watched."""


class FolderWatch:
    """The watched folders of one scan, by relative path. `open_watch` opens one."""

    def __init__(self, queue: "InotifyQueue", root: Root) -> None:
        self._queue = queue
        self._root = root
        self._mounts = find_mounts_below(root)
        self._watched: dict[bytes, tuple[int, int]] = {}  # each folder's watch descriptor and inode
        self._changed: set[bytes] = set()
        self._is_lost = False

    def add(self, rel_path: bytes, fd: int) -> os.stat_result:
        """Watch an open folder. Raise WatchFailed if it cannot be watched, or is on another file system.

        Return its status from after that: every later change causes an event.
        """
        status = os.fstat(fd)
        if status.st_dev != self._root.device:
            raise WatchFailed("a folder is on another file system")
        with _lock:
            if self._is_lost:
                raise WatchFailed("the watches were given up")
            if self.is_watching(rel_path, status.st_ino):
                return status
            self.forget(rel_path)
            try:
                self._watched[rel_path] = self._queue.add(fd, self, rel_path), status.st_ino
            except OSError as error:
                raise WatchFailed(str(error)) from error
        return os.fstat(fd)

    def is_watching(self, rel_path: bytes, inode: int) -> bool:
        """Whether it is this folder that is watched under its path."""
        return self._watched.get(rel_path, (0, 0))[1] == inode

    def forget(self, rel_path: bytes) -> None:
        """Stop watching a folder that is no longer part of the tree."""
        with _lock:
            wd, _ = self._watched.pop(rel_path, (None, 0))
            if wd is not None and not self._is_lost:
                self._queue.remove(wd, self, rel_path)

    def take_changes(self) -> set[bytes] | None:
        """The folders that have changed since the last call; None if that is not certain."""
        with _lock:
            if not self._is_lost:
                self._queue.drain()
            if self._is_lost:
                return None
            changed, self._changed = self._changed, set[bytes]()
            return changed

    def mark_changed(self, *rel_paths: bytes) -> None:
        with _lock:
            self._changed.update(rel_paths)

    def mark_gone(self, rel_path: bytes) -> None:
        """The kernel has removed a watch, because its folder was."""
        self._watched.pop(rel_path, None)
        self.mark_changed(rel_path, rel_path.rpartition(b"/")[0])

    def mark_lost(self) -> None:
        self._is_lost = True
        self._watched.clear()

    def check_mounts(self) -> bool:
        """Whether the same is mounted below the root as when the watch was opened: a mount causes no event."""
        return find_mounts_below(self._root) == self._mounts

    def abandon(self) -> None:
        """Its scan was garbage-collected, at any moment: the next call closes it."""
        self._queue.abandoned.append(self)

    def close(self) -> None:
        with _lock:
            for rel_path in list(self._watched):
                self.forget(rel_path)
            if not self._is_lost:
                self._is_lost = True
                self._queue.leave(self)


class InotifyQueue:
    """The events of all watched folders of this process. Hold `_lock`."""

    def __init__(self) -> None:
        """Raise OSError if there is none to be had, or this user's processes watch enough already."""
        self._process = os.getpid()
        self._share, self._max_watches = claim_share()
        with ExitStack() as opened:
            opened.callback(self._share.close)
            self._mountinfo = read_mountinfo()
            self._fd = check_result(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
            opened.callback(os.close, self._fd)
            self._mark = os.memfd_create("handhold", os.MFD_CLOEXEC)  # watched here and nowhere else
            opened.callback(os.close, self._mark)
            self._add(f"/proc/self/fd/{self._mark}", IN_ATTRIB)
            opened.pop_all()
        self._watches: defaultdict[int, list[tuple[FolderWatch, bytes]]] = defaultdict(list)
        self._users: set[FolderWatch] = set()
        self.abandoned: list[FolderWatch] = []

    @property
    def is_ours(self) -> bool:
        return self._process == os.getpid()

    def open_watch(self, root: Root) -> FolderWatch:
        watch = FolderWatch(self, root)
        self._users.add(watch)
        while self.abandoned:
            self.abandoned.pop().close()
        return watch

    def leave(self, watch: FolderWatch) -> None:
        self._users.discard(watch)
        if not self._users:
            self._close()

    def add(self, fd: int, watch: FolderWatch, rel_path: bytes) -> int:
        """The watch descriptor of an open folder: by its descriptor, so that no link leads elsewhere."""
        if not self.is_ours or len(self._watches) >= self._max_watches:
            raise OSError(f"at most {self._max_watches} folders are watched")
        wd = self._add(f"/proc/self/fd/{fd}", FOLDER_EVENTS)
        self._watches[wd].append((watch, rel_path))
        return wd

    def _add(self, path: str, events: int) -> int:
        return check_result(_libc.inotify_add_watch(self._fd, path.encode(), events))

    def remove(self, wd: int, watch: FolderWatch, rel_path: bytes) -> None:
        users = self._watches[wd]
        users.remove((watch, rel_path))
        if not users:
            del self._watches[wd]
            if self.is_ours:
                _libc.inotify_rm_watch(self._fd, wd)

    def drain(self) -> None:
        """Tell every watch of its changed folders, or that they are not known."""
        try:
            if not self.is_ours:
                raise WatchFailed("the process has forked")
            while self.abandoned:
                self.abandoned.pop().close()
            self._check_mounts()
            self._read_events()
        except (OSError, WatchFailed):
            log_swallowed()
            self._give_up()
        except BaseException:  # events may have been read and not told
            self._give_up()
            raise

    def _check_mounts(self) -> None:
        if (mountinfo := read_mountinfo()) != self._mountinfo:
            self._mountinfo = mountinfo
            if not all(watch.check_mounts() for watch in self._users):
                raise WatchFailed("something was mounted")

    def _read_events(self) -> None:
        if not self._has_descriptor():
            raise WatchFailed("the descriptor was closed")
        beacon = self._add(BEACON_PATH, IN_DELETE_SELF | IN_MASK_CREATE)
        check_result(_libc.inotify_rm_watch(self._fd, beacon))
        is_complete = False
        while not is_complete:
            for wd, event in parse_events(os.read(self._fd, BUFFER_BYTES)):
                is_complete |= wd == beacon  # but what came after it has been read, too
                if event & (IN_Q_OVERFLOW | IN_UNMOUNT):
                    raise WatchFailed("events were lost")
                if event & IN_IGNORED:
                    for watch, rel_path in self._watches.pop(wd, ()):
                        watch.mark_gone(rel_path)
                else:
                    for watch, rel_path in self._watches.get(wd, ()):
                        watch.mark_changed(rel_path)

    def _has_descriptor(self) -> bool:
        """Whether the descriptor is still that of our queue: it may have been closed and its number used again."""
        try:
            if os.readlink(f"/proc/self/fd/{self._fd}") == "anon_inode:inotify":
                self._add(f"/proc/self/fd/{self._mark}", IN_ATTRIB | IN_MASK_CREATE)
        except FileExistsError:  # the queue knows the mark
            return True
        except OSError:
            log_swallowed()
        return False

    def _give_up(self) -> None:
        for watch in self._users:
            watch.mark_lost()
        self._close()

    def _close(self) -> None:
        global _queue  # noqa: PLW0603 — one for each process
        if _queue is self:
            _queue = None
        self._users.clear()
        self._watches.clear()
        if self.is_ours:
            self._share.close()
            if self._has_descriptor():
                os.close(self._fd)
                os.close(self._mark)


def open_watch(root: Root) -> FolderWatch | None:
    """A watch for the folders below a root; None if its file system or this process cannot have one."""
    global _queue  # noqa: PLW0603
    with root.folder as folder:
        if file_system_type(folder) & 0xFFFFFFFF not in LOCAL_FILE_SYSTEMS:
            return None
    with _lock:
        try:
            if _queue is None or not _queue.is_ours:
                _queue = InotifyQueue()
            return _queue.open_watch(root)
        except OSError:
            log_swallowed()
            return None


def _forget_queue() -> None:
    global _lock, _queue
    _lock, _queue = RLock(), None


os.register_at_fork(after_in_child=_forget_queue)  # another thread may hold the lock for ever


def claim_share() -> tuple[socket.socket, int]:
    """The right to a part of the user's watches, until the socket is closed, and how many that is.

    The first process gets a quarter, the next an eighth, and so on: together less than half, whatever their number,
    since editors need watches too.
    """
    limit = int(Path(MAX_WATCHES_PATH).read_bytes())
    for index in range(MAX_SHARES):
        share = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            share.bind(SHARE_NAME.format(uid=os.getuid(), index=index))
        except OSError:  # another process has it
            log_swallowed()
            share.close()
            continue
        return share, limit >> (index + 2)
    raise OSError(f"{MAX_SHARES} processes watch folders already")


def find_mounts_below(root: Root) -> list[str]:
    return [point for point, _ in list_mounts() if point.startswith(root.prefix)]


def read_mountinfo() -> bytes:
    return Path(MOUNTINFO_PATH).read_bytes()


def parse_events(data: bytes) -> Iterator[tuple[int, int]]:
    """The watch descriptor and the kind of each event."""
    at = 0
    while at < len(data):
        wd, event, _, name_bytes = EVENT.unpack_from(data, at)
        at += EVENT.size + name_bytes
        yield wd, event


def check_result(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
