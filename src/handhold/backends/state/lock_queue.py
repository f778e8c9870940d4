"""Wait in line for a `flock` that other processes may hold: first come, first served.

Polling has no order, and a blocking `flock` hardly any: whoever runs at the moment of a release gets it, which is
rarely who has slept longest. So whoever finds a lock taken draws a ticket: it appends a byte to a queue file, locks
that byte, and waits until no byte before it is locked. It lets go of its byte when it has the lock. Nobody overtakes.

The queue only makes order. What excludes is the `flock`, so a ticket that is lost costs a turn at worst. All these
locks belong to descriptors: the kernel releases them when a process dies.

Who leaves the line, and who releases the lock, wakes the next one by a datagram. It says nothing and need not arrive:
whoever waits also looks now and then, so nobody depends on a process that died.
"""

import fcntl
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

from handhold.core.errors import Busy
from handhold.logs import log_swallowed, log_wait, suppress_and_log
from handhold.progress import report

TELL_AFTER_SECONDS = 1.0
WAITING = "seconds spent waiting for another process"
MIN_LOOK_SECONDS, MAX_LOOK_SECONDS = 0.0005, 0.02  # how often the next one looks
LINE_LOOK_SECONDS = 0.1  # how often those behind it look
MAX_QUEUE_BYTES = 1024 * 1024  # then the numbers start again, as soon as nobody waits
LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
FLOCK = struct.Struct("hhqqi4x")  # struct flock: type, whence, start, length, pid
CAN_QUEUE = hasattr(fcntl, "F_OFD_SETLK") and struct.calcsize("P") == 8
NEXT = "next"  # the address of who is next; those behind it have their numbers


class LockDeadline:
    """Ends waiting for a lock; after a second, tells a log and whoever follows the progress."""

    def __init__(self, name: str, timeout: float) -> None:
        self._name = name
        self._timeout = timeout
        self._began = time.monotonic()
        self._told = 0.0  # when it last told, in seconds from the beginning

    def limit_pause(self, seconds: float) -> float:
        """How long to pause: `seconds`, or what is left. Busy if nothing is."""
        waited = time.monotonic() - self._began
        if waited >= self._timeout:
            raise Busy(self._name, self._timeout)
        if waited >= self._told + TELL_AFTER_SECONDS:
            if not self._told:
                log_wait(f"Waiting for another process or thread that uses {self._name}.")
            self._told = waited
            report(WAITING, int(waited), 0)
        return min(seconds, self._timeout - waited)

    def end(self) -> None:
        if self._told:
            report(WAITING, 1, 1)


class LockDescriptors:
    """The descriptors of locks that are held or waited for. A forked child closes its copies: it has no lock."""

    def __init__(self) -> None:
        self._open: set[int] = set()
        os.register_at_fork(after_in_child=self._close_all)

    def add(self, fd: int) -> int:
        self._open.add(fd)
        return fd

    def close(self, fd: int) -> None:
        if fd in self._open:  # in a forked child, the number may mean another file
            self._open.remove(fd)
            try:
                os.close(fd)
            except OSError:
                log_swallowed()

    def unlock(self, fd: int) -> None:
        if fd in self._open:
            try:
                # Closing is not enough: a process forked meanwhile may have a copy for a moment.
                fcntl.flock(fd, fcntl.LOCK_UN)
            except OSError:
                log_swallowed()
            self.close(fd)

    def _close_all(self) -> None:
        for fd in [*self._open]:
            self.close(fd)


_descriptors = LockDescriptors()


class LockInTurn:
    """A lock on what `open_lock` opens. Without a queue file there is no order."""

    __slots__ = ("_fd", "_line", "_open_lock", "_queue")

    def __init__(self, open_lock: Callable[[], int], queue: str) -> None:
        self._open_lock = open_lock
        self._queue = queue

    def acquire(self, deadline: LockDeadline) -> None:
        self._line = line = _open_line(self._queue)
        self._fd = -1
        try:
            self._fd = fd = _descriptors.add(self._open_lock())
            if (line and line.has_others()) or not _try_lock(fd):
                _wait(fd, line, deadline)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        _descriptors.unlock(self._fd)
        if line := self._line:
            if line.has_others():
                line.wake(NEXT)
            line.close()


def _wait(fd: int, line: "LockLine | None", deadline: LockDeadline) -> None:
    deadline.limit_pause(0)
    look_seconds = MIN_LOOK_SECONDS
    with line.draw_ticket(deadline) if line else _without_ticket() as wake:
        while not _try_lock(fd):
            _pause(wake, deadline.limit_pause(look_seconds))
            look_seconds = MAX_LOOK_SECONDS if wake is not None else min(look_seconds * 1.5, MAX_LOOK_SECONDS)
    deadline.end()


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _pause(wake: int | None, seconds: float) -> None:
    if wake is None:
        time.sleep(seconds)
        return
    waiting = select.poll()
    waiting.register(wake, select.POLLIN)
    if waiting.poll(seconds * 1000):
        with suppress(BlockingIOError):
            os.read(wake, 1)


class LockLine:
    """The line for one lock, in a file."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def close(self) -> None:
        _descriptors.close(self._fd)

    def has_others(self, before: int = 0) -> bool:
        """Whether somebody waits: before this number, or at all."""
        request = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, before, 0)
        try:
            return FLOCK.unpack(fcntl.fcntl(self._fd, fcntl.F_OFD_GETLK, request))[0] != fcntl.F_UNLCK
        except OSError:
            log_swallowed()
            return False

    @contextmanager
    def draw_ticket(self, deadline: LockDeadline) -> Generator[int | None]:
        """Wait until nobody is before us; yield the descriptor by which the holder wakes us, if there is one."""
        number, wake = self._draw_number(), None
        try:
            if number:
                wake = self._listen(str(number))
                while self.has_others(number):
                    _pause(wake, deadline.limit_pause(LINE_LOOK_SECONDS))
                if wake is not None:
                    _descriptors.close(wake)
                wake = self._listen(NEXT)
            yield wake
        finally:
            if wake is not None:
                _descriptors.close(wake)
            if number:
                with suppress_and_log(OSError):
                    self._control(fcntl.F_UNLCK, number)
                self.wake(str(number + 1))

    def _draw_number(self) -> int:
        """0 if there is none: on a full disk, or a file system without such locks, we wait out of turn."""
        with suppress_and_log(OSError):
            number = self._append_byte()
            if number > MAX_QUEUE_BYTES and not self.has_others():  # their numbers would be after all new ones
                os.ftruncate(self._fd, 0)
                number = self._append_byte()
            self._control(fcntl.F_WRLCK, number)
            return number
        return 0

    def _append_byte(self) -> int:
        os.write(self._fd, b".")
        return os.lseek(self._fd, 0, os.SEEK_CUR)

    def _control(self, kind: int, number: int) -> None:
        fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, FLOCK.pack(kind, os.SEEK_SET, number, 1, 0))

    def wake(self, who: str) -> None:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:  # nobody may be there
            sender.settimeout(0)
            sender.sendto(b".", self._address(who))

    def _listen(self, who: str) -> int | None:
        with suppress_and_log(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
            receiver.settimeout(0)
            receiver.bind(self._address(who))
            return _descriptors.add(receiver.detach())
        return None

    def _address(self, who: str) -> bytes:
        """In Linux's abstract namespace: it ends with its socket and is in no folder."""
        found = os.fstat(self._fd)
        return f"\0handhold-lock-{found.st_dev:x}-{found.st_ino:x}-{who}".encode()


def _open_line(queue: str) -> LockLine | None:
    if queue and CAN_QUEUE:
        with suppress_and_log(OSError):
            return LockLine(_descriptors.add(os.open(queue, LOCK_FLAGS | os.O_APPEND, 0o600)))
    return None


@contextmanager
def _without_ticket() -> Generator[None]:
    yield
