"""The peak memory of this process."""

from pathlib import Path


def peak_kib() -> int:
    """Not `ru_maxrss`, which includes the parent's memory at the time of the fork."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0])
