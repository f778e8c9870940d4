"""One tenant at another's: ids, names, hashes that exist, staging keys, metrics, messages, and SQL through every field.

Every try gets exactly the answer that it gets when the other tenant does not exist at all.
"""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from starlette.testclient import TestClient

from handhold.core.plans import digest
from handhold.hub.app import HubApp
from handhold.hub.service import HubStores, build_app, open_stores
from handhold.hub.stored_contents import StoredContents
from handhold.hub.tenants import TenantLimits
from handhold.review.access import COOKIE_NAME
from tests.hub.hubs import list_objects, read_content
from tests.hub.servers import Postgres, SeaweedFS
from tests.suites.record_store_suite import batch, call_records, encode_chain, journal

SECRET_NAME, SECRET_PATH, SECRET_DATA, SECRET_SESSION = (
    "vault-of-acme",
    "/acme/plans.txt",
    b"acme's plans\n",
    "acme-session",
)
FRAGMENTS = [
    "'", "\"", "';--", "' OR '1'='1", "\\", "%", "_", "$$", "%s", "%(tenant)s", "{}", "\x01", "☃", "\ud83d", "a" * 5000,
    "'; RESET ROLE; SELECT * FROM tokens;--", "' UNION SELECT line FROM records--", "1; DROP TABLE records", "'||pg_sleep(5)||'",
    "../1/1", "..%2f..", "/etc/passwd", "staging/1", "contents/1/1", "*", "", "0", "-1", "1e9", "9" * 30, "null", "true",
    "set_config('handhold.tenant','1',false)", "${jndi}", "<script>", "\r\nX: y", "\x00",
]  # fmt: skip


class Two:
    """Two tenants of one hub. `mine` attacks; `theirs` has everything that the constants name."""

    def __init__(self, stores: HubStores, *, populated: bool) -> None:
        assert stores.tenants
        self.stores = stores
        theirs = stores.tenants.add_tenant("acme", TenantLimits())
        mine = stores.tenants.add_tenant("mallory", TenantLimits())
        create = stores.tokens.create_token
        self.token_ids = [create(theirs, "admin").id, create(theirs, "agent", SECRET_NAME).id]
        self.agent, self.reader, self.admin = (
            {"authorization": f"Bearer {create(mine, role, 'mine' if role == 'agent' else None).token}"}
            for role in ("agent", "reader", "admin")
        )
        if populated:
            chain = stores.records.open_chain(theirs, SECRET_NAME)
            lines = encode_chain(call_records(1, SECRET_PATH, session=SECRET_SESSION))
            stores.records.append(chain, batch(lines), claimed=4)
            import io

            StoredContents(stores.records, stores.contents).add(chain, digest(SECRET_DATA), io.BytesIO(SECRET_DATA))
        self.client = TestClient(build_app(stores, origins=["http://testserver"]), raise_server_exceptions=True)
        assert stores.browsers
        cookie = stores.browsers.start(self.reader["authorization"].removeprefix("Bearer "))
        self.browser = {"cookie": f"{COOKIE_NAME}={cookie}", "origin": "http://testserver"}
        session = stores.browsers.find(cookie or "")
        assert session
        self.csrf = session.csrf


@pytest.fixture(scope="module")
def hubs(postgres: Postgres, seaweed: SeaweedFS) -> Iterator[tuple[Two, Two]]:
    """A hub where the other tenant has something, and one where it has nothing."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in seaweed.environment.items():
            patch.setenv(name, value)
        first = open_stores(postgres.make_database(), f"{seaweed.url}/full")
        second = open_stores(postgres.make_database(), f"{seaweed.url}/empty")
        with first as full, second as empty:
            yield Two(full, populated=True), Two(empty, populated=False)


def tries() -> list[tuple[str, str, str, dict]]:
    """Requests as (role, method, path, options)."""
    found: list[tuple[str, str, str, dict]] = []
    hash = digest(SECRET_DATA)
    names = [
        SECRET_NAME,
        quote(SECRET_NAME, safe=""),
        "1",
        "w1",
        *(quote(each.encode("utf-8", "surrogatepass"), safe="") for each in FRAGMENTS),
    ]
    for name in names:
        for rest in ("records", f"contents/{hash}", "records?seq=1", "records?after=0&limit=1000"):
            found.append(("reader", "GET", f"/v1/workspaces/{name}/{rest}", {}))
        found.append(("admin", "POST", f"/v1/workspaces/{name}/restart", {}))
        for rest in ("timeline", "call/1", "call/1/file/0", "call/1/image/0/after", f"history?path={SECRET_PATH}"):
            found.append(("browser", "GET", f"/review/w/{name}/{rest}", {}))
    for value in (SECRET_NAME, SECRET_PATH, SECRET_SESSION, *FRAGMENTS):
        text = value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        for field in ("workspace", "session", "path", "last"):
            found.append(("reader", "GET", "/v1/calls", {"params": {field: text}}))
        for field in ("session", "path", "q", "tool", "before", "sessions", "turn"):
            found.append(("browser", "GET", "/review/w/mine/timeline", {"params": {field: text}}))
        found.append(("browser", "GET", "/review/w/mine/history", {"params": {"path": text}}))
        found.append(("browser", "GET", "/review/", {"params": {"from": text}}))
        found.append(("browser", "POST", "/review/enter", {"data": {"token": text, "again": "/review/"}}))
        found.append(("agent", "POST", "/v1/contents/have", {"json": {"hashes": [text]}}))
        found.append(
            ("agent", "POST", "/v1/records", {"content": text.encode(), "headers": {"handhold-head": quote(text)}})
        )
        found.append(
            ("reader", "GET", "/v1/workspaces", {"headers": {"x-tenant": quote(text), "handhold-tenant": "1"}})
        )
    found.append(("agent", "POST", "/v1/contents/have", {"json": {"hashes": [hash]}}))
    found += [
        ("reader", "GET", path, {})
        for path in (f"/v1/contents/{hash}", "/v1/contents/have", "/v1/tokens", "/v1/tenants", "/v1/chain")
    ]
    found += [("agent", "PUT", f"/v1/contents/{hash}", {"content": data}) for data in (b"", b"x", SECRET_DATA[:-1])]
    return found


@pytest.mark.timeout(300)
def test_300_tries_of_one_tenant_at_another_learn_nothing(hubs: tuple[Two, Two]):
    wanted = tries()
    assert len(wanted) >= 300
    for role, method, path, options in wanted:
        answers = []
        for hub in hubs:
            headers = {**getattr(hub, role), **options.get("headers", {})}
            answer = hub.client.request(method, path, **{**options, "headers": headers})
            content = answer.content.replace(hub.csrf.encode(), b"")
            answers.append((answer.status_code, content))
        told = f"{role} {method} {path} {options}"
        if path not in ("/v1/workspaces", "/review/"):  # they list times of the tenant's own
            assert answers[0] == answers[1], told
        assert answers[0][0] < 500, (told, answers[0])
        if "params" in options and role == "browser":
            continue  # the page shows what was looked for
        for secret in (SECRET_NAME.encode(), SECRET_DATA.strip(), b"acme", SECRET_PATH.encode()):
            assert secret not in answers[0][1], told


def test_tokens_of_another_tenant_cannot_be_revoked(hubs: tuple[Two, Two]):
    full, _ = hubs
    for number in (*full.token_ids, 10**6, 2**31, 2**62):
        assert full.client.delete(f"/v1/tokens/{number}", headers=full.admin).status_code == 404
    assert full.stores.tenants
    with full.stores.tenants._pool.connection() as connection:  # pyright: ignore[reportPrivateUsage]
        rows = connection.execute("SELECT count(*) FROM tokens WHERE id = ANY(%s)", (full.token_ids,)).fetchone()
    assert rows == (len(full.token_ids),)


def test_metrics_name_no_tenant(hubs: tuple[Two, Two]):
    full, _ = hubs
    text = full.client.get("/metrics").text
    for secret in (SECRET_NAME, "acme", "mallory", "mine", digest(SECRET_DATA)):
        assert secret not in text


def test_uploading_what_another_tenant_has_gives_a_copy_of_ones_own(hubs: tuple[Two, Two]):
    """The answer is that of a new content, and deleting one does not touch the other."""
    full, empty = hubs
    hash = digest(SECRET_DATA)
    for hub in (full, empty):
        assert hub.client.put(f"/v1/contents/{hash}", content=SECRET_DATA, headers=hub.agent).json() == {"hash": hash}
    assert full.stores.tenants
    full.stores.tenants.delete_tenant("mallory", full.stores.contents)
    chain = full.stores.records.find_chain(1, SECRET_NAME)
    assert chain
    assert read_content(full.stores, chain, hash) == SECRET_DATA


# --- limits


@pytest.fixture
def stores(
    postgres: Postgres, seaweed: SeaweedFS, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[HubStores]:
    for name, value in seaweed.environment.items():
        monkeypatch.setenv(name, value)
    with open_stores(postgres.make_database(), f"{seaweed.url}/{tmp_path.name}") as stores:
        yield stores


@pytest.mark.parametrize("limits", [TenantLimits(max_records=4), TenantLimits(max_bytes=500)])
def test_a_quota_pushes_back(stores: HubStores, limits: TenantLimits):
    assert stores.tenants
    tenant = stores.tenants.add_tenant("small", limits)
    headers = {"authorization": f"Bearer {stores.tokens.create_token(tenant, 'agent', 'w').token}"}

    def send(lines: list[bytes]):
        app = HubApp(stores.records, stores.tokens, stores.contents)
        from handhold.hub.postgres import PostgresRecordStore
        from handhold.hub.quotas import TenantQuotas

        assert isinstance(stores.records, PostgresRecordStore)
        stores.records._quotas = TenantQuotas()  # pyright: ignore[reportPrivateUsage] - as if some seconds had passed
        return TestClient(app.asgi).post("/v1/records", content=b"\n".join(lines), headers=headers)

    assert send(journal(3)[:4]).status_code == 200
    refused = send(journal(3))
    assert (refused.status_code, refused.json()["error"]) == (429, "QUOTA")
    assert int(refused.headers["retry-after"]) > 0
    stores.tenants.add_tenant("small", TenantLimits())
    assert send(journal(3)).json()["record"] == 12


def test_retention_and_deletion_remove_rows_and_objects(stores: HubStores):
    assert stores.tenants
    import io

    chains = []
    contents = StoredContents(stores.records, stores.contents)
    for name, limits in (("short", TenantLimits(retention_days=2)), ("long", TenantLimits())):
        chain = stores.records.open_chain(stores.tenants.add_tenant(name, limits), "w")
        stores.records.append(chain, batch(journal(2)), claimed=8)
        for data in (b"old", b"new"):
            contents.add(chain, digest(data), io.BytesIO(data))
        chains.append(chain)
    with stores.tenants._pool.connection() as connection:  # pyright: ignore[reportPrivateUsage]
        connection.execute("SELECT add_partitions((now() - interval '40 days')::date)")
        connection.execute("SELECT add_partitions((now() - interval '3 days')::date)")
        connection.execute("UPDATE records SET received = received - interval '40 days' WHERE record <= 4")
        connection.execute("UPDATE changes SET received = received - interval '40 days' WHERE seq = 1")
        connection.execute(
            "UPDATE contents SET used = used - interval '3 days' WHERE hash = %s", (bytes.fromhex(digest(b"old")),)
        )
    stores.tenants.apply_retention(stores.contents)
    short, long = chains
    assert len(stores.records.read_lines(short)) == 4
    assert len(stores.records.read_lines(long)) == 8
    assert [each.entry.seq for each in stores.records.find_path(short.tenant, "/ws").entries] == [2]
    assert read_content(stores, short, digest(b"old")) is None
    assert read_content(stores, short, digest(b"new")) == b"new"
    assert read_content(stores, long, digest(b"old")) == b"old"
    assert len(list_objects(stores)) == 3
    assert stores.records.append(short, batch(journal(3)[6:]), claimed=12).record == 12  # the chain goes on
    stores.tenants.add_tenant("long", TenantLimits(retention_days=20))
    stores.tenants.apply_retention(stores.contents)
    with stores.tenants._pool.connection() as connection:  # pyright: ignore[reportPrivateUsage]
        months = connection.execute("SELECT count(*) FROM pg_inherits WHERE inhparent = 'records'::regclass").fetchone()
    assert len(stores.records.read_lines(long)) == 4
    stores.tenants.delete_tenant("long", stores.contents)
    assert len(list_objects(stores)) == 1
    with stores.tenants._pool.connection() as connection:  # pyright: ignore[reportPrivateUsage]
        totals = ("session_totals", "turn_totals", "session_tools")
        for table in ("records", "changes", "workspaces", "contents", "tokens", "reversals", "diverged", *totals):
            row = connection.execute(
                f"SELECT count(*) FROM {table} WHERE tenant = %s".encode(), (long.tenant,)
            ).fetchone()
            assert row == (0,), table
    assert months
    assert stores.records.head(short).record == 12


def test_retention_forgets_sessions_that_ended_before(stores: HubStores):
    assert stores.tenants
    chain = stores.records.open_chain(stores.tenants.add_tenant("short", TenantLimits(retention_days=2)), "w")
    calls = [*call_records(1, "/ws/a", session="old"), *call_records(2, "/ws/a", session="new")]
    stores.records.append(chain, batch(encode_chain(calls)), claimed=8)
    with stores.tenants._pool.connection() as connection:  # pyright: ignore[reportPrivateUsage]
        for table in ("session_totals", "turn_totals"):
            statement = f"UPDATE {table} SET received = received - interval '4 days' WHERE session = %s"
            connection.execute(statement.encode(), (b"old",))
    stores.tenants.apply_retention(stores.contents)
    with stores.tenants._pool.connection() as connection:  # pyright: ignore[reportPrivateUsage]
        for table in ("session_totals", "turn_totals", "session_tools"):
            assert connection.execute(f"SELECT session FROM {table}".encode()).fetchall() == [(b"new",)], table


def test_a_database_of_a_later_version_is_refused(database: str):
    from handhold.hub.migrations import UnsuitableDatabase, migrate

    with psycopg.connect(database) as connection:
        assert migrate(connection) >= 1
        connection.execute("UPDATE schema_version SET version = 99")
        with pytest.raises(UnsuitableDatabase, match="99"):
            migrate(connection)
