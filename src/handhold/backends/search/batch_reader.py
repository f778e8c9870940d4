"""Read the files of a built-in search: in this process, or in others that can be killed.

A literal search runs here while there are few files; with many, two processes read. A regular expression always runs in
another process: on a bad line it can take forever, and only a kill ends it. Files are distributed in batches, and
results come in path order.
"""

import os
import select
import sys
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from io import BytesIO
from types import TracebackType
from typing import Any, Never

from handhold.backends.files.directory_tree import DiskTree
from handhold.backends.messages import BadMessage, MessageBuffer, encode_message
from handhold.backends.programs import DEVNULL, PIPE, TimeoutExpired, build_python_argv, start_program
from handhold.backends.search.events import FoundLine
from handhold.backends.search.line_matcher import LineMatcher, make_reader
from handhold.backends.search.search_process import Deadline, EngineFailed
from handhold.core.requests import Grep
from handhold.core.typed_json import from_json, to_json
from handhold.logs import log_swallowed

MAX_BATCH_FILES = 256
FIRST_BATCH_FILES = 16  # smaller at first, so that a page that fills early is there early
MAX_PENDING_BATCHES = 3  # per process
MAX_IN_PROCESS_FILES = 1_500  # before other processes are started
MAX_PROCESSES = 2
READ_CHUNK_BYTES = 1 << 20
KILL_TIMEOUT_SECONDS = 1.0
COUNTS = ("searched", "binary", "too_large", "unreadable", "vanished")


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
    """A reader process, which gets a task, then batches, and answers each batch with its result."""

    def __init__(self, fd: int | None, task: SearchTask) -> None:
        self.pending = 0
        self.results: deque[BatchResult] = deque()
        self.unsent = bytearray()
        self._received = MessageBuffer()
        self._process = start_program(
            build_python_argv(__name__, *(() if fd is None else (str(fd),))),
            stdin=PIPE,
            stderr=DEVNULL,
            pass_fds=() if fd is None else (fd,),
        )
        assert self._process.stdin
        assert self._process.stdout
        self._stdin = self._process.stdin
        self.stdin_fd, self.stdout_fd = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self.stdin_fd, False)
        self._enqueue(to_json(task))

    def send(self, batch: FileBatch) -> None:
        self.pending += 1
        self._enqueue(batch_to_json(batch))

    def flush(self) -> None:
        try:
            del self.unsent[: self._stdin.write(self.unsent) or 0]  # None: the pipe is full
        except BrokenPipeError:
            fail_ended()

    def receive(self) -> None:
        piece = os.read(self.stdout_fd, READ_CHUNK_BYTES)
        if not piece:
            fail_ended()
        try:
            self.results += map(result_from_json, self._received.feed(piece))
        except BadMessage as error:
            raise EngineFailed(f"a process that was reading files answered nonsense: {error}") from error

    def kill(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.kill()
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(KILL_TIMEOUT_SECONDS)
        except TimeoutExpired:
            pass  # it hangs in the kernel, and dies when it returns

    def _enqueue(self, message: Any) -> None:
        try:
            self.unsent += encode_message(message)
        except BadMessage as error:
            raise EngineFailed(str(error)) from error
        self.flush()


def fail_ended() -> Never:
    raise EngineFailed("a process that was reading files has ended") from None


# --- messages: names as text with their odd bytes escaped, contents and lines in base64


def batch_to_json(batch: FileBatch) -> Any:
    files = [[os.fsdecode(folder), os.fsdecode(name)] for folder, name in batch.files]
    return [files, None if batch.contents is None else [_encode(data) for data in batch.contents]]


def batch_from_json(message: Any) -> FileBatch:
    files, contents = from_json(tuple[list[tuple[str, str]], list[bytes] | None], message)
    return FileBatch([(os.fsencode(folder), os.fsencode(name)) for folder, name in files], contents)


def result_to_json(result: BatchResult) -> Any:
    """Written out: a search may find a million lines."""
    matches = [
        [os.fsdecode(name), count, [[*line[:4], None if line.data is None else _encode(line.data)] for line in lines]]
        for name, count, lines in result.matches
    ]
    return [matches, *(getattr(result, name) for name in COUNTS)]


def result_from_json(message: Any) -> BatchResult:
    """Raises BadMessage."""
    try:
        found, *counts = message
        matches = [
            (os.fsencode(name), _count(count), [_line_from_json(*line) for line in lines])
            for name, count, lines in found
        ]
        return BatchResult(matches, **dict(zip(COUNTS, map(_count, counts), strict=True)))
    except (TypeError, ValueError) as error:
        raise BadMessage(f"it is no result: {error}") from None


def _encode(data: bytes) -> str:
    return b64encode(data).decode()


def _line_from_json(number: int, offset: int, start: int, end: int, data: str | None) -> FoundLine:
    numbers = (_count(number), _count(offset), _count(start, least=-1), _count(end, least=-1))
    return FoundLine(*numbers, None if data is None else b64decode(data, validate=True))


def _count(value: Any, *, least: int = 0) -> int:
    if type(value) is not int or value < least:
        raise ValueError(f"{value!r} is no count")
    return value


# --- the other end


def main() -> None:
    """The reader's main loop: a task, then batches until there are no more."""
    fd = int(sys.argv[1]) if sys.argv[1:] else None
    messages, answers = read_messages(sys.stdin.fileno()), sys.stdout.buffer
    task = from_json(SearchTask, next(messages))
    with DiskTree(fd) if fd is not None else nullcontext() as tree:
        reader = BatchReader(tree, task)
        for message in messages:
            answers.write(encode_message(result_to_json(reader.read(batch_from_json(message)))))
            answers.flush()


def read_messages(fd: int) -> Iterator[Any]:
    received = MessageBuffer()
    while piece := os.read(fd, READ_CHUNK_BYTES):
        yield from received.feed(piece)
