"""The tools of a fork, used from outside it: a process in the fork has the toolbox, and calls are passed to it.

Only a process that was started in the fork sees it at the workspace's own path. It is started with the first call and
ends when nothing was called for a while, so that an idle fork has no process. Messages are pickled: the process is our
own program, with our own rights.

To it:   (id, "get", path), (id, "call", (path, args, kwargs)), (id, "execute", arguments), (id, "answer", answer),
         (id, "cancel", None), (0, "close", None)
From it: (id, "value" | "reference" | "error", …) as the last one of a request, before it (id, "output", text) and
         (id, "ask", question); (0, "busy", whether closing it would lose something)
"""

import socket
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from subprocess import TimeoutExpired
from typing import Any

from handhold.backends.forks.fork_mount import RunningProgram
from handhold.core.errors import Cancelled, SystemFailure, ToolError
from handhold.core.ports.approvals import Question, RunPaused
from handhold.logs import log_swallowed, suppress_and_log

MODULE = "handhold.cli.fork_tools"  # the program of the process
IDLE_SECONDS = 10.0  # without a call, until the process ends
CLOSE_SECONDS = 10.0  # for the process to end by itself
POLL_SECONDS = 0.1  # between two checks whether a call was cancelled

Start = Callable[[Sequence[str], Sequence[int]], AbstractContextManager[RunningProgram]]
Message = tuple[int, str, Any]
Replies = SimpleQueue[tuple[str, Any]]
Approve = Callable[[Question], tuple[Any, str]]  # the answer to a question, and who gave it
PAUSED, CANCELLED = "paused", "cancelled"  # instead of an answer: the run was stopped, the call was cancelled


class ToolProcess:
    """Thread-safe. The process is started with the first request."""

    def __init__(self, start: Start, options: Mapping[str, Any], approve: Approve) -> None:
        """`start` runs a program in the fork; `options` are the keywords for its toolbox; `approve` answers questions
        of requests other than `execute`."""
        self._start = start
        self._options = options
        self._approve = approve
        self._lock = threading.Lock()
        self._connection: _Link | None = None
        self._last_thread: threading.Thread | None = None

    def get(self, path: str) -> Any:
        return self._request("get", path, path)

    def call(self, path: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return self._request("call", (path, args, kwargs), path)

    def execute(
        self,
        arguments: tuple[Any, ...],
        approve: Approve,
        watch: Callable[[str], None] | None,
        is_cancelled: Callable[[], bool],
    ) -> Any:
        """Execute a call of a tool. `watch` gets its output."""
        return self._request("execute", arguments, "", approve, watch, is_cancelled)

    def cancel(self, thread: int | None) -> None:
        """Cancel the request that this thread waits for, or all."""
        with self._lock:
            link = self._connection
        if link:
            link.cancel(thread)

    @property
    def is_running(self) -> bool:
        return self._connection is not None

    @property
    def is_busy(self) -> bool:
        link = self._connection
        return link is not None and link.is_busy

    def close(self) -> None:
        """End the process, and wait until what it changed is recorded."""
        with self._lock:
            link, thread = self._connection, self._last_thread
            if link:
                link.close()
        if thread and thread is not threading.current_thread():
            thread.join()

    # --- requests

    def _request(
        self,
        kind: str,
        payload: Any,
        path: str,
        approve: Approve | None = None,
        watch: Callable[[str], None] | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> Any:
        link, number, replies = self._begin(kind, payload)
        cancelled, paused = False, None
        try:
            while True:
                try:
                    kind, payload = replies.get(timeout=POLL_SECONDS)
                except Empty:
                    if not cancelled and (cancelled := is_cancelled()):
                        link.send((number, "cancel", None))
                    continue
                if kind == "value":
                    return payload
                if kind == "reference":
                    return RemoteObject(self, path)
                if kind == "error":
                    raise paused or payload
                if kind == "ask":
                    try:
                        answer = (approve or self._approve)(payload)
                    except RunPaused as error:
                        paused, answer = error.reason, (PAUSED, "")
                    except Cancelled:
                        answer = CANCELLED, ""
                    link.send((number, "answer", answer))
                elif watch:
                    watch(payload)
        except BaseException:
            link.send((number, "cancel", None))
            raise
        finally:
            link.end(number)

    def _begin(self, kind: str, payload: Any) -> "tuple[_Link, int, Replies]":
        with self._lock:
            if self._connection is None:
                self._connection = link = _Link()
                arguments = (link, self._last_thread)
                # A thread of its own: the process is killed when the thread ends that started it.
                self._last_thread = threading.Thread(target=self._serve, args=arguments, daemon=True)
                self._last_thread.start()
                link.send((0, "open", dict(self._options)))
            link = self._connection
            number, replies = link.begin()
        try:
            link.send((number, kind, payload))
        except BaseException:  # it cannot be pickled
            link.end(number)
            raise
        return link, number, replies

    # --- the thread

    def _serve(self, link: "_Link", previous: threading.Thread | None) -> None:
        """Start the process, pass on its messages, and wait for its end."""
        try:
            if previous:
                previous.join()  # it still records what its process changed
            theirs = link.theirs.fileno()
            with self._start((sys.executable, "-m", MODULE, str(theirs)), (theirs,)) as program:
                link.theirs.close()
                self._pass_messages(link)
                _wait_or_kill(program)
            error: Exception = SystemFailure("the tools of the fork", "their process ended")
        except (ToolError, OSError) as caught:
            error = caught
        with self._lock:
            if self._connection is link:
                self._connection = None
        link.fail(error)

    def _pass_messages(self, link: "_Link") -> None:
        with suppress_and_log(EOFError, OSError):
            while True:
                if not link.ours.poll(IDLE_SECONDS):
                    with self._lock:
                        if link.is_idle:
                            self._connection = None
                            link.close()
                    continue
                link.receive()


class _Link:
    """The connection to one process, and the requests that wait for it."""

    def __init__(self) -> None:
        ours, self.theirs = socket.socketpair()
        self.ours = Connection(ours.detach())
        self.is_busy = False
        self._waiting: dict[int, tuple[Replies, int]] = {}
        self._last = 0
        self._error: Exception | None = None
        self._lock = threading.Lock()

    @property
    def is_idle(self) -> bool:
        return not self._waiting and not self.is_busy

    def begin(self) -> tuple[int, Replies]:
        replies: Replies = SimpleQueue()
        with self._lock:
            self._last += 1
            self._waiting[self._last] = replies, threading.get_ident()
            if self._error:
                replies.put(("error", self._error))
            return self._last, replies

    def end(self, number: int) -> None:
        with self._lock:
            self._waiting.pop(number, None)

    def send(self, message: Message) -> None:
        with self._lock, suppress_and_log(OSError):  # it has ended: whoever waits is told
            self.ours.send(message)

    def receive(self) -> None:
        number, kind, payload = self.ours.recv()
        if kind == "busy":
            self.is_busy = payload
        elif not number:
            self.fail(payload)
        elif number in self._waiting:
            self._waiting[number][0].put((kind, payload))

    def cancel(self, thread: int | None) -> None:
        for number, (_, waits) in list(self._waiting.items()):
            if thread in (None, waits):
                self.send((number, "cancel", None))

    def close(self) -> None:
        self.send((0, "close", None))

    def fail(self, error: Exception) -> None:
        """Tell everybody who waits."""
        with self._lock:
            self._error = self._error or error
            for replies, _ in self._waiting.values():
                replies.put(("error", self._error))
            for each in (self.ours, self.theirs):
                each.close()


def _wait_or_kill(program: RunningProgram) -> None:
    try:
        program.process.wait(CLOSE_SECONDS)
    except TimeoutExpired:
        log_swallowed()
        program.process.kill()


class RemoteObject:
    """An object in the process. Its attributes are values where these can be passed on, else further such objects."""

    def __init__(self, process: ToolProcess, path: str) -> None:
        self._process = process
        self._path = path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._process.get(f"{self._path}.{name}".lstrip("."))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._process.call(self._path, args, kwargs)


class ToolServer:
    """The other end: answers requests about one object, each in a thread of its own."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._answers: dict[int, SimpleQueue[Any]] = {}
        self._cancels: dict[int, Callable[[], None]] = {}
        self._current = threading.local()

    def send(self, number: int, kind: str, payload: Any) -> None:
        with self._lock, suppress_and_log(OSError):  # nobody waits for it any more
            self._connection.send((number, kind, payload))

    def serve(self, handle: Callable[[int, str, Any], tuple[str, Any]]) -> None:
        """Until the other end closes it. `handle` returns the last message of a request."""
        with suppress_and_log(EOFError, OSError):
            while True:
                number, kind, payload = self._connection.recv()
                if kind == "close":
                    return
                if kind == "answer" and number in self._answers:
                    self._answers[number].put(payload)
                elif kind == "cancel":
                    self._cancels.get(number, lambda: None)()
                    if number in self._answers:
                        self._answers[number].put((CANCELLED, ""))
                else:
                    threading.Thread(target=self._answer, args=(handle, number, kind, payload), daemon=True).start()

    def _answer(self, handle: Callable[[int, str, Any], tuple[str, Any]], number: int, kind: str, payload: Any) -> None:
        self._current.number = number
        try:
            kind, payload = handle(number, kind, payload)
        except Exception as error:  # noqa: BLE001 — raised at the other end
            kind, payload = "error", error
        self.send(number, kind, payload)

    def __call__(self, question: Question) -> Any:
        """The approver of the toolbox: pass a question to whoever made the request that this thread handles."""
        number = self._current.number
        answers = self._answers.setdefault(number, SimpleQueue())
        try:
            self.send(number, "ask", question)
            answer, self._current.name = answers.get()
        finally:
            del self._answers[number]
        if answer == PAUSED:
            raise RunPaused(Cancelled())  # the reason itself stays where it was raised
        if answer == CANCELLED:
            raise Cancelled
        return answer

    @property
    def name(self) -> str:
        """Who gave the last answer in this thread."""
        return self._current.name

    @contextmanager
    def cancelled_by(self, number: int, cancel: Callable[[], None]) -> Generator[None]:
        """What a cancellation of the request does."""
        self._cancels[number] = cancel
        try:
            yield
        finally:
            del self._cancels[number]
