"""A server with the SDK's client, in this process or in a separate one, for both protocol eras."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mcp import Client
from mcp.client._memory import InMemoryTransport
from mcp.client.stdio import StdioServerParameters
from mcp_types import CallToolResult, TextContent

from handhold.server.app import create_server
from handhold.server.server_config import ServerConfig
from handhold.server.session_pool import SessionPool

ERAS = ("legacy", "2026-07-28")
HANDHOLD = str(Path(sys.executable).with_name("handhold"))


@dataclass(frozen=True)
class Shop:
    """A small workspace and its state folder."""

    root: Path
    state: Path

    @classmethod
    def below(cls, folder: Path) -> "Shop":
        shop = cls(folder / "shop", folder / "state")
        shop.root.mkdir()
        (shop.root / "a.py").write_text("price = 1\n")
        return shop

    def serving(self, **more: Any) -> ServerConfig:
        given = {"state": str(self.state), "settings": False, "session": "s", **more}
        return replace(ServerConfig.for_roots(self.root), **given)

    @property
    def command(self) -> list[str]:
        return [HANDHOLD, "mcp", "--root", str(self.root), "--state", str(self.state)]

    def in_a_process(self, *options: str, **env: str) -> StdioServerParameters:
        command, *arguments = [*self.command, *options]
        return StdioServerParameters(command=command, args=arguments, env={**os.environ, **env})


@asynccontextmanager
async def talk(
    serving: ServerConfig, era: str = ERAS[0], desks: SessionPool | None = None, **how: Any
) -> AsyncGenerator[Client]:
    desks = desks or SessionPool()
    try:
        # Over streams, not the server object: that would skip serialization and progress tokens.
        wire = InMemoryTransport(create_server(lambda _: serving, desks))
        async with Client(wire, mode=era, **how) as client:
            yield client
    finally:
        await asyncio.to_thread(desks.close)


def text_of(result: CallToolResult) -> str:
    return "\n".join(each.text for each in result.content if isinstance(each, TextContent))


class Nap:
    """A sleep with a unique duration, to find its processes."""

    def __init__(self, shop: Shop) -> None:
        self.seconds = str(9_000_000 + shop.root.stat().st_ino % 1_000_000)
        self.command = f"sleep {self.seconds}"

    @property
    def asleep(self) -> int:
        """The number of running sleeps."""
        return sum(line == f"sleep\0{self.seconds}\0".encode() for line in self._lines())

    @property
    def left(self) -> int:
        """The number of processes that mention it, including wrappers."""
        return sum(self.seconds.encode() in line for line in self._lines())

    def _lines(self) -> Iterator[bytes]:
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    yield (entry / "cmdline").read_bytes()


class Wire:
    """A server in a separate process, with full control over the bytes sent and received."""

    def __init__(self, command: list[str], env: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
        )
        self.lines: list[bytes] = []
        self._next = 0

    def say(self, method: str, params: dict[str, Any] | None = None, *, note: bool = False) -> int:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        if not note:
            self._next += 1
            message["id"] = self._next
        self._write(message)
        return self._next

    def _write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self, number: int) -> dict[str, Any]:
        """The response to this request. Other messages are kept; questions are declined."""
        assert self.process.stdout
        while line := self.process.stdout.readline():
            self.lines.append(line)
            message = json.loads(line)
            if message.get("method") == "elicitation/create":
                self._write({"jsonrpc": "2.0", "id": message["id"], "result": {"action": "decline"}})
            elif message.get("id") == number and "method" not in message:
                return message
        raise AssertionError("the server has gone")

    def begin(self, **capabilities: Any) -> dict[str, Any]:
        who = {"name": "plain", "version": "1"}
        asked = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": who}
        said = self.hear(self.say("initialize", asked))
        self.say("notifications/initialized", note=True)
        return said

    def call(self, tool: str, arguments: dict[str, Any], call_id: str = "") -> int:
        meta = {"_meta": {"handhold/callId": call_id}} if call_id else {}
        return self.say("tools/call", {"name": tool, "arguments": arguments, **meta})

    def end(self) -> bytes:
        """Close its input and wait for it to exit. Returns its standard error."""
        out, err = self.process.communicate(timeout=30)
        self.lines += out.splitlines(keepends=True)
        return err
