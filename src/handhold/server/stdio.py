"""The server of `handhold mcp`: one client and one session per process, over standard input and output.

Standard output is reserved for the protocol. Anything else that is printed goes to standard error.
"""

import os
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
from anyio.to_thread import run_sync

from handhold.server.app import create_server
from handhold.server.client_session import ClientSession
from handhold.server.server_config import ServerConfig
from handhold.server.session_pool import SessionPool
from handhold.server.stdio_transport import open_stdio_streams


def serve(config: ServerConfig) -> None:
    """Serve until the client disconnects or a signal arrives; then end everything that still runs."""
    session_pool = SessionPool()
    if not config.session:
        joined = ClientSession(config.roots, config.state)
        config = replace(config, session=session_pool.generate_name(), client_session=joined)
    config.log_warnings()
    try:
        anyio.run(_run_server, config, session_pool)
    finally:
        session_pool.close()


async def _run_server(config: ServerConfig, session_pool: SessionPool) -> None:
    server = create_server(
        lambda _: config, session_pool, instructions=config.instructions, on_loaded=partial(_start_hook_server, config)
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_exit_on_signal, session_pool)
        async with open_stdio_streams() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
        tasks.cancel_scope.cancel()


async def _exit_on_signal(session_pool: SessionPool) -> None:
    """Close the sessions and exit at once, because the thread that reads standard input cannot be stopped."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async for number in signals:
            await run_sync(session_pool.close)
            os._exit(128 + number)


def _start_hook_server(config: ServerConfig) -> None:
    from handhold.hooks.hook_server import start_hook_server

    start_hook_server(Path(config.state) if config.state else None)
