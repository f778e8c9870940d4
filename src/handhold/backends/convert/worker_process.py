"""Run a worker: input from a file in memory, bounded output, and never left running."""

import os
import select
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, sleep

from handhold.backends.programs import Popen, start_program

WORKER_TIMEOUT_SECONDS = 15.0  # of wall time: a worker that waits for a processor does no harm
KILL_TIMEOUT_SECONDS = 1.0  # for the end of a killed worker
MAX_STDOUT_BYTES = 24 << 20
MAX_STDERR_BYTES = 1 << 16
READ_CHUNK_BYTES = 1 << 16
KILOBYTE = 1024
POLL_INTERVAL_SECONDS = 0.001  # between two checks whether it has ended


@dataclass(frozen=True)
class WorkerUsage:
    """The resources that a worker used."""

    cpu_seconds: float
    peak_memory_bytes: int


@dataclass(frozen=True)
class WorkerResult:
    """A worker's output, its error output, and how it ended."""

    stdout: bytes
    stderr: str
    exit_code: int  # negative for a signal
    was_killed: bool  # by us
    usage: WorkerUsage


def run_worker(argv: Sequence[str], data: bytes, *, timeout_seconds: float = WORKER_TIMEOUT_SECONDS) -> WorkerResult:
    """Run a worker to its end. Raise OSError if it does not start."""
    file = _create_memfd(data)
    try:
        process = start_program(argv, stdin=file, new_session=True)
    finally:
        os.close(file)
    with process:
        try:
            stdout, stderr, was_killed = _read_output(process, monotonic() + timeout_seconds)
            if was_killed:
                _kill(process)
            usage = _reap(process, KILL_TIMEOUT_SECONDS)
            if usage is None and not was_killed:  # it closed its output but is still running
                _kill(process)
                was_killed, usage = True, _reap(process, KILL_TIMEOUT_SECONDS)
        finally:
            _kill(process)
            if process.returncode is None:
                process.returncode = -signal.SIGKILL  # it hangs in the kernel; stop waiting for it
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


def _read_output(process: Popen[bytes], until: float) -> tuple[bytes, str, bool]:
    """Its output until it closes it, and whether it was cut off, by the deadline or for too much output."""
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


def _reap(process: Popen[bytes], seconds: float) -> WorkerUsage | None:
    """The resources used, once it has ended; None if it does not end in time."""
    until = monotonic() + seconds
    while monotonic() < until:
        try:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        except ChildProcessError:  # the host process reaps children itself, so the usage is lost
            process.returncode = 0
            return WorkerUsage(0.0, 0)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return WorkerUsage(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * KILOBYTE)
        sleep(POLL_INTERVAL_SECONDS)
    return None


def _kill(process: Popen[bytes]) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
