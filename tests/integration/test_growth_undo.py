"""G-8: what an undo and a command take does not depend on how many calls came before."""

from pathlib import Path

import pytest

from handhold import Reply, Toolbox
from handhold.backends.state.sqlite import SqliteStore
from handhold.core.facts import FileIdentity
from handhold.core.ports.journal import Call, Outcome
from handhold.core.ports.read_records import ReadRecord
from handhold.core.tools.run import find_seen_changes
from tests.counting import sql_steps
from tests.suites.store_suite import change


def work(box: Toolbox, root: Path, calls: int) -> None:
    """An edit, and then `calls` reads of as many files."""
    (root / "f").write_text("a\n")
    assert box.call("read_file", {"path": "f"}).status == "success"
    assert box.call("edit_file", {"path": "f", "old": "a", "new": "b"}).status == "success"
    records = box.store.read_records(box.session)
    for n in range(calls):
        box.store.record_call(
            Call(box.session, "t", "", "read_file", "{}", "handhold"), Outcome("success", None, 0, None)
        )
        records.put(ReadRecord(f"{root}/o/{n}", FileIdentity(1, n, 1, 0, 0), "00", ((1, 1),), is_complete=True))


def counts(place: Path, calls: int) -> dict[str, tuple[int, int]]:
    root = place / "root"
    root.mkdir(parents=True)
    with Toolbox.open(root, state=place / "state", policy="open") as box:
        work(box, root, calls)
        store = box.store
        assert isinstance(store, SqliteStore)
        found: dict[str, tuple[int, int]] = {}
        replies: list[Reply] = []
        for name, reverse in (
            ("undo", box.undo),
            ("redo", box.redo),
            ("undo again", box.undo),
            ("redo again", box.redo),
        ):
            found[name] = sql_steps(store, lambda reverse=reverse: replies.append(reverse()))
        assert [reply.status for reply in replies] == ["success"] * 4
        found["diff"] = sql_steps(store, box.diff)
        found["seen"] = sql_steps(
            store,
            lambda: list(find_seen_changes([change(f"{root}/f"), change(f"{root}/d")], box._parts.session.tracker)),
        )
        return found


@pytest.mark.timeout(120)
def test_g8_undo_after_a_redo_asks_no_more_after_many_reads(tmp_path: Path):
    few, many = (counts(tmp_path / str(calls), calls) for calls in (20, 400))
    assert {name: asked for name, (asked, _) in few.items()} == {name: asked for name, (asked, _) in many.items()}
    for name, (_, steps) in many.items():
        assert steps <= 1.5 * few[name][1] + 5, name
