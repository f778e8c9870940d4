"""Processes, mounts and memory of this machine (Linux)."""

import contextlib
import ctypes
import os
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path

SUBREAPER = 36  # from prctl(2)


def adopt_orphans() -> None:
    """Adopt orphaned processes, so that they are found at the end."""
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)


def bury(spare: Collection[int] = ()) -> None:
    """Reap adopted processes that have ended."""
    for each in descendants(os.getpid(), depth=1).keys() - set(spare):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                os.waitpid(each, os.WNOHANG)


def descendants(pid: int, depth: int = 99) -> dict[int, str]:
    """All descendants of a process, with their command lines."""
    below: dict[int, list[int]] = defaultdict(list)
    for each in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            below[int(stat[1])].append(int(each))
    found: dict[int, str] = {}
    todo = [(each, 1) for each in below[pid]]
    while todo:
        each, level = todo.pop()
        with contextlib.suppress(OSError):
            found[each] = Path(f"/proc/{each}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            todo += [(child, level + 1) for child in below[each] if level < depth]
    return found


def mounted() -> set[str]:
    return set(Path("/proc/self/mountinfo").read_text().splitlines())


def resident(pid: int) -> float:
    """Private memory in KB, without files."""
    return float(Path(f"/proc/{pid}/status").read_text().partition("RssAnon:")[2].split()[0])


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))
