"""One request over HTTP and its answer: as JSON if nothing is to be said before, else as a stream of events.

Most answers are there in a moment, so nothing is made ready for the others that costs time: what watches whether the
client is still there, and tells it that we are, begins a little later. A client that goes takes its call with it: a
reply that can reach nobody is not worked for.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any

import anyio
from mcp.server.connection import Connection
from mcp.server.lowlevel import Server
from mcp.server.runner import ServerRunner, modern_error_data
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import REQUEST_TIMEOUT, JSONRPCError, JSONRPCRequest, JSONRPCResponse, ProgressToken, RequestId
from starlette.requests import Request
from starlette.types import Send

SOON = 0.1  # seconds that an answer may take before its client is watched
SILENCE = 15.0  # seconds after which a stream says that it is still there
CANCELLED = -32800  # a request that its client took back
PLAIN = (b"content-type", b"application/json")
STREAM = (b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform")


@dataclass(eq=False)
class Answer:
    """To a question that was put to the client, once it is there."""

    there: anyio.Event = field(default_factory=anyio.Event)
    message: JSONRPCResponse | JSONRPCError | None = None


class Exchange:
    """What the SDK calls a dispatch context: the request, and the way back."""

    def __init__(
        self, request: Request, send: Send, message: JSONRPCRequest, *, headers: Sequence[Any] = (), asks: bool = False
    ) -> None:
        self.transport = TransportContext(kind="streamable-http", can_send_request=asks, headers=request.headers)
        self.request_id: RequestId = message.id
        self.message_metadata = ServerMessageMetadata(request_context=request)
        self._message, self._receive, self._send, self._headers = message, request.receive, send, headers
        self._token: ProgressToken | None = progress_token_from_params(message.params)
        self._scope = anyio.CancelScope()
        self._cancelled: anyio.Event | None = None
        self._begun = False
        self._writing = asyncio.Lock()
        self._watching: list[asyncio.Task[None]] = []
        self._asked: dict[str, Answer] = {}

    @property
    def cancel_requested(self) -> anyio.Event:
        self._cancelled = self._cancelled or anyio.Event()  # which takes a while to make, and is seldom asked for
        return self._cancelled

    @property
    def can_send_request(self) -> bool:
        return self.transport.can_send_request

    async def answer(self, server: Server[Any], connection: Connection, *, by_status: bool) -> None:
        """`by_status` is whether an error is one to HTTP too, as some revisions have it."""
        message, reply = self._message, dict[str, Any]()
        watching = asyncio.get_running_loop().call_later(SOON, self._watch)
        try:
            with self._scope:
                try:
                    runner: ServerRunner[Any] = ServerRunner(server, connection, {})
                    reply = {"result": await runner.on_request(self, message.method, message.params)}
                except Exception as error:  # noqa: BLE001 - whatever it is, this one request is what it costs
                    reply = {"error": modern_error_data(error).model_dump(exclude_none=True)}
        finally:
            watching.cancel()
            for each in self._watching:
                each.cancel()
        reply = reply or {"error": {"code": CANCELLED, "message": "Request cancelled"}}
        whole = {"jsonrpc": "2.0", "id": message.id, **reply}
        async with self._writing:
            if self._begun:
                await self._send({"type": "http.response.body", "body": as_event(whole)})
                return
            status = ERROR_CODE_HTTP_STATUS.get(reply["error"]["code"], 200) if by_status and "error" in reply else 200
            body = as_json(whole).encode()
            length = (b"content-length", str(len(body)).encode())
            headers = [PLAIN, length, *(() if "error" in reply else self._headers)]
            await self._send({"type": "http.response.start", "status": status, "headers": headers})
            await self._send({"type": "http.response.body", "body": body})

    def cancel(self) -> None:
        self.cancel_requested.set()
        self._scope.cancel()

    # --- while it takes longer

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        self._watching = [loop.create_task(self._until_gone()), loop.create_task(self._still_here())]

    async def _until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._scope.cancel()

    async def _still_here(self) -> None:
        while True:
            await asyncio.sleep(SILENCE)
            await self._event(b": still here\r\n\r\n")

    async def _event(self, event: bytes) -> None:
        async with self._writing:
            if not self._begun:
                self._begun = True
                start = [*STREAM, *self._headers]
                await self._send({"type": "http.response.start", "status": 200, "headers": start})
            await self._send({"type": "http.response.body", "body": event, "more_body": True})

    # --- what is said before the answer

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        said = {"jsonrpc": "2.0", "method": method}
        await self._event(as_event({**said, "params": params} if params else said))

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        if self._token is None:
            return
        said = {"progressToken": self._token, "progress": progress, "total": total, "message": message}
        await self.notify("notifications/progress", {key: value for key, value in said.items() if value is not None})

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        if not self.can_send_request:
            raise NoBackChannelError(method)
        name, answer = f"ask-{token_hex(8)}", Answer()  # one that no other call of this session has
        self._asked[name] = answer
        try:
            await self._event(as_event({"jsonrpc": "2.0", "id": name, "method": method, "params": params or {}}))
            with anyio.move_on_after((opts or {}).get("timeout")):
                await answer.there.wait()
        finally:
            del self._asked[name]
        match answer.message:
            case JSONRPCResponse(result=result):
                return result
            case JSONRPCError(error=error):
                raise MCPError.from_error_data(error)
            case None:
                raise MCPError(code=REQUEST_TIMEOUT, message=f"Nobody answered {method} in time")

    def answered(self, message: JSONRPCResponse | JSONRPCError) -> None:
        """By another request, for a question of this one; for any other it means nothing."""
        if answer := self._asked.get(str(message.id)):
            answer.message = answer.message or message
            answer.there.set()


as_json = json.JSONEncoder(separators=(",", ":")).encode


def as_event(message: Mapping[str, Any]) -> bytes:
    return f"event: message\r\ndata: {as_json(message)}\r\n\r\n".encode()
