"""`handhold mcp`: one client, over standard input and output; one process is one session.

Standard output belongs to the protocol: while it is served, whatever else is printed goes to standard error.
"""

import os
import signal
from dataclasses import replace

import anyio
from anyio.to_thread import run_sync

from handhold.server.app import served
from handhold.server.desks import Desks
from handhold.server.serving import Serving
from handhold.server.wire import wire


def serve(serving: Serving) -> None:
    """Until the client goes, or a signal comes; what runs then is ended, and nothing is left behind."""
    desks = Desks()
    serving = replace(serving, session=serving.session or desks.mint())
    serving.log_warnings()
    try:
        anyio.run(_served, serving, desks)
    finally:
        desks.close()


async def _served(serving: Serving, desks: Desks) -> None:
    server = served(lambda _: serving, desks, instructions=serving.instructions)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_until_a_signal, desks)
        async with wire() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
        tasks.cancel_scope.cancel()


async def _until_a_signal(desks: Desks) -> None:
    """The thread that reads standard input cannot be stopped, so the process ends here, after all that it runs."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async for number in signals:
            await run_sync(desks.close)
            os._exit(128 + number)
