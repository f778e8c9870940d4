"""Quotas, retention and the deletion of tenants: what they count, and what they leave."""

import io
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from starlette.testclient import TestClient

from handhold.core.plans import digest
from handhold.core.ports.record_store import ChainId, QuotaExceeded
from handhold.hub.app import HubApp
from handhold.hub.object_contents import ObjectContents
from handhold.hub.postgres import PostgresRecordStore
from handhold.hub.quotas import TenantQuotas
from handhold.hub.service import HubStores, open_stores
from handhold.hub.stored_contents import StoredContents
from handhold.hub.tenants import TenantLimits
from tests.hub.hubs import list_objects, read_content
from tests.hub.servers import Postgres
from tests.suites.record_store_suite import batch, call_records, encode_chain, journal

pytestmark = pytest.mark.timeout(120)

DATA = b"some content\n"
HASH = digest(DATA)


@pytest.fixture
def stores(postgres: Postgres, tmp_path: Path) -> Iterator[HubStores]:
    with open_stores(postgres.make_database(), (tmp_path / "objects").as_uri()) as stores:
        yield stores


def open_chain(stores: HubStores, limits: TenantLimits = TenantLimits()) -> ChainId:  # noqa: B008 - it is frozen
    assert stores.tenants
    return stores.records.open_chain(stores.tenants.add_tenant("acme", limits), "w")


def execute(stores: HubStores, sql: str, *values: object) -> list[tuple]:
    assert stores.tenants
    with stores.tenants._upkeep.connection() as connection:  # pyright: ignore[reportPrivateUsage]
        cursor = connection.execute(sql.encode(), values)
        return cursor.fetchall() if cursor.description else []


def read_totals(stores: HubStores) -> tuple[int, int]:
    ((records, size),) = execute(stores, "SELECT stored_records, stored_bytes FROM workspaces")
    return records, size


def forget_usage(stores: HubStores) -> None:
    """As if some seconds had passed."""
    assert isinstance(stores.records, PostgresRecordStore)
    stores.records._quotas = TenantQuotas()  # pyright: ignore[reportPrivateUsage]


def age(stores: HubStores, days: int, where: str = "true") -> None:
    for table in ("records", "changes"):
        execute(stores, f"SELECT add_partitions((now() - interval '{days} days')::date)")
        execute(stores, f"UPDATE {table} SET received = received - interval '{days} days' WHERE {where}")


def add_content(stores: HubStores, chain: ChainId, data: bytes = DATA) -> None:
    StoredContents(stores.records, stores.contents).add(chain, digest(data), io.BytesIO(data))


@pytest.mark.parametrize("other_keeps", [True, False])  # else the whole month is dropped
def test_what_retention_removes_no_longer_counts(stores: HubStores, other_keeps: bool):
    assert stores.tenants
    chain = open_chain(stores, TenantLimits(retention_days=2, max_records=8))
    lines = journal(3)
    stores.records.append(chain, batch(lines[:8]), claimed=8)
    age(stores, 70, "seq = 1")
    if other_keeps:
        stores.tenants.add_tenant("other", TenantLimits())
    stores.tenants.apply_retention(stores.contents)
    months = execute(stores, "SELECT 1 FROM pg_inherits WHERE inhparent = 'records'::regclass")
    assert len(months) == (3 if other_keeps else 2)
    assert read_totals(stores) == (4, sum(map(len, lines[4:8])))
    forget_usage(stores)
    assert stores.records.append(chain, batch(lines[8:]), claimed=12).record == 12


def test_retention_subtracts_contents_and_what_was_kept_apart(stores: HubStores):
    assert stores.tenants
    chain = open_chain(stores, TenantLimits(retention_days=2))
    stores.records.append(chain, batch(journal(1)), claimed=4)
    with pytest.raises(Exception, match="no continuation"):
        stores.records.append(chain, batch(encode_chain(call_records(9, "/ws/z"))), claimed=4)
    add_content(stores, chain)
    execute(stores, "UPDATE contents SET used = used - interval '3 days'")
    execute(stores, "UPDATE diverged SET received = received - interval '3 days'")
    stores.tenants.apply_retention(stores.contents)
    assert read_totals(stores) == (4, sum(map(len, journal(1))))


def test_the_migration_corrects_what_was_counted_wrongly(stores: HubStores, postgres: Postgres):
    chain = open_chain(stores)
    stores.records.append(chain, batch(journal(2)), claimed=8)
    add_content(stores, chain)
    right = read_totals(stores)
    execute(stores, "UPDATE workspaces SET stored_records = 99, stored_bytes = 0")
    columns = ("contents.upload", "diverged.generation", "records.listed")
    for undo in ("TABLE deleted_tenants", "INDEX changes_received", *(f"COLUMN {each}" for each in columns)):
        kind, name = undo.split()
        table, _, column = name.partition(".")
        execute(stores, f"ALTER TABLE {table} DROP COLUMN {column}" if column else f"DROP {kind} {name}")
    execute(stores, "UPDATE schema_version SET version = 3")
    from handhold.hub.migrations import migrate

    ((name,),) = execute(stores, "SELECT current_database()")
    with psycopg.connect(postgres.url(name)) as connection:
        migrate(connection)
    assert read_totals(stores) == right


# --- contents


def test_an_object_of_an_earlier_version_is_read_and_removed(stores: HubStores):
    assert stores.tenants
    chain = open_chain(stores, TenantLimits(retention_days=2))
    key = f"contents/{chain.tenant}/{chain.workspace}/{HASH[:2]}/{HASH}"
    stores.contents._store.put(key, DATA)  # pyright: ignore[reportPrivateUsage]
    sql = "INSERT INTO contents (tenant, workspace, hash, size) VALUES (%s, %s, %s, %s)"
    execute(stores, sql, chain.tenant, chain.workspace, bytes.fromhex(HASH), len(DATA))
    assert read_content(stores, chain, HASH) == DATA
    execute(stores, "UPDATE contents SET used = used - interval '3 days'")
    stores.tenants.apply_retention(stores.contents)
    assert list_objects(stores) == []


def test_an_upload_over_the_quota_leaves_nothing(stores: HubStores):
    chain = open_chain(stores, TenantLimits(max_bytes=len(DATA) + 5))
    token = stores.tokens.create_token(chain.tenant, "agent", "w").token
    client = TestClient(HubApp(stores.records, stores.tokens, stores.contents).asgi)

    def put(data: bytes, *, is_chunked: bool = False):
        content = iter([data]) if is_chunked else data  # without a length
        headers = {"authorization": f"Bearer {token}"}
        return client.put(f"/v1/contents/{digest(data)}", content=content, headers=headers)

    assert put(DATA).status_code == 200
    kept = list_objects(stores)
    forget_usage(stores)
    for is_chunked in (False, True):
        for n in range(3):
            refused = put(b"%d" % n * 20, is_chunked=is_chunked)
            assert (refused.status_code, refused.json()["error"]) == (429, "QUOTA")
    assert list_objects(stores) == kept
    assert read_totals(stores) == (0, len(DATA))


def test_a_content_that_is_there_already_is_stored_and_counted_once(stores: HubStores):
    chain = open_chain(stores)
    for _ in range(3):
        add_content(stores, chain)
    assert (len(list_objects(stores)), read_totals(stores)) == (1, (0, len(DATA)))
    assert read_content(stores, chain, HASH) == DATA


def test_a_content_that_is_uploaded_while_retention_removes_it_is_kept(stores: HubStores):
    """It was removed, and is stored anew before the earlier object is gone."""
    assert stores.tenants
    chain = open_chain(stores, TenantLimits(retention_days=2))
    add_content(stores, chain)
    execute(stores, "UPDATE contents SET used = used - interval '3 days'")

    class UploadedMeanwhile(ObjectContents):
        def delete(self, contents: Sequence[tuple[ChainId, str, str]]) -> None:
            assert contents
            assert stores.records.select_present(chain, (HASH,)) == set()
            add_content(stores, chain)
            super().delete(contents)

    stores.tenants.apply_retention(UploadedMeanwhile(stores.contents._store))  # pyright: ignore[reportPrivateUsage]
    assert stores.records.select_present(chain, (HASH,)) == {HASH}
    assert read_content(stores, chain, HASH) == DATA
    assert len(list_objects(stores)) == 1


def test_an_upload_of_what_is_there_already_pins_it(stores: HubStores):
    assert stores.tenants
    chain = open_chain(stores, TenantLimits(retention_days=2))
    add_content(stores, chain)
    execute(stores, "UPDATE contents SET used = used - interval '3 days'")
    add_content(stores, chain)
    stores.tenants.apply_retention(stores.contents)
    assert stores.records.select_present(chain, (HASH,)) == {HASH}


def test_a_missing_object_does_not_keep_others_from_being_removed(stores: HubStores):
    chain = open_chain(stores)
    uploads = [stores.contents.upload(chain, digest(data), io.BytesIO(data)) for data in (b"a", b"b", b"c")]
    missing = [(chain, HASH, "gone")]
    kept = [(chain, digest(d), u.upload) for d, u in zip((b"a", b"b", b"c"), uploads, strict=True)]
    stores.contents.delete([*kept[:1], *missing, *kept[1:]])
    assert list_objects(stores) == []


# --- chains


def test_a_batch_whose_beginning_retention_took_is_no_divergence(stores: HubStores):
    chain = open_chain(stores)
    stores.records.append(chain, batch(journal(1)), claimed=4)
    execute(stores, "DELETE FROM records WHERE record <= 2")
    assert stores.records.append(chain, batch(journal(2)), claimed=8).record == 8


# --- deletion


def test_what_comes_for_a_deleted_tenant_is_refused_and_leaves_nothing(stores: HubStores):
    """Hubs that have just seen its token go on for some seconds."""
    assert stores.tenants
    chain = open_chain(stores)
    token = {"authorization": f"Bearer {stores.tokens.create_token(chain.tenant, 'agent', 'w').token}"}
    client = TestClient(HubApp(stores.records, stores.tokens, stores.contents).asgi)
    assert client.put(f"/v1/contents/{HASH}", content=DATA, headers=token).status_code == 200
    stores.tenants.delete_tenant("acme", stores.contents)
    assert list_objects(stores) == []
    assert client.put(f"/v1/contents/{HASH}", content=DATA, headers=token).json()["error"] == "QUOTA"
    with pytest.raises(QuotaExceeded):  # the hub still knows that there was room
        add_content(stores, chain)
    assert list_objects(stores) == []


def test_objects_that_a_killed_hub_left_for_a_deleted_tenant_are_removed_by_the_upkeep(stores: HubStores):
    assert stores.tenants
    chain = open_chain(stores)
    stores.tenants.delete_tenant("acme", stores.contents)
    stores.contents.upload(chain, HASH, io.BytesIO(DATA))
    stores.upkeep()
    assert list_objects(stores) == []
    stores.contents.upload(chain, HASH, io.BytesIO(DATA))
    execute(stores, "UPDATE deleted_tenants SET at = at - interval '2 days'")
    stores.upkeep()
    assert list_objects(stores) == []
    assert execute(stores, "SELECT * FROM deleted_tenants") == []


def test_the_deletion_of_a_tenant_waits_for_an_append_under_way(stores: HubStores):
    from concurrent.futures import ThreadPoolExecutor

    assert stores.tenants
    assert isinstance(stores.records, PostgresRecordStore)
    chain = open_chain(stores)
    with ThreadPoolExecutor(1) as pool, ExitStack() as append:
        connection = append.enter_context(stores.records.for_tenant(chain.tenant))
        from handhold.hub.postgres import _try_append  # pyright: ignore[reportPrivateUsage]

        assert _try_append(connection, chain, batch(journal(1)), 4)
        deleting = pool.submit(stores.tenants.delete_tenant, "acme", stores.contents)
        with pytest.raises(TimeoutError):
            deleting.result(1)
        append.close()
        deleting.result(30)
    for table in ("records", "changes", "workspaces"):
        assert execute(stores, f"SELECT * FROM {table}") == [], table
