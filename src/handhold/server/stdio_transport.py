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

MAX_LINE_BYTES = 64 * 1024 * 1024  # bytes of a line

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


class InvalidMessage(Exception):
    """A line that is no message."""

    def __init__(self, code: int, reason: str, id: RequestId | None = None) -> None:  # noqa: A002
        super().__init__(reason)
        self.response = JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=code, message=reason))


@asynccontextmanager
async def open_stdio_streams() -> AsyncGenerator[tuple[Incoming, Outgoing]]:
    """What the client says, and the way back to it. The process has one wire, and has it for good."""
    inbox, incoming = anyio.create_memory_object_stream[SessionMessage | Exception]()
    outgoing, outbox = anyio.create_memory_object_stream[SessionMessage]()
    from_client, to_client = _divert_stdio()

    async def read_messages(responses: Outgoing) -> None:
        async with inbox, responses:
            while True:
                try:
                    message = await run_sync(_read_message, from_client, abandon_on_cancel=True)
                    if message is None:
                        return
                    await inbox.send(SessionMessage(message))
                except InvalidMessage as line:
                    await responses.send(SessionMessage(line.response))

    async def write_messages() -> None:
        async with outbox:
            async for session_message in outbox:
                try:
                    await run_sync(_write_message, to_client, session_message.message)
                except BrokenPipeError:
                    pass  # it listens no more; that it has gone is told by the end of what it says

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read_messages, outgoing.clone())
        tasks.start_soon(write_messages)
        yield incoming, outgoing


def parse_message(line: bytes) -> JSONRPCMessage:
    """The message that a line is. Unreadable if it is none.

    Half of a surrogate pair is let through, since it is a tool's matter to say what is wrong with a text.
    """
    try:
        value: object = json.loads(line.decode(), parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidMessage(PARSE_ERROR, f"Parse error: {error}", _recover_id(line)) from None
    if not isinstance(value, dict):
        raise InvalidMessage(INVALID_REQUEST, "A message is one JSON object; batches are not served")
    message = cast("dict[str, Any]", value)
    if "method" in message and "id" in message and _get_id(message) is None:
        raise InvalidMessage(INVALID_REQUEST, "The id of a request is a text or a whole number")
    try:
        return jsonrpc_message_adapter.validate_python(message, by_name=False)
    except ValidationError:
        raise InvalidMessage(
            INVALID_REQUEST, "This is no JSON-RPC 2.0 message of the protocol", _get_id(message)
        ) from None


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _recover_id(line: bytes) -> RequestId | None:
    """The id of what is almost JSON."""
    try:
        value: object = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return _get_id(cast("dict[str, Any]", value)) if isinstance(value, dict) else None


def _get_id(message: dict[str, Any]) -> RequestId | None:
    found = message.get("id")
    return found if isinstance(found, int | str) and not isinstance(found, bool) else None


def _read_message(from_client: BinaryIO) -> JSONRPCMessage | None:
    """The next message; None after the last. Unreadable if the next line is none."""
    while line := from_client.readline(MAX_LINE_BYTES):
        if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
            while (rest := from_client.readline(MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
                pass
            raise InvalidMessage(INVALID_REQUEST, f"A message of over {MAX_LINE_BYTES:,} bytes is not read")
        if line.strip():
            return parse_message(line)
    return None


def _write_message(to_client: int, message: JSONRPCMessage) -> None:
    try:
        text = message.model_dump_json(by_alias=True, exclude_unset=True)
    except PydanticSerializationError:  # half of a surrogate pair that the client sent can only be said by an escape
        text = json.dumps(message.model_dump(by_alias=True, exclude_unset=True))
    remaining = memoryview(text.encode() + b"\n")
    while remaining:
        remaining = remaining[os.write(to_client, remaining) :]


def _divert_stdio() -> tuple[BinaryIO, int]:
    """Input and output, out of everybody else's reach; what was printed and not written goes astray with the rest."""
    # Above the standard three: one of those may be closed, and a copy in its place would be printed to.
    from_client, to_client = (fcntl(each, F_DUPFD_CLOEXEC, 3) for each in (0, 1))
    null_fd = os.open(os.devnull, os.O_RDWR)
    os.dup2(null_fd, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # there is no standard error
        os.dup2(null_fd, 1)
    os.close(null_fd)
    return os.fdopen(from_client, "rb"), to_client
