"""How much memory this process has held at most."""

from pathlib import Path


def peak_kib() -> int:
    """Not `ru_maxrss`: that one counts what the parent held when it started us."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0])
