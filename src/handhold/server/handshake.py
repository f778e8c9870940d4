"""HTTP for protocol revisions with a handshake (2025-11-25 and earlier), without state between requests.

The session id that a client sends contains everything about the session and is signed, so ten thousand idle sessions
cost nothing and survive a restart. Only requests in progress are kept: a question on the stream of one call is answered
by another request, which is matched by session and id.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, cast

import anyio
from anyio.to_thread import run_sync
from mcp.server.connection import Connection
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import check_accept_headers
from mcp_types import (
    DEFAULT_NEGOTIATED_VERSION,
    INVALID_REQUEST,
    JSONRPCNotification,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)
from mcp_types.version import LATEST_HANDSHAKE_VERSION
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Send

from handhold.server.http_errors import RequestRejected
from handhold.server.http_exchange import HTTPExchange
from handhold.server.stateless import VERSION_HEADER

SESSION_HEADER = "mcp-session-id"
MAX_ENDED_SESSIONS = 4096  # ended sessions that are remembered
END_TIMEOUT_SECONDS = 5.0  # for calls to finish when their session ends
CAN_ASK_FLAG = "a"  # after the handle, in the session id of a client with elicitation
ELICITATION_CAPABILITIES: dict[str, Any] = {"elicitation": {"form": {}}}


class SessionRegistry(Protocol):
    """Creates session names, and signed handles for them."""

    def generate_name(self) -> str: ...

    def create_handle(self, name: str) -> str: ...

    def resolve_handle(self, handle: str) -> str | None:
        """None if the handle was not issued to this client."""
        ...

    def get_config(self, name: str) -> Any:
        """The configuration for the calls of a session."""
        ...

    def end(self, name: str) -> None: ...


@dataclass(frozen=True)
class HandshakeSession:
    """The content of a session id."""

    name: str
    can_ask: bool


class HandshakeHandler:
    """Serves clients of protocol revisions with a handshake."""

    def __init__(
        self,
        server: Server[Any],
        *,
        sessions: SessionRegistry,
        reserve_call: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._server, self._sessions, self._reserve_call = server, sessions, reserve_call
        self._exchanges: dict[tuple[str, str], HTTPExchange] = {}
        self._ended_sessions: OrderedDict[str, None] = OrderedDict()

    async def handle(self, request: Request, send: Send) -> None:
        match request.method:
            case "POST":
                await self._handle_post(request, send)
            case "DELETE":
                await self._end_session(self._get_session(request))
                await Response(status_code=200)(request.scope, request.receive, send)
            case _:  # no GET: this server never sends messages on its own initiative
                raise RequestRejected(405, "Use POST or DELETE", headers={"allow": "POST, DELETE"})

    def _get_session(self, request: Request) -> HandshakeSession:
        given = request.headers.get(SESSION_HEADER)
        if not given:
            raise RequestRejected(400, "Missing Mcp-Session-Id header; send initialize first")
        handle, _, flag = given.partition("~")
        name = self._sessions.resolve_handle(handle)
        if name is None or name in self._ended_sessions or flag not in ("", CAN_ASK_FLAG):
            raise RequestRejected(404, "Unknown session; send initialize to start a new one")
        return HandshakeSession(name, can_ask=flag == CAN_ASK_FLAG)

    async def _end_session(self, session: HandshakeSession) -> None:
        self._ended_sessions[session.name] = None
        while len(self._ended_sessions) > MAX_ENDED_SESSIONS:
            self._ended_sessions.popitem(last=False)
        for exchange in self._list_exchanges(session):
            exchange.cancel()
        with anyio.move_on_after(END_TIMEOUT_SECONDS):
            while self._list_exchanges(session):
                await anyio.sleep(0.01)
        await run_sync(self._sessions.end, session.name)

    def _list_exchanges(self, session: HandshakeSession) -> "list[HTTPExchange]":
        return [exchange for (name, _), exchange in self._exchanges.items() if name == session.name]

    async def _handle_post(self, request: Request, send: Send) -> None:
        if check_accept_headers(request) != (True, True):
            raise RequestRejected(406, "The client must accept application/json and text/event-stream")
        try:
            message = jsonrpc_message_adapter.validate_python(request.scope["state"]["message"], by_name=False)
        except ValidationError:
            raise RequestRejected(400, "The body must be one JSON-RPC message", INVALID_REQUEST) from None
        if isinstance(message, JSONRPCRequest):
            if message.method == "initialize":
                session = HandshakeSession(self._sessions.generate_name(), can_ask=can_show_form(message.params))
                with self._reserve_call():
                    await self._serve(message, session, request, send, is_first=True)
                return
            session = self._get_session(request)
            if (session.name, str(message.id)) in self._exchanges:
                raise RequestRejected(400, "A request with this id is already in progress", INVALID_REQUEST)
            with self._reserve_call():
                await self._serve(message, session, request, send)
            return
        session = self._get_session(request)
        match message:
            case JSONRPCNotification(method="notifications/cancelled", params=params):
                if exchange := self._exchanges.get((session.name, str((params or {}).get("requestId")))):
                    exchange.cancel()
            case JSONRPCNotification():
                pass  # other notifications have no effect
            case _:
                for exchange in self._list_exchanges(session):
                    exchange.deliver_response(message)
        await Response(status_code=202)(request.scope, request.receive, send)

    async def _serve(
        self,
        message: JSONRPCRequest,
        session: HandshakeSession,
        request: Request,
        send: Send,
        *,
        is_first: bool = False,
    ) -> None:
        request.scope["state"]["config"] = self._sessions.get_config(session.name)
        version = request.headers.get(
            VERSION_HEADER, LATEST_HANDSHAKE_VERSION if is_first else DEFAULT_NEGOTIATED_VERSION
        )
        headers: list[tuple[bytes, bytes]] = []
        if is_first:
            session_id = f"{self._sessions.create_handle(session.name)}~{CAN_ASK_FLAG * session.can_ask}"
            headers = [(SESSION_HEADER.encode(), session_id.encode())]
        exchange = HTTPExchange(request, send, message, headers=headers, can_ask=session.can_ask)
        connection = Connection.from_envelope(
            version, None, ELICITATION_CAPABILITIES if session.can_ask else {}, outbound=exchange
        )
        key = session.name, str(message.id)
        self._exchanges[key] = exchange
        try:
            await exchange.respond(self._server, connection, use_error_status=False)
        finally:
            del self._exchanges[key]


def can_show_form(params: Mapping[str, Any] | None) -> bool:
    """Whether the parameters of `initialize` declare that the client can show a form."""
    capabilities: Any = (params or {}).get("capabilities")
    elicitation: Any = (
        cast(Mapping[str, Any], capabilities).get("elicitation") if isinstance(capabilities, Mapping) else None
    )
    return isinstance(elicitation, Mapping) and (not elicitation or "form" in elicitation)
