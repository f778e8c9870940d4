"""How much another tenant notices while one takes what it can get from a hub, on real servers.

    python -m bench.hub_attacks [--seconds 5] [--rounds 3] [ATTACK ...]

The other tenant appends a batch, asks for its head and for its last calls, again and again on one connection. Seconds
with and without the attack alternate, and the 99th percentiles of both are compared: the machine may be busy. The
attackers are processes of their own.
"""

import argparse
import http.client
import json
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread, get_ident

from handhold.core.plans import digest
from handhold.hub.service import open_stores
from handhold.hub.tenants import TenantLimits
from tests.hub.hubs import Hub
from tests.hub.servers import Postgres, SeaweedFS, running
from tests.suites.record_store_suite import call_records, encode_chain

LARGE_ARGUMENTS, LARGE_CALLS = 24 * 1024 * 1024, 24
CHANGES, PATHS = 200, 250  # calls of the searched workspace, and the files of each
READERS, UPLOADS, SLOW = 40, 45, 1_100
BODY = 64 * 1024 * 1024 - 1
PAUSE_SECONDS = 0.005


@dataclass(frozen=True)
class Target:
    """A hub, tokens of the greedy tenant, and one of each role of the other."""

    port: int
    greedy: tuple[str, ...]
    reader: str
    other: str
    other_reader: str
    store_pid: int


def request(
    connection: http.client.HTTPConnection, token: str, path: str, method: str = "GET", body: bytes = b""
) -> tuple[int, bytes]:
    connection.request(method, path, body, {"authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    return answer.status, answer.read()


# --- attacks: each goes on until it is ended


def send_bodies(target: Target, at_work: Event) -> None:
    """H-1: four bodies, less one byte."""
    lines: list[socket.socket] = []
    for token in target.greedy:
        line = socket.create_connection(("127.0.0.1", target.port))
        head = f"POST /v1/records HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
        with suppress(OSError):
            line.sendall(f"{head}Content-Length: {BODY + 1}\r\n\r\n".encode() + b"x" * BODY)
        lines.append(line)
    at_work.set()
    time.sleep(3600)


def upload_to_paused_store(target: Target, at_work: Event) -> None:
    """H-2: the store is paused around it."""

    def upload(number: int, begin: Callable[[], None]) -> None:
        while True:
            begin()
            data = b"%d %d" % (number, time.monotonic_ns())
            with suppress(OSError), closing(connect(target.port)) as connection:
                request(connection, target.greedy[0], f"/v1/contents/{digest(data)}", "PUT", data)

    run_threads(upload, UPLOADS, at_work)


def list_large_calls(target: Target, at_work: Event) -> None:
    """H-3: one reader, again and again, from the newest page to the oldest."""
    with closing(connect(target.port)) as connection:
        cursor = ""
        while True:
            at_work.set()
            status, answer = request(connection, target.reader, f"/v1/calls?workspace=large&last=1000&cursor={cursor}")
            cursor = json.loads(answer).get("next", "") if status == 200 else ""


def search_common_path(target: Target, at_work: Event) -> None:
    """H-4"""

    def search(_: int, begin: Callable[[], None]) -> None:
        with closing(connect(target.port)) as connection:
            while True:
                begin()
                request(connection, target.reader, "/v1/calls?path=/ws&last=1000")

    run_threads(search, READERS, at_work)


def drip_headers(target: Target, at_work: Event) -> None:
    """H-5"""
    lines: list[socket.socket] = []
    while True:
        with suppress(OSError):
            lines.append(socket.create_connection(("127.0.0.1", target.port), timeout=5))
            lines[-1].sendall(b"GET / HTTP/1.1\r\nX: ")
        if len(lines) > SLOW:
            at_work.set()
            lines.pop(0).close()
            time.sleep(0.01)


def run_threads(work: Callable[[int, Callable[[], None]], None], count: int, at_work: Event) -> None:
    """Each thread calls what it is given when it begins a request; once all have, the attack is at work."""
    begun: set[int] = set()

    def begin() -> None:
        begun.add(get_ident())
        if len(begun) == count:
            at_work.set()

    threads = [Thread(target=work, args=(number, begin), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def connect(port: int) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", port, timeout=120)


ATTACKS: dict[str, Callable[[Target, Event], None]] = {
    "bodies": send_bodies,
    "store": upload_to_paused_store,
    "large": list_large_calls,
    "search": search_common_path,
    "headers": drip_headers,
}


# --- the other tenant


@dataclass
class Victim:
    target: Target
    previous: bytes = bytes(32)
    record: int = 1
    took: list[float] = field(default_factory=list[float])
    errors: int = 0

    def measure(self, seconds: float) -> list[float]:
        """The seconds of each request. One that fails or is refused counts as long as it took, and as an error."""
        took: list[float] = []
        until = time.monotonic() + seconds
        with closing(connect(self.target.port)) as connection:
            while time.monotonic() < until:
                for ask in (self._append, self._read_head, self._list_calls):
                    started = time.perf_counter()
                    try:
                        is_answered = ask(connection) == 200
                    except OSError:
                        is_answered = False
                        connection.close()
                    took.append(time.perf_counter() - started)
                    self.errors += not is_answered
                    time.sleep(PAUSE_SECONDS)
        return took

    def _append(self, connection: http.client.HTTPConnection) -> int:
        lines = encode_chain(call_records(self.record, "/ws/own"), first=self.record, previous=self.previous)
        status, _ = request(connection, self.target.other, "/v1/records", "POST", b"\n".join(lines))
        if status == 200:
            self.previous, self.record = sha256(lines[-1]).digest(), self.record + len(lines)
        return status

    def _read_head(self, connection: http.client.HTTPConnection) -> int:
        return request(connection, self.target.other, "/v1/chain")[0]

    def _list_calls(self, connection: http.client.HTTPConnection) -> int:
        return request(connection, self.target.other_reader, "/v1/calls?last=20")[0]


def p99(took: list[float]) -> float:
    return sorted(took)[int(len(took) * 0.99)]


@dataclass(frozen=True)
class Comparison:
    attack: str
    calm: float
    attacked: float
    requests: int
    errors: int

    @property
    def ratio(self) -> float:
        return self.attacked / self.calm


def compare(target: Target, attack: str, seconds: float, rounds: int) -> Comparison:
    calm, attacked = list[float](), list[float]()
    victim = Victim(target, *read_head(target))
    victim.measure(1)
    for _ in range(rounds):
        calm += victim.measure(seconds)
        context = multiprocessing.get_context("spawn")
        at_work = context.Event()
        process = context.Process(target=ATTACKS[attack], args=(target, at_work), daemon=True)
        if attack == "store":
            os.kill(target.store_pid, signal.SIGSTOP)
        try:
            process.start()
            assert at_work.wait(120), f"{attack} did not begin"
            time.sleep(1)
            attacked += victim.measure(seconds)
        finally:
            end(process)
            if attack == "store":
                os.kill(target.store_pid, signal.SIGCONT)
        time.sleep(1)
    return Comparison(attack, p99(calm), p99(attacked), len(attacked), victim.errors)


def end(process: BaseProcess) -> None:
    if process.pid:
        process.kill()
        process.join(30)


def read_head(target: Target) -> tuple[bytes, int]:
    with closing(connect(target.port)) as connection:
        head = json.loads(request(connection, target.other, "/v1/chain")[1])
    return bytes.fromhex(head["digest"]), head["record"] + 1


@contextmanager
def started() -> Iterator[Target]:
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        postgres, seaweed = Postgres(folder / "postgres"), SeaweedFS(folder / "seaweed")
        with running(postgres), running(seaweed):
            os.environ.update(seaweed.environment)
            database, contents = postgres.make_database(), f"{seaweed.url}/bench"
            with open_stores(database, contents) as stores:
                assert stores.tenants
                greedy, other = (stores.tenants.add_tenant(each, TenantLimits()) for each in ("greedy", "other"))
                make = stores.tokens.create_token
                tokens = tuple(make(greedy, "agent", each).token for each in ("large", "searched", "w3", "w4"))
                readers = make(greedy, "reader").token, make(other, "reader").token
                agent = make(other, "agent", "w").token
            hub = Hub(database, contents, folder / "hub.log", env=seaweed.environment)
            hub.argv = [*hub.argv, "--quiet"]
            with running(hub):
                assert seaweed.process
                target = Target(hub.port, tokens, readers[0], agent, readers[1], seaweed.process.pid)
                fill(target)
                yield target


def fill(target: Target) -> None:
    """What the greedy tenant wrote before."""
    append(target, target.greedy[0], [("/large", 1, "x" * LARGE_ARGUMENTS)] * LARGE_CALLS, 1)
    append(target, target.greedy[1], [("/ws", PATHS, "{}")] * CHANGES, 10)


def append(target: Target, token: str, calls: list[tuple[str, int, str]], at_once: int) -> None:
    previous, record = bytes(32), 1
    with closing(connect(target.port)) as connection:
        for start in range(0, len(calls), at_once):
            found = [
                each
                for seq, (folder, count, arguments) in enumerate(calls[start : start + at_once], start + 1)
                for each in call_records(seq, *(f"{folder}/{n}" for n in range(count)), arguments=arguments)
            ]
            lines = encode_chain(found, first=record, previous=previous)
            status, answer = request(connection, token, "/v1/records", "POST", b"\n".join(lines))
            assert status == 200, answer
            previous, record = sha256(lines[-1]).digest(), record + len(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=", ".join(ATTACKS))
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with started() as target:
        for attack in given.attacks or list(ATTACKS):
            found = compare(target, attack, given.seconds, given.rounds)
            print(
                f"{attack}: p99 {1000 * found.calm:.1f} ms, attacked {1000 * found.attacked:.1f} ms,"
                f" {found.ratio:.1f} times; {found.errors} of {found.requests} requests failed",
                flush=True,
            )


if __name__ == "__main__":
    main()
