"""Whether a command is the only one of ours that runs.

A command may hand a descriptor of a file that it changes to another one, over a socket: in a folder that they share, or
with an abstract name. It outlives the command, and with it what the other one writes would arrive after the change was
reviewed. So each running command holds a lock on one file of the state, and whoever reviews a command that has ended
asks whether anybody else does.
"""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

LOCK_FILE = "running"
FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def hold_presence(state: Path) -> Generator[None]:
    """From before a command starts until all of its processes are gone."""
    fd = os.open(state / LOCK_FILE, FLAGS, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
        yield
    finally:
        os.close(fd)


def is_alone(state: Path) -> bool:
    """Whether no command runs. One that starts later cannot hold a descriptor of one that has ended."""
    fd = os.open(state / LOCK_FILE, FLAGS, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(fd)
