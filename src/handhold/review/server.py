"""Runs the review page on a loopback address, until it is interrupted."""

import asyncio
import hmac
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from types import FrameType

import uvicorn

from handhold.backends.state.signing_key import load_or_create_key
from handhold.review.access import AccessKeys
from handhold.review.app import ReviewApp
from handhold.review.workspace import ReviewedWorkspace

OPENING_FILE = "review.html"  # leads a browser to the page: its command line would show the token to other users
OPENING_PAGE = '<!doctype html><meta http-equiv="refresh" content="0;url={0}"><a href="{0}">Open the review page</a>\n'


class ReviewServer:
    """The page of one workspace, on one socket."""

    def __init__(self, workspace: ReviewedWorkspace, sock: socket.socket, by: str) -> None:
        host, port = sock.getsockname()[:2]
        names = ("127.0.0.1", "localhost", "[::1]", f"[{host}]" if ":" in host else host)
        key = load_or_create_key(workspace.folder)
        # The same for each start, so that a link to a call stays valid on this machine.
        self.base = "/" + hmac.new(key, b"review page", sha256).hexdigest()[:16]
        self.origin = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        self.keys = AccessKeys()
        self._workspace = workspace
        self._sock = sock
        self.app = ReviewApp(workspace, self.keys, self.base, [f"http://{name}:{port}" for name in names], by)
        self._server: uvicorn.Server | None = None

    @property
    def link(self) -> str:
        return f"{self.origin}{self.base}/enter?token={self.keys.link_token}"

    def write_opening_file(self) -> Path:
        """A private file that leads to the link."""
        file = self._workspace.folder / OPENING_FILE
        with suppress(FileNotFoundError):
            file.unlink()
        fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="ascii") as opened:
            opened.write(OPENING_PAGE.format(self.link))
        return file

    def run(self, on_ready: Callable[[], object] = lambda: None) -> None:
        config = uvicorn.Config(
            self.app,
            log_level="error",
            access_log=False,
            server_header=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=1,
            limit_concurrency=200,
            lifespan="on",
        )
        self._server = QuietServer(config, on_ready, self.app.events.end_streams)
        try:
            asyncio.run(self._server.serve(sockets=[self._sock]))
        finally:
            (self._workspace.folder / OPENING_FILE).unlink(missing_ok=True)

    def stop(self) -> None:
        """From any thread."""
        if self._server:
            self._server.should_exit = True


class QuietServer(uvicorn.Server):
    """Ends with status 0 when it is interrupted, also while pages are open."""

    def __init__(
        self, config: uvicorn.Config, on_ready: Callable[[], object], end_streams: Callable[[], object]
    ) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._end_streams = end_streams

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._end_streams()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.should_exit = True


def bind_loopback(host: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock
