"""The listening socket, on uvicorn, with timeouts for slow clients and a graceful shutdown."""

import asyncio
import ctypes
import gc
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from handhold.server.connections import Connections, raise_file_limit
from handhold.server.http import HTTPApp

HEADERS_TIMEOUT_SECONDS = 10.0  # for a client to send the headers of a request
WRITE_TIMEOUT_SECONDS = 60.0  # for a client to read what it is sent
KEEP_ALIVE_SECONDS = 60  # for an idle connection, if it was authenticated
# Accept few connections at once, so that others are served in between: with 800 new connections a response took 12 to
# 32 ms, and 214 to 278 ms if all were accepted first.
ACCEPT_BATCH_SIZE, LISTEN_BACKLOG = 32, 1024
MALLOPT_OPTIONS = {-8: 2, -3: 128 * 1024}  # of mallopt(3): M_ARENA_MAX, M_MMAP_THRESHOLD


class TimeoutH11Protocol(H11Protocol):
    """A connection with timeouts for sending requests and reading responses; uvicorn would wait forever."""

    _request_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None

    def __init__(self, *, open_connections: Connections, app_state: dict[str, Any], **options: Any) -> None:
        super().__init__(app_state={**app_state, "connection": self}, **options)
        self._open_connections = open_connections
        self.timeout_keep_alive = int(HEADERS_TIMEOUT_SECONDS)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self._open_connections.add(self):
            self._start_request_timer()
        else:
            transport.abort()

    @property
    def is_idle(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return not (cycle and not cycle.response_complete)

    def close(self) -> None:
        self.transport.close()

    def assign_token(self, token: str) -> bool:
        self.timeout_keep_alive = KEEP_ALIVE_SECONDS
        return self._open_connections.add(self, token)

    async def drain(self) -> None:
        await self.flow.drain()

    def data_received(self, data: bytes) -> None:
        before: RequestResponseCycle | None = self.cycle  # None before the first request
        if self._request_timer is None and not (before and not before.response_complete):
            self._start_request_timer()
        super().data_received(data)
        if self.cycle is not before:
            self._cancel_request_timer()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(WRITE_TIMEOUT_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer:
            self._write_timer.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        self._open_connections.discard(self)
        self._cancel_request_timer()
        if self._write_timer:
            self._write_timer.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        cycle: RequestResponseCycle | None = self.cycle
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:  # the response has already started
            self.transport.close()
        if cycle and not cycle.response_complete:  # the body was malformed, so nobody reads the response
            cycle.disconnected = True
            cycle.message_event.set()

    def _start_request_timer(self) -> None:
        self._request_timer = self.loop.call_later(HEADERS_TIMEOUT_SECONDS, self.transport.close)

    def _cancel_request_timer(self) -> None:
        if self._request_timer:
            self._request_timer.cancel()
        self._request_timer = None


class Listener(uvicorn.Server):
    """Exits with status 0 on a signal. uvicorn itself would die from the signal, and honour only a second SIGINT."""

    def __init__(self, config: uvicorn.Config, app: HTTPApp) -> None:
        super().__init__(config)
        self._app = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop accepting calls; on the second signal, stop waiting for running calls."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._app.stop_accepting()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for each in sockets or ():
            # Again, because asyncio uses its `backlog` both for the queue and for how many it accepts at once.
            each.listen(LISTEN_BACKLOG)


def bind_socket(host: str, port: int) -> socket.socket:
    """Raises OSError if the address is invalid or in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol is named; otherwise responses are delayed by 40 ms.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(LISTEN_BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def create_listener(app: HTTPApp, *, grace: float) -> Listener:
    """`grace`: how many seconds to wait for running calls on shutdown."""
    open_connections = Connections(raise_file_limit(app.limits.max_connections))
    config = uvicorn.Config(
        app,
        http=partial(TimeoutH11Protocol, open_connections=open_connections),  # pyright: ignore[reportArgumentType] - it is only called
        backlog=ACCEPT_BATCH_SIZE,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="error",  # malformed requests of strangers are not worth a warning
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=grace,  # pyright: ignore[reportArgumentType] - only passed on to asyncio
    )
    return Listener(config, app)


def listen(app: HTTPApp, sock: socket.socket, *, grace: float, on_ready: Callable[[], Any]) -> None:
    """Serve until a signal arrives. Afterwards no process or connection is left."""
    _configure_malloc()
    server = create_listener(app, grace=grace)
    gc.freeze()  # without the loaded modules a full collection, which blocks every client, takes a fifth of the time

    async def run() -> None:
        on_ready()  # the socket already listens: clients that connect now wait and are not refused
        await server.serve(sockets=[sock])

    asyncio.run(run())


def _configure_malloc() -> None:
    """Limit heap fragmentation. With glibc's defaults of one heap per thread, the server used 108 MB instead of 75 MB
    after 256 command outputs of 6 MB each."""
    with suppress(AttributeError):  # another C library
        for option, value in MALLOPT_OPTIONS.items():
            ctypes.CDLL(None).mallopt(option, value)
