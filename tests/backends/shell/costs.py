"""What something costs, so that it can be told on a machine that is busy with other things."""

import ctypes
import os
import resource
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from handhold.backends.shell.reaper import PR_SET_CHILD_SUBREAPER

PATIENCE = 5.0


def spent(work: Callable[[], object]) -> float:
    """Seconds of processor time, until nothing is left of it: what else the machine has to do is no matter then.

    Whatever outlives its parent comes to us meanwhile, so that it counts.
    """
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        before = used()
        work()
        deadline = time.monotonic() + PATIENCE
        with suppress(ChildProcessError):
            while time.monotonic() < deadline:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    time.sleep(0.0005)
        return used() - before
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def used() -> float:
    each = (resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in each)


def quartile(times: Sequence[float]) -> float:
    """A quarter of them are better: neither luck nor whatever disturbed the others."""
    return sorted(times)[len(times) // 4]
