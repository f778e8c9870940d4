"""An HTTP server in a thread of this process, and a minimal client with full control over the bytes."""

import asyncio
import http.client
import json
import signal
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Thread
from typing import Any

from handhold.http_listener.listener import bind_socket, create_listener
from handhold.server.http import HTTPApp
from handhold.server.server_config import ServerConfig
from handhold.server.tokens import AccessToken, AccessTokens, hash_token

MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "plain", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
PLAIN = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


@dataclass(frozen=True)
class Web:
    """The address of a server, and its application."""

    port: int
    face: HTTPApp


@contextmanager
def served(tokens: AccessTokens, *, grace: float = 5.0, **how: Any) -> Generator[Web]:
    face = HTTPApp(tokens, **how)
    at = bind_socket("127.0.0.1", 0)
    server = create_listener(
        face, max_connections=face.limits.max_connections, grace=grace, on_stop=face.stop_accepting
    )
    loop = asyncio.new_event_loop()
    thread = Thread(target=lambda: loop.run_until_complete(server.serve(sockets=[at])))
    thread.start()
    try:
        yield Web(at.getsockname()[1], face)
    finally:
        loop.call_soon_threadsafe(server.handle_exit, signal.SIGTERM, None)
        thread.join(30)
        assert not thread.is_alive(), "the server did not stop"
        loop.close()


def token_for(name: str, root: Path, state: Path, **more: Any) -> AccessToken:
    """In tests, the token of a name is the name itself."""
    serving = replace(ServerConfig.for_roots(root), name=name, state=str(state / name), settings=False, **more)
    return AccessToken(hash_token(name), serving)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> Any:
        """The last message; in a stream, this is the response."""
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            return self.messages[-1]
        return json.loads(self.body)

    @property
    def messages(self) -> list[Any]:
        return [json.loads(line[6:]) for line in self.body.decode().splitlines() if line.startswith("data: ")]

    @property
    def result(self) -> Any:
        assert "result" in self.message, self.message
        return self.message["result"]

    @property
    def text(self) -> str:
        return self.result["content"][0]["text"]


@dataclass
class Client:
    """Opens a connection for each request, unless it should keep one."""

    port: int
    token: str = ""
    session: str = ""
    ids: int = field(default=0)

    def raw(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            given = {"authorization": f"Bearer {self.token}"} if self.token else {}
            connection.request(method, path, body, {**given, **(headers or {})})
            response = connection.getresponse()
            told = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, told, response.read())
        finally:
            connection.close()

    def post(self, message: Any, headers: Mapping[str, str] | None = None) -> Answer:
        return self.raw("POST", "/mcp", json.dumps(message).encode(), {**PLAIN, **(headers or {})})

    def modern(self, method: str, params: Mapping[str, Any] | None = None, **meta: Any) -> Answer:
        """Send a request of the revision without sessions."""
        self.ids += 1
        given = {**(params or {}), "_meta": {**ENVELOPE, **meta}}
        headers = {"mcp-protocol-version": MODERN, "mcp-method": method}
        if method == "tools/call":
            headers["mcp-name"] = given["name"]
        return self.post({"jsonrpc": "2.0", "id": self.ids, "method": method, "params": given}, headers)

    def tool(self, name: str, arguments: Mapping[str, Any], **meta: Any) -> Answer:
        return self.modern("tools/call", {"name": name, "arguments": arguments}, **meta)

    def begin(self, capabilities: Mapping[str, Any] | None = None) -> Answer:
        """Perform the handshake of the revisions with sessions."""
        params = {
            "protocolVersion": HANDSHAKE,
            "capabilities": capabilities or {},
            "clientInfo": {"name": "plain", "version": "1"},
        }
        answer = self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        self.session = answer.headers.get("mcp-session-id", "")
        return answer

    @property
    def headers(self) -> dict[str, str]:
        return {"mcp-session-id": self.session, "mcp-protocol-version": HANDSHAKE}

    def legacy(self, method: str, params: Mapping[str, Any] | None = None) -> Answer:
        self.ids += 1
        return self.post({"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params or {}}, self.headers)

    def old_tool(self, name: str, arguments: Mapping[str, Any], **meta: Any) -> Answer:
        return self.legacy("tools/call", {"name": name, "arguments": arguments, "_meta": meta})
