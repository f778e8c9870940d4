"""Who reads the files of a walk: this process, or others that can be ended.

Bytes are looked for here, as long as there are few files; of many, two processes read. A regular expression always
goes to a process of its own: on the wrong line it can take for ever, and nothing but a kill ends it. Files are given
out in runs and come back in the order of the walk.
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

from handhold.core.requests import Grep
from handhold.world.files.tree import DiskTree
from handhold.world.search.events import Found
from handhold.world.search.needle import Needle, reading
from handhold.world.search.running import Broken, Deadline

AT_ONCE = 256  # files that are given out together
FIRST = 16  # and in the beginning, so that a page that fills soon is there soon
AHEAD = 3  # runs that a process has in hand
ALONE = 1_500  # files that are read here before others are asked to help
PROCESSES = 2
PIECE = 1 << 20
PATIENCE = 1.0
PACKAGES = str(Path(__file__).parents[3])
# Without `site`: what a repository may have put beside its packages would be run at every start.
PROGRAM = "import sys; sys.path.append({packages!r}); from {module} import serve; serve({fd})"
SIZE = struct.Struct("!I")


@dataclass(frozen=True)
class Task:
    """What to do with every file."""

    request: Grep
    named: bool = False  # somebody gave the path of the file itself
    most_lines: int = 1
    most_bytes: int | None = None


@dataclass
class Told:
    """What came of some files: those that matched, and how many did not get that far."""

    found: list[tuple[bytes, int, list[Found]]] = field(default_factory=list[tuple[bytes, int, list[Found]]])
    searched: int = 0
    binary: int = 0
    too_large: int = 0
    unreadable: int = 0
    gone: int = 0

    def add(self, other: "Told") -> None:
        """The counts of another."""
        self.searched += other.searched
        self.binary += other.binary
        self.too_large += other.too_large
        self.unreadable += other.unreadable
        self.gone += other.gone


@dataclass(frozen=True)
class Batch:
    """Files, by the way to their folder and their name; with what is in them where no disk holds it."""

    files: list[tuple[bytes, bytes]]
    contents: list[bytes] | None = None


class Reader:
    """Reads here."""

    def __init__(self, tree: DiskTree | None, task: Task) -> None:
        self._tree = tree
        self._task = task
        self._needle = Needle(task.request)

    def read(self, batch: Batch) -> Told:
        told = Told()
        if batch.contents is None:
            for way, name in batch.files:
                self._file(told, way, name)
        else:
            for (way, name), data in zip(batch.files, batch.contents, strict=True):
                self._look(told, way + name, BytesIO(data).read)
        return told

    def _file(self, told: Told, way: bytes, name: bytes) -> None:
        assert self._tree
        try:
            fd, status = self._tree.open(way, name)
        except FileNotFoundError:
            told.gone += 1
            return
        except OSError:
            told.unreadable += 1
            return
        try:
            if self._task.most_bytes is not None and status.st_size > self._task.most_bytes:
                told.too_large += 1
            else:
                self._look(told, way + name, reading(fd, status.st_size))
        except OSError:
            told.unreadable += 1
        finally:
            os.close(fd)

    def _look(self, told: Told, name: bytes, read: Callable[[int], bytes]) -> None:
        seen = self._needle.search(read, named=self._task.named, most=self._task.most_lines)
        binary = seen.binary and not seen.count
        told.binary += binary
        told.searched += not binary
        if seen.count:
            told.found.append((name, seen.count, seen.lines))


def batches(runs: Iterable[tuple[bytes, list[bytes]]]) -> Iterator[Batch]:
    """Runs of files of one folder each, put together and cut to a size that grows."""
    size = FIRST
    files: list[tuple[bytes, bytes]] = []
    for way, names in runs:
        files += [(way, name) for name in names]
        while len(files) >= size:
            yield Batch(files[:size])
            del files[:size]
            size = min(2 * size, AT_ONCE)
    if files:
        yield Batch(files)


def told(tree: DiskTree | None, task: Task, runs: Iterator[Batch], deadline: Deadline) -> Generator[Told]:
    """What comes of each batch, in their order. Late when the time is over, and then no process is left. BadRegex."""
    reader = Reader(tree, task)
    if not task.request.regex:
        alone = 0
        for batch in runs:
            deadline.left()
            yield reader.read(batch)
            alone += len(batch.files)
            if alone > ALONE and (os.cpu_count() or 1) > 1:
                break
        else:
            return
    with Processes(tree.top if tree else None, task, deadline) as processes:
        yield from processes.told(runs)


# --- processes


class Processes:
    def __init__(self, fd: int | None, task: Task, deadline: Deadline) -> None:
        self._deadline = deadline
        self._all: list[Process] = []
        self._fd = fd
        self._task = task

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        for process in self._all:
            process.kill()

    def more(self) -> None:
        """One more to read."""
        try:
            self._all.append(Process(self._fd, self._task))
        except OSError as error:
            raise Broken(f"no process could be started to read files: {error.strerror}") from error

    def told(self, runs: Iterator[Batch]) -> Generator[Told]:
        waiting: deque[Process] = deque()  # whose answer comes when
        files = 0
        for batch in runs:
            files += len(batch.files)
            if not self._all or (files > ALONE and len(self._all) < min(PROCESSES, os.cpu_count() or 1)):
                self.more()
            process = min(self._all, key=lambda each: each.in_hand)
            while process.in_hand >= AHEAD:
                yield self._next(waiting)
                process = min(self._all, key=lambda each: each.in_hand)
            process.send(batch)
            waiting.append(process)
            self._pump(0)
            while waiting and waiting[0].answers:
                yield self._next(waiting)
        while waiting:
            yield self._next(waiting)

    def _next(self, waiting: "deque[Process]") -> Told:
        first = waiting.popleft()
        while not first.answers:
            self._pump(self._deadline.left())
        first.in_hand -= 1
        return first.answers.popleft()

    def _pump(self, seconds: float) -> None:
        """Give and take what the pipes hold."""
        poll = select.poll()
        by_fd: dict[int, Process] = {}
        for process in self._all:
            poll.register(process.out, select.POLLIN)
            by_fd[process.out] = process
            if process.unsent:
                poll.register(process.into, select.POLLOUT)
                by_fd[process.into] = process
        for fd, _ in poll.poll(seconds * 1000):
            process = by_fd[fd]
            process.take() if fd == process.out else process.give()


class Process:
    """One that reads. What it is given and what it says is pickled: both ends are ours."""

    def __init__(self, fd: int | None, task: Task) -> None:
        self.in_hand = 0
        self.answers: deque[Told] = deque()
        self.unsent = bytearray()
        self._said = bytearray()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", PROGRAM.format(packages=PACKAGES, module=__name__, fd=fd)],
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
        self.into, self.out = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self.into, False)
        self._put(task)

    def send(self, batch: Batch) -> None:
        self.in_hand += 1
        self._put(batch)

    def give(self) -> None:
        try:
            del self.unsent[: self._stdin.write(self.unsent) or 0]  # None: the pipe is full
        except BrokenPipeError:
            raise Broken("a process that was reading files has ended") from None

    def take(self) -> None:
        piece = os.read(self.out, PIECE)
        if not piece:
            raise Broken("a process that was reading files has ended")
        self._said += piece
        while len(self._said) >= SIZE.size:
            end = SIZE.size + SIZE.unpack_from(self._said)[0]
            if len(self._said) < end:
                break
            self.answers.append(pickle.loads(bytes(self._said[SIZE.size : end])))
            del self._said[:end]

    def kill(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.kill()
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            pass  # it hangs in the kernel, and dies when it comes out

    def _put(self, what: Task | Batch) -> None:
        self.unsent += framed(what)
        self.give()


def framed(what: object) -> bytes:
    data = pickle.dumps(what)
    return SIZE.pack(len(data)) + data


def serve(fd: int | None) -> None:
    """The life of such a process: a task, then batches until there are no more."""
    given, answers = sys.stdin.buffer, sys.stdout.buffer

    def taken() -> Any:
        head = given.read(SIZE.size)
        return pickle.loads(given.read(SIZE.unpack(head)[0])) if len(head) == SIZE.size else None

    task = taken()
    with DiskTree(fd) if fd is not None else nullcontext() as tree:
        reader = Reader(tree, task)
        while batch := taken():
            answers.write(framed(reader.read(batch)))
            answers.flush()
