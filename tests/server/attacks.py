"""Attacks on a server by a client with a token and by one without, run as a separate process.

    python -m tests.server.attacks ATTACK PORT TOKEN SECONDS

Every loop is bounded by time and by a count. Prints a JSON summary: the number of connections, and how many got each
status; 0 means no response.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

UNFINISHED, IDLE, CALLERS = 1030, 1200, 150
BODY = 4 * 1024 * 1024
SENT = 1024 * 1024  # bytes of an unfinished body; 1,030 of them exceed the memory limit of the test
HEAD = (
    "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
    "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n{more}Content-Length: {length}\r\n\r\n"
)
Attack = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[int]]


@dataclass
class Attacker:
    port: int
    token: str
    until: float
    seen: Counter[str] = field(default_factory=Counter)
    session: str = ""
    connecting: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(32))

    @property
    def goes_on(self) -> bool:
        return time.monotonic() < self.until

    def head(self, length: int) -> bytes:
        more = f"Mcp-Session-Id: {self.session}\r\n" if self.session else ""
        return HEAD.format(token=self.token, length=length, more=more).encode()

    async def tried(self, attack: Attack, first: bytes = b"") -> None:
        """Open a connection, send data, and return the status of the response."""
        status = 0
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            async with asyncio.timeout(max(0.1, self.until - time.monotonic())):
                async with self.connecting:
                    reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                    writer.write(first)
                self.seen["opened"] += 1
                try:
                    status = await attack(reader, writer)
                finally:
                    writer.transport.abort()
        self.seen[str(status)] += 1

    async def status(self, reader: asyncio.StreamReader) -> int:
        return int((await reader.readuntil(b"\r\n")).split()[1])

    async def begin(self) -> None:
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        body = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).encode()

        async def said(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
            head = await reader.readuntil(b"\r\n\r\n")
            for line in head.decode().split("\r\n"):
                name, _, value = line.partition(": ")
                if name.lower() == "mcp-session-id":
                    self.session = value
            return int(head.split()[1])

        await self.tried(said, self.head(len(body)) + body)
        self.seen.clear()

    # --- attacks

    async def unfinished(self) -> None:
        async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
            answer = asyncio.ensure_future(self.status(reader))
            for _ in range(SENT // 65536):
                if answer.done():
                    break
                writer.write(b" " * 65536)
                await writer.drain()
                await asyncio.sleep(0)
            return await answer

        await asyncio.gather(*(self.tried(half, self.head(BODY)) for _ in range(UNFINISHED)))

    async def idle(self) -> None:
        async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
            return await self.status(reader)

        begun = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "
        await asyncio.gather(*(self.tried(wait, begun * (n % 2)) for n in range(IDLE)))

    async def bodies(self, *bodies: bytes, at_once: int, pause: float = 0.0) -> None:
        async def again(body: bytes) -> None:
            async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
                return await self.status(reader)

            for _ in range(2000):
                if not self.goes_on:
                    return
                whole = b'{"jsonrpc": "2.0", "id": %d, %s' % (next(ids), body)
                await self.tried(send, self.head(len(whole)) + whole)
                await asyncio.sleep(pause)

        await asyncio.gather(*(again(body) for body in bodies for _ in range(at_once)))

    async def shapes(self) -> None:
        keys = call({f"key{n}": n for n in range(200_000)})
        start = b'"method": "tools/call", "params": '
        deep, wide = start + b"[" * 500_000, start + b"[" + b"{}," * 1_000_000 + b"{}]}"
        await self.bodies(keys, deep, wide, at_once=2)

    async def texts(self) -> None:
        await self.bodies(call({"path": 'x"\n' * (BODY // 6)}), at_once=8)

    async def calls(self) -> None:
        await self.bodies(call({"path": "a.py"}), at_once=CALLERS, pause=0.05)


ATTACKS = ("unfinished", "idle", "shapes", "texts", "calls")
ids = iter(range(1, 10_000_000))


def call(arguments: dict[str, object]) -> bytes:
    """A message without its beginning, which contains the id."""
    params = {"name": "read_file", "arguments": arguments}
    return json.dumps({"method": "tools/call", "params": params}).encode()[1:]


async def run(attack: str, port: int, token: str, seconds: float) -> Counter[str]:
    attacker = Attacker(port, token, time.monotonic() + seconds)
    await attacker.begin()
    await getattr(attacker, attack)()
    return attacker.seen


if __name__ == "__main__":
    print(json.dumps(asyncio.run(run(sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])))))
