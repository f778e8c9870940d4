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
from handhold.server.http import Face

HEADERS = 10.0  # seconds that a client may take to say what it wants
READING = 60.0  # seconds that it may leave unread what it is sent
KEPT = 60  # seconds that a connection is kept without a request, if it brought a token
# Connections. Few at once, so that others are heard in between: behind 800 new ones an answer took 12 to 32 ms, and
# 214 to 278 ms where all of them are accepted first.
ACCEPTED_AT_ONCE, QUEUED = 32, 1024
HEAPS = {-8: 2, -3: 128 * 1024}  # of mallopt(3): M_ARENA_MAX, M_MMAP_THRESHOLD


class Hurried(H11Protocol):
    """A connection that is closed if no request comes, or nobody takes the answer: uvicorn would wait forever."""

    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def __init__(self, *, open_connections: Connections, app_state: dict[str, Any], **given: Any) -> None:
        super().__init__(app_state={**app_state, "connection": self}, **given)
        self._open = open_connections
        self.timeout_keep_alive = int(HEADERS)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self._open.add(self):
            self._hurry()
        else:
            transport.abort()

    @property
    def is_idle(self) -> bool:
        under_way: RequestResponseCycle | None = self.cycle
        return not (under_way and not under_way.response_complete)

    def close(self) -> None:
        self.transport.close()

    def belong_to(self, token: str) -> bool:
        self.timeout_keep_alive = KEPT
        return self._open.add(self, token)

    async def drain(self) -> None:
        await self.flow.drain()

    def data_received(self, data: bytes) -> None:
        before: RequestResponseCycle | None = self.cycle  # there is none before the first request
        if self._deadline is None and not (before and not before.response_complete):
            self._hurry()
        super().data_received(data)
        if self.cycle is not before:
            self._calm()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(READING, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread:
            self._unread.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.discard(self)
        self._calm()
        if self._unread:
            self._unread.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        under_way: RequestResponseCycle | None = self.cycle
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:  # an answer has begun already: there is no second one
            self.transport.close()
        if under_way and not under_way.response_complete:  # its body broke: what it answers now reaches nobody
            under_way.disconnected = True
            under_way.message_event.set()

    def _hurry(self) -> None:
        self._deadline = self.loop.call_later(HEADERS, self.transport.close)

    def _calm(self) -> None:
        if self._deadline:
            self._deadline.cancel()
        self._deadline = None


class Listener(uvicorn.Server):
    """Ends by a signal with status 0. By uvicorn's way it dies of the signal, and only SIGINT counts twice."""

    def __init__(self, config: uvicorn.Config, face: Face) -> None:
        super().__init__(config)
        self._face = face

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """No new calls from now on; at the second signal, no more waiting for those that are under way."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._face.leave()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(QUEUED)  # asyncio knows one number only, for the queue and for how many it takes at once


def bound(host: str, port: int) -> socket.socket:
    """OSError if nobody can listen there, or somebody does already."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # By its protocol asyncio knows that it may send without delay; a socket that does not say it waits 40 ms.
    at = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        at.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        at.bind((host, port))
        at.listen(QUEUED)
    except OSError:
        at.close()
        raise
    return at


def listener(face: Face, *, grace: float) -> Listener:
    """`grace` is for how many seconds calls may go on that are under way when it is to stop."""
    open_connections = Connections(raise_file_limit(face.limits.connections))
    config = uvicorn.Config(
        face,
        http=partial(Hurried, open_connections=open_connections),  # pyright: ignore[reportArgumentType] - it is only called
        backlog=ACCEPTED_AT_ONCE,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="error",  # what strangers send is no warning to anybody
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEPT,
        timeout_graceful_shutdown=grace,  # pyright: ignore[reportArgumentType] - it is only handed on to asyncio
    )
    return Listener(config, face)


def listen(face: Face, at: socket.socket, *, grace: float, ready: Callable[[], Any]) -> None:
    """Until a signal comes. Afterwards nothing is left: no process, no connection."""
    _give_memory_back()
    serving = listener(face, grace=grace)
    gc.freeze()  # what is loaded stays: a full collection, which stops every client, takes a fifth of the time

    async def run() -> None:
        ready()  # whoever connects from now on waits for us, and is not sent away
        await serving.serve(sockets=[at])

    asyncio.run(run())


def _give_memory_back() -> None:
    """By itself glibc keeps a heap for each thread, full of holes where outputs of commands were: after 256 of them, of
    6 MB each, the server held 108 MB instead of 75."""
    with suppress(AttributeError):  # of another C library
        for option, value in HEAPS.items():
            ctypes.CDLL(None).mallopt(option, value)
