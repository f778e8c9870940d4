"""`handhold serve` as a process: startup, output, and a shutdown that leaves nothing behind."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.server.test_http import ended, posted, running, until
from tests.server.web import Client

HANDHOLD = [sys.executable, "-c", "from handhold.cli import main; main()"]


@dataclass(frozen=True)
class Started:
    process: subprocess.Popen[str]
    port: int
    token: str
    told: str

    @property
    def client(self) -> Client:
        return Client(self.port, self.token)

    def stop(self, by: signal.Signals = signal.SIGTERM) -> tuple[int, float]:
        """The exit status, and the seconds until the exit."""
        began = time.monotonic()
        self.process.send_signal(by)
        return self.process.wait(30), time.monotonic() - began


def started(root: Path, *options: str) -> AbstractContextManager[Started]:
    return served_by_process("--root", str(root), "--state", str(root.parent / "state"), *options)


@contextmanager
def served_by_process(*options: str, files: int = 0) -> Generator[Started]:
    """`files`: the limit of open files, if it differs from that of this process."""
    limited = ["prlimit", f"--nofile={files}:{files}"] if files else []
    command = [*limited, *HANDHOLD, "serve", "--listen", "127.0.0.1:0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr
        told = ""
        while "/mcp" not in told or not ("Token" in told or {"--no-token", "--tokens"} & {*options}):
            line = process.stderr.readline()
            assert line, told
            told += line
        port, token = re.search(r"127.0.0.1:(\d+)/mcp", told), re.search(r"Token: (\S+)", told)
        assert port
        yield Started(process, int(port[1]), token[1] if token else "", told)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "a.py").write_text("price = 1\n")
    return folder


def test_without_a_file_one_token_is_made_and_only_standard_error_sees_it(root: Path):
    with started(root) as server:
        assert Client(server.port).modern("tools/list").status == 401
        assert "price = 1" in server.client.tool("read_file", {"path": "a.py"}).text
        assert server.stop() == (0, pytest.approx(0, abs=15))
        assert server.process.stdout
        assert server.process.stdout.read() == ""


def test_without_tokens_everybody_on_this_machine_is_let_in(root: Path):
    with started(root, "--no-token") as server:
        assert "price = 1" in Client(server.port).tool("read_file", {"path": "a.py"}).text


def test_a_port_that_is_taken_is_told_in_one_line(root: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [*HANDHOLD, "serve", "--root", str(root), "--listen", listen]
        refused = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    assert refused.returncode == 1
    assert refused.stderr == f"Error: Cannot listen on {listen}: Address already in use\n"


@pytest.mark.parametrize("modern", [True, False])
def test_a_call_that_ends_within_the_grace_is_answered_and_no_other_is_taken(root: Path, modern: bool):
    with started(root) as server, ThreadPoolExecutor() as pool:
        client = server.client
        client.begin()
        call = client.tool if modern else client.old_tool
        waiting = pool.submit(call, "bash", {"command": "sleep 1.5; echo awake > b.txt; echo awake"})
        until(partial(running, "sleep 1.5"))
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        with pytest.raises(ConnectionError):
            server.client.modern("tools/list")
        assert "awake" in waiting.result(20).text
        assert server.process.wait(20) == 0
    assert (root / "b.txt").read_text() == "awake\n"


def list_mounts() -> list[str]:
    """Without those that other tests make meanwhile."""
    return [line for line in Path("/proc/self/mounts").read_text().splitlines() if "/pytest-of-" not in line]


def test_what_does_not_end_within_the_grace_is_ended_and_nothing_is_left(root: Path):
    mounts = list_mounts()
    with started(root, "--grace", "0.5") as server:
        client = server.client
        client.begin()
        client.old_tool("bash", {"command": "sleep 983", "background": True})
        with socket.create_connection(("127.0.0.1", server.port)) as line:
            params = {"name": "bash", "arguments": {"command": "echo x > half.txt; sleep 982"}, "_meta": {}}
            line.sendall(
                posted(client, client.headers, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
            )
            until(partial(running, "sleep 982"))
            assert running("sleep 983")
            status, seconds = server.stop()
        assert status == 0
        assert seconds < 15
    assert ended("sleep 982")
    assert ended("sleep 983")
    assert list_mounts() == mounts
    assert not (root / "half.txt").exists(), "a command that did not end did nothing"
    assert sorted(each.name for each in root.parent.iterdir()) == ["shop", "state"]


def test_a_second_signal_does_not_wait(root: Path):
    with started(root, "--grace", "60") as server, ThreadPoolExecutor() as pool:
        waiting = pool.submit(server.client.tool, "bash", {"command": "sleep 981"})
        until(partial(running, "sleep 981"))
        server.process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert server.process.poll() is None
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(20) == 0
        wait([waiting], 20)
    assert ended("sleep 981")


def test_descriptors_do_not_pile_up(root: Path):
    with started(root) as server:

        def opened() -> int:
            return len(os.listdir(f"/proc/{server.process.pid}/fd"))

        client = server.client
        for _ in range(3):
            client.begin()
            client.old_tool("read_file", {"path": "a.py"})
            client.old_tool("bash", {"command": "true"})
            client.raw("DELETE", "/mcp", headers=client.headers)
        before = opened()
        for _ in range(10):
            client.begin()
            client.old_tool("read_file", {"path": "a.py"})
            client.old_tool("bash", {"command": "true"})
            client.raw("DELETE", "/mcp", headers=client.headers)
            with socket.create_connection(("127.0.0.1", server.port)) as line:
                line.sendall(b"POST /mcp HTTP/1.1\r\ncontent-le")
        until(lambda: opened() <= before + 2)
