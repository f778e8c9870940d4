"""Sandboxes whose tool was killed while they were being made.

bubblewrap's first process inside waits for the one outside before it has asked to die with it. If the tool is killed in
that moment it waits for ever: nothing of the command has begun, and it holds a process and no more. So a sandbox
carries the name of its tool, where the command does not see it, and the next shell of the same user ends those whose
tool is gone.
"""

import os
import re
import signal
from contextlib import suppress
from functools import cache

TOOL_VARIABLE = "HANDHOLD_TOOL"
TOOL_ID_PATTERN = re.compile(r"(?P<pid>[1-9][0-9]{0,9})-[0-9]{1,20}-(?P<namespace>pid:\[[0-9]{1,20}\])")


def build_tool_id(pid: int) -> str:
    """A process by its number, the moment it began, and where the number counts."""
    began = _read_file(f"/proc/{pid}/stat").rpartition(b")")[2].split()[19].decode()
    return f"{pid}-{began}-{os.readlink('/proc/self/ns/pid')}"


@cache
def build_tool_environment(pid: int) -> dict[str, str]:
    """The variable of a sandbox that this process makes."""
    return {TOOL_VARIABLE: build_tool_id(pid)}


def kill_orphans() -> None:
    """End what a tool that is gone has left. What others run, in other namespaces or as other users, is not ours.

    Anybody may put the variable into the environment of a process of theirs, and of a set-user-id program that they
    start. So a mark counts only if it has our form and the process has no user but us.
    """
    here = os.readlink("/proc/self/ns/pid")
    is_alive = cache(_is_alive)
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with suppress(OSError):  # gone, or somebody else's
            tool = _read_tool_id(name)
            if tool and tool["namespace"] == here and not is_alive(tool[0]):
                _kill(int(name), tool[0])


def _kill(pid: int, tool: str) -> None:
    handle = os.pidfd_open(pid)
    try:
        found = _read_tool_id(str(pid))
        if found and found[0] == tool:  # the number may have passed to another a moment ago
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    finally:
        os.close(handle)


def _read_tool_id(name: str) -> re.Match[str] | None:
    """The tool that made the sandbox which this process is of; None for every other process."""
    if not _is_own_process(name):
        return None
    for variable in _read_file(f"/proc/{name}/environ").split(b"\0"):
        if variable.startswith(TOOL_VARIABLE.encode() + b"="):
            return TOOL_ID_PATTERN.fullmatch(os.fsdecode(variable.partition(b"=")[2]))
    return None


def _is_own_process(name: str) -> bool:
    """Whether its real, effective, saved and file-system user is the one that we run as."""
    status = _read_file(f"/proc/{name}/status")
    users = status.partition(b"\nUid:")[2].partition(b"\n")[0].split()
    return {*users} == {str(os.geteuid()).encode()}


def _is_alive(tool: str) -> bool:
    try:
        return build_tool_id(int(tool.partition("-")[0])) == tool
    except (OSError, IndexError):
        return False


def _read_file(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts: list[bytes] = []
        while part := os.read(fd, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(fd)
