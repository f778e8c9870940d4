"""Run a program and read its output from a pipe, within a deadline, and never leave it running."""

import os
import select
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fcntl import fcntl
from resource import RLIMIT_DATA, prlimit
from time import monotonic
from types import TracebackType

from handhold.backends.programs import TimeoutExpired, start_program

# Read at a time: takes a few milliseconds to process, then the deadline is checked again.
READ_CHUNK_BYTES = 1 << 17
PIPE_BYTES = 1 << 20  # so that a program seldom has to wait for us
F_SETPIPE_SZ = 1031
MAX_STDERR_BYTES = 1 << 18
# On a long line with a million matches, ripgrep would take a hundred times its length.
MAX_MEMORY_BYTES = 1 << 30
# For the end of a killed program: one that hangs in the kernel is left to die later.
KILL_TIMEOUT_SECONDS = 1.0


class EngineFailed(Exception):
    """A search engine does not work: another may."""


class DeadlineExceeded(Exception):
    """The time for a search is over."""


class EntryLimitReached(Exception):
    """A search has visited as many entries as it may."""


@dataclass(frozen=True)
class Deadline:
    """When time runs out."""

    at: float

    def check_remaining(self) -> float:
        if (left := self.at - monotonic()) <= 0:
            raise DeadlineExceeded
        return left


class SearchProcess:
    """A program running in a folder that it gets by descriptor, so that the name cannot be replaced."""

    def __init__(
        self,
        argv: Sequence[str | bytes],
        folder_fd: int,
        deadline: Deadline,
        env: Mapping[str, str],
        fds: Sequence[int] = (),
    ) -> None:
        self.stderr = b""
        self._deadline = deadline
        # Without preexec_fn, Python uses vfork, whose cost does not depend on the size of this process.
        try:
            self._process = start_program(argv, cwd=f"/proc/self/fd/{folder_fd}", env=env, pass_fds=fds)
        except OSError as error:
            raise EngineFailed(f"{os.path.basename(os.fsdecode(argv[0]))} does not start: {error.strerror}") from error
        assert self._process.stdout
        assert self._process.stderr
        self._out, self._err = self._process.stdout, self._process.stderr
        try:
            prlimit(self._process.pid, RLIMIT_DATA, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
            fcntl(self._out, F_SETPIPE_SZ, PIPE_BYTES)
        except OSError:
            pass  # it has already ended, or the limit is not permitted: it works without

    def __enter__(self) -> "SearchProcess":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._out.close()
        self._err.close()
        if self._process.poll() is None:
            self._process.kill()
            self._wait(KILL_TIMEOUT_SECONDS)

    def read_chunks(self) -> Iterator[bytes]:
        """Its output until it ends. Raise DeadlineExceeded when time runs out."""
        out, err = self._out.fileno(), self._err.fileno()
        poll = select.poll()
        poll.register(out, select.POLLIN)
        poll.register(err, select.POLLIN)
        open_fds = {out, err}
        while open_fds:
            for fd, _ in poll.poll(self._deadline.check_remaining() * 1000):
                piece = os.read(fd, READ_CHUNK_BYTES)
                if not piece:
                    poll.unregister(fd)
                    open_fds.remove(fd)
                elif fd == out:
                    yield piece
                elif len(self.stderr) < MAX_STDERR_BYTES:
                    self.stderr += piece
        if self._process.poll() is None and not self._wait(self._deadline.check_remaining()):
            raise DeadlineExceeded

    def _wait(self, seconds: float) -> bool:
        """Whether it ends within this time."""
        try:
            # `wait` with a timeout polls with sleeps, which takes a millisecond too long.
            end = os.pidfd_open(self._process.pid)
        except OSError:
            pass  # an older kernel
        else:
            poll = select.poll()
            poll.register(end, select.POLLIN)
            poll.poll(seconds * 1000)
            os.close(end)
            seconds = 0
        try:
            self._process.wait(seconds)
        except TimeoutExpired:
            return False
        return True

    @property
    def exit_code(self) -> int:
        """The exit code, after `read_chunks` is exhausted."""
        return self._process.returncode


def split_at_nul(chunks: Iterator[bytes]) -> Iterator[list[bytes]]:
    """The strings between NULs, in lists as they arrive."""
    rest = b""
    for piece in chunks:
        *whole, rest = (rest + piece).split(b"\0")
        if whole:
            yield whole
