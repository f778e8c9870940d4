"""The stdio transport: one JSON-RPC message per line.

An invalid line gets an error response, with the id of the request if it can be recovered, because its sender waits.
Only messages are written to standard output: other output is redirected to standard error, and other readers of
standard input get end of file.
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

MAX_LINE_BYTES = 64 * 1024 * 1024

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


class InvalidMessage(Exception):
    """A line that is not a valid message."""

    def __init__(self, code: int, reason: str, id: RequestId | None = None) -> None:  # noqa: A002
        super().__init__(reason)
        self.response = JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=code, message=reason))


@asynccontextmanager
async def open_stdio_streams() -> AsyncGenerator[tuple[Incoming, Outgoing]]:
    """The streams from and to the client. Standard input and output stay redirected for the rest of the process."""
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
                    pass  # the client is gone; the end of its input stops the server

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read_messages, outgoing.clone())
        tasks.start_soon(write_messages)
        yield incoming, outgoing


def parse_message(line: bytes) -> JSONRPCMessage:
    """Parse a line. Raises InvalidMessage.

    A lone surrogate is accepted, because the tools report what is wrong with a text.
    """
    try:
        value: object = json.loads(line.decode(), parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidMessage(PARSE_ERROR, f"Parse error: {error}", _recover_id(line)) from None
    if not isinstance(value, dict):
        raise InvalidMessage(INVALID_REQUEST, "A message must be a JSON object; batches are not supported")
    message = cast("dict[str, Any]", value)
    if "method" in message and "id" in message and _get_id(message) is None:
        raise InvalidMessage(INVALID_REQUEST, "The id of a request must be a string or an integer")
    try:
        return jsonrpc_message_adapter.validate_python(message, by_name=False)
    except ValidationError:
        raise InvalidMessage(INVALID_REQUEST, "Not a valid JSON-RPC 2.0 message", _get_id(message)) from None


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not valid JSON")


def _recover_id(line: bytes) -> RequestId | None:
    """The id of a request that is JSON except for invalid UTF-8."""
    try:
        value: object = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return _get_id(cast("dict[str, Any]", value)) if isinstance(value, dict) else None


def _get_id(message: dict[str, Any]) -> RequestId | None:
    found = message.get("id")
    return found if isinstance(found, int | str) and not isinstance(found, bool) else None


def _read_message(from_client: BinaryIO) -> JSONRPCMessage | None:
    """The next message, or None at the end of input. Raises InvalidMessage if the next line is invalid."""
    while line := from_client.readline(MAX_LINE_BYTES):
        if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
            while (rest := from_client.readline(MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
                pass
            raise InvalidMessage(INVALID_REQUEST, f"The message is longer than {MAX_LINE_BYTES:,} bytes")
        if line.strip():
            return parse_message(line)
    return None


def _write_message(to_client: int, message: JSONRPCMessage) -> None:
    try:
        text = message.model_dump_json(by_alias=True, exclude_unset=True)
    except PydanticSerializationError:  # a lone surrogate, which JSON can only contain as an escape
        text = json.dumps(message.model_dump(by_alias=True, exclude_unset=True))
    remaining = memoryview(text.encode() + b"\n")
    while remaining:
        remaining = remaining[os.write(to_client, remaining) :]


def _divert_stdio() -> tuple[BinaryIO, int]:
    """Copies of standard input and output for the protocol; the originals are redirected.

    Output that was printed before and is still buffered is redirected too.
    """
    # Descriptors above 2: if a standard stream is closed, a copy in its place would receive stray output.
    from_client, to_client = (fcntl(each, F_DUPFD_CLOEXEC, 3) for each in (0, 1))
    null_fd = os.open(os.devnull, os.O_RDWR)
    os.dup2(null_fd, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # there is no standard error
        os.dup2(null_fd, 1)
    os.close(null_fd)
    return os.fdopen(from_client, "rb"), to_client
