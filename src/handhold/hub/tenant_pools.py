"""Threads for what a hub waits for. Each kind of work has its own, and each tenant a share of them.

So an object store that hangs does not keep anybody from appending records, and a tenant that asks for much at once
waits for itself. Authentication has the threads of the event loop, which nothing else uses for long.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import ParamSpec, TypeVar

from handhold.hub.http_errors import busy

READ_THREADS = max(2, min(8, os.cpu_count() or 2))

P = ParamSpec("P")
T = TypeVar("T")


@dataclass
class TenantQueue:
    """The calls of one tenant, running and waiting."""

    turns: asyncio.Semaphore
    count: int = 0


class TenantPool:
    """For one event loop."""

    def __init__(self, name: str, threads: int, share: int, max_waiting: int) -> None:
        """A tenant runs at most `share` calls at once; `max_waiting` more wait, in their order."""
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=f"hub {name}")
        self._share, self._most = share, share + max_waiting
        self._queues: dict[int, TenantQueue] = {}

    async def run(self, tenant: int, call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """The result of a call in a thread. HubHTTPError if too many of the tenant wait already."""
        async with self._reserve(tenant):
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._executor, partial(call, *args, **options))

    @asynccontextmanager
    async def _reserve(self, tenant: int) -> AsyncGenerator[None]:
        queue = self._queues.setdefault(tenant, TenantQueue(asyncio.Semaphore(self._share)))
        if queue.count >= self._most:
            raise busy()
        queue.count += 1
        try:
            async with queue.turns:
                yield
        finally:
            queue.count -= 1
            if not queue.count:
                del self._queues[tenant]


@dataclass(frozen=True)
class TenantPools:
    """`share` and waiting: a tenant has many sandboxes and few readers. The processors are for half of its reads."""

    records: TenantPool = field(default_factory=partial(TenantPool, "records", 8, 4, 1024))  # short statements
    # Batches that take much memory to parse: one at a time, and each tenant's in turn.
    large: TenantPool = field(default_factory=partial(TenantPool, "large", 1, 1, 64))
    reads: TenantPool = field(default_factory=partial(TenantPool, "reads", READ_THREADS, READ_THREADS // 2, 64))
    contents: TenantPool = field(default_factory=partial(TenantPool, "contents", 32, 4, 256))  # wait for the store
    pages: TenantPool = field(default_factory=partial(TenantPool, "pages", 16, 1, 64))  # for both
