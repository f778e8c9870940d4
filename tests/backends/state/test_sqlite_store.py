import multiprocessing
import sqlite3
import statistics
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handhold.backends.state import contents, database, lock
from handhold.backends.state.schema import JOURNAL_TABLES, MIGRATIONS, SCHEMA_VERSION
from handhold.backends.state.sqlite import SqliteStore
from handhold.core.errors import Busy, NoSpace, StateDamaged, SystemFailure
from handhold.core.plans import FileChange, InlineContent, digest
from handhold.core.ports.journal import Call, CallDecision, Outcome
from handhold.core.ports.store import Store
from tests.scale import examples, scaled
from tests.suites.store_suite import (
    NO_OVERHEAD,
    LastingStoreSuite,
    begun,
    call,
    change,
    done,
    noise,
    only,
    shelved,
    success,
)


class TestSqliteStore(LastingStoreSuite):
    def opened(self, folder: Path, *, bound: int = 1024**3) -> Store:
        return SqliteStore(folder, bound=bound, overhead=NO_OVERHEAD)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A closed state folder with one call in it."""
    with closing(SqliteStore(tmp_path / "state")) as store:
        done(store, change())
    return tmp_path / "state"


def contents_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- private


def test_f2_state_is_its_owners_alone(tmp_path: Path):
    with closing(SqliteStore(tmp_path / "state")) as store:
        store.keep([noise(1, 1_000_000)])
        with store.exclusive():
            pass
        modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "state").rglob("*")}
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    assert modes["state.db"] == modes["state.db-wal"] == modes[digest(noise(1, 1_000_000))] == modes["lock"] == 0o600
    assert modes["contents"] == 0o700


# --- append-only


@pytest.mark.parametrize("table", JOURNAL_TABLES)
@pytest.mark.parametrize(
    "alteration", ["DELETE FROM {}", "UPDATE {} SET seq = seq + 1", "REPLACE INTO {} SELECT * FROM {}"]
)
def test_c91_the_journal_refuses_to_be_altered(folder: Path, table: str, alteration: str):
    with closing(SqliteStore(folder)) as store:
        done(store, change(), shelved("c/1", b"old", b"new"), asked=call("undo"), takes_back=(1,))
    before = dump(folder, table)
    assert before
    with closing(sqlite3.connect(folder / "state.db")) as connection:
        connection.execute("PRAGMA recursive_triggers=ON")
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(alteration.format(table, table))
    assert dump(folder, table) == before


def dump(folder: Path, table: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(folder / "state.db")) as connection:
        return connection.execute(f"SELECT * FROM {table}").fetchall()


# --- damage (nasty 52)


@given(st.data())
def test_nasty_52_a_truncated_database_is_refused_and_left_alone(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
):
    folder = tmp_path_factory.mktemp("state")
    with closing(SqliteStore(folder)) as store:
        done(store, change())
    whole = (folder / "state.db").read_bytes()
    (folder / "state.db").write_bytes(whole[: data.draw(st.integers(1, len(whole) - 1))])
    before = contents_of(folder)
    with pytest.raises(StateDamaged), closing(SqliteStore(folder)) as store:
        store.entries()
    assert contents_of(folder) == before


@pytest.mark.parametrize("garbage", [b"\0" * 100, b"not a database at all" * 500, noise(3, 100_000)])
def test_nasty_52_garbage_is_refused_and_left_alone(folder: Path, garbage: bytes):
    (folder / "state.db").write_bytes(garbage)
    before = contents_of(folder)
    with pytest.raises(StateDamaged) as refused:
        SqliteStore(folder)
    assert refused.value.path == str(folder / "state.db")
    assert contents_of(folder) == before


def test_nasty_52_garbage_in_the_middle_is_reported_when_it_is_met(tmp_path: Path):
    with closing(SqliteStore(tmp_path)) as store:
        for n in range(200):
            done(store, change(f"/ws/{n}", None, noise(n, 500)))
    whole = bytearray((tmp_path / "state.db").read_bytes())
    whole[2 * 4096 :] = noise(1, len(whole) - 2 * 4096)
    (tmp_path / "state.db").write_bytes(whole)
    with pytest.raises(StateDamaged), closing(SqliteStore(tmp_path)) as store:
        store.entries()


@pytest.mark.parametrize("version", [*range(1, min(MIGRATIONS)), SCHEMA_VERSION + 1, 99])
def test_nasty_52_another_version_is_refused_and_left_alone(folder: Path, version: int):
    """Including those before the first release."""
    with closing(sqlite3.connect(folder / "state.db")) as connection:
        connection.execute(f"PRAGMA user_version={version}")
    before = contents_of(folder)
    with pytest.raises(StateDamaged, match=f"version {version}; this Handhold supports version {SCHEMA_VERSION}"):
        SqliteStore(folder)
    assert contents_of(folder) == before


def in_slots(store: SqliteStore) -> tuple[int, int]:
    """The stored total of all slots, and the sum over the slots."""
    with store._database.read_transaction() as connection:
        return connection.execute("SELECT (SELECT in_slots FROM held), (SELECT total(bytes) FROM slots)").fetchone()


@given(sizes=st.lists(st.tuples(st.integers(1, 2_000), st.sampled_from(["success", "error"])), max_size=12))
@settings(deadline=None, max_examples=examples(30))
def test_what_all_slots_hold_is_always_known(sizes: list[tuple[int, str]]):
    with TemporaryDirectory() as folder, closing(SqliteStore(Path(folder), bound=5_000)) as store:
        for n, (size, status) in enumerate(sizes):
            seq = begun(store, shelved(f"{n}/1", noise(n, size), None, f"/ws/{n}"))
            store.record_outcome(seq, Outcome(status, None, 0.0, None), durable=False)
            store.mark_cleaned_up(seq)
            kept, found = in_slots(store)
            assert kept == found


def test_a_command_asks_no_more_of_the_database_after_thousands_of_others(tmp_path: Path):
    with closing(SqliteStore(tmp_path)) as store:

        def steps(n: int) -> int:
            """The steps that SQLite takes for one command, in hundreds."""
            taken = list[None]()
            with store._database.connection as connection:
                connection.set_progress_handler(lambda: taken.append(None), 100)
            done(store, shelved(f"{n}/1", noise(n, 50), None, f"/ws/{n}"))
            with store._database.connection as connection:
                connection.set_progress_handler(None, 0)
            return len(taken)

        few = max(steps(n) for n in range(10))
        with store._database.write_transaction() as connection:
            others = ((f"other{n}".encode(), n, 100) for n in range(5_000))
            connection.executemany("INSERT INTO slots VALUES (?, ?, ?, 0, 0)", others)
        many = max(steps(n) for n in range(10, 20))
        assert 0 < many <= 2 * few


def test_nasty_52_somebody_elses_database_is_refused_and_left_alone(tmp_path: Path):
    with closing(sqlite3.connect(tmp_path / "state.db")) as connection:
        connection.execute("CREATE TABLE recipes (name)")
        connection.commit()
    before = contents_of(tmp_path)
    with pytest.raises(StateDamaged):
        SqliteStore(tmp_path)
    assert contents_of(tmp_path) == before


def test_nasty_52_an_emptied_database_does_not_cost_its_log(tmp_path: Path):
    with closing(SqliteStore(tmp_path)) as store:
        done(store, change())
        log = (tmp_path / "state.db-wal").read_bytes()
    (tmp_path / "state.db").write_bytes(b"")
    (tmp_path / "state.db-wal").write_bytes(log)
    with pytest.raises(StateDamaged):
        SqliteStore(tmp_path)
    assert (tmp_path / "state.db-wal").read_bytes() == log


def test_a_damaged_content_is_never_given_out(tmp_path: Path):
    data = noise(1, 1_000_000)
    with closing(SqliteStore(tmp_path)) as store:
        store.keep([data])
        file_of(tmp_path, data).write_bytes(data[:-1] + b"\0")
        with pytest.raises(StateDamaged):
            store.get(digest(data))


# --- large contents are stored next to the database


def file_of(folder: Path, data: bytes) -> Path:
    hash = digest(data)
    return folder / "contents" / hash[:2] / hash


def test_a_large_content_is_a_file_and_a_small_one_is_not(tmp_path: Path):
    small, large = noise(1, 200_000), noise(2, 300_000)
    with closing(SqliteStore(tmp_path)) as store:
        store.keep([small, large])
        assert file_of(tmp_path, large).read_bytes() == large
        assert not file_of(tmp_path, small).exists()


def test_a_file_goes_with_its_content(tmp_path: Path):
    old, new = noise(1, 1_000_000), noise(2, 1_000_000)
    with closing(SqliteStore(tmp_path, bound=1_500_000)) as store:
        store.keep([old])
        store.keep([new])
        assert not store.has(digest(old))
        assert not file_of(tmp_path, old).exists()
        assert file_of(tmp_path, new).exists()
        assert store.read_usage() == (1_000_000, 1)


def test_a_content_whose_file_was_removed_is_gone(tmp_path: Path):
    old = noise(1, 1_000_000)
    with closing(SqliteStore(tmp_path)) as store:
        done(store, change("/ws/a", old, b"new"))
        assert only(store).kept
        file_of(tmp_path, old).unlink()
        assert store.get(digest(old)) is None
        assert not store.has(digest(old))
        assert not only(store).kept
        store.keep([old])
        assert store.get(digest(old)) == old
        assert only(store).kept


def test_a_file_that_a_failed_transaction_left_is_swept(tmp_path: Path):
    data = noise(1, 1_000_000)
    with closing(SqliteStore(tmp_path)) as store:
        seq = begun(store, change())
        with pytest.raises(sqlite3.IntegrityError):  # announced but without a row: as if the process had died
            store.record_intent(seq, "again", [change("/ws/b", None, data)], decision=CallDecision("allowed"))
        file_of(tmp_path, data).parent.mkdir(parents=True, exist_ok=True)
        file_of(tmp_path, data).write_bytes(b"half")
    with closing(SqliteStore(tmp_path)) as store:
        assert not file_of(tmp_path, data).exists()
        store.keep([data])
        assert store.get(digest(data)) == data


def test_text_is_kept_compressed(tmp_path: Path):
    with closing(SqliteStore(tmp_path)) as store:
        store.keep([b"the same line\n" * 10_000])
        assert store.read_usage()[0] < 10_000


def test_replies_are_bounded_and_cost_no_undo(tmp_path: Path):
    with closing(SqliteStore(tmp_path, bound=10_000, max_reply_bytes=10_000)) as store:
        done(store, change("/ws/a", noise(1, 5000), b"new"))
        replies = [noise(n, 3000).hex() for n in range(10)]
        for n, reply in enumerate(replies):
            store.record_outcome(store.begin(call("Read", call_id=f"r{n}")), success(reply), durable=False)
        recalled = [store.find_call("s", "t", f"r{n}") for n in range(10)]
        given = [entry.outcome.reply for entry in recalled if entry and entry.outcome]
        assert given == [None] * 7 + replies[7:] or given == [None] * 8 + replies[8:]
        assert store.entries()[0].kept


def test_a_damaged_reply_is_never_given_out(tmp_path: Path):
    with closing(SqliteStore(tmp_path)) as store:
        store.record_outcome(store.begin(call("Read", call_id="r")), success("a page"), durable=False)
        with store._database.connection as connection:
            connection.execute("UPDATE replies SET data = CAST('another' AS BLOB)")
        with pytest.raises(StateDamaged):
            store.find_call("s", "t", "r")


# --- several processes


PROCESS = """
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Barrier, Thread
from handhold.core.ports.journal import Call, CallDecision, Outcome
from handhold.core.plans import FileChange, InlineContent
from handhold.backends.state.sqlite import SqliteStore
for n in range(int(sys.argv[3])):
    store = SqliteStore(Path(sys.argv[1]))
    seq = store.begin(Call(sys.argv[2], "t", f"c{n}", "Edit", "{}", "claude"))
    store.record_intent(seq, "x", [FileChange(f"/ws/{n}", None, InlineContent(f"{n}".encode() * 100_000))], decision=CallDecision("allowed"))
    store.record_outcome(seq, Outcome("success", None, 0.0, "done"), durable=True)
    store.mark_cleaned_up(seq)
    store.close()
"""


def test_processes_share_a_store_from_its_first_moment(tmp_path: Path):
    command = [sys.executable, "-c", PROCESS, str(tmp_path / "state")]
    processes = [subprocess.Popen([*command, f"s{n}", "10"], stderr=subprocess.PIPE) for n in range(4)]
    assert [process.communicate()[1].decode() for process in processes] == [""] * 4
    with closing(SqliteStore(tmp_path / "state")) as store:
        assert [len(store.entries(session=f"s{n}")) for n in range(4)] == [10] * 4
        assert len({entry.seq for entry in store.entries()}) == 40
        assert list(store.incomplete_transactions()) == []
        assert [store.get(digest(f"{n}".encode() * 100_000)) is None for n in range(10)] == [False] * 10


def test_a_store_held_by_another_process_is_busy(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(database, "BUSY_TIMEOUT_SECONDS", 0.05)
    with closing(SqliteStore(folder)) as store, closing(sqlite3.connect(folder / "state.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Busy):
            store.begin(call())
        assert len(store.entries()) == 1  # reading does not wait


HOLDER = """
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Barrier, Thread
from handhold.backends.state.sqlite import SqliteStore
with SqliteStore(Path(sys.argv[1])).exclusive():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_killed_process_lets_go_of_the_state(folder: Path):
    command = [sys.executable, "-c", HOLDER, str(folder)]
    with (
        closing(SqliteStore(folder)) as store,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder,
    ):
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(Busy), store.exclusive(wait=False):
            pass
        holder.kill()
        holder.wait()
        with store.exclusive(wait=False):
            pass


def test_a_child_that_was_forked_meanwhile_does_not_keep_the_state(folder: Path):
    context = multiprocessing.get_context("fork")
    enough = context.Event()
    with closing(SqliteStore(folder)) as store:
        child = context.Process(target=enough.wait)
        with store.exclusive():
            child.start()
        try:
            with store.exclusive(wait=False):
                pass
        finally:
            enough.set()
            child.join()


def test_patience_with_another_holder_has_an_end(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lock, "LOCK_TIMEOUT_SECONDS", 0.05)
    with closing(SqliteStore(folder)) as store:
        with store.exclusive(), pytest.raises(Busy) as refused, store.exclusive():
            pass
        assert (refused.value.path, refused.value.seconds) == (str(folder / "lock"), 0.05)


def test_a_lock_that_the_system_refuses_is_a_fact(folder: Path):
    (folder / "lock").mkdir()
    with closing(SqliteStore(folder)) as store, pytest.raises(SystemFailure) as refused, store.exclusive():
        pass
    assert refused.value.path == str(folder / "lock")


def test_a_full_disk_leaves_the_journal_as_it_was(folder: Path):
    with closing(SqliteStore(folder)) as store:
        with store._database.write_transaction() as connection:  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages}")
        with pytest.raises(NoSpace):
            store.begin(Call("s", "t", "c", "Write", noise(1, 100_000).hex(), "claude"))
        assert len(store.entries()) == 1


def test_a_read_of_another_thread_does_not_disturb_a_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A read notes what was used, and the next write records it."""
    monkeypatch.setattr(contents, "BATCH_SIZE", 1)
    reading, writing = threading.Event(), threading.Event()

    class SlowSet(set[bytes]):
        def add(self, key: bytes) -> None:
            reading.set()
            writing.wait(0.5)
            super().add(key)

    with closing(SqliteStore(tmp_path)) as store:
        store.keep([b"one", b"two", b"three"])
        store._contents._touched = SlowSet(bytes.fromhex(digest(data)) for data in (b"one", b"two"))
        reader = threading.Thread(target=store.get, args=(digest(b"three"),))
        touch = contents.BoundedContents._touch

        def touch_meanwhile(self: contents.BoundedContents, *args: Any) -> None:
            writing.set()
            reader.join()
            touch(self, *args)

        monkeypatch.setattr(contents.BoundedContents, "_touch", touch_meanwhile)
        reader.start()
        assert reading.wait(10)
        store.keep([b"four"])
        assert store.get(digest(b"four")) == b"four"


# --- size


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_last_20_of_100_000_calls_take_at_most_20_ms(tmp_path: Path):
    with closing(SqliteStore(tmp_path)) as store:
        files = [FileChange(f"/ws/{n}", None, InlineContent(b"%d" % n)) for n in range(5000)]
        for _ in range(5):
            done(store, *files)
    with closing(sqlite3.connect(tmp_path / "state.db")) as connection:  # by hand: one transaction for all of them
        rows = scaled(20_000, 100_000)
        numbers = f"WITH RECURSIVE n(i) AS (SELECT 6 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})"
        connection.execute(
            f"INSERT INTO calls {numbers} SELECT i, 1.0, CAST('s' || (i % 3) AS BLOB), CAST('t' || (i / 50) AS BLOB),"
            " CAST('c' || i AS BLOB), CAST('Edit' AS BLOB), CAST('claude' AS BLOB), CAST('{}' AS BLOB), 0, 0, x'' FROM n"
        )
        connection.execute(
            f"INSERT INTO intents {numbers} SELECT i, 1.0, CAST('x' AS BLOB), CAST('allow' AS BLOB), 1, x'', x'', 0, x'' FROM n"
        )
        connection.execute(
            f"INSERT INTO changes {numbers} SELECT i, 0, CAST('/ws/a' AS BLOB), NULL, NULL, NULL, 'file', randomblob(32), 9, NULL FROM n"
        )
        connection.execute(
            f"INSERT INTO outcomes {numbers} SELECT i, 1.0, 'success', NULL, 1.0, NULL, NULL, NULL, NULL, 0, x'' FROM n"
        )
        connection.execute(f"INSERT INTO lacking {numbers} SELECT i, 0 FROM n")
        connection.commit()
    with closing(SqliteStore(tmp_path)) as store:
        seq = done(store, change(), asked=call("undo"), takes_back=range(1, rows, 100))
        assert [entry.seq for entry in store.entries(last=20)] == list(range(seq - 19, seq + 1))
        for ask in (
            lambda: store.entries(last=20),
            lambda: store.entries(session="s1", last=20),
            lambda: store.find_call("s1", f"t{rows // 100}", f"c{rows // 2}"),
            lambda: store.last_writer("/ws/a.py", digest(b"new\n")),
            store.incomplete_transactions,
        ):
            times: list[float] = []
            for _ in range(20):
                started = time.perf_counter()
                ask()
                times.append(time.perf_counter() - started)
            assert statistics.median(times) <= 0.020


def test_c90_what_a_session_was_allowed_ends_with_the_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with closing(SqliteStore(tmp_path)) as store:
        store.grant("s", "changes", by="me")
        assert store.list_grants("s") == {"changes": "me"}
        later = time.time() + 25 * 3600
        monkeypatch.setattr(time, "time", lambda: later)
        assert store.list_grants("s") == {}
