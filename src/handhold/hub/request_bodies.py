"""Bodies of requests: bounded each, all together and by tenant. How long one may take is the listener's.

So no tenant fills the hub's memory or its disk, nor keeps others from sending by stopping in the middle.
"""

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from tempfile import SpooledTemporaryFile
from typing import IO

from starlette.requests import Request

from handhold.hub.access import Access
from handhold.hub.byte_budget import ByteBudget
from handhold.hub.http_errors import HubHTTPError
from handhold.hub.metrics import HubMetrics

MAX_PENDING_BYTES = 256 * 1024 * 1024  # in memory
MAX_SPOOLED_BYTES = 512 * 1024 * 1024  # in temporary files
SPOOL_BYTES = 1024 * 1024  # larger contents wait on disk


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

    @contextmanager
    def reserve_file(self, tenant: int, size: int) -> Generator[IO[bytes]]:
        """A temporary file for an answer of this size, which shares the disk with uploads."""
        self._spooled.take(tenant, size)
        try:
            with SpooledTemporaryFile(SPOOL_BYTES) as file:
                yield file
        finally:
            self._spooled.give_back(tenant, size)

    @asynccontextmanager
    async def _receive(
        self, request: Request, limit: int, budget: ByteBudget, write: Callable[[bytes], object]
    ) -> AsyncGenerator[None]:
        """Give a whole body to `write`, by and by. Its bytes are taken until the end."""
        access: Access = request.state.access
        size = 0
        try:
            async for chunk in request.stream():
                budget.take(access.tenant, len(chunk))
                size += len(chunk)
                if size > limit:
                    raise HubHTTPError(413, "TOO_LARGE", f"a body may have {limit} bytes")
                write(chunk)
            yield
        finally:
            budget.give_back(access.tenant, size)
