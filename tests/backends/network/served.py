"""Servers on loopback, and a proxy in front of them that maps every allowed name to one of them."""

import encodings.idna  # noqa: F401 — now, since a plain user may not reach the library in the home of root
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from handhold.backends.network import NetworkAccess
from handhold.backends.network.proxy import Proxy
from handhold.core.policy.hosts import HostPattern


@dataclass
class Served:
    """A web server, and the requests it received."""

    port: int
    asked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])  # Host and path
    names: list[str] = field(default_factory=list[str])  # names that the proxy resolved

    def opening(self, *patterns: str) -> NetworkAccess:
        """A proxy for these patterns. Ports 80 and 443 lead to our ports, as the tests may not bind those."""
        allowed = [HostPattern.parse(each) for each in patterns]

        def objection(host: str, port: int) -> str:
            return "" if any(each.matches(host, port) for each in allowed) else "no rule opens it"

        def resolve(host: str, port: int) -> list[str]:
            self.names.append(host)
            return ["127.0.0.1"]

        return NetworkAccess(objection, resolve)


@contextmanager
def served() -> Iterator[Served]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            here.asked.append((self.headers.get("Host", ""), self.path))
            length = int(self.headers.get("Content-Length") or 0)
            body = b"hello from outside\n" + self.rfile.read(length)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - the name that is called

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    here = Served(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield here
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def proxied(opening: NetworkAccess) -> Iterator[tuple[Proxy, int]]:
    """A proxy on a port of this machine instead of a command's loopback."""
    ours, theirs = socket.socketpair()
    with theirs, socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = Proxy(ours, opening)
        socket.send_fds(theirs, [b"\0"], [listener.fileno()])
        try:
            yield proxy, listener.getsockname()[1]
        finally:
            proxy.close()


def said(port: int, request: bytes, seconds: float = 50) -> bytes:
    """What a proxy answers to these bytes."""
    got = b""
    # The proxy may have closed the connection: bytes sent after that are not read.
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection, suppress(OSError):
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        while piece := connection.recv(65536):
            got += piece
    return got
