"""Somebody tampers with the journal, or uses undo and redo to get around the current rules."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from handhold import Target, Toolbox
from handhold.cli.commands import handhold
from handhold.core.policy.rules import Rule
from handhold.core.ports.approvals import Question
from handhold.core.ports.policy import Verb
from tests.backends.state.test_hash_chain import TABLES, alter, columns_of, others, rows_of, where
from tests.scale import sampled

SECRET = "the word is marzipan\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "a.py").write_text("one\n")
    return folder


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@contextmanager
def opened(root: Path, state: Path, **options: Any) -> Iterator[Toolbox]:
    options = {"settings": False, **options}
    with Toolbox.open(root, state=state, session="default", **options) as box:
        yield box


def journalled(root: Path, state: Path, times: int = 3) -> None:
    """A read, some edits, one of them undone, and a file that was created and deleted."""
    with opened(root, state) as box:
        box.call("read_file", {"path": "a.py"})
        for n in range(times):
            box.call("write_file", {"path": f"{n}.py", "content": f"{n}\n"})
        box.call("edit_file", {"path": "a.py", "old_string": "one", "new_string": "two"})
        assert box.undo().status == "success"
        assert box.redo().status == "success"
        assert box.call("read_file", {"path": "none"}).status == "error"


def run(command: str, root: Path, state: Path, *options: str) -> Result:
    return CliRunner().invoke(handhold, [command, "--root", str(root), "--state", str(state), *options])


def database(state: Path) -> Path:
    return next(state.rglob("state.db"))


@contextmanager
def tampered(state: Path) -> Iterator[sqlite3.Connection]:
    """As another program opens it: without the triggers."""
    with closing(sqlite3.connect(database(state), isolation_level=None)) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        yield connection
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


# --- the journal


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("table", sampled(TABLES, 3))
def test_r38_log_and_undo_of_a_tampered_journal_answer_in_words(root: Path, state: Path, table: str):
    journalled(root, state)
    whole = state.parent / "whole"
    shutil.copytree(state, whole)
    with tampered(state) as connection:
        cases = [
            (column, key, value)
            for key in rows_of(connection, table)[-1:]
            for column in columns_of(connection, table)
            for (now,) in connection.execute(f"SELECT {column} FROM {table} WHERE {where(table)}", key)
            for value in (*others(now), 10**18, 1e300, "not JSON", b"\xff")
        ]
    for column, key, value in sampled(cases, 14, lambda case: case[0]):
        shutil.rmtree(state)
        shutil.copytree(whole, state)
        with tampered(state) as connection:
            if not alter(connection, table, column, key, value):
                continue
        for command in (("log",), ("log", "--json"), ("undo", "--preview")):
            result = run(command[0], root, state, *command[1:])
            assert result.exception is None or isinstance(result.exception, SystemExit), (column, value, command)
            assert result.exit_code in (0, 1), (column, value, command, result.output)


def verified(root: Path, state: Path, head: str = "") -> tuple[int, str]:
    result = run("log", root, state, "--verify", *(["--head", head] if head else []))
    return result.exit_code, result.output


def head_of(root: Path, state: Path) -> str:
    status, output = verified(root, state)
    assert status == 0, output
    return output.split("head ")[1][:64]


def drop_last_records(connection: sqlite3.Connection, count: int, *, rewinds_head: bool) -> None:
    tables = ("calls", "intents", "outcomes", "finished")
    last: int = connection.execute("SELECT record FROM head").fetchone()[0]
    for table in tables:
        connection.execute(f"DELETE FROM {table} WHERE record > ?", (last - count,))
    if rewinds_head:
        every = " UNION ALL ".join(f"SELECT record, digest FROM {table}" for table in tables)
        record, digest = connection.execute(f"SELECT * FROM ({every}) ORDER BY record DESC LIMIT 1").fetchone()
        connection.execute("UPDATE head SET record = ?, digest = ?", (record, digest))


def test_deleting_the_last_entries_is_found(root: Path, state: Path):
    journalled(root, state)
    with tampered(state) as connection:
        drop_last_records(connection, 2, rewinds_head=False)
    status, output = verified(root, state)
    assert status == 1
    assert "is missing" in output


def test_deleting_the_last_entries_and_rewinding_the_head_is_found_by_a_head_noted_elsewhere(root: Path, state: Path):
    journalled(root, state)
    noted = head_of(root, state)
    with tampered(state) as connection:
        drop_last_records(connection, 2, rewinds_head=True)
    assert verified(root, state)[0] == 0, "the database alone cannot tell: docs/concepts/journal.md says so"
    status, output = verified(root, state, noted)
    assert status == 1
    assert "not in this chain" in output


def test_an_older_copy_of_the_database_is_found_by_a_head_noted_elsewhere(root: Path, state: Path):
    journalled(root, state)
    older = state.parent / "older.db"
    with closing(sqlite3.connect(database(state))) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(database(state), older)
    earlier = head_of(root, state)
    with opened(root, state) as box:
        box.call("write_file", {"path": "later.py", "content": "later\n"})
    noted = head_of(root, state)
    assert verified(root, state, earlier)[0] == 0
    shutil.copy(older, database(state))
    for log in database(state).parent.glob("state.db-*"):
        log.unlink()
    assert verified(root, state)[0] == 0, "the database alone cannot tell: docs/concepts/journal.md says so"
    assert verified(root, state, noted)[0] == 1


def test_no_key_of_the_state_folder_signs_the_journal_so_what_is_rewritten_misses_the_noted_head(
    root: Path, state: Path
):
    journalled(root, state)
    noted = head_of(root, state)
    shutil.rmtree(state)
    (root / "a.py").write_text("one\n")
    for n in range(3):
        (root / f"{n}.py").unlink()
    journalled(root, state)
    assert verified(root, state)[0] == 0
    assert verified(root, state, noted)[0] == 1


# --- undo and redo


def deny(path: str, *verbs: str) -> dict[str, Any]:
    return {"rules": [Rule("today", "deny", map(Verb, verbs), "not any more", [path], ["other"], paths=[path])]}


def test_undo_does_not_follow_a_folder_that_became_a_link_to_elsewhere(root: Path, state: Path, tmp_path: Path):
    outside, inside = tmp_path / "outside", root / "inside"
    for target in (outside, inside):
        with opened(root, state) as box:
            box.call("write_file", {"path": "new/a.py", "content": "x\n"})
            (root / "new").rename(target)
            (root / "new").symlink_to(target)
            assert box.undo().status == "error", target
            assert (target / "a.py").read_text() == "x\n"
            (root / "new").unlink()
            assert box.undo().status == "success", target  # nothing is at the path any more, so nothing is removed
            assert (target / "a.py").read_text() == "x\n"


def test_redo_does_not_follow_a_folder_that_became_a_link_to_elsewhere(root: Path, state: Path, tmp_path: Path):
    (root / "sub").mkdir()
    for target in (tmp_path / "outside", root / "inside"):
        with opened(root, state) as box:
            box.call("write_file", {"path": "sub/a.py", "content": "x\n"})
            assert box.undo().status == "success"
            (root / "sub").rename(target)
            (root / "sub").symlink_to(target)
            assert box.redo().status == "error", target
            assert list(target.iterdir()) == []
            (root / "sub").unlink()
            (root / "sub").mkdir()


@pytest.mark.parametrize("verb", ["undo", "redo"])
@pytest.mark.parametrize(
    "today",
    [{"policy": "read-only"}, {"denied": "change"}, {"denied": "read"}, {"read_only": True}],
    ids=["read-only", "deny change", "deny read", "read-only root"],
)
def test_undo_and_redo_do_not_go_past_a_policy_that_changed_since(
    root: Path, state: Path, verb: str, today: dict[str, Any]
):
    with opened(root, state) as box:
        box.call("read_file", {"path": "a.py"})
        box.call("edit_file", {"path": "a.py", "old_string": "one", "new_string": "two"})
        if verb == "redo":
            box.undo()
    before = (root / "a.py").read_text()
    options: Any = {"policy": today["policy"]} if "policy" in today else {}
    if "denied" in today:
        options = deny("a.py", today["denied"])
    if "read_only" in today:
        (root.parent / "other").mkdir()
        options = {"read_only": [root]}
        where = root.parent / "other"
    else:
        where = root
    folder = database(state).parent
    with Toolbox.open(
        where, state=folder if where != root else state, session="default", settings=False, **options
    ) as box:
        reply = getattr(box, verb)()
        assert reply.status == "error", reply
        assert getattr(box, verb)(preview=True).status == "error"
    assert (root / "a.py").read_text() == before


@pytest.mark.parametrize("verb", ["undo", "redo"])
def test_undo_and_redo_change_a_protected_name_only_after_a_question(root: Path, state: Path, verb: str):
    asked: list[Question] = []

    def approver(question: Question) -> bool:
        asked.append(question)
        return True

    hook = root / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(parents=True)
    hook.write_text("make test\n")
    with opened(root, state, approver=approver, policy="edit") as box:
        box.call("read_file", {"path": ".git/hooks/pre-commit"})
        box.call("write_file", {"path": ".git/hooks/pre-commit", "content": "make check\n"})
        if verb == "redo":
            box.undo()
    before = hook.read_text()
    asked.clear()
    with opened(root, state, policy="edit") as box:
        assert getattr(box, verb)().code == "NOT_APPROVED"
        assert getattr(box, verb)(preview=True).status == "success"
    assert hook.read_text() == before
    with opened(root, state, approver=approver, policy="edit") as box:
        assert getattr(box, verb)().status == "success"
    assert hook.read_text() != before
    assert [question.because for question in asked if "protected" in question.because]


def test_undo_takes_away_what_was_made_under_a_protected_name_without_a_question(root: Path, state: Path):
    """No program obeys a deleted file: `git init` can be undone by the session that ran it."""
    with opened(root, state, approver=lambda _: True, policy="edit") as box:
        box.call("write_file", {"path": ".envrc", "content": "x\n"})
    with opened(root, state, policy="edit") as box:
        assert box.undo().status == "success"
    assert not (root / ".envrc").exists()


def test_the_host_who_asks_for_an_undo_is_enough_where_only_the_mode_asks(root: Path, state: Path):
    with opened(root, state) as box:
        box.call("write_file", {"path": "new.py", "content": "x\n"})
    with opened(root, state, policy="ask") as box:
        assert box.undo().status == "success"


def test_a_file_that_may_not_be_read_any_more_is_shown_in_no_diff(root: Path, state: Path):
    with opened(root, state) as box:
        box.call("write_file", {"path": "notes.txt", "content": SECRET})
        box.call("write_file", {"path": "b.py", "content": "y\n"})
    with opened(root, state, **deny("notes.txt", "read")) as box:
        shown = box.diff(Target.session()) + box.diff(box.log()[0])
    assert "+y" in shown
    assert "marzipan" not in shown
    assert "notes.txt" not in shown


@pytest.fixture
def moved(root: Path, state: Path) -> None:
    """Content that the session changed, and that a person has since moved to a path that may not be read."""
    (root / "plan.txt").write_text(SECRET)
    with opened(root, state) as box:
        box.call("read_file", {"path": "plan.txt"})
        box.call("write_file", {"path": "plan.txt", "content": "nothing here\n"})
    (root / ".env").write_text(SECRET)


@pytest.mark.usefixtures("moved")
def test_undo_shows_no_content_of_a_secret_file(root: Path, state: Path):
    """Commands may move it, so an undo may restore it."""
    with opened(root, state) as box:
        assert "marzipan" not in box.undo(preview=True).ui_extra + box.diff()
        reply = box.undo()
        assert reply.status == "success"
        assert "marzipan" not in reply.text + reply.ui_extra
    assert (root / "plan.txt").read_text() == SECRET


@pytest.mark.usefixtures("moved")
def test_undo_does_not_bring_the_content_of_a_denied_file_under_a_visible_name(root: Path, state: Path):
    with opened(root, state, secrets="strict") as box:
        assert "marzipan" not in box.call("read_file", {"path": ".env"}).text
        reply = box.undo()
        assert reply.code == "DENIED", reply
        assert "marzipan" not in reply.text + reply.ui_extra
        assert "marzipan" not in box.undo(preview=True).ui_extra
        assert "marzipan" not in box.diff()
    assert (root / "plan.txt").read_text() == "nothing here\n"
