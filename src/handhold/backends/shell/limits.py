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

ENTER_SCRIPT = 'echo 0 >"$0/cgroup.procs" && exec "$@"'  # 0 is whoever writes it
CGROUP_ROOT = "/sys/fs/cgroup"
EXIT_TIMEOUT_SECONDS = 0.5  # to wait at our own end for what is dying in a group
SWAP_LIMIT = "memory.swap.max"  # not every kernel has it

_leftover_cgroups: set[str] = set()  # groups of ours in which something was still dying when they were to be removed


@dataclass(frozen=True)
class ResourceLimits:
    """Bytes and processes; None is as much as there is."""

    memory: int | None = None
    processes: int | None = None

    def to_flags(self) -> tuple[str, ...]:
        """For the launcher, of what no group counts."""
        memory = () if self.memory is None else ("-m", str(self.memory))
        return memory if self.processes is None else (*memory, "-p", str(self.processes))


UNLIMITED = ResourceLimits()


def enter_cgroup(limits: ResourceLimits, cleanup: ExitStack) -> tuple[tuple[str, ...], ResourceLimits]:
    """What to put before a command so that it runs in a group of its own, and what is left for rlimits to count."""
    if limits == UNLIMITED:
        return (), limits
    swap = None if limits.memory is None else 0
    settings = {"memory.max": limits.memory, SWAP_LIMIT: swap, "pids.max": limits.processes}
    if (parent := find_delegated_cgroup()) and (group := _create_cgroup(parent, settings, cleanup)):
        return group, UNLIMITED
    settings = {"pids.max": limits.processes}
    if limits.processes and (parent := find_pids_cgroup()) and (group := _create_cgroup(parent, settings, cleanup)):
        return group, replace(limits, processes=None)
    return (), limits


def explain_uncounted(limits: ResourceLimits) -> str:
    """Why the processes of a command are not counted, though that was asked for; empty if they are."""
    if limits.processes is None or os.geteuid() or find_delegated_cgroup() or find_pids_cgroup():
        return ""
    return "processes are not counted: the kernel counts none of root's, and no control group can be made here"


def _create_cgroup(parent: str, settings: Mapping[str, int | None], cleanup: ExitStack) -> tuple[str, ...]:
    group = os.path.join(parent, f"handhold-{uuid4().hex[:12]}")
    try:
        os.mkdir(group)
        cleanup.callback(_remove_cgroup, group)
        for name, value in settings.items():
            path = os.path.join(group, name)
            if value is not None and (name != SWAP_LIMIT or os.path.exists(path)):
                _write_value(path, str(value))
    except OSError:
        return ()
    return ("/bin/sh", "-c", ENTER_SCRIPT, group)


@cache
def find_delegated_cgroup() -> str:
    """A group of ours that may have more groups in it; empty if there is none.

    That is the one above our own: a group with processes in it cannot share out what it was given. At the top it can.
    """
    try:
        own = _read_own_cgroup("0::/") or "/"
        parent = os.path.join(CGROUP_ROOT, os.path.dirname(own).lstrip("/"))
        with os.fdopen(os.open(os.path.join(parent, "cgroup.subtree_control"), os.O_RDONLY)) as file:
            shared = file.read().split()
    except OSError:
        return ""
    return parent if _is_writable(parent) and {"memory", "pids"} <= set(shared) else ""


@cache
def find_pids_cgroup() -> str:
    """Our own group among those that count processes only, where the kernel has a hierarchy for that (version 1)."""
    try:
        own = os.path.join(CGROUP_ROOT, "pids", _read_own_cgroup(":pids:/").lstrip("/"))
    except OSError:
        return ""
    return own if _is_writable(own) else ""


def _read_own_cgroup(kind: str) -> str:
    with os.fdopen(os.open("/proc/self/cgroup", os.O_RDONLY)) as file:
        return next((line.rstrip("\n").partition(kind[:-1])[2] for line in file if kind in line), "")


def _is_writable(group: str) -> bool:
    return all(os.access(place, os.W_OK) for place in (group, os.path.join(group, "cgroup.procs")))


def _write_value(path: str, value: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, value.encode())
    finally:
        os.close(fd)


def _remove_cgroup(group: str) -> None:
    _leftover_cgroups.add(group)
    _remove_leftovers()


def _remove_leftovers() -> None:
    for each in tuple(_leftover_cgroups):
        try:
            os.rmdir(each)
        except FileNotFoundError:
            pass
        except OSError:
            continue  # busy, until what is in it is gone
        _leftover_cgroups.discard(each)


@atexit.register
def _remove_leftovers_at_exit() -> None:
    """Nobody comes after us who would."""
    until = time.monotonic() + EXIT_TIMEOUT_SECONDS
    while _leftover_cgroups and time.monotonic() < until:
        _remove_leftovers()
        time.sleep(0.002)
