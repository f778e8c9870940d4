"""Runs a command without a pid namespace, and leaves no process of it behind.

Runs as a program of its own: `python reaper.py LIFELINE -- COMMAND…`. It is a subreaper: every orphan of the command
becomes its child, even a daemon. When the shell exits, or the other end of the lifeline is closed, it kills all of
them, and exits as the shell did.
"""

import ctypes
import fcntl
import os
import select
import signal
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
REAP_INTERVAL_MS = 1_000
KILL_TIMEOUT_SECONDS = 5.0  # for unkillable processes: of another user, or hanging in the kernel


def main(lifeline: int, command: list[str]) -> int:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    fcntl.fcntl(lifeline, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
    try:
        # Python ignores SIGPIPE; the command must not inherit that.
        shell = os.posix_spawnp(
            command[0], command, os.environ, setsid=True, setsigdef=(signal.SIGPIPE, signal.SIGXFSZ)
        )
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return 127
    status: int | None = None
    shell_pidfd = os.pidfd_open(shell)
    ready = select.poll()
    ready.register(lifeline, 0)  # only hang-ups
    ready.register(shell_pidfd, select.POLLIN)
    while status is None and not any(fd == lifeline for fd, _ in ready.poll(REAP_INTERVAL_MS)):
        status = reap().get(shell)
    ended = kill_all()
    status = ended.get(shell) if status is None else status
    return 128 + signal.SIGKILL if status is None else to_exit_code(status)


def to_exit_code(status: int) -> int:
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def kill_all() -> dict[int, int]:
    """Kill every child until there is none: children of a killed process become our own."""
    ended: dict[int, int] = {}
    until = time.monotonic() + KILL_TIMEOUT_SECONDS
    while (children := list_children()) and time.monotonic() < until:
        for pid in children:
            kill(pid)
        ended |= reap()
        time.sleep(0.001)
    return ended


def kill(pid: int) -> None:
    """Kill it with its process group, including a member that is being forked at this moment."""
    try:
        group = os.getpgid(pid)
        if group != os.getpgrp():
            os.killpg(group, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def list_children() -> list[int]:
    """The children of this process, even if the kernel does not list them."""
    listed = read_children(os.getpid())
    if listed is not None:
        return listed
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and read_parent(int(name)) == os.getpid()]


def read_children(pid: int) -> list[int] | None:
    """The children of a single-threaded process, including zombies; None if unknown."""
    try:
        fd = os.open(f"/proc/{pid}/task/{pid}/children", os.O_RDONLY)
    except OSError:
        return None  # this process has no logger: it runs confined
    try:
        return [int(child) for child in os.read(fd, 1 << 20).split()]
    except OSError:
        return None  # this process has no logger: it runs confined
    finally:
        os.close(fd)


def read_parent(pid: int) -> int:
    """The parent's pid; 0 if there is no such process."""
    return int(_read_stat(pid)[1])


def is_dead(pid: int) -> bool:
    return _read_stat(pid)[0] in (b"Z", b"X")


def _read_stat(pid: int) -> list[bytes]:
    """The fields of /proc/PID/stat, starting with the state; those of a dead process if there is none."""
    gone = [b"X", b"0"]
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return gone  # this process has no logger: it runs confined
    try:
        return os.read(fd, 4096).rpartition(b")")[2].split() or gone
    except OSError:
        return gone  # this process has no logger: it runs confined
    finally:
        os.close(fd)


def reap() -> dict[int, int]:
    """Reap ended children; return their statuses."""
    found: dict[int, int] = {}
    try:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            found[ended[0]] = ended[1]
    except ChildProcessError:
        pass
    return found


if __name__ == "__main__":
    os._exit(main(int(sys.argv[1]), sys.argv[3:]))
