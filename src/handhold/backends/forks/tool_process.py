"""The tools of a fork, used from outside it: a process in the fork has the toolbox, and calls are passed to it.

Only a process that was started in the fork sees it at the workspace's own path. It is started with the first call and
ends when nothing was called for a while, so that an idle fork has no process. Messages are JSON arrays of a number, a
kind and a payload, and only the operations of `tool_operations` can be asked for. A process that sends anything else,
or is silent for a minute, is killed, and whoever waits for it gets an error.

To it:   (id, operation, arguments), (id, "answer", [answer, who]), (id, "cancel", None); (0, "open", options),
         (0, "ping", None), (0, "close", None)
From it: (id, "result" | "error" | "bug", …) as the last one of a request, before it (id, "output", text) and
         (id, "question", question); (0, "error", …) if it cannot open the fork, (0, "busy", whether closing it would
         lose something), (0, "pong", None)
"""

import select
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

from handhold.backends.forks.fork_mount import RunningProgram
from handhold.backends.forks.tool_operations import OPERATIONS, decode_error, decode_question, encode_options
from handhold.backends.messages import BadMessage, MessageBuffer, encode_message
from handhold.backends.programs import TimeoutExpired, build_python_argv
from handhold.core.errors import Cancelled, ForkUnavailable, SystemFailure, ToolError
from handhold.core.ports.approvals import Question, RunPaused
from handhold.core.typed_json import NotOfType, from_json, to_json
from handhold.logs import log_swallowed, suppress_and_log

MODULE = "handhold.cli.fork_tools"  # the program of the process
TOOLS = "the tools of the fork"
IDLE_SECONDS = 10.0  # without a call, until the process ends
CLOSE_SECONDS = 10.0  # for the process to end by itself
POLL_SECONDS = 0.1  # between two checks whether a call was cancelled
PING_SECONDS = 5.0  # between two questions whether it still answers
SILENCE_SECONDS = 60.0  # without an answer: also a machine that is very busy runs each process once in a minute
READ_CHUNK_BYTES = 1 << 18

Start = Callable[[Sequence[str], Sequence[int]], AbstractContextManager[RunningProgram]]
Replies = SimpleQueue[tuple[str, Any]]
Approve = Callable[[Question], tuple[Any, str]]  # the answer to a question, and who gave it
PAUSED, CANCELLED = "paused", "cancelled"  # instead of an answer: the run was stopped, the call was cancelled


class ToolProcess:
    """Thread-safe. The process is started with the first request."""

    def __init__(self, fork: str, start: Start, options: Mapping[str, Any], approve: Approve) -> None:
        """`start` runs a program in the fork; `options` are the keywords for its toolbox; `approve` answers questions
        of requests that have no approver of their own."""
        self._fork = fork
        self._start = start
        self._options, self._unusable_option = encode_options(options)
        self._approve = approve
        self._lock = threading.Lock()
        self._connection: _Link | None = None
        self._last_thread: threading.Thread | None = None

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

    def request(self, operation: str, **arguments: Any) -> Any:
        """The result of an operation."""
        return self.execute(operation, arguments, self._approve, None, lambda: False)

    def execute(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        approve: Approve,
        watch: Callable[[str], None] | None,
        is_cancelled: Callable[[], bool],
    ) -> Any:
        """The result of an operation. `watch` gets the output of a command."""
        encoded = {name: to_json(arguments[name]) for name in OPERATIONS[operation].arguments}
        link, number, replies = self._begin(operation, encoded)
        cancelled = False
        paused: Exception | None = None
        try:
            while True:
                try:
                    kind, payload = replies.get(timeout=POLL_SECONDS)
                except Empty:
                    if not cancelled and (cancelled := is_cancelled()):
                        link.send(number, "cancel")
                    continue
                match kind:
                    case "result":
                        return from_json(OPERATIONS[operation].result, payload)
                    case "failed":
                        raise payload
                    case "error":
                        raise paused or decode_error(payload)
                    case "bug":
                        raise RuntimeError(f"in the fork {self._fork}: {payload}")
                    case "question":
                        paused, answer = _ask(approve, decode_question(payload))
                        link.send(number, "answer", answer)
                    case "output" if isinstance(payload, str):
                        if watch:
                            watch(payload)
                    case _:
                        raise NotOfType(f"{kind!r} is no answer")
        except NotOfType as error:
            link.send(number, "cancel")
            raise SystemFailure(TOOLS, f"their process sent what is no answer: {error}") from error
        except BaseException:
            link.send(number, "cancel")
            raise
        finally:
            link.end(number)

    def _begin(self, operation: str, arguments: Any) -> "tuple[_Link, int, Replies]":
        if self._unusable_option:
            because = f"its tools run in another process, which {self._unusable_option}= cannot reach: it is an object"
            raise ForkUnavailable(self._fork, because)
        with self._lock:
            if self._connection is None:
                self._connection = link = _Link()
                arguments_of_thread = (link, self._last_thread)
                # A thread of its own: the process is killed when the thread ends that started it.
                self._last_thread = threading.Thread(target=self._serve, args=arguments_of_thread, daemon=True)
                self._last_thread.start()
                link.send(0, "open", self._options)
            link = self._connection
            number, replies = link.begin()
        try:
            link.send(number, operation, arguments)
        except BaseException as error:
            link.end(number)
            if isinstance(error, BadMessage):
                raise SystemFailure(TOOLS, str(error)) from error
            raise
        return link, number, replies

    # --- the thread

    def _serve(self, link: "_Link", previous: threading.Thread | None) -> None:
        """Start the process, pass on its messages, and wait for its end."""
        error: Exception = SystemFailure(TOOLS, "their process ended")
        try:
            if previous:
                previous.join()  # it still records what its process changed
            theirs = link.theirs.fileno()
            with self._start(build_python_argv(MODULE, str(theirs)), (theirs,)) as program:
                link.theirs.close()
                try:
                    self._pass_messages(link)
                    _wait_or_kill(program)
                except BadMessage as bad:
                    error = SystemFailure(TOOLS, f"their process was killed: {bad}")
                    link.fail(error)
                    program.process.kill()
                except BaseException:
                    program.process.kill()
                    raise
        except (ToolError, OSError) as caught:
            error = caught
        finally:
            with self._lock:
                if self._connection is link:
                    self._connection = None
            link.fail(error)

    def _pass_messages(self, link: "_Link") -> None:
        """Until the process closes its end. BadMessage if it does not answer, or sends what is no message."""
        heard = used = monotonic()
        with suppress_and_log(OSError):
            while True:
                received = link.receive(min(PING_SECONDS, IDLE_SECONDS))
                now = monotonic()
                if received is None:
                    return
                if received:
                    heard = now
                if not link.is_idle or link.had_use:
                    used, link.had_use = now, False
                if now - heard > SILENCE_SECONDS:
                    raise BadMessage("it does not answer")
                with self._lock:
                    if link.is_idle and now - used >= IDLE_SECONDS and self._connection is link:
                        self._connection = None
                        link.close()
                if not received:
                    link.send(0, "ping")


class _Link:
    """The connection to one process, and the requests that wait for it."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        # A process that does not read must not stop us.
        limit = struct.pack("ll", int(SILENCE_SECONDS), 0)
        self.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        self.is_busy = False
        self.had_use = False  # since the thread last looked
        self._received = MessageBuffer()
        self._waiting: dict[int, tuple[Replies, int]] = {}
        self._last = 0
        self._error: Exception | None = None
        self._lock = threading.Lock()
        self._send_lock = threading.Lock()

    @property
    def is_idle(self) -> bool:
        return not self._waiting and not self.is_busy

    def begin(self) -> tuple[int, Replies]:
        replies: Replies = SimpleQueue()
        with self._lock:
            self._last += 1
            self.had_use = True
            self._waiting[self._last] = replies, threading.get_ident()
            if self._error:
                replies.put(("failed", self._error))
            return self._last, replies

    def end(self, number: int) -> None:
        with self._lock:
            self._waiting.pop(number, None)

    def send(self, number: int, kind: str, payload: Any = None) -> None:
        """TypeError if the payload is not JSON, BadMessage if it is too large."""
        data = encode_message((number, kind, payload))
        with self._send_lock, suppress_and_log(OSError):  # it has ended: whoever waits is told
            self.ours.sendall(data)

    def receive(self, seconds: float) -> bool | None:
        """Whether anything came in this time; None at the end. Raises BadMessage."""
        if not select.select((self.ours,), (), (), seconds)[0]:
            return False
        data = self.ours.recv(READ_CHUNK_BYTES)
        if not data:
            return None
        for message in self._received.feed(data):
            self._dispatch(message)
        return True

    def _dispatch(self, message: Any) -> None:
        try:
            number, kind, payload = from_json(tuple[int, str, Any], message)
            with self._lock:
                waiting = self._waiting.get(number)
            if kind == "busy":
                self.is_busy = from_json(bool, payload)
            elif number == 0 and kind == "error":
                self.fail(decode_error(payload))
            elif number == 0 and kind != "pong":
                raise NotOfType(f"{kind!r} is no kind of message")
            elif waiting:
                waiting[0].put((kind, payload))
        except NotOfType as error:
            raise BadMessage(str(error)) from error

    def cancel(self, thread: int | None) -> None:
        with self._lock:
            numbers = [number for number, (_, waits) in self._waiting.items() if thread in (None, waits)]
        for number in numbers:
            self.send(number, "cancel")

    def close(self) -> None:
        self.send(0, "close")

    def fail(self, error: Exception) -> None:
        """Tell everybody who waits."""
        with self._lock:
            self._error = self._error or error
            for replies, _ in self._waiting.values():
                replies.put(("failed", self._error))
            for each in (self.ours, self.theirs):
                each.close()


def _ask(approve: Approve, question: Question) -> tuple[Exception | None, tuple[Any, str]]:
    """Why the run was paused, if it was, and the answer for the process."""
    try:
        return None, approve(question)
    except RunPaused as error:
        return error.reason, (PAUSED, "")
    except Cancelled:
        return None, (CANCELLED, "")


def _wait_or_kill(program: RunningProgram) -> None:
    try:
        program.process.wait(CLOSE_SECONDS)
    except TimeoutExpired:
        log_swallowed()
        program.process.kill()
