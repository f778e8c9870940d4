"""`handhold serve` as its own process, with a token for each dialect of the clients."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.load.words import WORDS

HANDHOLD = [sys.executable, "-c", "from handhold.cli import main; main()"]
START = 60.0  # seconds


def prepared(top: Path) -> dict[str, str]:
    """Create roots with a few files that clients share, and a token for each root."""
    for name in ("ledgers", "tmp", "roots"):
        (top / name).mkdir()
    return {dialect: _token(top, dialect) for dialect in WORDS}


def _token(top: Path, dialect: str) -> str:
    root = top / "roots" / dialect
    (root / "shared").mkdir(parents=True)
    for n in range(4):
        (root / "shared" / f"{n}.txt").write_text("END\n")
    options = ["--new-token", dialect, "--dialect", dialect, "--root", str(root), "--structured"]
    command = [*HANDHOLD, "serve", "--tokens", str(top / "tokens.toml"), *options]
    made = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return made.stdout.strip()


@dataclass(frozen=True)
class Server:
    process: subprocess.Popen[bytes]
    port: int

    @property
    def pid(self) -> int:
        return self.process.pid

    def stop(self, by: signal.Signals = signal.SIGTERM) -> int:
        """Stop the server and return its exit status."""
        self.process.send_signal(by)
        return self.process.wait(60)


@contextmanager
def served(top: Path, *, port: int = 0) -> Generator[Server]:
    """Run a server on what `prepared` made, until it is stopped. Its output is in server.log."""
    log = top / "server.log"
    options = ["--tokens", str(top / "tokens.toml"), "--state", str(top / "state"), "--listen", f"127.0.0.1:{port}"]
    with log.open("ab") as told:
        told.seek(0, os.SEEK_END)
        before = told.tell()
        process = subprocess.Popen(
            [*HANDHOLD, "serve", *options],
            stdout=told,
            stderr=told,
            env={**os.environ, "TMPDIR": str(top / "tmp")},
        )
    try:
        until = time.monotonic() + START
        while not (found := re.search(r"http://127.0.0.1:(\d+)", log.read_text()[before:])):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"it did not start: {log.read_text()[before:]}")
            time.sleep(0.02)
        yield Server(process, int(found[1]))
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
