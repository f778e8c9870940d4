"""A server under attack by a client with a token and by one without: the effect on other clients.

The test uses only the network, so it does not depend on the implementation.
"""

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from handhold.server.tokens import hash_token
from tests.scale import NIGHTLY
from tests.server.attacks import ATTACKS
from tests.server.test_http_process import served_by_process

SECONDS = 5.0 if NIGHTLY else 2.0  # of each attack
P99 = 5.0  # seconds, on a machine that has much else to do
MEMORY = 300 * 1024  # KiB
HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream", "host": "127.0.0.1"}
Noticed = dict[str, tuple[list[float], list[int | str]]]  # by kind of request: durations and errors


class Victim:
    """An honest client that opens a new connection for each request."""

    def __init__(self, port: int, token: str) -> None:
        self.port, self.headers = port, {**HEADERS, "authorization": f"Bearer {token}"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "v", "version": "1"}}
        answer = self.post("initialize", params)
        self.headers |= {"mcp-session-id": answer[1]["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}

    def post(self, method: str, params: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        body = json.dumps({"jsonrpc": "2.0", "id": time.monotonic_ns(), "method": method, "params": params})
        return asked(self.port, "POST", "/mcp", body, self.headers)

    def read(self) -> int:
        status, _, body = self.post("tools/call", {"name": "read_file", "arguments": {"path": "a.py"}})
        assert status != 200 or b"price = 1" in body, body
        return status

    def write(self) -> int:
        content = f"price = {time.monotonic_ns()}\n"
        path = f"{time.monotonic_ns()}.py"
        params = {"name": "write_file", "arguments": {"path": path, "content": content}}
        status, _, body = self.post("tools/call", params)
        assert status != 200 or b'"isError":false' in body.replace(b" ", b""), body
        return status


def asked(
    port: int, method: str, path: str, body: str = "", headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, body or None, headers or {})
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


def noticed(ask: Callable[[], int], until: float, pause: float = 0.02) -> tuple[list[float], list[int | str]]:
    """The duration of each response, and unexpected statuses and errors."""
    took, wrong = list[float](), list[int | str]()
    while time.monotonic() < until:
        began = time.monotonic()
        try:
            status: int | str = ask()
        except (OSError, http.client.HTTPException) as error:
            status = repr(error)
        took.append(time.monotonic() - began)
        if status != 200:
            wrong.append(status)
        time.sleep(pause)
    return took, wrong


def p99(seconds: list[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.99)]


def memory_of(pid: int) -> int:
    """The peak memory of the process, in KiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_r21_one_token_that_attacks_is_hardly_noticed_by_the_others(tmp_path: Path):
    text = ""
    for name in ("mallory", "anna"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text("price = 1\n")
        text += f'[tokens.{name}]\nhash = "{hash_token(name)}"\nroots = ["{tmp_path / name}"]\n'
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(text)
    tokens.chmod(0o600)
    with served_by_process("--tokens", str(tokens), "--state", str(tmp_path / "state"), files=1024) as server:
        anna = Victim(server.port, "anna")
        assert (anna.read(), anna.write()) == (200, 200)
        before, figures = memory_of(server.process.pid), {"no attack": summed(measured(server.port, anna, SECONDS / 2))}
        results, told = dict[str, Noticed](), dict[str, dict[str, int]]()
        for attack in ATTACKS:
            command = [sys.executable, "-m", "tests.server.attacks", attack, str(server.port), "mallory", str(SECONDS)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as process:
                try:
                    results[attack] = measured(server.port, anna, SECONDS)
                    told[attack] = json.loads(process.communicate(timeout=30)[0])
                finally:
                    process.kill()
            figures[attack] = summed(results[attack])
        memory = memory_of(server.process.pid)
    report = f"{json.dumps(figures, indent=1)}\nmemory {before} -> {memory} KiB; attacks: {told}"
    print(report)
    for noticed in results.values():
        assert not [wrong for _, each in noticed.values() for wrong in each], report
        assert max(p99(took) for took, _ in noticed.values()) < P99, report
    assert memory < MEMORY, report
    assert told["unfinished"]["429"], report
    assert told["idle"]["opened"] > 1000, report
    assert told["shapes"]["413"], report
    assert told["texts"]["200"], report
    assert told["calls"]["200"], report
    assert not [attack for attack, statuses in told.items() if "503" in statuses], report


def measured(port: int, victim: Victim, seconds: float) -> Noticed:
    """The effect on clients with another token and on health checks."""
    asks = {
        "reads": victim.read,
        "writes": victim.write,
        "health": lambda: asked(port, "GET", "/healthz", headers={"host": "127.0.0.1"})[0],
    }
    until = time.monotonic() + seconds
    with ThreadPoolExecutor() as pool:
        found = {what: pool.submit(noticed, ask, until) for what, ask in asks.items()}
        return {what: each.result() for what, each in found.items()}


def summed(results: Noticed) -> str:
    return ", ".join(f"{what}: {len(took)} with p99 {p99(took):.3f} s" for what, (took, _) in results.items())
