"""Read the files of a built-in search: in this process, or in others that can be killed.

A literal search runs here while there are few files; with many, two processes read. A regular expression always runs in
another process: on a bad line it can take forever, and only a kill ends it. Files are distributed in batches, and
results come in path order.
"""

import os
import pickle
import select
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Any

from handhold.backends.files.directory_tree import DiskTree
from handhold.backends.search.events import FoundLine
from handhold.backends.search.line_matcher import LineMatcher, make_reader
from handhold.backends.search.search_process import Deadline, EngineFailed
from handhold.core.requests import Grep
from handhold.logs import log_swallowed

MAX_BATCH_FILES = 256
FIRST_BATCH_FILES = 16  # smaller at first, so that a page that fills early is there early
MAX_PENDING_BATCHES = 3  # per process
MAX_IN_PROCESS_FILES = 1_500  # before other processes are started
MAX_PROCESSES = 2
READ_CHUNK_BYTES = 1 << 20
KILL_TIMEOUT_SECONDS = 1.0
PACKAGE_ROOT = str(Path(__file__).parents[3])
# Without `site`: code that a repository put next to its packages would run at every start.
READER_CODE = "import sys; sys.path.append({packages!r}); from {module} import serve; serve({fd})"
LENGTH_PREFIX = struct.Struct("!I")


@dataclass(frozen=True)
class SearchTask:
    """What to do with every file."""

    request: Grep
    explicit: bool = False  # the file itself was given as the path
    max_lines: int = 1
    max_bytes: int | None = None


@dataclass
class BatchResult:
    """The result of a batch: files that matched, and counts of those that were not searched."""

    matches: list[tuple[bytes, int, list[FoundLine]]] = field(default_factory=list[tuple[bytes, int, list[FoundLine]]])
    searched: int = 0
    binary: int = 0
    too_large: int = 0
    unreadable: int = 0
    vanished: int = 0

    def add_counts(self, other: "BatchResult") -> None:
        """Add the counts of another result."""
        self.searched += other.searched
        self.binary += other.binary
        self.too_large += other.too_large
        self.unreadable += other.unreadable
        self.vanished += other.vanished


@dataclass(frozen=True)
class FileBatch:
    """Files, by folder and name; with their contents if they are not on disk."""

    files: list[tuple[bytes, bytes]]
    contents: list[bytes] | None = None


class BatchReader:
    """Reads in this process."""

    def __init__(self, tree: DiskTree | None, task: SearchTask) -> None:
        self._tree = tree
        self._task = task
        self._matcher = LineMatcher(task.request)

    def read(self, batch: FileBatch) -> BatchResult:
        result = BatchResult()
        if batch.contents is None:
            for rel_path, name in batch.files:
                self._read_file(result, rel_path, name)
        else:
            for (rel_path, name), data in zip(batch.files, batch.contents, strict=True):
                self._match_file(result, rel_path + name, BytesIO(data).read)
        return result

    def _read_file(self, result: BatchResult, rel_path: bytes, name: bytes) -> None:
        assert self._tree
        try:
            fd, status = self._tree.open_file(rel_path, name)
        except FileNotFoundError:
            result.vanished += 1
            return
        except OSError:
            log_swallowed()
            result.unreadable += 1
            return
        try:
            if self._task.max_bytes is not None and status.st_size > self._task.max_bytes:
                result.too_large += 1
            else:
                self._match_file(result, rel_path + name, make_reader(fd, status.st_size))
        except OSError:
            log_swallowed()
            result.unreadable += 1
        finally:
            os.close(fd)

    def _match_file(self, result: BatchResult, name: bytes, read: Callable[[int], bytes]) -> None:
        matches = self._matcher.search(read, explicit=self._task.explicit, max_lines=self._task.max_lines)
        binary = matches.is_binary and not matches.count
        result.binary += binary
        result.searched += not binary
        if matches.count:
            result.matches.append((name, matches.count, matches.lines))


def make_batches(directories: Iterable[tuple[bytes, list[bytes]]]) -> Iterator[FileBatch]:
    """Combine the files of folders into batches of a growing size."""
    size = FIRST_BATCH_FILES
    files: list[tuple[bytes, bytes]] = []
    for rel_path, names in directories:
        files += [(rel_path, name) for name in names]
        while len(files) >= size:
            yield FileBatch(files[:size])
            del files[:size]
            size = min(2 * size, MAX_BATCH_FILES)
    if files:
        yield FileBatch(files)


def read_batches(
    tree: DiskTree | None, task: SearchTask, batches: Iterator[FileBatch], deadline: Deadline
) -> Generator[BatchResult]:
    """The result of each batch, in order. Raise BadRegex for an invalid pattern.

    Raise DeadlineExceeded when time runs out; no process is left then.
    """
    reader = BatchReader(tree, task)
    if not task.request.regex:
        files_read = 0
        for batch in batches:
            deadline.check_remaining()
            yield reader.read(batch)
            files_read += len(batch.files)
            if files_read > MAX_IN_PROCESS_FILES and (os.cpu_count() or 1) > 1:
                break
        else:
            return
    with ReaderPool(tree.top_fd if tree else None, task, deadline) as processes:
        yield from processes.read_batches(batches)


# --- processes


class ReaderPool:
    def __init__(self, fd: int | None, task: SearchTask, deadline: Deadline) -> None:
        self._deadline = deadline
        self._processes: list[ReaderProcess] = []
        self._fd = fd
        self._task = task

    def __enter__(self) -> "ReaderPool":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        for process in self._processes:
            process.kill()

    def start_process(self) -> None:
        """Start another reader."""
        try:
            self._processes.append(ReaderProcess(self._fd, self._task))
        except OSError as error:
            raise EngineFailed(f"no process could be started to read files: {error.strerror}") from error

    def read_batches(self, batches: Iterator[FileBatch]) -> Generator[BatchResult]:
        waiting: deque[ReaderProcess] = deque()  # whose answers are due, in order
        files = 0
        for batch in batches:
            files += len(batch.files)
            if not self._processes or (
                files > MAX_IN_PROCESS_FILES and len(self._processes) < min(MAX_PROCESSES, os.cpu_count() or 1)
            ):
                self.start_process()
            process = min(self._processes, key=lambda each: each.pending)
            while process.pending >= MAX_PENDING_BATCHES:
                yield self._receive_next(waiting)
                process = min(self._processes, key=lambda each: each.pending)
            process.send(batch)
            waiting.append(process)
            self._pump(0)
            while waiting and waiting[0].results:
                yield self._receive_next(waiting)
        while waiting:
            yield self._receive_next(waiting)

    def _receive_next(self, waiting: "deque[ReaderProcess]") -> BatchResult:
        first = waiting.popleft()
        while not first.results:
            self._pump(self._deadline.check_remaining())
        first.pending -= 1
        return first.results.popleft()

    def _pump(self, seconds: float) -> None:
        """Read from and write to the pipes."""
        poll = select.poll()
        by_fd: dict[int, ReaderProcess] = {}
        for process in self._processes:
            poll.register(process.stdout_fd, select.POLLIN)
            by_fd[process.stdout_fd] = process
            if process.unsent:
                poll.register(process.stdin_fd, select.POLLOUT)
                by_fd[process.stdin_fd] = process
        for fd, _ in poll.poll(seconds * 1000):
            process = by_fd[fd]
            process.receive() if fd == process.stdout_fd else process.flush()


class ReaderProcess:
    """A reader process. Messages are pickled: both ends are ours."""

    def __init__(self, fd: int | None, task: SearchTask) -> None:
        self.pending = 0
        self.results: deque[BatchResult] = deque()
        self.unsent = bytearray()
        self._received = bytearray()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", READER_CODE.format(packages=PACKAGE_ROOT, module=__name__, fd=fd)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            pass_fds=() if fd is None else (fd,),
            bufsize=0,
        )
        assert self._process.stdin
        assert self._process.stdout
        self._stdin = self._process.stdin
        self.stdin_fd, self.stdout_fd = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self.stdin_fd, False)
        self._enqueue(task)

    def send(self, batch: FileBatch) -> None:
        self.pending += 1
        self._enqueue(batch)

    def flush(self) -> None:
        try:
            del self.unsent[: self._stdin.write(self.unsent) or 0]  # None: the pipe is full
        except BrokenPipeError:
            raise EngineFailed("a process that was reading files has ended") from None

    def receive(self) -> None:
        piece = os.read(self.stdout_fd, READ_CHUNK_BYTES)
        if not piece:
            raise EngineFailed("a process that was reading files has ended")
        self._received += piece
        while len(self._received) >= LENGTH_PREFIX.size:
            end = LENGTH_PREFIX.size + LENGTH_PREFIX.unpack_from(self._received)[0]
            if len(self._received) < end:
                break
            self.results.append(pickle.loads(bytes(self._received[LENGTH_PREFIX.size : end])))
            del self._received[:end]

    def kill(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.kill()
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(KILL_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            pass  # it hangs in the kernel, and dies when it returns

    def _enqueue(self, message: SearchTask | FileBatch) -> None:
        self.unsent += encode_frame(message)
        self.flush()


def encode_frame(message: object) -> bytes:
    data = pickle.dumps(message)
    return LENGTH_PREFIX.pack(len(data)) + data


def serve(fd: int | None) -> None:
    """The reader's main loop: a task, then batches until there are no more."""
    given, answers = sys.stdin.buffer, sys.stdout.buffer

    def read_frame() -> Any:
        head = given.read(LENGTH_PREFIX.size)
        return pickle.loads(given.read(LENGTH_PREFIX.unpack(head)[0])) if len(head) == LENGTH_PREFIX.size else None

    task = read_frame()
    with DiskTree(fd) if fd is not None else nullcontext() as tree:
        reader = BatchReader(tree, task)
        while batch := read_frame():
            answers.write(encode_frame(reader.read(batch)))
            answers.flush()
