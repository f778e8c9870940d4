"""The process of the client that started this one, directly or through shells and launchers.

A client's hooks and its server find the same one, so that both know that they belong to one session. When it is gone,
so is its session: a killed client runs no hook.
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
    """Its number, the time of its start and its process namespace, or "" if that cannot be found out."""
    process = os.getppid()
    for _ in range(MAX_LAUNCHERS):
        try:
            name, fields = _read_stat(process)
            if name not in LAUNCHERS:
                return f"{process}:{fields[START].decode()}:{_read_namespace()}"
        except OSError:
            log_swallowed()
            return ""
        process = int(fields[PARENT])
    return ""


def is_gone(process: str) -> bool:
    """Whether this process has ended. False if nobody can tell from here: it may be in another container."""
    number, _, rest = process.partition(":")
    start, _, namespace = rest.partition(":")
    try:
        if not number.isdecimal() or namespace != str(_read_namespace()):
            return False
        return _read_stat(int(number))[1][START].decode() != start
    except (FileNotFoundError, ProcessLookupError):
        return True
    except OSError:
        log_swallowed()
        return False


def _read_stat(process: int) -> tuple[str, list[bytes]]:
    """The name of a process, and what follows it."""
    with open(f"/proc/{process}/stat", "rb") as file:  # noqa: PTH123  pathlib takes long to import
        head, _, tail = file.read().rpartition(NAME_END)
    return head.partition(b"(")[2].decode(errors="replace"), tail.split()


def _read_namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def log_swallowed() -> None:
    from handhold import logs  # it imports more than a hook has time for

    logs.log_swallowed()
