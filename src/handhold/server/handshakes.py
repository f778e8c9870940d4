"""The revisions with a handshake (2025-11-25 and before) over HTTP, without anything kept between two requests.

Their sessions have an id that the client brings along each time. Ours says all there is to know, and is signed, so
that ten thousand idle sessions cost nothing and outlive a restart. What is under way is kept while it is: a question
that is asked on the stream of a call is answered by another request, and finds its way by session and id.
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

from handhold.server.answers import Refused
from handhold.server.envelopes import VERSION
from handhold.server.exchanges import Exchange

SESSION = "mcp-session-id"
ENDED = 4096  # sessions that their clients ended, and that are remembered for it
GRACE = 5.0  # seconds for calls to end with their session
ASKED = "a"  # behind the handle, in the id of a session whose client can be asked
ASKS: dict[str, Any] = {"elicitation": {"form": {}}}  # what a client can do that answers questions


class Sessions(Protocol):
    """Who gives sessions their names, and proves by a handle that it did."""

    def new(self) -> str: ...

    def handle(self, name: str) -> str: ...

    def named(self, handle: str) -> str | None:
        """None for a handle that was not given to this client."""
        ...

    def served(self, name: str) -> Any:
        """What the calls of a session are served."""
        ...

    def end(self, name: str) -> None: ...


@dataclass(frozen=True)
class Session:
    """What the id of a session says: which it is, and whether its client can be asked."""

    name: str
    asks: bool


class Handshakes:
    """One server, as clients of the older revisions see it."""

    def __init__(
        self,
        server: Server[Any],
        *,
        sessions: Sessions,
        busy: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._server, self._sessions, self._busy = server, sessions, busy
        self._under_way: dict[tuple[str, str], Exchange] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()

    async def handle(self, request: Request, send: Send) -> None:
        match request.method:
            case "POST":
                await self._post(request, send)
            case "DELETE":
                await self._end(self._session(request))
                await Response(status_code=200)(request.scope, request.receive, send)
            case _:  # there is nothing that we would say unasked, so there is no stream to listen to
                raise Refused(405, "Only POST and DELETE are answered here", headers={"allow": "POST, DELETE"})

    def _session(self, request: Request) -> Session:
        given = request.headers.get(SESSION)
        if not given:
            raise Refused(400, "The Mcp-Session-Id header is missing: begin with initialize")
        handle, _, able = given.partition("~")
        name = self._sessions.named(handle)
        if name is None or name in self._ended or able not in ("", ASKED):
            raise Refused(404, "There is no such session: begin again with initialize")
        return Session(name, asks=able == ASKED)

    async def _end(self, session: Session) -> None:
        self._ended[session.name] = None
        while len(self._ended) > ENDED:
            self._ended.popitem(last=False)
        for exchange in self._of(session):
            exchange.cancel()
        with anyio.move_on_after(GRACE):
            while self._of(session):
                await anyio.sleep(0.01)
        await run_sync(self._sessions.end, session.name)

    def _of(self, session: Session) -> "list[Exchange]":
        return [exchange for (name, _), exchange in self._under_way.items() if name == session.name]

    async def _post(self, request: Request, send: Send) -> None:
        if check_accept_headers(request) != (True, True):
            raise Refused(406, "The client must accept application/json and text/event-stream")
        try:
            message = jsonrpc_message_adapter.validate_python(request.scope["state"]["message"], by_name=False)
        except ValidationError:
            raise Refused(400, "The body must be one JSON-RPC message", INVALID_REQUEST) from None
        if isinstance(message, JSONRPCRequest):
            if message.method == "initialize":
                session = Session(self._sessions.new(), asks=asks(message.params))
                with self._busy():
                    await self._serve(message, session, request, send, first=True)
                return
            session = self._session(request)
            if (session.name, str(message.id)) in self._under_way:
                raise Refused(400, "A request with this id is under way in this session", INVALID_REQUEST)
            with self._busy():
                await self._serve(message, session, request, send)
            return
        session = self._session(request)
        match message:
            case JSONRPCNotification(method="notifications/cancelled", params=params):
                if exchange := self._under_way.get((session.name, str((params or {}).get("requestId")))):
                    exchange.cancel()
            case JSONRPCNotification():
                pass  # there is none of the others that means anything to us
            case _:
                for exchange in self._of(session):
                    exchange.answered(message)
        await Response(status_code=202)(request.scope, request.receive, send)

    async def _serve(
        self, message: JSONRPCRequest, session: Session, request: Request, send: Send, *, first: bool = False
    ) -> None:
        request.scope["state"]["serving"] = self._sessions.served(session.name)
        version = request.headers.get(VERSION, LATEST_HANDSHAKE_VERSION if first else DEFAULT_NEGOTIATED_VERSION)
        headers: list[tuple[bytes, bytes]] = []
        if first:
            named = f"{self._sessions.handle(session.name)}~{ASKED * session.asks}"
            headers = [(SESSION.encode(), named.encode())]
        exchange = Exchange(request, send, message, headers=headers, asks=session.asks)
        connection = Connection.from_envelope(version, None, ASKS if session.asks else {}, outbound=exchange)
        key = session.name, str(message.id)
        self._under_way[key] = exchange
        try:
            await exchange.answer(self._server, connection, by_status=False)
        finally:
            del self._under_way[key]


def asks(params: Mapping[str, Any] | None) -> bool:
    """Whether the client that introduces itself like this can put a form before a person."""
    able: Any = (params or {}).get("capabilities")
    given: Any = cast(Mapping[str, Any], able).get("elicitation") if isinstance(able, Mapping) else None
    return isinstance(given, Mapping) and (not given or "form" in given)
