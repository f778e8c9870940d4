"""The journal in pages: what people read of ten million records."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from handhold.backends.state.journal_reader import MAX_EXAMINED
from handhold.backends.state.sqlite import SqliteStore
from handhold.core.ports.records import CallFilter, Records
from tests.counting import sql_steps
from tests.suites.records_suite import REFUSED, RecordsSuite, call
from tests.suites.store_suite import ALLOWED, change, done, success


class TestSqlite(RecordsSuite):
    max_examined = MAX_EXAMINED

    def read(self, store: SqliteStore) -> Records:
        return store.records


@pytest.fixture
def store() -> Iterator[SqliteStore]:
    with closing(SqliteStore.in_memory()) as store:
        yield store


def test_a_call_runs_until_its_outcome_and_only_in_a_living_process(store: SqliteStore, tmp_path: Path):
    seq = store.begin(call("bash"))
    assert [each.entry.seq for each in store.records.list_running()] == [seq]
    store.record_outcome(seq, success(), durable=False)
    assert not store.records.list_running()
    with closing(SqliteStore(tmp_path)) as lasting:
        killed = lasting.begin(call("bash"))
        with lasting.one_transaction():
            lasting._database.connection.__enter__().execute("UPDATE running SET process = '1:1'")  # pyright: ignore[reportPrivateUsage]
        assert killed not in [each.entry.seq for each in lasting.records.list_running()]


def test_no_page_of_a_long_journal_is_a_full_scan(store: SqliteStore):
    """The cost of each request grows neither with the session nor with the journal."""
    requests = {
        "sessions": lambda: store.records.list_sessions(limit=20),
        "session": lambda: store.records.find_session("s"),
        "calls": lambda: store.records.list_calls(CallFilter(session="s"), limit=50),
        "tool": lambda: store.records.list_calls(CallFilter(session="s", tool="rare"), limit=50),
        "decision": lambda: store.records.list_calls(CallFilter(session="s", decision="refused"), limit=50),
        "path": lambda: store.records.list_path_changes("/ws/a.py", limit=20),
        "tools": lambda: store.records.list_tools("s"),
        "one": lambda: store.records.find_entry(3),
        "neighbours": lambda: store.records.find_neighbours(3),
        "version": store.records.version,
    }

    def grow(many: int) -> None:
        with store.one_transaction(durable=True):
            for n in range(many):
                store.record_call(call("read", session="s" if n % 2 else f"other{n % 50}"), success(), decision=ALLOWED)

    def measure() -> dict[str, int]:
        return {name: sql_steps(store, request)[1] for name, request in requests.items()}

    done(store, change())
    store.record_call(call("rare"), success(), decision=REFUSED)
    grow(300)
    before = measure()
    grow(6_000)
    after = measure()
    for name, cost in before.items():
        assert after[name] <= 2 * cost + 40, (name, cost, after[name])


def test_while_a_page_is_open_output_is_recorded_and_can_be_read_in_parts(tmp_path: Path):
    with closing(SqliteStore(tmp_path)) as store:
        heard: list[str] = []
        assert store.watch_output(7, heard.append) == heard.append
        with store.review_presence.hold():
            assert store.is_reviewed()
            watch = store.watch_output(7, heard.append)
            assert watch is not None
            watch("one\n")
            watch("\x1b[31mtwo\n")
            found = store.records.read_output(7)
            assert found == (b"one\n\x1b[31mtwo\n", 13)
            assert store.records.read_output(7, 4) == (b"\x1b[31mtwo\n", 13)
        assert not store.is_reviewed()
        assert heard == ["one\n", "\x1b[31mtwo\n"]
        assert store.records.read_output(8) is None


def test_presence_ends_with_the_process(tmp_path: Path):
    import subprocess
    import sys

    code = (
        "import sys, pathlib; from handhold.backends.state.review_presence import ReviewPresence\n"
        "with ReviewPresence(pathlib.Path(sys.argv[1])).hold(): print('held', flush=True); sys.stdin.read()"
    )
    with closing(SqliteStore(tmp_path)) as store:
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        assert store.is_reviewed()
        process.kill()
        process.wait()
        until = time.monotonic() + 5
        while store.is_reviewed():
            assert time.monotonic() < until
        process.stdout.close()
        if process.stdin:
            process.stdin.close()
