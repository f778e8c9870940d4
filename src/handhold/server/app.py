"""The server itself: the parts put together, for any transport.

A client waits for the first answer and not for what it needs later, so nothing of the tools is imported before that.
"""

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
)

from handhold.server.desks import Desks
from handhold.server.serving import Serving
from handhold.version import VERSION

if TYPE_CHECKING:
    from handhold.server.calls import Calls
    from handhold.server.tools import Tools

Context = ServerRequestContext[Any, Any]
ServingFor = Callable[[Context], Serving]


def served(serving_for: ServingFor, desks: Desks, *, instructions: str = "") -> Server[Any]:
    """A server that asks, of every request, what its client is served. Close the desks when it has stopped."""
    counter = Counter(desks)

    async def list_tools(context: Context, _: PaginatedRequestParams | None) -> ListToolsResult:
        if not counter.is_open:
            await counter.open()
        return ListToolsResult(tools=list(counter.tools(serving_for(context)).listed))

    async def call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        if not counter.is_open:
            await counter.open()
        serving = serving_for(context)
        return await counter.calls.answer(context, params, serving, counter.tools(serving))

    async def first_things_first(ctx: Context, call_next: CallNext) -> HandlerResult:
        """What comes second says that the first answer has arrived: now there is time to import."""
        if counter.was_asked:
            counter.open_soon()
        counter.was_asked = True
        return await call_next(ctx)

    server = Server(
        "handhold",
        version=VERSION,
        title="Handhold",
        instructions=instructions or None,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        # No tool of ours takes an argument by a header; asked otherwise, the SDK lists all of them for every call.
        get_tool_input_schema=lambda _: None,
    )
    server.middleware.append(first_things_first)
    return server


class Counter:
    """Where calls are taken, once all that they need is imported."""

    tools: "Callable[[Serving], Tools]"
    calls: "Calls"

    def __init__(self, desks: Desks) -> None:
        self._desks = desks
        self._opening: asyncio.Future[None] | None = None
        self.is_open = False
        self.was_asked = False

    def open_soon(self) -> "asyncio.Future[None]":
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._opened())
        return self._opening

    async def open(self) -> None:
        """Those that wait for it go on in the order in which they came."""
        await asyncio.shield(self.open_soon())

    async def _opened(self) -> None:
        await asyncio.to_thread(self._open)
        self.is_open = True

    def _open(self) -> None:
        from handhold.server.calls import Calls
        from handhold.server.tools import Tools

        self.calls = Calls(self._desks)
        self.tools = lru_cache(maxsize=256)(Tools.of)
