"""Bodies of requests: bounded each, all together and by sender. How long one may take is the listener's.

So no sender fills the hub's memory or its disk, nor keeps others from sending by stopping in the middle.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from tempfile import SpooledTemporaryFile
from typing import IO

from starlette.requests import Request

from handhold.hub.access import Access
from handhold.hub.http_errors import HubHTTPError
from handhold.hub.metrics import HubMetrics

MAX_PENDING_BYTES = 256 * 1024 * 1024  # in memory
MAX_SPOOLED_BYTES = 512 * 1024 * 1024  # in temporary files
SENDERS = 4  # that can use up all of it; the uplink of a workspace sends one body at a time
SPOOL_BYTES = 1024 * 1024  # larger contents wait on disk
RETRY_AFTER_SECONDS = 1

Sender = tuple[int, int | None]  # tenant and workspace


class ByteBudget:
    """Bytes that all senders share, of which each may use a part."""

    def __init__(self, most: int) -> None:
        self._most, self.total = most, 0
        self._used: Counter[Sender] = Counter()

    def take(self, sender: Sender, size: int) -> None:
        """Refuse if there are none left. They are taken in any case."""
        self._add(sender, size)
        if self.total > self._most or self._used[sender] > self._most // SENDERS:
            raise HubHTTPError(503, "BUSY", "the hub has too much to do", RETRY_AFTER_SECONDS)

    def give_back(self, sender: Sender, size: int) -> None:
        self._add(sender, -size)
        if not self._used[sender]:
            del self._used[sender]

    def _add(self, sender: Sender, size: int) -> None:
        self.total += size
        self._used[sender] += size


class BodyReader:
    """For one event loop, and for requests that were authorized."""

    def __init__(
        self, metrics: HubMetrics, max_pending: int = MAX_PENDING_BYTES, max_spooled: int = MAX_SPOOLED_BYTES
    ) -> None:
        self._pending, self._spooled = ByteBudget(max_pending), ByteBudget(max_spooled)
        metrics.bodies.set_function(lambda: self._pending.total)

    @asynccontextmanager
    async def read(self, request: Request, limit: int) -> AsyncGenerator[bytes]:
        """A body in memory."""
        chunks: list[bytes] = []
        async with self._receive(request, limit, self._pending, chunks.append):
            yield b"".join(chunks)

    @asynccontextmanager
    async def spool(self, request: Request, limit: int) -> AsyncGenerator[IO[bytes]]:
        """A body in a temporary file, at its beginning."""
        with SpooledTemporaryFile(SPOOL_BYTES) as file:
            async with self._receive(request, limit, self._spooled, file.write):
                file.seek(0)
                yield file

    @asynccontextmanager
    async def _receive(
        self, request: Request, limit: int, budget: ByteBudget, write: Callable[[bytes], object]
    ) -> AsyncGenerator[None]:
        """Give a whole body to `write`, by and by. Its bytes are taken until the end."""
        access: Access = request.state.access
        sender, size = (access.tenant, access.workspace), 0
        try:
            async for chunk in request.stream():
                size += len(chunk)
                budget.take(sender, len(chunk))
                if size > limit:
                    raise HubHTTPError(413, "TOO_LARGE", f"a body may have {limit} bytes")
                write(chunk)
            yield
        finally:
            budget.give_back(sender, size)
