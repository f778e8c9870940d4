"""A minimal client that can send arbitrary bytes to `handhold mcp`."""

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

from tests.clients.party import HANDHOLD, LEGACY, MODERN

HELLO = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "line", "version": "1"}}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "line", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass
class Wire:
    """A server connected by two pipes. Its output is recorded unchanged."""

    server: "subprocess.Popen[bytes]"
    heard: "Queue[bytes]" = field(default_factory=Queue)

    def listen(self) -> None:
        assert self.server.stdout
        for line in self.server.stdout:
            self.heard.put(line)
        self.heard.put(b"")

    def say(self, *lines: bytes) -> None:
        assert self.server.stdin
        self.server.stdin.write(b"".join(line + b"\n" for line in lines))
        self.server.stdin.flush()

    def say_all(self, lines: Iterable[bytes]) -> Thread:
        """Write while reading, because two full pipes would deadlock."""
        saying = Thread(target=lambda: [self.say(line) for line in lines], daemon=True)
        saying.start()
        return saying

    def next(self, seconds: float = 30) -> dict[str, Any] | None:
        """The next message; None at the end. Every line must be a message."""
        try:
            line = self.heard.get(timeout=seconds)
        except Empty:
            raise AssertionError("the server says nothing") from None
        return json.loads(line) if line else None

    def until(self, tag: str, seconds: float = 30) -> Iterator[dict[str, Any]]:
        """All messages up to the response with this id."""
        while message := self.next(seconds):
            yield message
            if message.get("id") == tag:
                return
        raise AssertionError(f"the server went away: {self.gone()}")

    def ask(self, tag: str, method: str, /, **params: Any) -> dict[str, Any]:
        self.say(json.dumps({"jsonrpc": "2.0", "id": tag, "method": method, "params": params}).encode())
        return list(self.until(tag))[-1]

    def greet(self, seconds: float = 30) -> None:
        self.say(json.dumps({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": HELLO}).encode())
        assert list(self.until("hello", seconds))[-1]["result"]["protocolVersion"] == LEGACY
        self.say(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')

    def gone(self) -> tuple[int, str]:
        """Close the input and wait for the exit. Returns the exit status and standard error."""
        assert self.server.stdin
        assert self.server.stderr
        self.server.stdin.close()
        said = self.server.stderr.read().decode(errors="replace")
        return self.server.wait(30), said


@contextmanager
def connected(
    root: Path,
    state: Path,
    *options: str,
    command: tuple[str, ...] = HANDHOLD,
    env: Mapping[str, str] | None = None,
    listening: bool = True,
) -> Iterator[Wire]:
    server = subprocess.Popen(
        [*command, "mcp", "--root", str(root), "--state", str(state), *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
    )
    wire = Wire(server)
    if listening:
        Thread(target=wire.listen, daemon=True).start()
    try:
        yield wire
    finally:
        server.kill()
        server.wait()
        for pipe in (server.stdin, server.stdout, server.stderr):
            if pipe:
                pipe.close()
