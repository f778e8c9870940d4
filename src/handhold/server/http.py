"""The HTTP application: authentication, limits and shutdown.

A request is checked in this order: framing, Host and Origin, path, token, the token's limits, body. Then `stateless`
serves the protocol revision without sessions, and `handshake` the earlier ones. Tokens are isolated: each has its own
server, and its handles are signed for its name.
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

from handhold.server import stateless
from handhold.server.admission import RETRY_AFTER_HEADERS, ServerLimits, SharedQuota
from handhold.server.app import create_server
from handhold.server.bodies import (
    CLOSE_HEADERS,
    check_framing,
    get_declared_length,
    is_worth_draining,
    parse_json,
    read_body,
)
from handhold.server.handshake import HandshakeHandler
from handhold.server.http_errors import RequestRejected
from handhold.server.server_config import ServerConfig
from handhold.server.session_pool import NoSuchSession, SessionPool
from handhold.server.stateless import VERSION_HEADER
from handhold.server.tokens import AccessTokens

MCP_PATH, HEALTH_PATH = "/mcp", "/healthz"
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")
ALLOWED_METHODS = ("POST", "GET", "DELETE")


@dataclass(frozen=True)
class HostAllowlist:
    """Accepted Host and Origin headers. A name without a port accepts every port."""

    hosts: tuple[str, ...] = LOOPBACK_HOSTS
    origins: tuple[str, ...] = tuple(f"http://{host}" for host in LOOPBACK_HOSTS)

    def check(self, headers: Headers) -> None:
        # DNS rebinding: a web page can point its own name at this server, but cannot forge Host and Origin.
        if not is_allowed(headers.get("host", ""), self.hosts):
            raise RequestRejected(421, "Host not allowed; start the server with --allow-host to accept it")
        origin = headers.get("origin")
        if origin is not None and not is_allowed(origin, self.origins):
            raise RequestRejected(403, "Origin not allowed; start the server with --allow-origin to accept it")


def is_allowed(given: str, allowed: Sequence[str]) -> bool:
    name, colon, port = given.lower().rpartition(":")
    return given.lower() in allowed or bool(colon and port.isdecimal() and name in allowed)


class ClientConnection(Protocol):
    """The connection of a request, if the listener provides it."""

    def assign_client(self, client: str) -> bool:
        """Count the connection for a client. False if the client has too many."""
        ...

    async def drain(self) -> None:
        """Wait until the client has received what was sent."""
        ...


class HTTPApp:
    """The server as an ASGI application."""

    def __init__(
        self,
        tokens: AccessTokens,
        *,
        limits: ServerLimits | None = None,
        allowlist: HostAllowlist | None = None,
        log: Callable[[str], object] | None = None,
    ) -> None:
        self._tokens = tokens
        self.limits = limits or ServerLimits()
        self._allowlist = allowlist or HostAllowlist()
        self._log = log
        self._token_servers: dict[str, TokenServer] = {}
        has_several_tokens = len(tokens.configs) > 1
        self._call_quota = SharedQuota("calls", self.limits.max_calls, has_several_tokens=has_several_tokens)
        self._request_quota = SharedQuota("requests", self.limits.max_requests, has_several_tokens=has_several_tokens)
        self._byte_quota = SharedQuota("bytes", self.limits.max_pending_bytes, has_several_tokens=has_several_tokens)
        self._parse_locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._is_stopping = False

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        """Open the servers of all tokens during the block; on exit, end everything they started."""
        async with AsyncExitStack() as stack:
            for config in self._tokens.configs:
                reserve_call = self._bind_call_quota(config.name)
                self._token_servers[config.name] = await stack.enter_async_context(
                    open_token_server(config, reserve_call)
                )
            try:
                yield
            finally:
                self.stop_accepting()

    def stop_accepting(self) -> None:
        """Reject new calls."""
        self._is_stopping = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            recorder = ResponseRecorder(send)
            try:
                await self._respond(scope, receive, recorder)
            except RequestRejected as rejection:
                if not is_worth_draining(Headers(scope=scope)):
                    rejection.headers = {**rejection.headers, **CLOSE_HEADERS}
                await rejection.response(scope, receive, recorder)
            finally:
                if self._log:
                    self._log(recorder.format_log_line(scope))
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        async with self.run():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _respond(self, scope: Scope, receive: Receive, send: "ResponseRecorder") -> None:
        headers = Headers(scope=scope)
        check_framing(headers)
        self._allowlist.check(headers)
        if scope["path"] == HEALTH_PATH:
            await respond_health(scope, receive, send)
            return
        if scope["path"] != MCP_PATH:
            raise RequestRejected(404, f"Not found; the endpoint is {MCP_PATH}")
        config = self._tokens.authenticate(headers.get("authorization"))
        if config is None:
            raise RequestRejected(
                401, "Missing or invalid bearer token", headers={"www-authenticate": 'Bearer realm="handhold"'}
            )
        send.token_name = config.name
        if scope["method"] not in ALLOWED_METHODS:
            raise RequestRejected(405, "Method not allowed", headers={"allow": ", ".join(ALLOWED_METHODS)})
        if self._is_stopping:
            raise RequestRejected(503, "The server is shutting down", headers=RETRY_AFTER_HEADERS)
        await self._admit(config.name, scope, receive, send)

    async def _admit(self, token: str, scope: Scope, receive: Receive, send: "ResponseRecorder") -> None:
        """Check the token's limits before reading the body, so that rejected requests cost neither memory nor time."""
        headers, has_body, state = Headers(scope=scope), scope["method"] == "POST", scope.setdefault("state", {})
        connection: ClientConnection | None = state.get("connection")
        if connection and not connection.assign_client(token):
            raise RequestRejected(
                429, "Too many open connections for this token", headers={**RETRY_AFTER_HEADERS, **CLOSE_HEADERS}
            )
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if has_body and kind != "application/json":
            raise RequestRejected(415, "The Content-Type must be application/json")
        size = get_declared_length(headers, self.limits) if has_body else 0
        with self._request_quota.reserve(token), self._byte_quota.reserve(token, size) as shrink_to:
            if has_body:
                body = await read_body(receive, self.limits)
                shrink_to(len(body))
                # One at a time for each token: the event loop serves others in between.
                async with self._parse_locks[token]:
                    state["message"] = parse_json(body)
                    await asyncio.sleep(0)
                del body
            await self._token_servers[token].handle(Request(scope, receive), send)
            if connection:
                await connection.drain()

    def _bind_call_quota(self, name: str) -> "ReserveCall":
        return lambda: self._call_quota.reserve(name)


ReserveCall = Callable[[], Any]


@dataclass
class TokenServer:
    """The server of one token, for all protocol revisions."""

    config: ServerConfig
    server: Server[Any]
    handshake_handler: HandshakeHandler
    reserve_call: ReserveCall

    async def handle(self, request: Request, send: Send) -> None:
        version = request.headers.get(VERSION_HEADER)
        if version is None or version in HANDSHAKE_PROTOCOL_VERSIONS:
            await self.handshake_handler.handle(request, send)
            return
        # Without protocol sessions, all calls of a token share one session unless they name another by its handle.
        request.scope["state"]["config"] = self.stateless_config
        with self.reserve_call():
            await stateless.handle(self.server, request, send)

    @cached_property
    def stateless_config(self) -> ServerConfig:
        return replace(self.config, session=f"token-{self.config.name}", handles=True)


@asynccontextmanager
async def open_token_server(config: ServerConfig, reserve_call: ReserveCall) -> AsyncGenerator[TokenServer]:
    session_pool = SessionPool()
    server = create_server(get_request_config, session_pool, instructions=config.resolved_dialect.instructions)
    try:
        yield TokenServer(
            config,
            server,
            HandshakeHandler(server, sessions=TokenSessions(session_pool, config), reserve_call=reserve_call),
            reserve_call,
        )
    finally:
        with anyio.CancelScope(shield=True):
            await run_sync(session_pool.close)


@dataclass(frozen=True)
class TokenSessions:
    """The sessions of one token."""

    session_pool: SessionPool
    config: ServerConfig

    def generate_name(self) -> str:
        return self.session_pool.generate_name()

    def create_handle(self, name: str) -> str:
        return self.session_pool.create_handle(self.config, name)

    def resolve_handle(self, handle: str) -> str | None:
        try:
            return self.session_pool.resolve_handle(self.config, handle)
        except NoSuchSession:
            return None

    def get_config(self, name: str) -> ServerConfig:
        return replace(self.config, session=name)

    def end(self, name: str) -> None:
        self.session_pool.end_session(self.config, name)


def get_request_config(context: ServerRequestContext[Any, Any]) -> ServerConfig:
    """The configuration for a request, by its token and its session."""
    return cast(Request, context.request).scope["state"]["config"]


async def respond_health(scope: Scope, receive: Receive, send: Send) -> None:
    """Report that the server responds, and nothing about what it serves."""
    if scope["method"] not in ("GET", "HEAD"):
        raise RequestRejected(405, "Method not allowed", headers={"allow": "GET, HEAD"})
    await Response('{"status": "ok"}', media_type="application/json")(scope, receive, send)


@dataclass
class ResponseRecorder:
    """Sends a response and records its status and size for the log."""

    send: Send
    token_name: str = ""
    status: int = 0
    body_bytes: int = 0
    started_at: float = field(default_factory=perf_counter)

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        self.body_bytes += len(message.get("body", b""))
        await self.send(message)

    def format_log_line(self, scope: Scope) -> str:
        """One request as JSON, without headers, body and query, which may contain secrets."""
        path = scope["path"] if scope["path"] in (MCP_PATH, HEALTH_PATH) else "other"
        client: Any = scope.get("client") or ("",)
        record = {
            "time": round(time(), 3),
            "client": client[0],
            "token": self.token_name,
            "method": scope["method"][:16],
            "path": path,
            "status": self.status,
            "bytes": self.body_bytes,
            "ms": round((perf_counter() - self.started_at) * 1000, 2),
        }
        return json.dumps(record)


def log_to_stderr(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
