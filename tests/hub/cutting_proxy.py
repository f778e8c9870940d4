"""A TCP proxy that cuts connections: after a random number of bytes in either direction, or while a request is under way.

What was sent before the cut still reaches the other side, so a request may be carried out whose sender never hears of it
and sends it again.
"""

import asyncio
import random
from contextlib import suppress
from threading import Thread

BUFFER_BYTES = 16 * 1024


class CuttingProxy:
    """`share` is the share of connections that are cut."""

    def __init__(self, port: int, target: int, *, share: float, seed: int) -> None:
        self.port, self.target, self.share = port, target, share
        self.cuts = 0
        self._random = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)

    def start(self) -> None:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(asyncio.start_server(self._serve, "127.0.0.1", self.port), self._loop).result(
            10
        )

    def stop(self) -> None:
        def cancel() -> None:
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._loop.call_later(0.2, self._loop.stop)

        self._loop.call_soon_threadsafe(cancel)
        self._thread.join(10)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        limits = [1 << 62, 1 << 62]
        if self._random.random() < self.share:
            limits[self._random.randrange(2)] = self._random.choice(
                (self._random.randrange(300), self._random.randrange(30_000))
            )
        both = (self._pump(reader, back, limits[0], writer), self._pump(there, writer, limits[1], writer))
        with suppress(OSError, asyncio.IncompleteReadError):
            await asyncio.gather(*both)
        for each in (writer, back):
            with suppress(OSError):
                each.close()

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, limit: int, client: asyncio.StreamWriter
    ) -> None:
        passed = 0
        while data := await source.read(BUFFER_BYTES):
            part = data[: max(0, limit - passed)]
            passed += len(part)
            sink.write(part)
            await sink.drain()
            if len(part) < len(data):  # the client is cut off; what went on is carried out
                self.cuts += 1
                client.transport.abort()
                await asyncio.sleep(2)
                return
        with suppress(OSError):
            sink.write_eof()
