"""C-91: altering, dropping, adding or reordering any record of the journal is detected."""

import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from handhold.backends.state import hash_chain
from handhold.backends.state.hash_chain import JournalChain
from handhold.backends.state.records import FinishRecord, JournalRecord, encode_record
from handhold.backends.state.rows import DETAIL_TABLES, RECORD_TABLES, encode_row
from handhold.backends.state.sqlite import SqliteStore
from handhold.core.errors import StateDamaged
from handhold.core.plans import Directory, DirectoryMetadata, FileChange
from handhold.core.ports.journal import CallDecision
from tests.scale import examples, sampled, scaled
from tests.suites.store_suite import begun, call, change, done, failure, shelved, success

TABLES = (*RECORD_TABLES, *DETAIL_TABLES, "head")
KEYS = {"changes": ("seq", "n"), "things": ("seq", "n", "side"), "taken": ("seq", "n"), "head": ()}
STEPS = ("read", "refuse", "edit", "command", "undo", "fail", "leave")


def journalled(store: SqliteStore, steps: list[str]) -> None:
    for n, step in enumerate(steps):
        match step:
            case "read":
                store.record_outcome(store.begin(call("Read", call_id=f"r{n}")), success(f"page {n}"), durable=False)
            case "refuse":
                refused = CallDecision("refused", f"rule {n} (a.toml)")
                store.record_outcome(store.begin(call()), failure(), durable=False, decision=refused)
            case "command":
                done(store, shelved(f"c{n}/1", b"old", b"new"), shelved(f"c{n}/2", None, b"made", "/ws/b"))
            case "undo" if n:
                done(store, change("/ws/a.py", b"new\n", b"old\n"), asked=call("undo"), takes_back=(1, n))
            case "fail":
                store.record_outcome(begun(store, change(f"/ws/{n}")), failure(), durable=True)
            case "leave":
                begun(store, change(f"/ws/{n}"))
            case _:
                made = (
                    FileChange("/ws/d", None, Directory()),
                    FileChange(
                        "/ws/f", DirectoryMetadata(0o755), DirectoryMetadata(0o700, (1, 2), (("user.\udcff", b"\0"),))
                    ),
                )
                done(store, change(f"/ws/{n}", None, b"%d" % n), *made)


@contextmanager
def tampered(folder: Path) -> Iterator[sqlite3.Connection]:
    """As another program opens it: without the triggers. Changes are not kept."""
    with closing(sqlite3.connect(folder / "state.db", isolation_level=None)) as connection:
        connection.execute("BEGIN")
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        yield connection
        connection.execute("ROLLBACK")


@contextmanager
def tried(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("SAVEPOINT tried")
    try:
        yield
    finally:
        connection.execute("ROLLBACK TO tried")


def columns_of(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


def rows_of(connection: sqlite3.Connection, table: str) -> list[tuple[Any, ...]]:
    """Each row with the values of its key."""
    key = ", ".join(KEYS.get(table, ("seq",))) or "rowid"
    return connection.execute(f"SELECT {key} FROM {table} ORDER BY {key}").fetchall()


def where(table: str) -> str:
    return " AND ".join(f"{each} = ?" for each in KEYS.get(table, ("seq",))) or "rowid = ?"


def others(value: Any) -> list[Any]:
    """Values that differ from this one, some only slightly."""
    match value:
        case None:
            return [0, "", b""]
        case int():
            return [value + 1, -value - 1, None, str(value).encode()]
        case float():
            return [value + 0.001, None]
        case bytes():
            return [value + b"\0", value[:-1], value.decode("latin-1"), None, b"\xff" + value]
        case _:
            return [value + "x", value.upper(), value.encode(), None]


def alter(connection: sqlite3.Connection, table: str, column: str, key: tuple[Any, ...], value: Any) -> bool:
    """Whether the change was possible and made a difference."""
    ask = f"SELECT typeof({column}), {column} FROM {table} WHERE {where(table)}"
    before = connection.execute(ask, key).fetchone()
    try:
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE {where(table)}", (value, *key))
    except sqlite3.IntegrityError:  # the schema does not allow this
        return False
    return connection.execute(ask, key).fetchone() != before


def found(connection: sqlite3.Connection) -> str | None:
    return hash_chain.verify_chain(connection, "").problem


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal with every kind of row."""
    folder = tmp_path_factory.mktemp("rich")
    with closing(SqliteStore(folder)) as store:
        journalled(store, [*STEPS, "undo", "command"])
        assert store.verify().problem is None
    return folder


@pytest.mark.parametrize("table", TABLES)
def test_c91_another_value_in_any_column_of_any_row_is_found(rich: Path, table: str):
    tries = 0
    with tampered(rich) as connection:
        assert found(connection) is None
        assert rows_of(connection, table)
        for key in sampled(rows_of(connection, table), 4):
            for column in columns_of(connection, table):
                (value,) = connection.execute(f"SELECT {column} FROM {table} WHERE {where(table)}", key).fetchone()
                for other in others(value):
                    with tried(connection):
                        if alter(connection, table, column, key, other):
                            tries += 1
                            assert found(connection), (table, column, key, value, other)
    assert tries >= 2 * len(columns_of_file(rich, table))


def columns_of_file(folder: Path, table: str) -> list[str]:
    with closing(sqlite3.connect(folder / "state.db")) as connection:
        return columns_of(connection, table)


@pytest.mark.parametrize("table", TABLES)
def test_c91_any_row_that_is_dropped_is_found(rich: Path, table: str):
    with tampered(rich) as connection:
        for key in rows_of(connection, table):
            with tried(connection):
                connection.execute(f"DELETE FROM {table} WHERE {where(table)}", key)
                assert found(connection), (table, key)


@pytest.mark.parametrize("table", [table for table in TABLES if table != "head"])
def test_c91_any_two_rows_that_change_places_are_found(rich: Path, table: str):
    swapped = 0
    with tampered(rich) as connection:
        names = [name for name in columns_of(connection, table) if name not in KEYS.get(table, ("seq",))]
        whole = f"SELECT {', '.join(names)} FROM {table} WHERE {where(table)}"
        put = f"UPDATE {table} SET {', '.join(f'{name} = ?' for name in names)} WHERE {where(table)}"
        for one, other in combinations(rows_of(connection, table), 2):
            first, second = (connection.execute(whole, key).fetchone() for key in (one, other))
            if first == second:
                continue
            with tried(connection):
                connection.execute(put, (*second, *one))
                connection.execute(put, (*first, *other))
                swapped += 1
                assert found(connection), (table, one, other)
    assert swapped


@pytest.mark.parametrize("table", [table for table in TABLES if table != "head"])
@pytest.mark.parametrize("record", ["as before", "the next"])
def test_c91_a_row_that_is_added_is_found(rich: Path, table: str, record: str):
    with tampered(rich) as connection:
        names = columns_of(connection, table)
        *_, last = connection.execute(f"SELECT * FROM {table} ORDER BY seq").fetchall()
        row = dict(zip(names, last, strict=True)) | {"seq": 999}
        if "record" in row and record != "as before":
            (head,) = connection.execute("SELECT record FROM head").fetchone()
            row["record"] = head + 1
        connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", tuple(row.values()))
        assert found(connection)


def test_c91_a_record_that_is_added_with_its_right_hash_is_found(rich: Path):
    """If the head is moved too, only a head that was noted elsewhere reveals it."""
    with tampered(rich) as connection:
        number, digest = connection.execute("SELECT record, digest FROM head").fetchone()
        added = sha256(encode_record(FinishRecord(1, 1), number + 1, digest)).digest()
        connection.execute("INSERT INTO finished VALUES (1, 1, ?, ?)", (number + 1, added))
        assert found(connection)


@given(st.lists(st.sampled_from(STEPS), min_size=1, max_size=5), st.data())
@settings(max_examples=examples(25))
def test_c91_whatever_is_altered_dropped_or_exchanged_in_any_journal_is_always_found(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], data: st.DataObject
):
    folder = tmp_path_factory.mktemp("any")
    with closing(SqliteStore(folder)) as store:
        journalled(store, steps)
        assert store.verify().problem is None
    with tampered(folder) as connection:
        table = data.draw(st.sampled_from([table for table in TABLES if rows_of(connection, table)]))
        keys = rows_of(connection, table)
        key = data.draw(st.sampled_from(keys))
        match data.draw(st.sampled_from(["alter", "drop", "exchange"])):
            case "alter":
                column = data.draw(st.sampled_from(columns_of(connection, table)))
                values = st.one_of(
                    st.integers(-(2**63), 2**63 - 1), st.binary(), st.text("aß\0"), st.none(), st.floats()
                )
                assume(alter(connection, table, column, key, data.draw(values)))
            case "drop":
                connection.execute(f"DELETE FROM {table} WHERE {where(table)}", key)
            case _:
                names = [name for name in columns_of(connection, table) if name not in KEYS.get(table, ("seq",))]
                whole = f"SELECT {', '.join(names)} FROM {table} WHERE {where(table)}"
                other = data.draw(st.sampled_from(keys))
                first, second = (connection.execute(whole, each).fetchone() for each in (key, other))
                assume(first != second)
                put = f"UPDATE {table} SET {', '.join(f'{name} = ?' for name in names)} WHERE {where(table)}"
                connection.execute(put, (*second, *key))
                connection.execute(put, (*first, *other))
        assert found(connection)


def test_c91_text_that_is_none_is_found(rich: Path):
    with tampered(rich) as connection:
        connection.execute("UPDATE outcomes SET status = CAST(x'ff' AS TEXT) WHERE seq = 4")
        assert found(connection)


def test_c91_what_is_wrong_is_told_with_its_place(tmp_path: Path):
    with closing(SqliteStore(tmp_path)) as store:
        journalled(store, ["read", "edit", "read"])
    with tampered(tmp_path) as connection:
        with tried(connection):
            connection.execute("UPDATE changes SET path = x'2f' WHERE seq = 2 AND n = 0")
            told = hash_chain.verify_chain(connection, "")
            assert (told.at, told.count) == (4, 3)
            assert told.problem == "record 4, the intent of call #2, was changed after it was written"
        with tried(connection):
            connection.execute("DELETE FROM outcomes WHERE seq = 1")
            told = hash_chain.verify_chain(connection, "")
            assert (told.at, told.problem) == (2, "record 2 is missing")
        with tried(connection):
            connection.execute("DELETE FROM outcomes WHERE seq = 3")
            told = hash_chain.verify_chain(connection, "")
            assert (told.at, told.problem) == (8, "record 8 is missing, and so is everything after it")


# --- a head that was noted elsewhere


def test_c91_a_journal_that_was_written_anew_does_not_have_the_head_that_was_noted(tmp_path: Path):
    for folder in (tmp_path / "one", tmp_path / "two"):
        with closing(SqliteStore(folder)) as store:
            journalled(store, ["read", "edit"] if folder.name == "one" else ["read", "refuse"])
    with closing(SqliteStore(tmp_path / "one")) as one, closing(SqliteStore(tmp_path / "two")) as two:
        noted = one.verify().head
        journalled(one, ["read"])
        assert one.verify(noted).noted_at == 6
        assert one.verify(noted.upper()).noted_at == 6
        assert (two.verify(noted).problem, two.verify(noted).noted_at) == (None, None)


def test_c91_trouble_after_a_noted_head_leaves_what_is_before_it_proved(rich: Path):
    with tampered(rich) as connection:
        digest = connection.execute("SELECT digest FROM calls WHERE seq = 4").fetchone()[0].hex()
        connection.execute("UPDATE calls SET tool = x'00' WHERE seq = 6")
        told = hash_chain.verify_chain(connection, digest)
        assert told.problem
        assert told.at
        assert told.noted_at
        assert told.noted_at < told.at


# --- several processes


PROCESS = """
import sys
from pathlib import Path
from handhold.core.ports.journal import Call, Outcome
from handhold.backends.state.sqlite import SqliteStore
store = SqliteStore(Path(sys.argv[1]))
for n in range(100):
    store.record_outcome(store.begin(Call(sys.argv[2], "t", f"c{n}", "Read", "{}", "claude")), Outcome("success", None, 0, "r"), durable=False)
"""


def test_c91_processes_and_threads_make_one_chain(tmp_path: Path):
    SqliteStore(tmp_path).close()
    command = [sys.executable, "-c", PROCESS, str(tmp_path)]
    processes = [subprocess.Popen([*command, f"s{n}"], stderr=subprocess.PIPE) for n in range(3)]
    with closing(SqliteStore(tmp_path)) as store:
        threads = [Thread(target=journalled, args=(store, ["read", "edit"] * 10)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [process.communicate()[1].decode() for process in processes] == [""] * 3
        told = store.verify()
        assert (told.count, told.problem) == (3 * 200 + 2 * 10 * 6, None)


# --- a missing head


def test_c91_without_a_head_nothing_is_written(tmp_path: Path):
    with closing(SqliteStore(tmp_path)) as store:
        journalled(store, ["read"])
        with closing(sqlite3.connect(tmp_path / "state.db")) as connection:
            connection.execute("DELETE FROM head")
            connection.commit()
        with pytest.raises(StateDamaged, match="head"):
            store.begin(call())
        assert len(store.entries()) == 1


# --- cost


class Unchained(JournalChain):
    """The same rows, without number and hash."""

    def append(self, connection: sqlite3.Connection, record: JournalRecord) -> None:
        table, row = encode_row(record)
        connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * (len(row) + 2))})", (*row, 0, b""))


@pytest.mark.alone
def test_a_chained_call_costs_at_most_half_as_much_again_as_one_that_is_not(tmp_path: Path):
    """Processor time of a call that reads, from beginning to outcome."""
    with closing(SqliteStore(tmp_path / "with")) as chained, closing(SqliteStore(tmp_path / "without")) as bare:
        bare._chain = Unchained("")
        times: dict[SqliteStore, list[float]] = {chained: [], bare: []}
        for _ in range(scaled(20, 60)):
            for store, taken in times.items():
                started = time.process_time()
                journalled(store, ["read"] * 100)
                taken.append(time.process_time() - started)
    with_it, without = (statistics.median(taken) * 10_000 for taken in times.values())
    ratio = statistics.median(one / other for one, other in zip(times[chained], times[bare], strict=True))
    print(f"begin and settle: {with_it:.0f} µs chained, {without:.0f} µs not, ratio {ratio:.2f}")
    assert ratio <= 1.5


def test_a_chain_of_ten_thousand_calls_is_looked_through_in_seconds(tmp_path: Path):
    many = scaled(2_000, 10_000)
    with closing(SqliteStore(tmp_path)) as store:
        journalled(store, ["read"] * many)
        started = time.perf_counter()
        told = store.verify()
        taken = time.perf_counter() - started
    print(f"{told.count:,} records in {taken:.2f} s")
    assert (told.count, told.problem) == (2 * many, None)
    assert taken <= 5
