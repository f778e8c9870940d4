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

import uvicorn
from starlette.types import ASGIApp

from handhold.http_listener.connections import Connections, raise_file_limit
from handhold.http_listener.protocol import BoundedH11Protocol

KEEP_ALIVE_SECONDS = 60  # for an idle connection, if it was authenticated
# Accept few connections at once, so that others are served in between: with 800 new connections a response took 12 to
# 32 ms, and 214 to 278 ms if all were accepted first.
ACCEPT_BATCH_SIZE, LISTEN_BACKLOG = 32, 1024
MALLOPT_OPTIONS = {-8: 2, -3: 128 * 1024}  # of mallopt(3): M_ARENA_MAX, M_MMAP_THRESHOLD


class Listener(uvicorn.Server):
    """Exits with status 0 on a signal. uvicorn itself would die from the signal, and honour only a second SIGINT."""

    def __init__(self, config: uvicorn.Config, on_stop: Callable[[], object]) -> None:
        super().__init__(config)
        self._on_stop = on_stop

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop accepting calls; on the second signal, stop waiting for running calls."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._on_stop()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for each in sockets or ():
            # Again, because asyncio uses its `backlog` both for the queue and for how many it accepts at once.
            each.listen(LISTEN_BACKLOG)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stop()
        await super().shutdown(sockets)

    def run_on(self, sock: socket.socket, on_ready: Callable[[], object]) -> None:
        """Serve until a signal arrives, or `should_exit` is set."""

        async def run() -> None:
            on_ready()  # the socket already listens: clients that connect now wait and are not refused
            await self.serve(sockets=[sock])

        asyncio.run(run())


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


def create_listener(
    app: ASGIApp,
    *,
    max_connections: int,
    grace: float,
    keep_alive: int = KEEP_ALIVE_SECONDS,
    has_lifespan: bool = True,
    on_stop: Callable[[], object] = lambda: None,
) -> Listener:
    """`grace`: how many seconds to wait for running calls on shutdown. `on_stop` is called when that begins."""
    open_connections = Connections(raise_file_limit(max_connections))
    config = uvicorn.Config(
        app,
        http=partial(BoundedH11Protocol, open_connections=open_connections, keep_alive=keep_alive),  # pyright: ignore[reportArgumentType] - it is only called
        backlog=ACCEPT_BATCH_SIZE,
        ws="none",
        lifespan="on" if has_lifespan else "off",
        log_config=None,
        log_level="error",  # malformed requests of strangers are not worth a warning
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=keep_alive,
        timeout_graceful_shutdown=grace,  # pyright: ignore[reportArgumentType] - only passed on to asyncio
    )
    return Listener(config, on_stop)


def tune_process() -> None:
    """For a process that does nothing but listen."""
    _configure_malloc()
    gc.freeze()  # without the loaded modules a full collection, which blocks every client, takes a fifth of the time


def _configure_malloc() -> None:
    """Limit heap fragmentation. With glibc's defaults of one heap per thread, the server used 108 MB instead of 75 MB
    after 256 command outputs of 6 MB each."""
    with suppress(AttributeError):  # another C library
        for option, value in MALLOPT_OPTIONS.items():
            ctypes.CDLL(None).mallopt(option, value)


def assign_client(state: dict[str, Any], client: str) -> bool:
    """Count the connection of a request for a client. False if the client has too many.

    `state` is that of the request's scope. Without this listener, as in tests, nothing is counted.
    """
    connection: BoundedH11Protocol | None = state.get("connection")
    return connection is None or connection.assign_client(client)
