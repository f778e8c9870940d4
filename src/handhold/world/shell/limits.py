"""How much of the machine a command may take: by a control group where one is ours to make, else by rlimits.

A control group counts the whole tree. An rlimit counts each process's memory, and all processes of the user, except
that the kernel counts none of root's.
"""

import atexit
import os
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from uuid import uuid4

ENTER = 'echo 0 >"$0/cgroup.procs" && exec "$@"'  # 0 is whoever writes it
GROUPS = "/sys/fs/cgroup"
LAST_SECONDS = 0.5  # to wait at our own end for what is dying in a group
SWAP = "memory.swap.max"  # not every kernel has it

_left: set[str] = set()  # groups of ours in which something was still dying when they were to be removed


@dataclass(frozen=True)
class Limits:
    """Bytes and processes; None is as much as there is."""

    memory: int | None = None
    processes: int | None = None

    def flags(self) -> tuple[str, ...]:
        """For the launcher, of what no group counts."""
        memory = () if self.memory is None else ("-m", str(self.memory))
        return memory if self.processes is None else (*memory, "-p", str(self.processes))


UNLIMITED = Limits()


def enter_group(limits: Limits, cleanup: ExitStack) -> tuple[tuple[str, ...], Limits]:
    """What to put before a command so that it runs in a group of its own, and what is left for rlimits to count."""
    if limits == UNLIMITED:
        return (), limits
    swap = None if limits.memory is None else 0
    settings = {"memory.max": limits.memory, SWAP: swap, "pids.max": limits.processes}
    if (parent := delegated()) and (group := _make(parent, settings, cleanup)):
        return group, UNLIMITED
    settings = {"pids.max": limits.processes}
    if limits.processes and (parent := process_groups()) and (group := _make(parent, settings, cleanup)):
        return group, replace(limits, processes=None)
    return (), limits


def explain_uncounted(limits: Limits) -> str:
    """Why the processes of a command are not counted, though that was asked for; empty if they are."""
    if limits.processes is None or os.geteuid() or delegated() or process_groups():
        return ""
    return "processes are not counted: the kernel counts none of root's, and no control group can be made here"


def _make(parent: str, settings: Mapping[str, int | None], cleanup: ExitStack) -> tuple[str, ...]:
    group = os.path.join(parent, f"handhold-{uuid4().hex[:12]}")
    try:
        os.mkdir(group)
        cleanup.callback(_remove, group)
        for name, value in settings.items():
            path = os.path.join(group, name)
            if value is not None and (name != SWAP or os.path.exists(path)):
                _set(path, str(value))
    except OSError:
        return ()
    return ("/bin/sh", "-c", ENTER, group)


@cache
def delegated() -> str:
    """A group of ours that may have more groups in it; empty if there is none.

    That is the one above our own: a group with processes in it cannot share out what it was given. At the top it can.
    """
    try:
        own = _own_group("0::/") or "/"
        parent = os.path.join(GROUPS, os.path.dirname(own).lstrip("/"))
        with os.fdopen(os.open(os.path.join(parent, "cgroup.subtree_control"), os.O_RDONLY)) as file:
            shared = file.read().split()
    except OSError:
        return ""
    return parent if _is_ours(parent) and {"memory", "pids"} <= set(shared) else ""


@cache
def process_groups() -> str:
    """Our own group among those that count processes only, where the kernel has a hierarchy for that (version 1)."""
    try:
        own = os.path.join(GROUPS, "pids", _own_group(":pids:/").lstrip("/"))
    except OSError:
        return ""
    return own if _is_ours(own) else ""


def _own_group(kind: str) -> str:
    with os.fdopen(os.open("/proc/self/cgroup", os.O_RDONLY)) as file:
        return next((line.rstrip("\n").partition(kind[:-1])[2] for line in file if kind in line), "")


def _is_ours(group: str) -> bool:
    return all(os.access(place, os.W_OK) for place in (group, os.path.join(group, "cgroup.procs")))


def _set(path: str, value: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, value.encode())
    finally:
        os.close(fd)


def _remove(group: str) -> None:
    _left.add(group)
    _remove_left()


def _remove_left() -> None:
    for each in tuple(_left):
        try:
            os.rmdir(each)
        except FileNotFoundError:
            pass
        except OSError:
            continue  # busy, until what is in it is gone
        _left.discard(each)


@atexit.register
def _remove_last() -> None:
    """Nobody comes after us who would."""
    until = time.monotonic() + LAST_SECONDS
    while _left and time.monotonic() < until:
        _remove_left()
        time.sleep(0.002)
