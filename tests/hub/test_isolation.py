"""One tenant takes what it can get from a hub: another is served. Counted, not timed; `bench/hub_attacks.py` measures."""

import http.client
import json
import os
import re
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from handhold.backends.uplink.hub_client import HubClient
from handhold.backends.uplink.hub_token import HubToken
from handhold.cli.hub_reading import list_calls, read_diff
from handhold.core.plans import digest
from handhold.hub import postgres_calls, readers, request_bodies, tenant_pools
from handhold.hub.access import Role
from handhold.hub.byte_budget import ByteBudget
from handhold.hub.http_errors import HubHTTPError
from handhold.hub.service import HubStores, open_stores
from handhold.hub.tenants import TenantLimits
from tests.hub.hubs import serving
from tests.hub.servers import Postgres, SeaweedFS, wait_until
from tests.hub.test_request_limits import get_metrics, post_records, start_body
from tests.suites.record_store_suite import call_records, encode_chain, journal

pytestmark = pytest.mark.timeout(180)

UPLOADS, READS = 45, 40


@dataclass(frozen=True)
class Tenants:
    """A hub with a greedy tenant and another one."""

    stores: HubStores
    database: str
    greedy: int
    other: int

    def new_token(self, tenant: int, role: Role = "agent", workspace: str | None = "w") -> str:
        return self.stores.tokens.create_token(tenant, role, workspace if role == "agent" else None).token


@pytest.fixture
def tenants(
    postgres: Postgres, seaweed: SeaweedFS, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Tenants]:
    for name, value in seaweed.environment.items():
        monkeypatch.setenv(name, value)
    database = postgres.make_database()
    with open_stores(database, f"{seaweed.url}/{tmp_path.name}") as stores:
        assert stores.tenants
        greedy, other = (stores.tenants.add_tenant(name, TenantLimits()) for name in ("greedy", "other"))
        yield Tenants(stores, database, greedy, other)


def ask(port: int, token: str, path: str, method: str = "GET", body: bytes = b"", timeout: float = 60) -> Any:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)) as connection:
        connection.request(method, path, body, {"authorization": f"Bearer {token}"})
        response = connection.getresponse()
        return response.status, response.read()


def test_h1_four_tokens_of_a_tenant_leave_room_for_the_bodies_of_another(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(request_bodies.BodyReader.__init__, "__defaults__", (1_000_000, 1_000_000))
    tokens = [tenants.new_token(tenants.greedy, workspace=f"w{n}") for n in range(4)]
    other = tenants.new_token(tenants.other)
    with serving(tenants.stores) as port, ExitStack() as opened:
        for token in tokens:
            opened.enter_context(closing(start_body(port, token, 249_999)))
        wait_until(lambda: read_body_bytes(port) >= 2 * 249_999, "two bodies of a tenant")
        assert post_records(port, other, journal(1))[0] == 200
        assert read_body_bytes(port) <= 500_000


def read_body_bytes(port: int) -> float:
    found = re.search(r"^handhold_hub_body_bytes (\S+)$", get_metrics(port), re.MULTILINE)
    assert found
    return float(found[1])


@pytest.mark.parametrize("greedy", [1, 2, 5, 40])
def test_h1_however_many_tenants_take_what_they_can_there_is_something_left(greedy: int):
    budget = ByteBudget(1_000_000)
    for _ in range(1_000):
        for tenant in range(greedy):
            try:
                budget.take(tenant, 1_000)
            except HubHTTPError:
                continue
    assert budget.total <= 1_000_000 * greedy / (greedy + 1)
    budget.take(greedy, 10_000)


def test_h2_uploads_that_wait_for_the_store_do_not_keep_others_from_records(tenants: Tenants, seaweed: SeaweedFS):
    greedy, other = tenants.new_token(tenants.greedy), tenants.new_token(tenants.other)
    reader = tenants.new_token(tenants.other, "reader")
    sent = threading.Semaphore(0)

    def upload(number: int) -> int:
        data = b"content %d" % number
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=120)) as connection:
            headers = {"authorization": f"Bearer {greedy}"}
            connection.request("PUT", f"/v1/contents/{digest(data)}", data, headers)
            sent.release()
            return connection.getresponse().status

    assert seaweed.process
    with serving(tenants.stores) as port, ThreadPoolExecutor(UPLOADS) as pool:
        os.kill(seaweed.process.pid, signal.SIGSTOP)
        try:
            uploads = [pool.submit(upload, n) for n in range(UPLOADS)]
            for _ in uploads:
                assert sent.acquire(timeout=60)
            assert ask(port, other, "/v1/chain")[0] == 200
            assert ask(port, "", "/readyz")[0] == 200  # H-10
            assert post_records(port, other, journal(2))[0] == 200
            status, answer = ask(port, reader, "/v1/calls")
            assert (status, len(json.loads(answer)["calls"])) == (200, 2)
            assert not any(each.done() for each in uploads)
        finally:
            os.kill(seaweed.process.pid, signal.SIGCONT)
        assert {each.result(120) for each in uploads} <= {200, 503}


def test_h3_long_arguments_do_not_make_a_list_large_and_the_reader_gets_all(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch
):
    """Records of 300 KB, of which a list shows a part; and pages that hold five of these parts."""
    arguments = json.dumps({"content": "x" * 300_000})
    lines = encode_chain([each for seq in range(1, 25) for each in call_records(seq, "/ws/a", arguments=arguments)])
    agent, reader = tenants.new_token(tenants.greedy), tenants.new_token(tenants.greedy, "reader")
    monkeypatch.setattr(postgres_calls, "MAX_PAGE_BYTES", 100_000)
    with serving(tenants.stores) as port:
        assert post_records(port, agent, lines)[0] == 200
        status, answer = ask(port, reader, "/v1/calls?last=1000")
        assert status == 200
        assert len(answer) < 200_000
        monkeypatch.setenv("HANDHOLD_HUB_TOKEN", reader)
        client = HubClient(f"http://127.0.0.1:{port}", HubToken())
        for path in (None, "/ws/a"):
            found = list_calls(client, workspace=None, session=None, path=path, last=1000)
            assert [entry.seq for _, entry in found] == list(range(1, 25))
        monkeypatch.setattr("handhold.hub.postgres.MAX_READ_BYTES", 100_000)
        assert "ws/a" in read_diff(client, "w", 24)  # its intent is on the second page
        read, after = list[bytes](), 0
        while page := ask(port, reader, f"/v1/workspaces/w/records?after={after}")[1].splitlines():
            assert sum(map(len, page[:-1])) < 100_000
            read += page
            after = json.loads(page[-1])["record"]
        assert read == lines


def test_h3_a_list_is_made_off_the_event_loop(tenants: Tenants, monkeypatch: pytest.MonkeyPatch):
    made, may_go_on = threading.Event(), threading.Event()
    format_entry = readers.format_entry

    def format_slowly(found: Any) -> Any:
        made.set()
        assert may_go_on.wait(60)
        return format_entry(found)

    monkeypatch.setattr(readers, "format_entry", format_slowly)
    agent, reader = tenants.new_token(tenants.greedy), tenants.new_token(tenants.greedy, "reader")
    with serving(tenants.stores) as port, ThreadPoolExecutor(1) as pool:
        assert post_records(port, agent, journal(1))[0] == 200
        answer = pool.submit(ask, port, reader, "/v1/calls")
        try:
            assert made.wait(60)
            assert ask(port, "", "/healthz")[0] == 200
            assert ask(port, agent, "/v1/chain")[0] == 200
        finally:
            may_go_on.set()
        assert answer.result(60)[0] == 200


def test_h4_many_reads_of_a_tenant_leave_threads_and_connections_for_others(tenants: Tenants):
    """Its reads wait for a lock, as they would for a slow query; as many as its share reach the database."""
    greedy, other = (tenants.new_token(each, "reader") for each in (tenants.greedy, tenants.other))
    agent = tenants.new_token(tenants.other)
    share = tenant_pools.READ_THREADS // 2
    with (
        serving(tenants.stores) as port,
        ThreadPoolExecutor(READS) as pool,
        psycopg.connect(tenants.database) as locked,
        psycopg.connect(tenants.database, autocommit=True) as watching,
    ):
        locked.execute("LOCK TABLE changes")
        reads = [pool.submit(ask, port, greedy, f"/v1/calls?path={quote('/ws')}") for _ in range(READS)]
        sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"

        def count_waiting() -> int:
            row = watching.execute(sql).fetchone()
            assert row
            return row[0]

        wait_until(lambda: count_waiting() >= share, "the reads of a tenant")
        for _ in range(5):
            assert ask(port, other, "/v1/calls")[0] == 200
            assert ask(port, other, "/v1/workspaces")[0] == 200
            assert ask(port, agent, "/v1/chain")[0] == 200
            assert count_waiting() == share
        assert not any(each.done() for each in reads)
        locked.rollback()
        assert {each.result(120)[0] for each in reads} == {200}


def test_h4_a_tenant_that_asks_for_more_than_may_wait_is_refused_at_once(tenants: Tenants):
    token = tenants.new_token(tenants.greedy, "reader")
    most = tenant_pools.READ_THREADS // 2 + 64
    with (
        serving(tenants.stores) as port,
        ThreadPoolExecutor(most + 5) as pool,
        psycopg.connect(tenants.database) as locked,
    ):
        locked.execute("LOCK TABLE changes")
        reads = [pool.submit(ask, port, token, "/v1/calls?path=/ws") for _ in range(most + 5)]
        wait_until(lambda: sum(each.done() for each in reads) == 5, "refusals")
        locked.rollback()
        statuses = [each.result(120)[0] for each in reads]
    assert (statuses.count(503), statuses.count(200)) == (5, most)


# --- contents are what was stored


def test_h7_an_object_that_was_replaced_is_not_shown(tenants: Tenants):
    agent, reader = tenants.new_token(tenants.greedy), tenants.new_token(tenants.greedy, "reader")
    bucket = tenants.stores.contents._store  # pyright: ignore[reportPrivateUsage]
    with serving(tenants.stores) as port:
        for data, other in ((b"one", b"two"), (b"small", b"x" * 3_000_000), (b"z" * 2_000_000, b"")):
            path = f"/v1/workspaces/w/contents/{digest(data)}"
            assert ask(port, agent, f"/v1/contents/{digest(data)}", "PUT", data)[0] == 200
            assert ask(port, reader, path) == (200, data)
            (key,) = (each["path"] for page in bucket.list() for each in page if digest(data) in each["path"])
            bucket.put(key, other)
            status, answer = ask(port, reader, path)
            assert (status, json.loads(answer)["error"]) == (409, "CORRUPT")
