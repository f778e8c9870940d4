"""A worker from its start to its end: fed by a file in memory, heard as far as there is room, never left behind."""

import os
import select
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, sleep

PATIENCE = 15.0  # seconds on the clock: a worker that waits for its turn does no harm
GRACE = 1.0  # for the end of one that was killed
MOST_SAID = 24 << 20  # bytes
MOST_COMPLAINED = 1 << 16
PIECE = 1 << 16
KILOBYTE = 1024
STEP = 0.001  # seconds between two looks at whether it has ended


@dataclass(frozen=True)
class Effort:
    """What a worker cost."""

    seconds: float  # of the processor
    memory: int  # bytes that it held at most


@dataclass(frozen=True)
class Gone:
    """What a worker said, what it complained of, and how it ended."""

    said: bytes
    complained: str
    status: int  # a signal is negative
    late: bool  # we ended it
    effort: Effort


def worked(argv: Sequence[str], data: bytes, *, patience: float = PATIENCE) -> Gone:
    """Whatever becomes of it. OSError if it does not start."""
    file = _in_memory(data)
    try:
        process = subprocess.Popen(
            argv,
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
            bufsize=0,
            start_new_session=True,
        )
    finally:
        os.close(file)
    with process:
        try:
            said, complained, late = _heard(process, monotonic() + patience)
            if late:
                _kill(process)
            effort = _reaped(process, GRACE)
            if effort is None and not late:  # it fell silent, and is still there
                _kill(process)
                late, effort = True, _reaped(process, GRACE)
        finally:
            _kill(process)
            if process.returncode is None:
                process.returncode = -signal.SIGKILL  # it hangs in the kernel: nobody waits for it any more
    return Gone(said, complained, process.returncode, late, effort or Effort(0.0, 0))


def _in_memory(data: bytes) -> int:
    file = os.memfd_create("file")
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(file, rest) :]
        os.lseek(file, 0, os.SEEK_SET)
    except OSError:
        os.close(file)
        raise
    return file


def _heard(process: subprocess.Popen[bytes], until: float) -> tuple[bytes, str, bool]:
    """What it says until it falls silent, and whether it was cut off: by the clock, or for saying too much."""
    assert process.stdout
    assert process.stderr
    heard = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    most = dict(zip(heard, (MOST_SAID, MOST_COMPLAINED), strict=True))
    poll = select.poll()
    for fd in heard:
        poll.register(fd, select.POLLIN)
    speaking, late = set(heard), False
    while speaking and not late:
        left = until - monotonic()
        late = left <= 0
        for fd, _ in [] if late else poll.poll(left * 1000):
            if piece := os.read(fd, PIECE):
                heard[fd] += piece
                late = late or len(heard[fd]) > most[fd]
            else:
                poll.unregister(fd)
                speaking.remove(fd)
    said, complained = heard.values()
    return bytes(said), complained.decode("utf-8", "replace"), late


def _reaped(process: subprocess.Popen[bytes], seconds: float) -> Effort | None:
    """What it cost, once it has ended; None if it has not in time."""
    until = monotonic() + seconds
    while monotonic() < until:
        try:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        except ChildProcessError:  # whoever runs us collects children himself, and what it cost with them
            process.returncode = 0
            return Effort(0.0, 0)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return Effort(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * KILOBYTE)
        sleep(STEP)
    return None


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
