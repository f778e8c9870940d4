"""What a hub does in a second, what an idle uplink costs, and how long questions take among many records.

    python -m bench.hub appends --seconds 10 --senders 8
    python -m bench.hub idle --connections 10000
    python -m bench.hub queries --records 10000000

Each part starts its own PostgreSQL; contents go to a folder. Records are also counted per second of processor time,
since the machine may be busy: that of the hub process, and that of PostgreSQL with all its children.
"""

import argparse
import http.client
import os
import resource
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

from handhold.core.ports.records import CallFilter
from handhold.hub.object_contents import ObjectContents
from handhold.hub.postgres import PostgresRecordStore
from handhold.hub.postgres_pool import open_pool
from handhold.hub.postgres_records import PostgresRecords
from handhold.hub.service import open_stores
from handhold.hub.shipped_contents import ShippedContents
from handhold.hub.tenants import PostgresTenants, TenantLimits
from tests.hub.hubs import Hub
from tests.hub.servers import Postgres, running
from tests.suites.record_store_suite import call_records, encode_chain

BATCH_RECORDS = 100
ROUNDS = 5
PATH = "/ws/w{}/dir{}/file{}.py"
WORKSPACES, SESSIONS = 1_000, 10  # of the tables with many records; sessions of each workspace


@contextmanager
def started() -> Iterator[tuple[Postgres, Hub, list[str]]]:
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        postgres = Postgres(folder / "postgres")
        with running(postgres):
            database, contents = postgres.make_database(), (folder / "contents").as_uri()
            with open_stores(database, contents) as stores:
                assert stores.tenants
                tenant = stores.tenants.add_tenant("bench", TenantLimits())
                tokens = [stores.tokens.create_token(tenant, "agent", f"w{n}").token for n in range(64)]
            hub = Hub(database, contents, folder / "hub.log")
            hub.argv = [*hub.argv, "--quiet"]
            with running(hub):
                yield postgres, hub, tokens


def processor_seconds(pid: int) -> float:
    """Of a process and its living descendants, and those of them that were waited for."""
    ticks = 0
    for each in [pid, *descendants(pid)]:
        try:
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def descendants(pid: int) -> list[int]:
    done = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    children = [int(each) for each in done.stdout.split()]
    return [*children, *(deeper for child in children for deeper in descendants(child))]


def measure_appends(seconds: float, senders: int) -> None:
    """Batches of a hundred records, as fast as they go; each sender has its own chain and connection."""
    with started() as (postgres, hub, tokens):
        assert hub.process
        assert postgres.process
        waits: list[float] = []

        def send(number: int) -> int:
            connection = http.client.HTTPConnection("127.0.0.1", hub.port)
            headers = {"authorization": f"Bearer {tokens[number]}"}
            previous, record, sent = bytes(32), 1, 0
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                calls = [each for seq in range(BATCH_RECORDS // 4) for each in call_records(record + seq, f"/ws/{seq}")]
                lines = encode_chain(calls, first=record, previous=previous)
                began = time.perf_counter()
                connection.request("POST", "/v1/records", b"\n".join(lines), headers)
                answer = connection.getresponse()
                answer.read()
                waits.append(time.perf_counter() - began)
                assert answer.status == 200, answer.status
                previous, record, sent = sha256(lines[-1]).digest(), record + len(lines), sent + len(lines)
            return sent

        before = processor_seconds(hub.process.pid), processor_seconds(postgres.process.pid)
        began = time.monotonic()
        with ThreadPoolExecutor(senders) as pool:
            total = sum(pool.map(send, range(senders)))
        took = time.monotonic() - began
        hub_seconds = processor_seconds(hub.process.pid) - before[0]
        database_seconds = processor_seconds(postgres.process.pid) - before[1]
    waits.sort()
    print(f"appends: {total:,} records in {took:.1f} s, {total / took:,.0f} a second; batches of {BATCH_RECORDS}")
    print(f"  per second of processor time: hub {total / hub_seconds:,.0f}, PostgreSQL {total / database_seconds:,.0f}")
    median, worst = statistics.median(waits), waits[int(len(waits) * 0.99)]
    print(f"  acknowledgement: median {1000 * median:.1f} ms, p99 {1000 * worst:.1f} ms")


def measure_idle(connections: int) -> None:
    """Uplinks that are connected and have nothing to say."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with started() as (_, hub, tokens):
        assert hub.process
        opened: list[socket.socket] = []
        request = f"GET /v1/chain HTTP/1.1\r\nhost: hub\r\nauthorization: Bearer {tokens[0]}\r\n\r\n".encode()

        def connect() -> None:
            each = socket.create_connection(("127.0.0.1", hub.port))
            each.sendall(request)
            assert each.recv(65536).startswith(b"HTTP/1.1 200")
            opened.append(each)

        for _ in range(50):
            connect()
        before = read_memory(hub.process.pid)
        began = time.monotonic()
        while len(opened) < connections + 50:
            connect()
        took = time.monotonic() - began
        after = read_memory(hub.process.pid)
        seconds = processor_seconds(hub.process.pid)
        time.sleep(5)
        idle = processor_seconds(hub.process.pid) - seconds
    each, whole = (after - before) / connections / 1024, after / 2**20
    print(f"idle: {connections:,} connections in {took:.1f} s; {each:.1f} KiB each, {whole:.0f} MiB in all")
    print(f"  processor time meanwhile: {idle / 5:.1%} of a core")


def read_memory(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmRSS")).split()[1]) * 1024


def measure_queries(records: int) -> None:
    """A tenant's records over twelve months, made by COPY; then what people ask."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        postgres = Postgres(folder / "postgres")
        with running(postgres):
            database = postgres.make_database()
            with open_stores(database, (folder / "contents").as_uri()) as stores:
                assert stores.tenants
                tenant = stores.tenants.add_tenant("bench", TenantLimits())
                chains = [stores.records.open_chain(tenant, f"w{n}") for n in range(WORKSPACES)]
            began = time.monotonic()
            with psycopg.connect(database) as connection:
                fill(connection, tenant, [each.workspace for each in chains], records)
            print(f"queries: {records:,} records made in {time.monotonic() - began:.0f} s")
            with open_pool(database) as pool:
                store = PostgresRecordStore(pool)
                report(
                    "last 20 calls of a session",
                    lambda: store.list_calls(tenant, workspace="w7", session="s3").entries,
                    20,
                )
                report("search by path in a tenant", lambda: store.find_path(tenant, "/ws/w7/dir3").entries, 20)
                report("last 20 calls of a tenant", lambda: store.list_calls(tenant).entries, 20)
                objects = ObjectContents.open((folder / "contents").as_uri())
                shipped = PostgresRecords(store, ShippedContents(store, objects, chains[7]), chains[7], 1)
                wanted = CallFilter(session="s3")
                report("a page of 60 calls", lambda: shipped.list_calls(wanted, limit=60, with_replies=True).items, 60)
                report(
                    "who changed a file",
                    lambda: shipped.list_path_changes(PATH.format(7 // COPIES, 3, 3), limit=12).items,
                    12,
                )
                report("the picture of a session", lambda: shipped.list_marks("s3", limit=20_000), 20_000)
                began = time.perf_counter()
                tenants = PostgresTenants(pool, pool)
                with pool.connection() as connection:
                    month = oldest_month(connection)
                for table in ("records", "changes"):
                    tenants._drop_month(f"{table}_{month}", is_counted=table == "records")  # pyright: ignore[reportPrivateUsage]
                print(f"  dropping a month: {1000 * (time.perf_counter() - began):.1f} ms")


COPIES = 10
COPIED = (
    "tenant, workspace, generation, record, received, seq, kind, session, is_committed, digest, line, at, turn, tool,"
    " verdict, files, time_us"
)
COLUMNS = "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"


def oldest_month(connection: psycopg.Connection[Any]) -> str:
    """The oldest that has records."""
    row = connection.execute("SELECT to_char(min(received) AT TIME ZONE 'UTC', 'YYYYMM') FROM records").fetchone()
    assert row
    return row[0]


def fill(connection: psycopg.Connection[Any], tenant: int, workspaces: list[int], records: int) -> None:
    """Rows as an append would make them, except for the hashes: queries do not look at those.

    Those of every tenth workspace are made here, and PostgreSQL copies them for the nine others.
    """
    connection.execute("SELECT add_partitions((now() - n * interval '1 month')::date) FROM generate_series(0, 12) AS n")
    connection.execute("ALTER TABLE records DROP CONSTRAINT records_pkey")
    connection.execute("DROP INDEX records_seq, records_session, records_tenant, records_tool, records_asked")
    connection.execute("DROP INDEX changes_path, changes_workspace, changes_received")
    calls = records // 4 // len(workspaces)
    months = [f"now() - interval '{11 - 12 * n // calls} months'" for n in range(calls)]
    times = {text: row[0] for text in set(months) if (row := connection.execute(f"SELECT {text}".encode()).fetchone())}
    digest = bytes(32)
    with connection.cursor() as cursor:
        for place, workspace in enumerate(workspaces[::COPIES]):
            rows: list[tuple[Any, ...]] = []
            changes: list[tuple[Any, ...]] = []
            for seq in range(1, calls + 1):
                received, session = times[months[seq - 1]], f"s{seq % SESSIONS}"
                path = PATH.format(place, seq % 40, seq % 1000)
                made = call_records(seq, path, session=session)
                for n, line in enumerate(encode_chain(made, first=seq * 4 - 3), seq * 4 - 3):
                    kind = ("call", "intent", "outcome", "finish")[(n - 1) % 4]
                    is_call = kind == "call"
                    rows.append(
                        (
                            tenant,
                            workspace,
                            1,
                            n,
                            received,
                            seq,
                            kind,
                            session.encode() if is_call else None,
                            True if kind == "outcome" else None,
                            digest,
                            line,
                            1_000_000 * seq,
                            b"t" if is_call else None,
                            b"edit_file" if is_call else None,
                            "allowed" if kind == "intent" else None,
                            1 if kind == "intent" else None,
                            1500 if kind == "outcome" else None,
                        )
                    )
                changes.append((tenant, workspace, 1, seq, received, path.encode()))
            with cursor.copy(f"COPY records ({COPIED}) FROM STDIN".encode()) as copy:
                for row in rows:
                    copy.write_row(row)
            with cursor.copy("COPY changes FROM STDIN") as copy:
                for row in changes:
                    copy.write_row(row)
    for n in range(1, COPIES):
        numbers = {"made": workspaces[::COPIES][: len(workspaces[n::COPIES])], "copies": workspaces[n::COPIES]}
        for table in ("records", "changes"):
            columns = [row[0] for row in connection.execute(COLUMNS, (table,)) if row[0] != "workspace"]
            names = ", ".join(columns)
            connection.execute(
                f"INSERT INTO {table} (workspace, {names}) SELECT copied, {names} FROM {table}"
                " JOIN unnest(%(made)s::bigint[], %(copies)s::bigint[]) AS pair (made, copied)"
                " ON workspace = made".encode(),
                numbers,
            )
        print(f"  {n + 1} of {COPIES} parts", file=sys.stderr)
    connection.execute("SET maintenance_work_mem = '1GB'")
    connection.execute("ALTER TABLE records ADD PRIMARY KEY (workspace, generation, record, received)")
    connection.execute("CREATE INDEX ON records (workspace, generation, seq)")
    connection.execute("CREATE INDEX ON records (workspace, session, seq) WHERE kind = 'call'")
    connection.execute("CREATE INDEX ON records (tenant, received) WHERE kind = 'call'")
    connection.execute("CREATE INDEX ON records (workspace, generation, session, tool, seq) WHERE kind = 'call'")
    connection.execute("CREATE INDEX ON changes (tenant, path, received)")
    connection.execute("CREATE INDEX ON changes (workspace, generation, path, seq)")
    connection.execute("CREATE INDEX ON changes (tenant, received, workspace, seq)")
    connection.commit()
    connection.autocommit = True
    connection.execute("VACUUM ANALYZE records")
    connection.execute("VACUUM ANALYZE changes")


def report(what: str, ask: Any, expected: int) -> None:
    times: list[float] = []
    for _ in range(ROUNDS * 4):
        began = time.perf_counter()
        found = ask()
        times.append(time.perf_counter() - began)
        assert 0 < len(found) <= expected, (what, len(found))
    print(f"  {what}: median {1000 * statistics.median(times):.1f} ms, first {1000 * times[0]:.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=("appends", "idle", "queries", "all"), default="all")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--senders", type=int, default=8)
    parser.add_argument("--connections", type=int, default=8_000)  # of one tenant, which gets half
    parser.add_argument("--records", type=int, default=1_000_000)
    given = parser.parse_args()
    if given.part in ("appends", "all"):
        measure_appends(given.seconds, given.senders)
    if given.part in ("idle", "all"):
        measure_idle(given.connections)
    if given.part in ("queries", "all"):
        measure_queries(given.records)


if __name__ == "__main__":
    main()
