"""Enforce protected names for commands that work on the workspace itself instead of an overlay.

Landlock denies such a command to create or remove a name in the workspace, or to open a file there for writing. The
kernel passes these calls to us (seccomp notifications): we resolve the path ourselves, check the place it leads to, and
make the call for the command. Every other call continues unchanged, and Landlock denies it. So changes that a command
makes between our check and the use do not matter, and a name can be protected before it exists.
"""

import errno
import fcntl
import os
import select
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from threading import Thread

from handhold.backends.shell.seccomp_notify import (
    ADDFD_FLAG_SEND,
    ADDFD_STRUCT,
    IOCTL_NOTIF_ADDFD,
    IOCTL_NOTIF_RECV,
    IOCTL_NOTIF_SEND,
    NOTIF_STRUCT,
    RESPONSE_FLAG_CONTINUE,
    RESPONSE_STRUCT,
    SyscallNotification,
    drop_capabilities,
    get_syscall_names,
)
from handhold.backends.shell.syscall_handler import ContinueSyscall, SyscallHandler, WriteGuard
from handhold.logs import log_swallowed, suppress_and_log


class Supervisor:
    """Answers the calls of one command until it ends or this is closed."""

    def __init__(self, channel: socket.socket, folders: Sequence[str], is_write_protected: WriteGuard) -> None:
        """The notification descriptor arrives over `channel`. The command may change `folders` through us."""
        self._channel = channel
        self._prefixes = tuple(place.rstrip("/") + "/" for place in folders)
        self._is_write_protected = is_write_protected
        self._stop = os.eventfd(0, os.EFD_CLOEXEC)
        self._thread = Thread(target=self._serve, name="handhold-supervisor", daemon=True)
        self._thread.start()

    def close(self) -> None:
        os.eventfd_write(self._stop, 1)
        with suppress_and_log(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._channel.close()
        os.close(self._stop)

    def _serve(self) -> None:
        try:
            _, fds, _, _ = socket.recv_fds(self._channel, 1, 1)
        except OSError:
            log_swallowed()
            return
        if not fds:
            return  # the command never started
        listener = fds[0]
        try:
            drop_capabilities()
            ready = select.poll()
            ready.register(listener, select.POLLIN)
            ready.register(self._stop, select.POLLIN)
            while True:
                events = dict(ready.poll())
                if self._stop in events or not events.get(listener, 0) & select.POLLIN:
                    return
                self._answer(listener)
        finally:
            os.close(listener)  # pending calls get ENOSYS

    def _answer(self, listener: int) -> None:
        data = bytearray(NOTIF_STRUCT.size)
        try:
            fcntl.ioctl(listener, IOCTL_NOTIF_RECV, data)
        except OSError:
            return  # it was killed meanwhile
        notification_id, pid, _, number, _, _, *arguments = NOTIF_STRUCT.unpack(data)
        notification = SyscallNotification(notification_id, pid, get_syscall_names().get(number, ""), tuple(arguments))
        error, flags = 0, 0
        with ExitStack() as stack:
            try:
                fd = SyscallHandler(notification, listener, self._prefixes, self._is_write_protected, stack).handle()
                if fd is not None:
                    cloexec = os.O_CLOEXEC if fd[1] else 0
                    fcntl.ioctl(
                        listener,
                        IOCTL_NOTIF_ADDFD,
                        ADDFD_STRUCT.pack(notification_id, ADDFD_FLAG_SEND, fd[0], 0, cloexec),
                    )
                    return
            except ContinueSyscall:
                flags = RESPONSE_FLAG_CONTINUE
            except OSError as problem:
                error = -(problem.errno or errno.EPERM)
            except Exception:  # noqa: BLE001 — the command is waiting, and a bug of ours must not allow its call
                error = -errno.EPERM
        with suppress_and_log(OSError):
            fcntl.ioctl(listener, IOCTL_NOTIF_SEND, RESPONSE_STRUCT.pack(notification_id, 0, error, flags))
