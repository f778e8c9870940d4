"""Bodies of requests: bounded each, and bounded all together, so that no sender fills the hub's memory."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from tempfile import SpooledTemporaryFile
from typing import IO

from starlette.requests import Request

from handhold.hub.http_errors import HubHTTPError
from handhold.hub.metrics import HubMetrics

MAX_PENDING_BYTES = 512 * 1024 * 1024
SPOOL_BYTES = 1024 * 1024  # larger contents wait on disk
RETRY_AFTER_SECONDS = 1


class BodyReader:
    """For one event loop."""

    def __init__(self, metrics: HubMetrics, max_pending: int = MAX_PENDING_BYTES) -> None:
        self._pending = 0
        self._max_pending = max_pending
        self._metrics = metrics

    @asynccontextmanager
    async def read(self, request: Request, limit: int) -> AsyncGenerator[bytes]:
        """A body in memory."""
        chunks: list[bytes] = []
        size = 0
        try:
            async for chunk in request.stream():
                size += len(chunk)
                self._count(len(chunk))
                if size > limit:
                    raise HubHTTPError(413, "TOO_LARGE", f"a body may have {limit} bytes")
                if self._pending > self._max_pending:
                    raise HubHTTPError(503, "BUSY", "the hub has too much to do", RETRY_AFTER_SECONDS)
                chunks.append(chunk)
            yield b"".join(chunks)
        finally:
            self._count(-size)

    @asynccontextmanager
    async def spool(self, request: Request, limit: int) -> AsyncGenerator[IO[bytes]]:
        """A body in a temporary file, at its beginning."""
        size = 0
        with SpooledTemporaryFile(SPOOL_BYTES) as file:
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise HubHTTPError(413, "TOO_LARGE", f"a content may have {limit} bytes")
                file.write(chunk)
            file.seek(0)
            yield file

    def _count(self, size: int) -> None:
        self._pending += size
        self._metrics.bodies.inc(size)
