"""Tells open pages what is new, by server-sent events; and tells calls that somebody is there to answer."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, suppress
from typing import Any

from starlette.concurrency import run_in_threadpool

from handhold.review.workspace import ReviewedWorkspace

POLL_SECONDS = 0.25
PING_SECONDS = 10.0
PRESENCE_GRACE_SECONDS = 20.0  # between two pages, or while one is reloaded
MAX_STREAMS = 32


class EventHub:
    """Watches the journal while at least one page listens."""

    def __init__(self, workspace: ReviewedWorkspace, *, grace: float = PRESENCE_GRACE_SECONDS) -> None:
        self._workspace = workspace
        self._grace = grace
        self._queues: set[asyncio.Queue[str]] = set()
        self._watching: asyncio.Task[None] | None = None
        self._last: Any = None

    @property
    def is_full(self) -> bool:
        return len(self._queues) >= MAX_STREAMS

    async def stream(self) -> AsyncGenerator[str]:
        """Events for one page."""
        queue: asyncio.Queue[str] = asyncio.Queue(maxsize=64)
        self._queues.add(queue)
        try:
            await self._start_watching()
            yield "retry: 2000\n\n"
            yield _format_event("hello", await run_in_threadpool(self._read_questions))
            while True:
                try:
                    event = await asyncio.wait_for(queue.get(), PING_SECONDS)
                except TimeoutError:
                    event = _format_event("ping", {})
                if not event:
                    return
                yield event
        finally:
            self._queues.discard(queue)

    def end_streams(self) -> None:
        """Let every page's stream end."""
        for queue in self._queues:
            with suppress(asyncio.QueueFull):
                queue.put_nowait("")

    async def close(self) -> None:
        if self._watching:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching

    async def _start_watching(self) -> None:
        """Begin with a state from before the first page is told its questions: what changes after it, is an event."""
        if self._last is None:
            found = await run_in_threadpool(self._read_state)
            self._last = self._last or found
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch())
            # Should it fail, pages must not stay "live" without events: they connect again, and it starts again.
            self._watching.add_done_callback(lambda _: self.end_streams())

    async def _watch(self) -> None:
        """Hold the presence while pages listen, and for a while after the last one left."""
        async with AsyncExitStack() as stack:
            await run_in_threadpool(stack.enter_context, self._workspace.store.review_presence.hold())
            alone_since: float | None = None
            while True:
                now = asyncio.get_running_loop().time()
                if self._queues:
                    alone_since = None
                    await self._poll()
                elif alone_since is None:
                    alone_since = now
                elif now - alone_since > self._grace:
                    return
                await asyncio.sleep(POLL_SECONDS)

    async def _poll(self) -> None:
        found = await run_in_threadpool(self._read_state)
        if found != self._last:
            version, sizes = found
            old_version, old_sizes = self._last
            if version.records != old_version.records:
                self._send("calls", {})
            if (version.questions, version.answers) != (old_version.questions, old_version.answers):
                self._send("questions", await run_in_threadpool(self._read_questions))
            if sizes != old_sizes or version.records != old_version.records:
                self._send("output", {})
        self._last = found

    def _read_state(self) -> Any:
        records = self._workspace.records
        running = [each.entry.seq for each in records.list_running()]
        return records.version(), {seq: records.measure_output(seq) for seq in running}

    def _read_questions(self) -> Any:
        pending = self._workspace.store.list_pending()
        return {"questions": [each.id for each in pending]}

    def _send(self, name: str, data: Any) -> None:
        event = _format_event(name, data)
        for queue in self._queues:
            with suppress(asyncio.QueueFull):  # a page that does not read gets the next event
                queue.put_nowait(event)


def _format_event(name: str, data: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
