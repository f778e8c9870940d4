"""A worker from its start to its end: fed by a file in memory, heard as far as there is room, never left behind."""

import os
import select
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, sleep

WORKER_TIMEOUT_SECONDS = 15.0  # seconds on the clock: a worker that waits for its turn does no harm
KILL_TIMEOUT_SECONDS = 1.0  # for the end of one that was killed
MAX_STDOUT_BYTES = 24 << 20  # bytes
MAX_STDERR_BYTES = 1 << 16
READ_CHUNK_BYTES = 1 << 16
KILOBYTE = 1024
POLL_INTERVAL_SECONDS = 0.001  # seconds between two looks at whether it has ended


@dataclass(frozen=True)
class WorkerUsage:
    """What a worker cost."""

    cpu_seconds: float  # of the processor
    peak_memory_bytes: int  # bytes that it held at most


@dataclass(frozen=True)
class WorkerResult:
    """What a worker said, what it complained of, and how it ended."""

    stdout: bytes
    stderr: str
    exit_code: int  # a signal is negative
    was_killed: bool  # we ended it
    usage: WorkerUsage


def run_worker(argv: Sequence[str], data: bytes, *, timeout_seconds: float = WORKER_TIMEOUT_SECONDS) -> WorkerResult:
    """Whatever becomes of it. OSError if it does not start."""
    file = _create_memfd(data)
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
            stdout, stderr, was_killed = _read_output(process, monotonic() + timeout_seconds)
            if was_killed:
                _kill(process)
            usage = _reap(process, KILL_TIMEOUT_SECONDS)
            if usage is None and not was_killed:  # it fell silent, and is still there
                _kill(process)
                was_killed, usage = True, _reap(process, KILL_TIMEOUT_SECONDS)
        finally:
            _kill(process)
            if process.returncode is None:
                process.returncode = -signal.SIGKILL  # it hangs in the kernel: nobody waits for it any more
    return WorkerResult(stdout, stderr, process.returncode, was_killed, usage or WorkerUsage(0.0, 0))


def _create_memfd(data: bytes) -> int:
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


def _read_output(process: subprocess.Popen[bytes], until: float) -> tuple[bytes, str, bool]:
    """What it says until it falls silent, and whether it was cut off: by the clock, or for saying too much."""
    assert process.stdout
    assert process.stderr
    received = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    limits = dict(zip(received, (MAX_STDOUT_BYTES, MAX_STDERR_BYTES), strict=True))
    poll = select.poll()
    for fd in received:
        poll.register(fd, select.POLLIN)
    open_fds, late = set(received), False
    while open_fds and not late:
        left = until - monotonic()
        late = left <= 0
        for fd, _ in [] if late else poll.poll(left * 1000):
            if piece := os.read(fd, READ_CHUNK_BYTES):
                received[fd] += piece
                late = late or len(received[fd]) > limits[fd]
            else:
                poll.unregister(fd)
                open_fds.remove(fd)
    stdout, stderr = received.values()
    return bytes(stdout), stderr.decode("utf-8", "replace"), late


def _reap(process: subprocess.Popen[bytes], seconds: float) -> WorkerUsage | None:
    """What it cost, once it has ended; None if it has not in time."""
    until = monotonic() + seconds
    while monotonic() < until:
        try:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        except ChildProcessError:  # whoever runs us collects children himself, and what it cost with them
            process.returncode = 0
            return WorkerUsage(0.0, 0)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return WorkerUsage(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * KILOBYTE)
        sleep(POLL_INTERVAL_SECONDS)
    return None


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
