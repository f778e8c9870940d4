"""One HTTP request and its response: plain JSON, or an event stream if messages precede the result.

Most responses are fast, so watching the connection and sending keep-alives starts only after a short delay. If the
client disconnects, its call is cancelled.
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

WATCH_DELAY_SECONDS = 0.1  # before the connection is watched for a disconnect
KEEPALIVE_INTERVAL_SECONDS = 15.0
REQUEST_CANCELLED = -32800
JSON_CONTENT_TYPE = (b"content-type", b"application/json")
EVENT_STREAM_HEADERS = (b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform")


@dataclass(eq=False)
class PendingResponse:
    """The client's response to a question of the server, once it arrives."""

    arrived: anyio.Event = field(default_factory=anyio.Event)
    message: JSONRPCResponse | JSONRPCError | None = None


class HTTPExchange:
    """The SDK's dispatch context for one request over HTTP."""

    def __init__(
        self,
        request: Request,
        send: Send,
        message: JSONRPCRequest,
        *,
        headers: Sequence[Any] = (),
        can_ask: bool = False,
    ) -> None:
        self.transport = TransportContext(kind="streamable-http", can_send_request=can_ask, headers=request.headers)
        self.request_id: RequestId = message.id
        self.message_metadata = ServerMessageMetadata(request_context=request)
        self._message, self._receive, self._send, self._headers = message, request.receive, send, headers
        self._progress_token: ProgressToken | None = progress_token_from_params(message.params)
        self._scope = anyio.CancelScope()
        self._cancelled: anyio.Event | None = None
        self._has_started = False
        self._write_lock = asyncio.Lock()
        self._watch_tasks: list[asyncio.Task[None]] = []
        self._pending_responses: dict[str, PendingResponse] = {}

    @property
    def cancel_requested(self) -> anyio.Event:
        self._cancelled = self._cancelled or anyio.Event()  # created late: it is slow to create and rarely used
        return self._cancelled

    @property
    def can_send_request(self) -> bool:
        return self.transport.can_send_request

    async def respond(self, server: Server[Any], connection: Connection, *, use_error_status: bool) -> None:
        """`use_error_status`: errors also set the HTTP status, as some protocol revisions require."""
        message, reply = self._message, dict[str, Any]()
        watch_timer = asyncio.get_running_loop().call_later(WATCH_DELAY_SECONDS, self._start_watching)
        try:
            with self._scope:
                try:
                    runner: ServerRunner[Any] = ServerRunner(server, connection, {})
                    reply = {"result": await runner.on_request(self, message.method, message.params)}
                except Exception as error:  # noqa: BLE001 - an error must not affect other requests
                    reply = {"error": modern_error_data(error).model_dump(exclude_none=True)}
        finally:
            watch_timer.cancel()
            for each in self._watch_tasks:
                each.cancel()
        reply = reply or {"error": {"code": REQUEST_CANCELLED, "message": "Request cancelled"}}
        response = {"jsonrpc": "2.0", "id": message.id, **reply}
        async with self._write_lock:
            if self._has_started:
                await self._send({"type": "http.response.body", "body": encode_event(response)})
                return
            status = (
                ERROR_CODE_HTTP_STATUS.get(reply["error"]["code"], 200)
                if use_error_status and "error" in reply
                else 200
            )
            body = encode_json(response).encode()
            length = (b"content-length", str(len(body)).encode())
            headers = [JSON_CONTENT_TYPE, length, *(() if "error" in reply else self._headers)]
            await self._send({"type": "http.response.start", "status": status, "headers": headers})
            await self._send({"type": "http.response.body", "body": body})

    def cancel(self) -> None:
        self.cancel_requested.set()
        self._scope.cancel()

    # --- slow responses

    def _start_watching(self) -> None:
        loop = asyncio.get_running_loop()
        self._watch_tasks = [loop.create_task(self._cancel_on_disconnect()), loop.create_task(self._send_keepalives())]

    async def _cancel_on_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._scope.cancel()

    async def _send_keepalives(self) -> None:
        while True:
            await asyncio.sleep(KEEPALIVE_INTERVAL_SECONDS)
            await self._send_event(b": still here\r\n\r\n")

    async def _send_event(self, event: bytes) -> None:
        async with self._write_lock:
            if not self._has_started:
                self._has_started = True
                start = [*EVENT_STREAM_HEADERS, *self._headers]
                await self._send({"type": "http.response.start", "status": 200, "headers": start})
            await self._send({"type": "http.response.body", "body": event, "more_body": True})

    # --- messages before the response

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method}
        await self._send_event(encode_event({**message, "params": params} if params else message))

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        if self._progress_token is None:
            return
        fields = {"progressToken": self._progress_token, "progress": progress, "total": total, "message": message}
        await self.notify("notifications/progress", {key: value for key, value in fields.items() if value is not None})

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        if not self.can_send_request:
            raise NoBackChannelError(method)
        request_id, pending = f"ask-{token_hex(8)}", PendingResponse()  # unique in the session
        self._pending_responses[request_id] = pending
        try:
            await self._send_event(
                encode_event({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params or {}})
            )
            with anyio.move_on_after((opts or {}).get("timeout")):
                await pending.arrived.wait()
        finally:
            del self._pending_responses[request_id]
        match pending.message:
            case JSONRPCResponse(result=result):
                return result
            case JSONRPCError(error=error):
                raise MCPError.from_error_data(error)
            case None:
                raise MCPError(code=REQUEST_TIMEOUT, message=f"The client did not answer {method} in time")

    def deliver_response(self, message: JSONRPCResponse | JSONRPCError) -> None:
        """Deliver a response that arrived in another request. Unknown ids are ignored."""
        if pending := self._pending_responses.get(str(message.id)):
            pending.message = pending.message or message
            pending.arrived.set()


encode_json = json.JSONEncoder(separators=(",", ":")).encode


def encode_event(message: Mapping[str, Any]) -> bytes:
    return f"event: message\r\ndata: {encode_json(message)}\r\n\r\n".encode()
