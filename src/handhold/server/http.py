"""The server over HTTP: who comes in, how much at once, and how it ends.

A request passes, in this order: framing, Host and Origin, path, token, how much of that token is under way, body.
Behind that are `envelopes` for the revision without sessions, and `handshakes` for those with. Nobody reaches what
another token is for: each has a server of its own, and what it hands out is signed for its name.
"""

import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import perf_counter, time
from typing import Any, Protocol, cast

import anyio
from anyio.to_thread import run_sync
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from handhold.server import envelopes
from handhold.server.admission import RETRY_LATER, Allowance, Limits
from handhold.server.answers import Refused
from handhold.server.app import served
from handhold.server.bodies import CLOSE, check_framing, declared_length, is_worth_draining, parse_json, read_body
from handhold.server.desks import Desks, NoSuchSession
from handhold.server.envelopes import VERSION
from handhold.server.handshakes import Handshakes
from handhold.server.serving import Serving
from handhold.server.tokens import Tokens

PATH, HEALTH = "/mcp", "/healthz"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
METHODS = ("POST", "GET", "DELETE")


@dataclass(frozen=True)
class Access:
    """Whom to believe about where a request comes from. A name without a port stands for every port of it."""

    hosts: tuple[str, ...] = LOOPBACK
    origins: tuple[str, ...] = tuple(f"http://{host}" for host in LOOPBACK)

    def check(self, headers: Headers) -> None:
        # A page that a browser shows can have its name lead to us, and not its Host and Origin.
        if not listed(headers.get("host", ""), self.hosts):
            raise Refused(421, "This server is not called that")
        origin = headers.get("origin")
        if origin is not None and not listed(origin, self.origins):
            raise Refused(403, "Pages from there are not served")


def listed(given: str, allowed: Sequence[str]) -> bool:
    name, colon, port = given.lower().rpartition(":")
    return given.lower() in allowed or bool(colon and port.isdecimal() and name in allowed)


class Connected(Protocol):
    """The connection that a request came by, where the server that listens tells it."""

    def belong_to(self, token: str) -> bool:
        """Count it for a token; False if the token has too many."""
        ...

    async def drain(self) -> None:
        """Wait until the client has taken what it was sent."""
        ...


class Face:
    """The whole of it, as an ASGI application."""

    def __init__(
        self,
        tokens: Tokens,
        *,
        limits: Limits | None = None,
        access: Access | None = None,
        log: Callable[[str], object] | None = None,
    ) -> None:
        self._tokens = tokens
        self.limits = limits or Limits()
        self._access = access or Access()
        self._log = log
        self._behind: dict[str, Behind] = {}
        several = len(tokens.servings) > 1
        self._calls = Allowance("calls", self.limits.calls, has_several_tokens=several)
        self._requests = Allowance("requests", self.limits.requests, has_several_tokens=several)
        self._bytes = Allowance("bytes", self.limits.bytes, has_several_tokens=several)
        self._parsing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._leaving = False

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """For as long as it serves; afterwards nothing that it started is left."""
        async with AsyncExitStack() as stack:
            for serving in self._tokens.servings:
                busy = self._busy_for(serving.name)
                self._behind[serving.name] = await stack.enter_async_context(behind(serving, busy))
            try:
                yield
            finally:
                self.leave()

    def leave(self) -> None:
        """Take no new calls."""
        self._leaving = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            watched = Watched(send)
            try:
                await self._answered(scope, receive, watched)
            except Refused as refused:
                if not is_worth_draining(Headers(scope=scope)):
                    refused.headers = {**refused.headers, **CLOSE}
                await refused.response(scope, receive, watched)
            finally:
                if self._log:
                    self._log(watched.line(scope))
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        async with self.running():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answered(self, scope: Scope, receive: Receive, send: "Watched") -> None:
        headers = Headers(scope=scope)
        check_framing(headers)
        self._access.check(headers)
        if scope["path"] == HEALTH:
            await healthy(scope, receive, send)
            return
        if scope["path"] != PATH:
            raise Refused(404, "There is nothing here")
        serving = self._tokens.bearer(headers.get("authorization"))
        if serving is None:
            raise Refused(401, "A token is needed", headers={"www-authenticate": 'Bearer realm="handhold"'})
        send.who = serving.name
        if scope["method"] not in METHODS:
            raise Refused(405, "This is not a way to ask", headers={"allow": ", ".join(METHODS)})
        if self._leaving:
            raise Refused(503, "The server is stopping", headers=RETRY_LATER)
        await self._handle(serving.name, scope, receive, send)

    async def _handle(self, token: str, scope: Scope, receive: Receive, send: "Watched") -> None:
        """Admit by token first, then read: what is refused takes neither memory nor time."""
        headers, has_body, state = Headers(scope=scope), scope["method"] == "POST", scope.setdefault("state", {})
        connection: Connected | None = state.get("connection")
        if connection and not connection.belong_to(token):
            raise Refused(429, "Too many of your connections are open", headers={**RETRY_LATER, **CLOSE})
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if has_body and kind != "application/json":
            raise Refused(415, "The body must be application/json")
        size = declared_length(headers, self.limits) if has_body else 0
        with self._requests.take(token), self._bytes.take(token, size) as keep:
            if has_body:
                body = await read_body(receive, self.limits)
                keep(len(body))
                # One at a time for each token: between two, the event loop turns to the others.
                async with self._parsing[token]:
                    state["message"] = parse_json(body)
                    await asyncio.sleep(0)
                del body
            await self._behind[token].handle(Request(scope, receive), send)
            if connection:
                await connection.drain()

    def _busy_for(self, name: str) -> "Busy":
        return lambda: self._calls.take(name)


Busy = Callable[[], Any]


@dataclass
class Behind:
    """The server of one token, for clients of every revision."""

    serving: Serving
    server: Server[Any]
    handshakes: Handshakes
    busy: Busy

    async def handle(self, request: Request, send: Send) -> None:
        version = request.headers.get(VERSION)
        if version is None or version in HANDSHAKE_PROTOCOL_VERSIONS:
            await self.handshakes.handle(request, send)
            return
        # Without sessions, all calls of a token are one conversation, unless they say by a handle that they are not.
        request.scope["state"]["serving"] = self.conversation
        with self.busy():
            await envelopes.handle(self.server, request, send)

    @cached_property
    def conversation(self) -> Serving:
        return replace(self.serving, session=f"token-{self.serving.name}", handles=True)


@asynccontextmanager
async def behind(serving: Serving, busy: Busy) -> AsyncGenerator[Behind]:
    desks = Desks()
    server = served(serving_of, desks, instructions=serving.words.instructions)
    try:
        yield Behind(serving, server, Handshakes(server, sessions=Named(desks, serving), busy=busy), busy)
    finally:
        with anyio.CancelScope(shield=True):
            await run_sync(desks.close)


@dataclass(frozen=True)
class Named:
    """The sessions of one token."""

    desks: Desks
    serving: Serving

    def new(self) -> str:
        return self.desks.mint()

    def handle(self, name: str) -> str:
        return self.desks.handle(self.serving, name)

    def named(self, handle: str) -> str | None:
        try:
            return self.desks.named_by(self.serving, handle)
        except NoSuchSession:
            return None

    def served(self, name: str) -> Serving:
        return replace(self.serving, session=name)

    def end(self, name: str) -> None:
        self.desks.end(self.serving, name)


def serving_of(context: ServerRequestContext[Any, Any]) -> Serving:
    """What a request is served, by the token that it came with and by the session that it says or does not."""
    return cast(Request, context.request).scope["state"]["serving"]


async def healthy(scope: Scope, receive: Receive, send: Send) -> None:
    """That it answers, and nothing of what it serves."""
    if scope["method"] not in ("GET", "HEAD"):
        raise Refused(405, "This is not a way to ask", headers={"allow": "GET, HEAD"})
    await Response('{"status": "ok"}', media_type="application/json")(scope, receive, send)


@dataclass
class Watched:
    """The way back to a client, remembered for the log."""

    send: Send
    who: str = ""
    status: int = 0
    size: int = 0
    since: float = field(default_factory=perf_counter)

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        self.size += len(message.get("body", b""))
        await self.send(message)

    def line(self, scope: Scope) -> str:
        """One request as JSON: neither a header nor a body nor a query, where secrets would be."""
        path = scope["path"] if scope["path"] in (PATH, HEALTH) else "other"
        client: Any = scope.get("client") or ("",)
        said = {
            "time": round(time(), 3),
            "client": client[0],
            "token": self.who,
            "method": scope["method"][:16],
            "path": path,
            "status": self.status,
            "bytes": self.size,
            "ms": round((perf_counter() - self.since) * 1000, 2),
        }
        return json.dumps(said)


def to_stderr(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
