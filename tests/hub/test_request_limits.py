"""What one sender may take from a hub: memory, time, and answers."""

import http.client
import io
import json
import os
import signal
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from handhold.backends.state.records import IntentRecord, encode_record
from handhold.core.plans import ContentRef, FileChange, StagedContent, digest
from handhold.core.ports.journal import CallDecision
from handhold.core.shipped_records import (
    MAX_BATCH_BYTES,
    MAX_PARSED_BYTES,
    START_DIGEST,
    BadBatch,
    estimate_memory,
    parse_batch,
)
from handhold.http_listener import protocol
from handhold.hub import postgres_pool, request_bodies, shipped_contents
from handhold.hub.app import HubApp
from handhold.hub.object_contents import ObjectContents
from handhold.hub.postgres import PostgresRecordStore
from handhold.hub.postgres_records import PostgresRecords
from handhold.hub.readiness import Readiness
from handhold.hub.service import HubStores, open_stores
from handhold.hub.shipped_changes import ShippedChanges
from handhold.hub.shipped_contents import ShippedContents
from handhold.hub.stored_contents import StoredContents
from handhold.hub.tenants import TenantLimits
from tests.hub.hubs import serving
from tests.hub.servers import Postgres, wait_until
from tests.suites.record_store_suite import batch, call_records, encode_chain, journal

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[HubStores]:
    with open_stores(str(tmp_path / "hub"), "") as stores:
        yield stores


def post_records(port: int, token: str, lines: list[bytes]) -> tuple[int, dict]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        connection.request("POST", "/v1/records", b"\n".join(lines), {"authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def get_metrics(port: int) -> str:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()


def start_body(port: int, token: str, size: int, request: str = "POST /v1/records") -> socket.socket:
    """Send the beginning of a body that never ends."""
    sender = socket.create_connection(("127.0.0.1", port), timeout=20)
    head = f"{request} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: 30000000\r\n\r\n"
    sender.sendall(head.encode() + b"x" * size)
    return sender


def test_a_sender_that_stops_does_not_keep_others_from_sending(stores: HubStores, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(request_bodies.BodyReader.__init__, "__defaults__", (1_000_000, 1_000_000))
    bad, good = (stores.tokens.create_token(1, "agent", name).token for name in ("bad", "good"))
    with serving(stores) as port:
        senders = [start_body(port, bad, 240_000), start_body(port, bad, 700_000)]
        assert b"503" in senders[1].recv(1000)  # more than its share
        assert post_records(port, good, journal(1))[0] == 200
        for sender in senders:
            sender.close()


@pytest.mark.parametrize("request_line", ["POST /v1/records", f"PUT /v1/contents/{'0' * 64}"])
def test_a_body_that_does_not_arrive_is_given_up(stores: HubStores, monkeypatch: pytest.MonkeyPatch, request_line: str):
    monkeypatch.setattr(protocol, "BODY_GRACE_SECONDS", 0.5)
    token = stores.tokens.create_token(1, "agent", "w").token
    with serving(stores) as port, closing(start_body(port, token, 1000, request_line)) as sender:
        answer = b"".join(iter(lambda: sender.recv(1000), b""))  # until the hub closes the connection
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"TOO_SLOW" in answer


def test_a_slow_body_arrives_if_it_is_not_too_slow(stores: HubStores, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(protocol, "BODY_GRACE_SECONDS", 1.0)
    monkeypatch.setattr(protocol, "BODY_BYTES_PER_SECOND", 200)
    token, body = stores.tokens.create_token(1, "agent", "w").token, b"\n".join(journal(1))
    with serving(stores) as port, closing(socket.create_connection(("127.0.0.1", port), timeout=20)) as sender:
        head = (
            f"POST /v1/records HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n"
        )
        sender.sendall(head.encode() + b"\r\n")
        started = time.monotonic()
        for start in range(0, len(body), len(body) // 6 + 1):
            sender.sendall(body[start : start + len(body) // 6 + 1])
            time.sleep(0.3)
        assert sender.recv(1000).startswith(b"HTTP/1.1 200")
        assert time.monotonic() - started > 1.2  # longer than the grace alone


def test_bytes_are_given_back_after_each_request(stores: HubStores, monkeypatch: pytest.MonkeyPatch):
    size = sum(map(len, journal(1))) + 3
    monkeypatch.setattr(request_bodies.BodyReader.__init__, "__defaults__", (4 * size, 4 * size))
    token = stores.tokens.create_token(1, "agent", "w").token
    with serving(stores) as port:
        for _ in range(8):
            assert post_records(port, token, journal(1))[0] == 200
        assert "handhold_hub_body_bytes 0.0" in get_metrics(port)
        with closing(start_body(port, token, size)):
            wait_until(lambda: f"handhold_hub_body_bytes {size}.0" in get_metrics(port), "the body")
        wait_until(lambda: "handhold_hub_body_bytes 0.0" in get_metrics(port), "the end of the body")


# --- memory


def make_body(item: bytes, count: int) -> bytes:
    start = b'{"version":1,"kind":"finish","record":1,"previous":"' + b"0" * 64 + b'","at":1,"seq":1,"body":{},"x":['
    return start + b",".join(item.replace(b"N", b"%d" % n) for n in range(count)) + b"]}"


ITEMS = [b"[]", b"{}", b'{"a":0}', b'{"N":1}', b'"ab"', b"12.5", b"[[[[]]]]", b'{"N":{}}', '"N\U0001f600"'.encode()]


@pytest.mark.parametrize("item", ITEMS)
def test_parsing_takes_no_more_memory_than_estimated(item: bytes):
    body = make_body(item, 20_000)
    tracemalloc.start()
    try:
        parse_batch(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= estimate_memory(body)


def test_a_body_that_would_fill_the_memory_is_refused_before_it_is_parsed():
    body = make_body(b"[]", 6_000_000)
    assert len(body) < MAX_BATCH_BYTES
    tracemalloc.start()
    try:
        with pytest.raises(BadBatch, match="more values"):
            parse_batch(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize("name", ["module", "мо\U0001f600"])
def test_a_command_that_changed_a_hundred_thousand_files_is_accepted(name: str):
    contents = [
        StagedContent(f"0123456789ab/{n}", "file", f"{n:064x}", 12_345, 0o644, (65_024, 10**7 + n), 10**18 + n)
        for n in range(99_000, 100_000)
    ]
    files = tuple(FileChange(f"/home/me/shop/src/package/{name}.py", each, each) for each in contents)
    line = encode_record(IntentRecord(1, 1, "t", CallDecision("allowed", ""), files, ()), 1, START_DIGEST)
    assert len(line) * 100 < MAX_BATCH_BYTES
    assert estimate_memory(line) * 100 < MAX_PARSED_BYTES


@pytest.mark.parametrize(("large", "most"), [(0, 1), (2**20, 2)])
def test_large_batches_are_appended_one_at_a_time(
    stores: HubStores, monkeypatch: pytest.MonkeyPatch, large: int, most: int
):
    monkeypatch.setattr("handhold.hub.app.LARGE_BATCH_BYTES", large)
    append, running, seen = stores.records.append, [], []
    both = threading.Barrier(2)

    def append_slowly(*args: Any, **options: Any) -> Any:
        running.append(1)
        with suppress(threading.BrokenBarrierError):
            both.wait(0.5)
        seen.append(len(running))
        running.pop()
        return append(*args, **options)

    monkeypatch.setattr(stores.records, "append", append_slowly)
    tokens = [stores.tokens.create_token(1, "agent", name).token for name in ("a", "b")]
    with serving(stores) as port, ThreadPoolExecutor(2) as pool:
        answers = pool.map(lambda token: post_records(port, token, journal(1)), tokens)
        assert [status for status, _ in answers] == [200, 200]
    assert max(seen) == most


# --- readers


@pytest.fixture
def chain_of_twenty_megabytes(postgres: Postgres, tmp_path: Path) -> Iterator[tuple[PostgresRecords, ShippedChanges]]:
    """A call whose record says that a file and its reply have one byte."""
    data = b"z" * 20_000_000
    with open_stores(postgres.make_database(), (tmp_path / "objects").as_uri()) as stores:
        assert stores.tenants
        assert isinstance(stores.records, PostgresRecordStore)
        chain = stores.records.open_chain(stores.tenants.add_tenant("acme", TenantLimits()), "w")
        StoredContents(stores.records, stores.contents).add(chain, digest(data), io.BytesIO(data))
        call, intent, outcome, finish = call_records(1, "/ws/a")
        intent = replace(intent, files=(FileChange("/ws/a", None, ContentRef(digest(data), 1)),))
        outcome = replace(outcome, reply=digest(data))
        stores.records.append(chain, batch(encode_chain([call, intent, outcome, finish])), claimed=4)
        contents = ShippedContents(stores.records, stores.contents, chain)
        yield PostgresRecords(stores.records, contents, chain, 1), ShippedChanges(stores.records, contents, chain, 1)


def test_a_page_reads_by_the_size_of_a_content_and_not_by_what_a_record_says(chain_of_twenty_megabytes):
    records, changes = chain_of_twenty_megabytes
    entry = records.find_entry(1)
    assert entry
    assert len(entry.outcome.reply or "") < 1000
    change = changes.find_change(entry, 0)
    assert changes.read_side(change.change, "after") is None


def test_contents_of_a_page_are_bounded_together(postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shipped_contents, "MAX_PAGE_BYTES", 60)
    with open_stores(postgres.make_database(), (tmp_path / "objects").as_uri()) as stores:
        assert stores.tenants
        assert isinstance(stores.records, PostgresRecordStore)
        chain = stores.records.open_chain(stores.tenants.add_tenant("acme", TenantLimits()), "w")
        contents = {digest(b"x" * size): b"x" * size for size in (10, 20, 25, 40)}
        for hash, data in contents.items():
            StoredContents(stores.records, stores.contents).add(chain, hash, io.BytesIO(data))
        found = ShippedContents(stores.records, stores.contents, chain).read_many(contents)
    assert sorted(map(len, found.values())) == [10, 20, 25]


# --- storage that does not answer


def test_a_server_that_stops_answering_is_given_up(postgres: Postgres, database: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(postgres_pool, "ANSWER_SECONDS", 1.0)
    with postgres_pool.open_pool(database, max_size=1) as pool:
        with pool.connection() as connection:
            backend = connection.info.backend_pid
        os.kill(backend, signal.SIGSTOP)
        try:
            started = time.monotonic()
            refused = pytest.raises(psycopg.OperationalError, match="did not answer")
            with refused, pool.connection() as connection, connection.transaction():
                connection.execute("SELECT 1")
            assert time.monotonic() - started < 10
        finally:
            os.kill(backend, signal.SIGCONT)
        with pool.connection() as connection:  # a new one
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_statement_of_a_request_is_ended_by_the_server(database: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(postgres_pool, "STATEMENT_SECONDS", 1)
    ended = pytest.raises(psycopg.errors.QueryCanceled)
    with postgres_pool.open_pool(database) as pool, ended, pool.connection() as connection:
        connection.execute("SELECT pg_sleep(20)")
    with postgres_pool.open_upkeep_pool(database) as pool, pool.connection() as connection:
        assert connection.execute("SHOW statement_timeout").fetchone() == ("0",)


def test_a_missing_bucket_is_an_answer_and_a_line_in_the_log(stores: HubStores, tmp_path: Path):
    lines: list[dict] = []

    class WithoutBucket:
        def put(self, *args: object) -> None:
            raise FileNotFoundError("NoSuchBucket")

    contents = ObjectContents(WithoutBucket())  # pyright: ignore[reportArgumentType]
    client = TestClient(HubApp(stores.records, stores.tokens, contents, log=lines.append).asgi)
    headers = {"authorization": f"Bearer {stores.tokens.create_token(1, 'agent', 'w').token}"}
    answer = client.put(f"/v1/contents/{digest(b'x')}", content=b"x", headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (503, "UNAVAILABLE")
    assert "NoSuchBucket" in lines[-1]["cause"]


@pytest.mark.parametrize("number", ["9" * 30, "9" * 5000, "x", "-1", "1.5"])
def test_a_token_with_a_strange_number_does_not_exist(stores: HubStores, number: str):
    client = TestClient(HubApp(stores.records, stores.tokens, stores.contents).asgi)
    headers = {"authorization": f"Bearer {stores.tokens.create_token(1, 'admin').token}"}
    assert client.delete(f"/v1/tokens/{number}", headers=headers).status_code == 404


def test_the_database_is_asked_at_most_once_a_second_whether_it_answers():
    asked: list[str] = []
    release = threading.Event()

    class Counting:
        is_waiting: Callable[[], object] = staticmethod(lambda: None)

        def authenticate(self, token: str) -> None:
            asked.append(token)
            self.is_waiting()

    tokens = Counting()
    ready = Readiness(tokens)  # pyright: ignore[reportArgumentType] - it calls nothing else
    assert [ready.is_ready() for _ in range(100)] == [True] * 100
    assert len(asked) == 1
    time.sleep(1.1)
    tokens.is_waiting = release.wait
    thread = threading.Thread(target=ready.is_ready)
    thread.start()
    time.sleep(0.2)
    assert ready.is_ready()  # somebody is asking
    ready._asked_at -= 10  # pyright: ignore[reportPrivateUsage] - as if it had begun earlier
    assert not ready.is_ready()
    release.set()
    thread.join(20)
    assert len(asked) == 2
