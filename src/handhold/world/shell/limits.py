"""How much of the machine a command may take: by a control group where one is ours to make, else by rlimits.

A control group counts the whole tree; an rlimit counts each process's memory, and all processes of the user.
"""

import os
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from uuid import uuid4

ENTER = 'echo 0 >"$0/cgroup.procs" && exec "$@"'  # 0 is whoever writes it


@dataclass(frozen=True)
class Limits:
    """Bytes and processes; None is as much as there is."""

    memory: int | None = None
    processes: int | None = None

    def flags(self, *, by_cgroup: bool) -> tuple[str, ...]:
        """For the launcher, where no group does it."""
        if by_cgroup:
            return ()
        memory = () if self.memory is None else ("-m", str(self.memory))
        return memory if self.processes is None else (*memory, "-p", str(self.processes))


UNLIMITED = Limits()


def cgroup(limits: Limits, cleanup: ExitStack) -> tuple[str, ...]:
    """What to put before a command so that it runs in a group of its own; nothing where there can be none."""
    parent = delegated()
    if not parent or limits == UNLIMITED:
        return ()
    group = os.path.join(parent, f"handhold-{uuid4().hex[:12]}")
    wanted = {"memory.max": limits.memory, "memory.swap.max": 0, "pids.max": limits.processes}
    try:
        os.mkdir(group)
        cleanup.callback(_removed, group)
        for name, value in wanted.items():
            path = os.path.join(group, name)
            if value is not None and (name != "memory.swap.max" or (limits.memory and os.path.exists(path))):
                _set(path, str(value))
    except OSError:
        return ()
    return ("/bin/sh", "-c", ENTER, group)


@cache
def delegated() -> str:
    """A group of ours that may have more groups in it; empty if there is none.

    That is the one above our own: a group with processes in it cannot share out what it was given.
    """
    try:
        with os.fdopen(os.open("/proc/self/cgroup", os.O_RDONLY)) as file:
            own = next((line.strip()[3:] for line in file if line.startswith("0::/")), "/")
        parent = os.path.join("/sys/fs/cgroup", os.path.dirname(own).lstrip("/"))
        with os.fdopen(os.open(os.path.join(parent, "cgroup.subtree_control"), os.O_RDONLY)) as file:
            shared = file.read().split()
    except OSError:
        return ""
    ours = own != "/" and all(os.access(place, os.W_OK) for place in (parent, os.path.join(parent, "cgroup.procs")))
    return parent if ours and {"memory", "pids"} <= set(shared) else ""


def _set(path: str, value: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, value.encode())
    finally:
        os.close(fd)


def _removed(group: str) -> None:
    with suppress(OSError):
        os.rmdir(group)
