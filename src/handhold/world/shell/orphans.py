"""Sandboxes whose tool was killed while they were being made.

bubblewrap's first process inside waits for the one outside before it has asked to die with it. If the tool is killed in
that moment it waits for ever: nothing of the command has begun, and it holds a process and no more. So a sandbox
carries the name of its tool, where the command does not see it, and the next shell of the same user ends those whose
tool is gone.
"""

import os
import signal
from contextlib import suppress
from functools import cache

MARK = "HANDHOLD_TOOL"


def named(pid: int) -> str:
    """A process by its number, the moment it began, and where the number counts."""
    began = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[19].decode()
    return f"{pid}-{began}-{os.readlink('/proc/self/ns/pid')}"


@cache
def mark(pid: int) -> dict[str, str]:
    """The variable of a sandbox that this process makes."""
    return {MARK: named(pid)}


def end_orphans() -> None:
    """End what a tool that is gone has left. What others run, in other namespaces or as other users, is not ours."""
    here = os.readlink("/proc/self/ns/pid")
    alive: dict[str, bool] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with suppress(OSError):  # gone, or somebody else's
            tool = _tool_of(name)
            if tool.endswith(here) and not alive.setdefault(tool, _lives(tool)):
                _end(int(name), tool)


def _end(pid: int, tool: str) -> None:
    handle = os.pidfd_open(pid)
    try:
        if _tool_of(str(pid)) == tool:  # the number may have passed to another a moment ago
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    finally:
        os.close(handle)


def _tool_of(name: str) -> str:
    """The tool that made the sandbox which this process is of; empty for every other process."""
    for variable in _read(f"/proc/{name}/environ").split(b"\0"):
        if variable.startswith(MARK.encode() + b"="):
            return os.fsdecode(variable.partition(b"=")[2])
    return ""


def _lives(tool: str) -> bool:
    pid = int(tool.partition("-")[0])
    try:
        return named(pid) == tool
    except OSError:
        return False


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts: list[bytes] = []
        while part := os.read(fd, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(fd)
