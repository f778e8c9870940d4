"""A socket in a private folder at which one process at a time listens: the one that holds a lock."""

import fcntl
import os
import socket
from contextlib import suppress
from pathlib import Path

from handhold.logs import suppress_and_log

BACKLOG = 64


def wait_and_listen(folder: Path, name: str) -> socket.socket:
    """Wait until no other process listens, however long that takes. The lock is held until this process ends: a killed
    one leaves its socket, which the next one replaces."""
    lock = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=fd)
        listener.bind(f"/proc/self/fd/{fd}/{name}")  # the path of a socket must be short
        os.chmod(name, 0o600, dir_fd=fd)
    finally:
        os.close(fd)
    listener.listen(BACKLOG)
    return listener


def remove_socket(path: str) -> None:
    """Remove a socket of ours in the state; nothing if it is gone."""
    with suppress_and_log(OSError):
        os.unlink(path)
