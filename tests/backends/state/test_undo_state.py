"""What is derived from the journal: which calls changed something, and which of them are undone."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handhold.backends.state.schema import SCHEMA_VERSION
from handhold.backends.state.sqlite import SqliteStore
from handhold.core.ports.journal import Outcome
from tests.counting import sql_steps
from tests.scale import examples
from tests.suites.store_suite import begun, call, change, done, shelved


def make_version_7(folder: Path) -> None:
    """Remove what later versions added, as if the first release had written this state."""
    with closing(sqlite3.connect(folder / "state.db")) as connection:
        connection.execute("DROP TRIGGER outcomes_commit")
        connection.execute("DROP TABLE committed")
        for table in ("contents", "slots"):
            for verb in ("add", "remove", "move"):
                connection.execute(f"DROP TRIGGER {table}_{verb}")
        tables = (
            "baseline_roots",
            "baseline_folders",
            "baseline_entries",
            "windows",
            "window_agents",
            "uplink",
            "withheld",
        )
        for table in ("totals", "dropped_slots", "client_sessions", "adopted", "window_turns", *tables):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("DROP INDEX slots_going")
        for trigger in ("calls_totals", "outcomes_totals"):
            connection.execute(f"DROP TRIGGER {trigger}")
        for table in ("session_totals", "turn_totals", "running"):
            connection.execute(f"DROP TABLE {table}")
        for index in ("changes_path", "calls_tool", "intents_asked", "outcomes_asked"):
            connection.execute(f"DROP INDEX {index}")
        connection.execute("PRAGMA user_version=7")
        connection.commit()


@given(st.lists(st.tuples(st.sampled_from(["change", "undo", "redo", "fail", "read"]), st.integers(0, 9)), max_size=12))
@settings(max_examples=examples(30), deadline=None)
def test_a_state_of_the_first_release_is_opened_with_everything_in_it(steps: list[tuple[str, int]]):
    with TemporaryDirectory() as top:
        folder = Path(top)
        with closing(SqliteStore(folder)) as store:
            for step, which in steps:
                standing = [entry.seq for entry in store.find_changes("s", undone=False)]
                undos = [entry.seq for entry in store.find_undos("s")]
                if step == "undo" and standing:
                    done(store, change(), asked=call("undo"), takes_back=standing[which % len(standing) :])
                elif step == "redo" and undos:
                    done(store, change(), asked=call("redo"), takes_back=(undos[which % len(undos)],))
                elif step == "fail":
                    store.record_outcome(begun(store, change()), Outcome("error", None, 0.0, None), durable=False)
                elif step == "read":
                    store.record_call(call(), Outcome("success", None, 0.0, None))
                else:
                    done(store, shelved(f"c{which}{len(standing)}/1", b"old", b"new") if which % 2 else change())
            before = store.entries(), [entry.seq for entry in store.find_changes("s", undone=None)]
        make_version_7(folder)
        with closing(SqliteStore(folder)) as store:
            assert (store.entries(), [entry.seq for entry in store.find_changes("s", undone=None)]) == before
            assert store.verify().problem is None
            again = done(store, change())
            assert store.find_changes("s", undone=False, last=1)[0].seq == again
        with closing(sqlite3.connect(folder / "state.db")) as connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)


def test_two_processes_may_migrate_a_state_at_once(tmp_path: Path):
    with closing(SqliteStore(tmp_path)) as store:
        done(store, change())
    make_version_7(tmp_path)
    with closing(SqliteStore(tmp_path)) as one, closing(SqliteStore(tmp_path)) as other:
        assert one.entries() == other.entries()


@pytest.mark.parametrize(
    "asked",
    [
        lambda store: store.find_changes("s", undone=False, last=1),
        lambda store: store.find_changes("s", undone=True, last=1),
        lambda store: store.find_changes("s", undone=None, last=1),
        lambda store: store.find_changes("s", undone=False, call="#1", last=1),
        lambda store: store.find_changes("s", undone=False, call="c", last=1),
        lambda store: store.find_changes("s", undone=False, turn="the turn"),
        lambda store: store.find_undos("s", last=1),
        lambda store: store.find_undos("s", of=[1]),
        lambda store: store.find_reversals([1]),
    ],
)
def test_g8_what_an_undo_asks_for_takes_the_same_after_many_calls(
    tmp_path: Path, asked: Callable[[SqliteStore], object]
):
    def steps(store: SqliteStore) -> int:
        return sql_steps(store, lambda: asked(store))[1]

    with closing(SqliteStore(tmp_path)) as store:
        first = done(store, change(), asked=call(call_id="c", turn="the turn"))
        second = done(store, change(), asked=call(call_id="d"))
        undo = done(store, change(), asked=call("undo"), takes_back=(first,))
        done(store, change(), asked=call("redo"), takes_back=(undo,))
        done(store, change(), asked=call("undo"), takes_back=(second,))
        few = max(steps(store) for _ in range(3))
        for n in range(200):
            store.record_call(call(call_id=f"r{n}"), Outcome("success", None, 0.0, None))
            done(store, change(f"/ws/{n}"), asked=call(call_id=f"e{n}", turn=f"t{n}"))
        many = max(steps(store) for _ in range(3))
        assert many <= 1.5 * few + 5


def test_c92_a_redone_call_comes_where_its_redo_is(tmp_path: Path):
    with closing(SqliteStore(tmp_path)) as store:
        first, second = done(store, change("/ws/a")), done(store, change("/ws/b"))
        undo = done(store, change("/ws/a"), asked=call("undo"), takes_back=(first,))
        redo = done(store, change("/ws/a"), asked=call("redo"), takes_back=(undo,))
        assert [(entry.seq, entry.redone_by) for entry in store.find_changes("s", undone=False)] == [
            (second, 0),
            (first, redo),
        ]
        assert [entry.seq for entry in store.find_reversals([first, second])] == [undo, redo]
        assert not store.find_reversals([second])


@pytest.mark.parametrize("which", ["#0", "#01", "#-1", "#" + "9" * 30, 2**70, -1, "#", "#x", "1"])
def test_c92_what_is_no_number_of_a_call_selects_none(tmp_path: Path, which: str | int):
    with closing(SqliteStore(tmp_path)) as store:
        done(store, change())
        assert not store.find_changes("s", undone=False, call=which)
        assert [entry.seq for entry in store.find_changes("s", undone=False, call="#1")] == [1]
        assert [entry.seq for entry in store.find_changes("s", undone=False, call=1)] == [1]
