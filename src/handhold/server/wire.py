"""Standard input and output as a client speaks over them: a JSON-RPC message a line.

A line that is none is answered, by the id that it was meant to have if that can be told: whoever sent it waits for it.
Nothing but messages gets onto the wire: from now on what prints goes to standard error, and what reads finds nothing.
"""

import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from fcntl import F_DUPFD_CLOEXEC, fcntl
from typing import Any, BinaryIO, cast

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from anyio.to_thread import run_sync
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

LONGEST = 64 * 1024 * 1024  # bytes of a line

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


class Unreadable(Exception):
    """A line that is no message."""

    def __init__(self, code: int, because: str, id: RequestId | None = None) -> None:  # noqa: A002
        super().__init__(because)
        self.answer = JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=code, message=because))


@asynccontextmanager
async def wire() -> AsyncGenerator[tuple[Incoming, Outgoing]]:
    """What the client says, and the way back to it. The process has one wire, and has it for good."""
    heard, incoming = anyio.create_memory_object_stream[SessionMessage | Exception]()
    outgoing, to_say = anyio.create_memory_object_stream[SessionMessage]()
    from_client, to_client = _diverted()

    async def listen(answers: Outgoing) -> None:
        async with heard, answers:
            while True:
                try:
                    message = await run_sync(_next, from_client, abandon_on_cancel=True)
                    if message is None:
                        return
                    await heard.send(SessionMessage(message))
                except Unreadable as line:
                    await answers.send(SessionMessage(line.answer))

    async def speak() -> None:
        async with to_say:
            async for said in to_say:
                try:
                    await run_sync(_say, to_client, said.message)
                except BrokenPipeError:
                    pass  # it listens no more; that it has gone is told by the end of what it says

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen, outgoing.clone())
        tasks.start_soon(speak)
        yield incoming, outgoing


def understood(line: bytes) -> JSONRPCMessage:
    """The message that a line is. Unreadable if it is none.

    Half of a surrogate pair is let through, since it is a tool's matter to say what is wrong with a text.
    """
    try:
        value: object = json.loads(line.decode(), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise Unreadable(PARSE_ERROR, f"Parse error: {error}", _meant(line)) from None
    if not isinstance(value, dict):
        raise Unreadable(INVALID_REQUEST, "A message is one JSON object; batches are not served")
    message = cast("dict[str, Any]", value)
    if "method" in message and "id" in message and _id(message) is None:
        raise Unreadable(INVALID_REQUEST, "The id of a request is a text or a whole number")
    try:
        return jsonrpc_message_adapter.validate_python(message, by_name=False)
    except ValidationError:
        raise Unreadable(INVALID_REQUEST, "This is no JSON-RPC 2.0 message of the protocol", _id(message)) from None


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _meant(line: bytes) -> RequestId | None:
    """The id of what is almost JSON."""
    try:
        value: object = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return _id(cast("dict[str, Any]", value)) if isinstance(value, dict) else None


def _id(message: dict[str, Any]) -> RequestId | None:
    found = message.get("id")
    return found if isinstance(found, int | str) and not isinstance(found, bool) else None


def _next(from_client: BinaryIO) -> JSONRPCMessage | None:
    """The next message; None after the last. Unreadable if the next line is none."""
    while line := from_client.readline(LONGEST):
        if len(line) == LONGEST and not line.endswith(b"\n"):
            while (rest := from_client.readline(LONGEST)) and not rest.endswith(b"\n"):
                pass
            raise Unreadable(INVALID_REQUEST, f"A message of over {LONGEST:,} bytes is not read")
        if line.strip():
            return understood(line)
    return None


def _say(to_client: int, message: JSONRPCMessage) -> None:
    try:
        text = message.model_dump_json(by_alias=True, exclude_unset=True)
    except PydanticSerializationError:  # half of a surrogate pair that the client sent can only be said by an escape
        text = json.dumps(message.model_dump(by_alias=True, exclude_unset=True))
    left = memoryview(text.encode() + b"\n")
    while left:
        left = left[os.write(to_client, left) :]


def _diverted() -> tuple[BinaryIO, int]:
    """Input and output, out of everybody else's reach; what was printed and not written goes astray with the rest."""
    # Above the standard three: one of those may be closed, and a copy in its place would be printed to.
    from_client, to_client = (fcntl(each, F_DUPFD_CLOEXEC, 3) for each in (0, 1))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # there is no standard error
        os.dup2(nothing, 1)
    os.close(nothing)
    return os.fdopen(from_client, "rb"), to_client
