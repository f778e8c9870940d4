"""The process of the client that started this one, directly or through shells and launchers.

A client's hooks and its server find the same one, so that both know that they belong to one session.
"""

import os

LAUNCHERS = frozenset(
    {
        "handhold",
        "sh",
        "bash",
        "dash",
        "zsh",
        "fish",
        "ksh",
        "busybox",
        "env",
        "timeout",
        "uv",
        "uvx",
        "pipx",
        "npx",
    }
)
MAX_LAUNCHERS = 8
NAME_END = b")"  # a process may have any name, even one with parentheses
PARENT, START = 1, 19  # fields after the name


def find_client_process() -> str:
    """Its number and the time of its start, or "" if that cannot be found out."""
    process = os.getppid()
    for _ in range(MAX_LAUNCHERS):
        try:
            with open(f"/proc/{process}/stat", "rb") as file:  # noqa: PTH123  pathlib takes long to import
                head, _, tail = file.read().rpartition(NAME_END)
        except OSError:
            log_swallowed()
            return ""
        fields = tail.split()
        if head.partition(b"(")[2].decode(errors="replace") not in LAUNCHERS:
            return f"{process}:{fields[START].decode()}"
        process = int(fields[PARENT])
    return ""


def log_swallowed() -> None:
    from handhold import logs  # it imports more than a hook has time for

    logs.log_swallowed()
