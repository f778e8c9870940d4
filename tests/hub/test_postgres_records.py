"""The journal in pages, on PostgreSQL."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from handhold.backends.state.sqlite import SqliteStore
from handhold.core.ports.record_store import ChainId
from handhold.core.ports.records import CallFilter, Records
from handhold.hub.postgres import PostgresRecordStore
from handhold.hub.postgres_records import MAX_SEARCHED, PostgresRecords
from handhold.hub.service import HubStores, open_stores
from handhold.hub.shipped_contents import ShippedContents
from handhold.hub.tenants import TenantLimits
from tests.hub.servers import Postgres
from tests.hub.shipping import ship
from tests.suites.record_store_suite import NAMES
from tests.suites.records_suite import REFUSED, RecordsSuite, call
from tests.suites.store_suite import ALLOWED, change, done, success


@pytest.fixture(scope="module")
def stores(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubStores]:
    contents = tmp_path_factory.mktemp("contents").as_uri()
    with ExitStack() as opened:
        stores = opened.enter_context(open_stores(postgres.make_database(), contents))
        assert stores.tenants
        assert stores.tenants.add_tenant("first", TenantLimits()) == 1
        yield stores


class Shipped:
    """Journals, and their chains on a hub."""

    def __init__(self, stores: HubStores) -> None:
        self.stores = stores
        self._chains: dict[SqliteStore, ChainId] = {}

    def read(self, store: SqliteStore) -> PostgresRecords:
        records = self.stores.records
        assert isinstance(records, PostgresRecordStore)
        chain = self._chains.get(store) or records.open_chain(1, next(NAMES))
        self._chains[store] = chain
        ship(store, records, self.stores.contents, chain)
        return PostgresRecords(records, ShippedContents(records, self.stores.contents, chain), chain, 1)


class TestPostgres(RecordsSuite):
    max_examined = MAX_SEARCHED
    shipped: Shipped

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def use_stores(cls, stores: HubStores) -> None:
        cls.shipped = Shipped(stores)

    def read(self, store: SqliteStore) -> Records:
        return self.shipped.read(store)

    def test_what_only_the_machine_knows_is_empty(self, store: SqliteStore):
        seq = store.begin(call("bash"))
        records = self.read(store)
        assert (records.list_running(), records.read_output(seq), records.measure_output(seq)) == ((), None, 0)

    def test_no_page_of_a_long_journal_is_a_full_scan(self, store: SqliteStore):
        """The cost of each request grows neither with the session, nor with the journal, nor with the tenant.

        Nor does it need statistics, which the table of a new month has not got yet.
        """
        records = self.shipped.read(store)
        requests: dict[str, Callable[[], object]] = {
            "sessions": lambda: records.list_sessions(limit=20),
            "session": lambda: records.find_session("s"),
            "turns": lambda: records.list_turns("s", ["t1"]),
            "calls": lambda: records.list_calls(CallFilter(session="s"), limit=50),
            "of all": lambda: records.list_calls(CallFilter(), limit=50),
            "tool": lambda: records.list_calls(CallFilter(session="s", tool="rare"), limit=50),
            "decision": lambda: records.list_calls(CallFilter(session="s", decision="refused"), limit=50),
            "path": lambda: records.list_path_changes("/ws/a.py", limit=20),
            "tools": lambda: records.list_tools("s"),
            "marks": lambda: records.list_marks("s", limit=50),
            "one": lambda: records.find_entry(3),
            "neighbours": lambda: records.find_neighbours(3),
            "version": records.version,
        }

        def grow(many: int) -> None:
            with store.one_transaction(durable=True):
                for n in range(many):
                    name = "s" if n % 2 else f"other{n % 50}"
                    store.record_call(call("read", session=name), success(), decision=ALLOWED)
            self.shipped.read(store)
            with closing(SqliteStore.in_memory()) as other:  # of the same tenant, with the same names
                with other.one_transaction(durable=True):
                    for _ in range(many // 10):
                        done(other, change("/ws/a.py"))
                self.shipped.read(other)

        done(store, change("/ws/a.py"))
        store.record_call(call("rare"), success(), decision=REFUSED)
        grow(1_500)
        before = {name: count_blocks(records, request) for name, request in requests.items()}
        grow(8_000)
        after = {name: count_blocks(records, request) for name, request in requests.items()}
        for name, cost in before.items():
            assert after[name] <= 1.5 * cost + 20, (name, cost, after[name])


def count_blocks(records: PostgresRecords, request: Callable[[], object]) -> int:
    """How many blocks PostgreSQL reads for a request, from its cache or not."""
    asked: list[tuple[Any, dict[str, Any]]] = []
    select = records._select  # pyright: ignore[reportPrivateUsage]

    def note(sql: Any, **values: Any) -> Any:
        asked.append((sql, values))
        return select(sql, **values)

    records._select = note  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    try:
        request()
    finally:
        del records._select  # pyright: ignore[reportPrivateUsage]
    total = 0
    for sql, values in asked:
        ((plan,),) = select("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + sql, **values)
        top = (plan if isinstance(plan, list) else json.loads(plan))[0]["Plan"]
        total += top["Shared Hit Blocks"] + top["Shared Read Blocks"]
    return total
