"""The server over HTTP: who comes in, how much at once, and how it ends.

A request passes, in this order: Host and Origin, path, token, how many are under way, body. Behind that are `envelopes`
for the revision without sessions, and `handshakes` for those with. Nobody reaches what another token is for: each has a
server of its own, and what it hands out is signed for its name.
"""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import perf_counter, time
from typing import Any, cast

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
from handhold.server.answers import Refused
from handhold.server.app import served
from handhold.server.desks import Desks, NoSuchSession
from handhold.server.envelopes import VERSION
from handhold.server.handshakes import Handshakes
from handhold.server.serving import Serving
from handhold.server.tokens import Tokens

PATH, HEALTH = "/mcp", "/healthz"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
METHODS = ("POST", "GET", "DELETE")


@dataclass(frozen=True)
class Limits:
    """What one server takes on. Of all that are under way, one token may have a half."""

    calls: int = 256
    body: int = 4 * 1024 * 1024  # bytes
    sending: float = 30.0  # seconds for a client to send its body

    @property
    def requests(self) -> int:
        """Those with their bodies still on the way count too, but must not keep an answer from a call that waits."""
        return self.calls * 4


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
        self._limits = limits or Limits()
        self._access = access or Access()
        self._log = log
        self._behind: dict[str, Behind] = {}
        self._calls: Counter[str] = Counter()
        self._requests = 0
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
        with self._counted():
            body = await self._body(headers, receive) if scope["method"] == "POST" else b""
            scope["state"] = {"body": body}
            await self._behind[serving.name].handle(Request(scope, receive), send)

    @contextmanager
    def _counted(self) -> Generator[None]:
        if self._leaving or self._requests >= self._limits.requests:
            raise Refused(503, "The server is busy" if not self._leaving else "The server is stopping", headers=LATER)
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1

    def _busy_for(self, name: str) -> "Busy":
        @contextmanager
        def busy() -> Generator[None]:
            if self._calls.total() >= self._limits.calls:
                raise Refused(503, "Too many calls are under way", headers=LATER)
            if len(self._behind) > 1 and self._calls[name] >= max(1, self._limits.calls // 2):
                raise Refused(429, "Too many of your calls are under way", headers=LATER)
            self._calls[name] += 1
            try:
                yield
            finally:
                self._calls[name] -= 1

        return busy

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Refused(415, "The body must be application/json")
        said = headers.get("content-length", "0")
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.sending):
                while not said.isdecimal() or int(said) <= self._limits.body:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(400, "The body broke off")
                    body += message.get("body", b"")
                    if len(body) > self._limits.body:
                        break
                    if not message.get("more_body"):
                        return bytes(body)
        except TimeoutError:
            raise Refused(408, "The body took too long", headers=CLOSE) from None
        raise Refused(413, f"The body is larger than {self._limits.body} bytes", headers=CLOSE)


LATER = {"retry-after": "1"}
CLOSE = {"connection": "close"}  # what is still to come of the body is nothing to us
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
