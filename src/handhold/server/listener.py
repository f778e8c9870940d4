"""A port that is listened at, by uvicorn: clients that dawdle are sent away, and the end waits a while for calls."""

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

HEADERS_TIMEOUT_SECONDS = 10.0  # seconds that a client may take to say what it wants
WRITE_TIMEOUT_SECONDS = 60.0  # seconds that it may leave unread what it is sent
KEEP_ALIVE_SECONDS = 60  # seconds that a connection is kept without a request, if it brought a token
# Connections. Few at once, so that others are heard in between: behind 800 new ones an answer took 12 to 32 ms, and
# 214 to 278 ms where all of them are accepted first.
ACCEPT_BATCH_SIZE, LISTEN_BACKLOG = 32, 1024
MALLOPT_OPTIONS = {-8: 2, -3: 128 * 1024}  # of mallopt(3): M_ARENA_MAX, M_MMAP_THRESHOLD


class TimeoutH11Protocol(H11Protocol):
    """A connection that is closed if no request comes, or nobody takes the answer: uvicorn would wait forever."""

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
        before: RequestResponseCycle | None = self.cycle  # there is none before the first request
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
        except h11.LocalProtocolError:  # an answer has begun already: there is no second one
            self.transport.close()
        if cycle and not cycle.response_complete:  # its body broke: what it answers now reaches nobody
            cycle.disconnected = True
            cycle.message_event.set()

    def _start_request_timer(self) -> None:
        self._request_timer = self.loop.call_later(HEADERS_TIMEOUT_SECONDS, self.transport.close)

    def _cancel_request_timer(self) -> None:
        if self._request_timer:
            self._request_timer.cancel()
        self._request_timer = None


class Listener(uvicorn.Server):
    """Ends by a signal with status 0. By uvicorn's way it dies of the signal, and only SIGINT counts twice."""

    def __init__(self, config: uvicorn.Config, app: HTTPApp) -> None:
        super().__init__(config)
        self._app = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """No new calls from now on; at the second signal, no more waiting for those that are under way."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._app.stop_accepting()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(
                LISTEN_BACKLOG
            )  # asyncio knows one number only, for the queue and for how many it takes at once


def bind_socket(host: str, port: int) -> socket.socket:
    """OSError if nobody can listen there, or somebody does already."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # By its protocol asyncio knows that it may send without delay; a socket that does not say it waits 40 ms.
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
    """`grace` is for how many seconds calls may go on that are under way when it is to stop."""
    open_connections = Connections(raise_file_limit(app.limits.max_connections))
    config = uvicorn.Config(
        app,
        http=partial(TimeoutH11Protocol, open_connections=open_connections),  # pyright: ignore[reportArgumentType] - it is only called
        backlog=ACCEPT_BATCH_SIZE,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="error",  # what strangers send is no warning to anybody
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=grace,  # pyright: ignore[reportArgumentType] - it is only handed on to asyncio
    )
    return Listener(config, app)


def listen(app: HTTPApp, sock: socket.socket, *, grace: float, on_ready: Callable[[], Any]) -> None:
    """Until a signal comes. Afterwards nothing is left: no process, no connection."""
    _configure_malloc()
    server = create_listener(app, grace=grace)
    gc.freeze()  # what is loaded stays: a full collection, which stops every client, takes a fifth of the time

    async def run() -> None:
        on_ready()  # whoever connects from now on waits for us, and is not sent away
        await server.serve(sockets=[sock])

    asyncio.run(run())


def _configure_malloc() -> None:
    """By itself glibc keeps a heap for each thread, full of holes where outputs of commands were: after 256 of them, of
    6 MB each, the server held 108 MB instead of 75."""
    with suppress(AttributeError):  # of another C library
        for option, value in MALLOPT_OPTIONS.items():
            ctypes.CDLL(None).mallopt(option, value)
