"""Hub processes for tests."""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

from handhold.hub.service import HubStores
from tests.hub.servers import Server, free_port, is_listening


def list_objects(stores: HubStores) -> list[str]:
    """The keys of everything in the bucket."""
    return sorted(each["path"] for page in stores.contents._store.list() for each in page)  # pyright: ignore[reportPrivateUsage]


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
