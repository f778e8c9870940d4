"""The published suite, on SQLite and on PostgreSQL, and the proof that it bites."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from handhold.core.ports.record_store import ChainDiverged, ChainId, RecordStore, StoredContent
from handhold.hub import postgres as postgres_store
from handhold.hub.local_records import SqliteRecordStore
from handhold.hub.migrations import UnsuitableDatabase, migrate
from handhold.hub.postgres import PostgresRecordStore
from handhold.hub.postgres_pool import open_pool
from tests.hub.servers import Postgres
from tests.suites.record_store_suite import RecordStoreSuite, batch, call_records, encode_chain, journal


@pytest.fixture(scope="module")
def shared_pool(postgres: Postgres):
    url = postgres.make_database()
    with psycopg.connect(url) as connection:
        migrate(connection)
        connection.execute("INSERT INTO tenants (name) VALUES ('mine'), ('theirs')")
    with open_pool(url) as pool:
        yield pool


class TestSqlite(RecordStoreSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[RecordStore]:
        store = SqliteRecordStore(tmp_path / "hub.db")
        yield store
        store.close()


def test_a_folder_of_version_1_is_migrated(tmp_path: Path):
    store = SqliteRecordStore(tmp_path / "hub.db")
    chain = store.open_chain(1, "w")
    store.add_content(chain, "ab" * 32, StoredContent("", 5))
    store.close()
    with closing(sqlite3.connect(tmp_path / "hub.db")) as connection:
        connection.execute("ALTER TABLE contents DROP COLUMN upload")
        connection.execute("ALTER TABLE diverged DROP COLUMN generation")
        connection.execute("ALTER TABLE records DROP COLUMN listed")
        connection.execute("PRAGMA user_version = 1")
    with closing(SqliteRecordStore(tmp_path / "hub.db")) as store:
        assert store.find_content(chain, "ab" * 32) == StoredContent("", 5)
        store.append(chain, batch(journal(1)), claimed=4)
        with pytest.raises(ChainDiverged):
            store.append(chain, batch(encode_chain(call_records(7, "/ws/x"))), claimed=4)
        assert len(store.read_diverged(chain)) == 4


class TestPostgres(RecordStoreSuite):
    @pytest.fixture
    def store(self, shared_pool) -> RecordStore:
        return PostgresRecordStore(shared_pool)


def test_long_records_of_an_earlier_version_get_their_short_form(postgres: Postgres):
    url = postgres.make_database()
    with psycopg.connect(url) as connection:
        migrate(connection)
        connection.execute("INSERT INTO tenants (name) VALUES ('mine')")
    with open_pool(url) as pool:
        store = PostgresRecordStore(pool)
        chain = store.open_chain(1, "w")
        store.append(chain, batch(encode_chain(call_records(1, "/ws/a", arguments="x" * 200_000))), claimed=4)
        listed = store.list_calls(1).entries
        with pool.connection() as connection:
            connection.execute("DROP INDEX changes_received")
            connection.execute("ALTER TABLE records DROP COLUMN listed")
            connection.execute("UPDATE schema_version SET version = 4")
    with psycopg.connect(url) as connection:
        migrate(connection)
    with open_pool(url) as pool:
        assert PostgresRecordStore(pool).list_calls(1).entries == listed
        assert len(listed[0].entry.call.arguments) < 20_000


def test_the_suite_bites(shared_pool, monkeypatch: pytest.MonkeyPatch):
    """With the compare-and-swap off, records land more than once."""
    monkeypatch.setattr(postgres_store, "COMPARE", "%(record)s >= 0 AND %(previous)s::bytea IS NOT NULL")
    store = PostgresRecordStore(shared_pool)
    suite = RecordStoreSuite()
    with pytest.raises(Exception) as failure:  # noqa: PT011 - whichever part of it fails
        suite.test_of_many_senders_of_the_same_records_each_record_lands_once(store, store.open_chain(1, "bites"))
    assert failure.type.__name__ in ("AssertionError", "ChainDiverged", "UniqueViolation"), failure.value


def test_a_database_that_is_not_in_utf_8_is_refused(postgres: Postgres):
    with (
        psycopg.connect(postgres.make_database("SQL_ASCII")) as connection,
        pytest.raises(UnsuitableDatabase, match="UTF8"),
    ):
        migrate(connection)


def test_a_query_without_a_condition_sees_one_tenant_only(shared_pool):
    """Row-level security is the second wall."""
    store = PostgresRecordStore(shared_pool)
    chains = [store.open_chain(tenant, "walls") for tenant in (1, 2)]
    for chain in chains:
        store.append(chain, batch(journal(1)), claimed=4)
        store.add_content(chain, "ab" * 32, StoredContent("first", 1))
    totals = ("session_totals", "turn_totals", "session_tools")
    for table in (
        "workspaces",
        "records",
        "changes",
        "contents",
        "tenants",
        "reversals",
        "diverged",
        "tokens",
        *totals,
    ):
        with store.for_tenant(2) as connection:
            column = "id" if table == "tenants" else "tenant"
            seen = {row[0] for row in connection.execute(f"SELECT {column} FROM {table}".encode())}
        assert seen <= {2}
    with pytest.raises(psycopg.errors.InsufficientPrivilege), store.for_tenant(2) as connection:
        connection.execute("INSERT INTO workspaces (tenant, name) VALUES (1, 'intruder')")
    with pytest.raises(psycopg.errors.InsufficientPrivilege), store.for_tenant(2) as connection:
        connection.execute("UPDATE tenants SET max_bytes = 1")
    with store.for_tenant(2) as connection:
        assert connection.execute("UPDATE workspaces SET record = 0 WHERE tenant = 1").rowcount == 0
    assert store.head(ChainId(1, chains[0].workspace)).record == 4
