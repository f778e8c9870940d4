"""Resource limits for a command: by a cgroup if one can be created, otherwise by rlimits.

A cgroup counts the whole process tree. An rlimit counts memory per process, and processes per user; the kernel does
not count those of root.
"""

import atexit
import os
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from uuid import uuid4

from handhold.logs import log_swallowed

ENTER_SCRIPT = 'echo 0 >"$0/cgroup.procs" && exec "$@"'  # 0 is the writing process
CGROUP_ROOT = "/sys/fs/cgroup"
EXIT_TIMEOUT_SECONDS = 0.5  # how long to wait at exit for dying processes in a cgroup
SWAP_LIMIT = "memory.swap.max"  # not available on every kernel

_leftover_cgroups: set[str] = set()  # our cgroups that could not be removed because something in them was still dying


@dataclass(frozen=True)
class ResourceLimits:
    """Bytes and processes; None is unlimited."""

    memory: int | None = None
    processes: int | None = None

    def to_flags(self) -> tuple[str, ...]:
        """Launcher flags for the limits that no cgroup enforces."""
        memory = () if self.memory is None else ("-m", str(self.memory))
        return memory if self.processes is None else (*memory, "-p", str(self.processes))


UNLIMITED = ResourceLimits()


def enter_cgroup(limits: ResourceLimits, cleanup: ExitStack) -> tuple[tuple[str, ...], ResourceLimits]:
    """The argv prefix that runs a command in its own cgroup, and the limits left for rlimits."""
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
    """Why a command's processes are not counted although requested; empty if they are."""
    if limits.processes is None or os.geteuid() or find_delegated_cgroup() or find_pids_cgroup():
        return ""
    return (
        "the number of processes is not limited: the kernel does not count root's processes,"
        " and no control group can be created"
    )


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
        log_swallowed()
        return ()
    return ("/bin/sh", "-c", ENTER_SCRIPT, group)


@cache
def find_delegated_cgroup() -> str:
    """A cgroup in which we may create others; empty if there is none.

    It is the parent of our own: a cgroup with processes cannot have controllers for children, except at the top.
    """
    try:
        own = _read_own_cgroup("0::/") or "/"
        parent = os.path.join(CGROUP_ROOT, os.path.dirname(own).lstrip("/"))
        with os.fdopen(os.open(os.path.join(parent, "cgroup.subtree_control"), os.O_RDONLY)) as file:
            shared = file.read().split()
    except OSError:
        log_swallowed()
        return ""
    return parent if _is_writable(parent) and {"memory", "pids"} <= set(shared) else ""


@cache
def find_pids_cgroup() -> str:
    """Our own cgroup in the pids hierarchy, if the kernel has one (version 1)."""
    try:
        own = os.path.join(CGROUP_ROOT, "pids", _read_own_cgroup(":pids:/").lstrip("/"))
    except OSError:
        log_swallowed()
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
            continue  # busy until its processes are gone
        _leftover_cgroups.discard(each)


@atexit.register
def _remove_leftovers_at_exit() -> None:
    """Remove them now: no later call would."""
    until = time.monotonic() + EXIT_TIMEOUT_SECONDS
    while _leftover_cgroups and time.monotonic() < until:
        _remove_leftovers()
        time.sleep(0.002)
