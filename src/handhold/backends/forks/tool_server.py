"""The other end of `tool_process`: answers requests in the fork, each in a thread of its own."""

import os
import socket
import threading
import traceback
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

from handhold.backends.forks.tool_operations import OPERATIONS, encode_error, encode_question
from handhold.backends.forks.tool_process import CANCELLED, PAUSED, READ_CHUNK_BYTES
from handhold.backends.messages import BadMessage, MessageBuffer, encode_message
from handhold.core.errors import Cancelled, SystemFailure, ToolError
from handhold.core.ports.approvals import Question, RunPaused
from handhold.core.typed_json import from_json, to_json
from handhold.logs import suppress_and_log

Handle = Callable[[int, str, Mapping[str, Any]], Any]  # the result of an operation


class ToolServer:
    """Speaks for the toolbox in the fork, and is its approver: questions are passed to whoever made the request."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._lock = threading.Lock()
        self._answers: dict[int, SimpleQueue[tuple[Any, str]]] = {}
        self._cancels: dict[int, Callable[[], None]] = {}
        self._current = threading.local()

    def send(self, number: int, kind: str, payload: Any = None) -> None:
        data = encode_message((number, kind, payload))
        with self._lock, suppress_and_log(OSError):  # nobody waits for it any more
            self._socket.sendall(data)

    def send_error(self, number: int, error: ToolError | OSError) -> None:
        known = error if isinstance(error, ToolError) else SystemFailure("the fork", str(error))
        self.send(number, "error", encode_error(known))

    def serve(self, open_tools: Callable[[Any], None], handle: Handle, close_tools: Callable[[], None]) -> None:
        """Until the other end closes it, or is gone. `open_tools` gets the options.

        Whatever may take long has a thread of its own, so that every ping is answered.
        """
        received = MessageBuffer()
        with suppress_and_log(OSError):
            while data := self._socket.recv(READ_CHUNK_BYTES):
                for number, kind, payload in received.feed(data):
                    match kind:
                        case "close":
                            self._start_thread(self._close, close_tools)
                        case "ping":
                            self.send(0, "pong")
                        case "open":
                            self._start_thread(open_tools, payload)
                        case "answer":
                            if number in self._answers:
                                self._answers[number].put((payload[0], str(payload[1])))
                        case "cancel":
                            self._cancels.get(number, lambda: None)()
                            if number in self._answers:
                                self._answers[number].put((CANCELLED, ""))
                        case _:
                            self._start_thread(self._answer, handle, number, kind, payload)

    def _close(self, close_tools: Callable[[], None]) -> None:
        try:
            close_tools()
        finally:
            with suppress_and_log(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _start_thread(self, work: Callable[..., None], *arguments: Any) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()

    def _answer(self, handle: Handle, number: int, kind: str, payload: Any) -> None:
        self._current.number = number
        try:
            operation = OPERATIONS[kind]
            given = from_json(dict[str, Any], payload)
            arguments = {name: from_json(each, given[name]) for name, each in operation.arguments.items()}
            self.send(number, "result", to_json(handle(number, kind, arguments)))
        except BadMessage as error:
            self.send_error(number, SystemFailure("the fork", str(error)))
        except Exception as error:  # noqa: BLE001 — raised at the other end
            try:
                self.send(number, "error", encode_error(error))
            except (TypeError, BadMessage):
                self.send(number, "bug", "".join(traceback.format_exception(error)))

    def __call__(self, question: Question) -> Any:
        number = self._current.number
        answers = self._answers.setdefault(number, SimpleQueue())
        try:
            self.send(number, "question", encode_question(question))
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


def take_socket(fd: int) -> ToolServer:
    """The server on a descriptor that this process got. Our standard streams belong to whoever started us."""
    os.set_inheritable(fd, False)  # noqa: FBT003
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return ToolServer(fd)
