"""A connection that no client can hold: headers, body and reading the response each have a time limit."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from handhold.http_listener.connections import Connections

HEADERS_TIMEOUT_SECONDS = 10.0  # for a client to send the headers of a request
WRITE_TIMEOUT_SECONDS = 60.0  # for a client to read what it is sent
BODY_GRACE_SECONDS = 20.0
BODY_BYTES_PER_SECOND = 32 * 1024  # on average, after that
SLOW_BODY = b'{"error": "TOO_SLOW", "message": "the body did not arrive in time"}'


class BoundedH11Protocol(H11Protocol):
    """uvicorn would wait forever. A connection is counted for its client, once a request was authenticated."""

    _request_timer: asyncio.TimerHandle | None = None
    _body_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None
    _body_since = 0.0
    _body_bytes = 0

    def __init__(
        self, *, open_connections: Connections, keep_alive: int, app_state: dict[str, Any], **options: Any
    ) -> None:
        super().__init__(app_state={**app_state, "connection": self}, **options)
        self._open_connections = open_connections
        self._keep_alive_seconds = keep_alive
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

    def assign_client(self, client: str) -> bool:
        self.timeout_keep_alive = self._keep_alive_seconds
        return self._open_connections.add(self, client)

    async def drain(self) -> None:
        await self.flow.drain()

    def data_received(self, data: bytes) -> None:
        if self._request_timer is None and self.is_idle:
            self._start_request_timer()
        self._body_bytes += len(data)
        super().data_received(data)

    def handle_events(self) -> None:
        before: RequestResponseCycle | None = self.cycle  # None before the first request
        super().handle_events()
        if self.cycle is not before:
            self._cancel_request_timer()
            self._cancel_body_timer()
        if self.is_idle or not self.cycle.more_body:
            self._cancel_body_timer()
        elif self._body_timer is None:
            self._body_since, self._body_bytes = self.loop.time(), 0
            self._body_timer = self.loop.call_later(BODY_GRACE_SECONDS, self._check_body)

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
        self._cancel_body_timer()
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

    def _check_body(self) -> None:
        """Give up a body that arrives too slowly, except while it is the application that does not read it."""
        cycle: RequestResponseCycle = self.cycle
        now = self.loop.time()
        if self.flow.read_paused or cycle.waiting_for_100_continue:
            self._body_since, self._body_bytes = now, 0
        left = self._body_since + BODY_GRACE_SECONDS + self._body_bytes / BODY_BYTES_PER_SECOND - now
        if left > 0:
            self._body_timer = self.loop.call_later(left, self._check_body)
            return
        self._body_timer = None
        if not cycle.response_started:
            headers = [("content-type", "application/json"), ("connection", "close")]
            for event in (h11.Response(status_code=408, headers=headers), h11.Data(data=SLOW_BODY), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        cycle.disconnected = True
        cycle.message_event.set()
        self.transport.close()

    def _start_request_timer(self) -> None:
        self._request_timer = self.loop.call_later(HEADERS_TIMEOUT_SECONDS, self.transport.close)

    def _cancel_request_timer(self) -> None:
        if self._request_timer:
            self._request_timer.cancel()
        self._request_timer = None

    def _cancel_body_timer(self) -> None:
        if self._body_timer:
            self._body_timer.cancel()
        self._body_timer = None
