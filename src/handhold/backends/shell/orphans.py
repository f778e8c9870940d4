"""Kill sandboxes whose Handhold process was killed while they were being set up.

bubblewrap's first process inside waits for the one outside before it has requested to die with it. If Handhold is
killed in that moment, it waits forever: the command has not started, but a process is left. So a sandbox carries the
id of its Handhold process, invisible to the command, and the next shell of the same user kills those whose process is
gone.
"""

import os
import re
import signal
from contextlib import suppress
from functools import cache
from time import monotonic

from handhold.logs import log_swallowed

TOOL_VARIABLE = "HANDHOLD_TOOL"
TOOL_ID_PATTERN = re.compile(r"(?P<pid>[1-9][0-9]{0,9})-[0-9]{1,20}-(?P<namespace>pid:\[[0-9]{1,20}\])")

SEARCH_INTERVAL_SECONDS = 60.0
_next_search = 0.0


def build_tool_id(pid: int) -> str:
    """Identify a process by pid, start time and pid namespace."""
    began = _read_file(f"/proc/{pid}/stat").rpartition(b")")[2].split()[19].decode()
    return f"{pid}-{began}-{os.readlink('/proc/self/ns/pid')}"


@cache
def build_tool_environment(pid: int) -> dict[str, str]:
    """The environment variable for sandboxes that this process creates."""
    return {TOOL_VARIABLE: build_tool_id(pid)}


def kill_orphans_if_due() -> None:
    """At most once a minute: it looks at every process of the machine, and a server opens many shells."""
    global _next_search  # noqa: PLW0603 - of this process
    if (now := monotonic()) >= _next_search:
        _next_search = now + SEARCH_INTERVAL_SECONDS
        kill_orphans()


def kill_orphans() -> None:
    """Kill what a dead process left. Processes in other namespaces or of other users are not ours.

    Anybody may set the variable for their processes, including set-user-id programs they start. So it counts only if
    it is well-formed and the process runs entirely as our user.
    """
    here = os.readlink("/proc/self/ns/pid")
    is_alive = cache(_is_alive)
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with suppress(OSError):  # gone, or not ours
            tool = _read_tool_id(name)
            if tool and tool["namespace"] == here and not is_alive(tool[0]):
                _kill(int(name), tool[0])


def _kill(pid: int, tool: str) -> None:
    handle = os.pidfd_open(pid)
    try:
        found = _read_tool_id(str(pid))
        if found and found[0] == tool:  # the pid may have been reused meanwhile
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    finally:
        os.close(handle)


def _read_tool_id(name: str) -> re.Match[str] | None:
    """The id of the process that created this sandbox process; None for any other process."""
    if not _is_own_process(name):
        return None
    for variable in _read_file(f"/proc/{name}/environ").split(b"\0"):
        if variable.startswith(TOOL_VARIABLE.encode() + b"="):
            return TOOL_ID_PATTERN.fullmatch(os.fsdecode(variable.partition(b"=")[2]))
    return None


def _is_own_process(name: str) -> bool:
    """Whether its real, effective, saved and file-system user are all ours."""
    status = _read_file(f"/proc/{name}/status")
    users = status.partition(b"\nUid:")[2].partition(b"\n")[0].split()
    return {*users} == {str(os.geteuid()).encode()}


def _is_alive(tool: str) -> bool:
    try:
        return build_tool_id(int(tool.partition("-")[0])) == tool
    except (OSError, IndexError):
        log_swallowed()
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
