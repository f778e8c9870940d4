"""Runs the review page on a loopback address, until it is interrupted."""

import hmac
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from handhold.backends.state.signing_key import load_or_create_key
from handhold.http_listener.listener import Listener, create_listener
from handhold.review.access import AccessKeys
from handhold.review.app import ReviewApp
from handhold.review.workspace import ReviewedWorkspace

OPENING_FILE = "review.html"  # leads a browser to the page: its command line would show the token to other users
OPENING_PAGE = '<!doctype html><meta http-equiv="refresh" content="0;url={0}"><a href="{0}">Open the review page</a>\n'
MAX_CONNECTIONS = 256  # half of them for browsers that have entered, a quarter for everybody else


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
        self._listener: Listener | None = None

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
        self._listener = create_listener(
            self.app, max_connections=MAX_CONNECTIONS, grace=1, on_stop=self.app.events.end_streams
        )
        try:
            self._listener.run_on(self._sock, on_ready)
        finally:
            (self._workspace.folder / OPENING_FILE).unlink(missing_ok=True)

    def stop(self) -> None:
        """From any thread."""
        if self._listener:
            self._listener.should_exit = True
