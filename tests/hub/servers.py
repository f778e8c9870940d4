"""Real servers for the tests of the hub: PostgreSQL, SeaweedFS and HAProxy, each on a free port with its own folder."""

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from tempfile import mkdtemp

import psycopg

START_SECONDS = 60


def find_program(name: str) -> str:
    """A program of PATH, of the Python environment, or of Debian's PostgreSQL, which is not on PATH."""
    folders = [str(Path(sys.executable).parent), *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin"))[::-1])]
    found = shutil.which(name) or shutil.which(name, path=os.pathsep.join([*folders, "/usr/sbin"]))
    assert found, f"{name} is missing: see the packages in .ci/run"
    return found


def free_port() -> int:
    """A port that no other test process was given either: a lock file each, below the ephemeral ports."""
    for port in range(20_000 + os.getpid() % 5_000, 32_000):
        with socket.socket() as trial:
            try:
                trial.bind(("127.0.0.1", port))
            except OSError:
                continue
        handle = os.open(f"/tmp/handhold-test-port-{port}", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            continue
        return port
    raise OSError("no free port")


def wait_until(ready: Callable[[], bool], what: str, seconds: float = START_SECONDS) -> None:
    until = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < until, f"{what}: not within {seconds} s"
        time.sleep(0.05)


def is_listening(port: int) -> bool:
    with socket.socket() as trial:
        trial.settimeout(1)
        return trial.connect_ex(("127.0.0.1", port)) == 0


class Server:
    """A process that listens on a port. It can be killed and started again."""

    def __init__(
        self, argv: Sequence[str], port: int, log: Path, env: Mapping[str, str] | None = None, uid: int | None = None
    ) -> None:
        self.argv, self.port, self.log, self.env, self.uid = argv, port, log, env, uid
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *, wait: bool = True) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.argv,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **(self.env or {})},
                user=self.uid,
                group=self.uid,
                start_new_session=True,
            )
        if wait:
            self.wait()

    def wait(self) -> None:
        wait_until(lambda: self.is_ready() or self.has_ended(), f"{self.argv[0]} on {self.port}")
        assert not self.has_ended(), self.log.read_text(errors="replace")[-3000:]

    def is_ready(self) -> bool:
        return is_listening(self.port)

    def has_ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.send_signal(number)
            self.process.wait(30)

    def stop(self) -> None:
        self.kill(signal.SIGTERM)

    def remove(self) -> None:
        """What it left outside its folder."""


class Postgres(Server):
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        # It refuses to run as root, and others do not reach the folders of pytest.
        self.data = Path(mkdtemp(prefix="handhold-postgres-"))
        uid = 65534 if os.geteuid() == 0 else None
        if uid:
            os.chown(self.data, uid, uid)
        subprocess.run(
            [
                find_program("initdb"),
                "-D",
                self.data,
                "-U",
                "postgres",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C",
                "--no-sync",
            ],
            user=uid,
            group=uid,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        port = free_port()
        options = {
            "listen_addresses": "127.0.0.1",
            "port": port,
            "unix_socket_directories": "",
            "max_connections": 200,
            "shared_buffers": "128MB",
            "max_wal_size": "2GB",
            "fsync": "off",  # processes are killed here, the machine is not
        }
        argv = [
            find_program("postgres"),
            "-D",
            str(self.data),
            *(f"--{name}={value}" for name, value in options.items()),
        ]
        super().__init__(argv, port, folder / "log", uid=uid)
        (folder / "log").touch()

    def url(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def is_ready(self) -> bool:
        with suppress(psycopg.OperationalError):
            psycopg.connect(self.url("postgres"), connect_timeout=2).close()
            return True
        return False

    def make_database(self, encoding: str = "UTF8") -> str:
        """An empty database of its own, as a URL."""
        name = f"test_{token_hex(8)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}'".encode())
        return self.url(name)

    def stop(self) -> None:
        self.kill(signal.SIGQUIT)  # at once: it neither waits for its clients nor writes what is thrown away

    def remove(self) -> None:
        shutil.rmtree(self.data, ignore_errors=True)

    def kill_hard(self) -> None:
        """`kill -9` of the postmaster. Its children notice and end, or the next start would refuse."""
        self.kill(signal.SIGKILL)


class SeaweedFS(Server):
    """An S3 server. Its S3 face answers some seconds after its port does."""

    KEY, SECRET, BUCKET = "hub", "hub-secret", "contents"

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        port = free_port()
        names = (
            "-master.port",
            "-volume.port",
            "-filer.port",
            "-master.port.grpc",
            "-volume.port.grpc",
            "-filer.port.grpc",
            "-s3.port.grpc",
        )
        ports = [f"{name}={free_port()}" for name in names]
        config = folder / "s3.json"
        config.write_text(
            '{"identities": [{"name": "hub", "credentials": [{"accessKey": "hub", "secretKey": "hub-secret"}], "actions": ["Admin", "Read", "Write", "List", "Tagging"]}]}'
        )
        argv = [
            find_program("weed"),
            "server",
            f"-dir={folder}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            "-s3",
            f"-s3.port={port}",
            f"-s3.config={config}",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-volume.max=20",
            "-master.volumeSizeLimitMB=64",
            *ports,
        ]
        super().__init__(argv, port, folder / "log")

    def stop(self) -> None:
        self.kill()  # when asked to end, it takes up to half a minute

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"s3://{self.BUCKET}"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": self.KEY,
            "AWS_SECRET_ACCESS_KEY": self.SECRET,
            "AWS_ENDPOINT": self.endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }

    def is_ready(self) -> bool:
        from obstore.exceptions import BaseError
        from obstore.store import S3Store

        try:
            store = S3Store(
                self.BUCKET,
                endpoint=self.endpoint,
                access_key_id=self.KEY,
                secret_access_key=self.SECRET,
                region="us-east-1",
                client_options={"allow_http": True, "timeout": "3s"},
                retry_config={"max_retries": 0},
            )
            store.put("ready", b"1")
            return bytes(store.get("ready").bytes()) == b"1"
        except BaseError:
            return False


@contextmanager
def running(server: Server) -> Iterator[Server]:
    server.start()
    try:
        yield server
    finally:
        server.stop()
        server.remove()
