"""The MCP server, independent of its transport.

The tools are imported only after the first response, so that clients start quickly.
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

from handhold.server.server_config import ServerConfig
from handhold.server.session_pool import SessionPool
from handhold.version import VERSION

if TYPE_CHECKING:
    from handhold.server.calls import CallHandler
    from handhold.server.tools import ToolCatalog

Context = ServerRequestContext[Any, Any]
ConfigResolver = Callable[[Context], ServerConfig]


def create_server(
    resolve_config: ConfigResolver,
    session_pool: SessionPool,
    *,
    instructions: str = "",
    on_loaded: Callable[[], object] = lambda: None,
) -> Server[Any]:
    """`resolve_config` returns the configuration for each request. Close the pool after the server has stopped."""
    handlers = LazyHandlers(session_pool, on_loaded)

    async def list_tools(context: Context, _: PaginatedRequestParams | None) -> ListToolsResult:
        if not handlers.is_loaded:
            await handlers.load()
        return ListToolsResult(tools=list(handlers.get_catalog(resolve_config(context)).definitions))

    async def call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        if not handlers.is_loaded:
            await handlers.load()
        config = resolve_config(context)
        return await handlers.call_handler.handle(context, params, config, handlers.get_catalog(config))

    async def load_after_first_request(ctx: Context, call_next: CallNext) -> HandlerResult:
        """A second request means that the first response has arrived: now there is time to import."""
        if handlers.has_seen_request:
            handlers.start_loading()
        handlers.has_seen_request = True
        return await call_next(ctx)

    server = Server(
        "handhold",
        version=VERSION,
        title="Handhold",
        instructions=instructions or None,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        # No tool takes arguments from headers. Without this, the SDK would list all tools for every call.
        get_tool_input_schema=lambda _: None,
    )
    server.middleware.append(load_after_first_request)
    return server


class LazyHandlers:
    """The call handler and the tool catalogs, imported on first use."""

    get_catalog: "Callable[[ServerConfig], ToolCatalog]"
    call_handler: "CallHandler"

    def __init__(self, session_pool: SessionPool, on_loaded: "Callable[[], object]") -> None:
        self._session_pool = session_pool
        self._on_loaded = on_loaded
        self._loading: asyncio.Future[None] | None = None
        self.is_loaded = False
        self.has_seen_request = False

    def start_loading(self) -> "asyncio.Future[None]":
        if self._loading is None:
            self._loading = asyncio.ensure_future(self._load_in_thread())
        return self._loading

    async def load(self) -> None:
        """Load once; waiting requests continue in the order in which they arrived."""
        await asyncio.shield(self.start_loading())

    async def _load_in_thread(self) -> None:
        await asyncio.to_thread(self._import_handlers)
        self.is_loaded = True

    def _import_handlers(self) -> None:
        from handhold.server.calls import CallHandler
        from handhold.server.tools import ToolCatalog

        self.call_handler = CallHandler(self._session_pool)
        self.get_catalog = lru_cache(maxsize=256)(ToolCatalog.from_config)
        self._on_loaded()
