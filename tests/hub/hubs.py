"""Hubs for tests: processes, and one in a thread of this process."""

import io
import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from handhold.core.ports.record_store import ChainId
from handhold.http_listener.listener import bind_socket
from handhold.hub.app import HubApp
from handhold.hub.service import MAX_CONNECTIONS, HubStores, create_hub_listener
from handhold.hub.stored_contents import StoredContents
from tests.hub.servers import Server, free_port, is_listening


def list_objects(stores: HubStores) -> list[str]:
    """The keys of everything in the bucket."""
    return sorted(each["path"] for page in stores.contents._store.list() for each in page)  # pyright: ignore[reportPrivateUsage]


def read_content(stores: HubStores, chain: ChainId, hash: str) -> bytes | None:
    """As it is stored, verified; None if it is missing."""
    content, file = stores.records.find_content(chain, hash), io.BytesIO()
    if content is None or not StoredContents(stores.records, stores.contents).fetch(chain, hash, content, file):
        return None
    return file.getvalue()


class Hub(Server):
    """`handhold hub serve` on a database and a bucket, or on a folder."""

    def __init__(
        self,
        database: str,
        contents: str,
        log: Path,
        port: int = 0,
        env: dict[str, str] | None = None,
        module: str = "handhold",
    ) -> None:
        self.database, self.contents = database, contents
        port = port or free_port()
        run = ["-c", "from handhold.cli import main; main()"] if module == "handhold" else ["-m", module]
        argv = [
            sys.executable,
            *run,
            "hub",
            "serve",
            "--database",
            database,
            "--contents",
            contents,
            "--listen",
            f"127.0.0.1:{port}",
        ]
        super().__init__(argv, port, log, env)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def is_ready(self) -> bool:
        return is_listening(self.port)

    def new_token(self, workspace: str | None, role: str = "agent", tenant: str = "local") -> str:
        options = ["--database", self.database, "--contents", self.contents, "--role", role, "--tenant", tenant]
        options += ["--workspace", workspace] if workspace else []
        argv = [sys.executable, "-c", "from handhold.cli import main; main()", "hub", "new-token", *options]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env={**os.environ, **(self.env or {})})
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def get(self, path: str, token: str) -> bytes:
        request = urllib.request.Request(self.url + path, headers={"authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.read()

    def get_json(self, path: str, token: str):
        return json.loads(self.get(path, token))


@contextmanager
def serving(
    stores: HubStores, lines: list[dict] | None = None, max_connections: int = MAX_CONNECTIONS
) -> Iterator[int]:
    """A hub on a port of this process."""
    log = None if lines is None else lines.append
    app = HubApp(stores.records, stores.tokens, stores.contents, log=log)
    sock = bind_socket("127.0.0.1", 0)
    server = create_hub_listener(app.asgi, max_connections=max_connections)
    thread = threading.Thread(target=server.run_on, args=(sock, lambda: None), daemon=True)
    thread.start()
    try:
        yield sock.getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        thread.join(20)
