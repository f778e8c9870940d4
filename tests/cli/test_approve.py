"""U-21: approvals that another process answers apply to exactly what was asked."""

import json
import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from handhold.backends.state.sqlite import SqliteStore
from handhold.cli.commands import handhold
from handhold.cli.state import get_user_at_host, open_store
from handhold.core.text.display_text import escape_invisible
from tests.cli.test_prompt import MAIN, Terminal
from tests.suites.store_suite import asked, put

Run = Callable[..., Result]
HOOK = {"path": ".git/hooks/pre-commit", "content": "echo\x1b[2J\n"}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / "ws").mkdir()

    def run(command: str, *arguments: str) -> Result:
        where = ["--root", str(tmp_path / "ws"), "--state", str(tmp_path / "state")]
        return CliRunner().invoke(handhold, [command, *arguments, *where])

    return run


@pytest.fixture
def store(tmp_path: Path, run: Run) -> SqliteStore:
    """The store of the commands, opened as another process would."""
    with open_store([tmp_path / "ws"], tmp_path / "state") as made:
        folder = made._database.path.parent
    return SqliteStore(folder)


def write(run: Run, **more: str) -> Result:
    return run("call", "write_file", json.dumps({**HOOK, **more}), "--json")


def waiting(run: Run) -> list[dict[str, object]]:
    return json.loads(run("approve", "--json").output)


def test_u21_a_refused_call_goes_ahead_once_it_was_approved(run: Run, tmp_path: Path):
    refused = json.loads(write(run).output)
    assert refused["code"] == "NOT_APPROVED"
    (question,) = waiting(run)
    assert question["id"] == refused["data"]["approval"]
    done = run("approve", str(question["id"]), "--yes", "--by", "ann@desk")
    assert (done.exit_code, "Approved once, by ann@desk" in done.output) == (0, True)
    assert json.loads(write(run).output)["status"] == "success"
    assert (tmp_path / "ws/.git/hooks/pre-commit").read_text() == HOOK["content"]
    assert json.loads(run("log", "--json").output)[-1]["approver"] == "ann@desk"
    assert "(approved by ann@desk: protected names (built in))" in run("log").output


@pytest.mark.parametrize("other", [{"content": "echo\x1b[2J"}, {"path": ".git/hooks/post-commit"}])
def test_u21_an_approval_is_refused_for_anything_else(run: Run, tmp_path: Path, other: dict[str, str]):
    write(run)
    run("approve", str(waiting(run)[0]["id"]), "--yes")
    assert json.loads(write(run, **other).output)["code"] == "NOT_APPROVED"
    assert not (tmp_path / "ws/.git/hooks").exists()
    elsewhere = run("call", "write_file", json.dumps(HOOK), "--json", "--session", "another")
    assert json.loads(elsewhere.output)["code"] == "NOT_APPROVED"


def test_u21_a_no_is_an_answer(run: Run):
    write(run)
    assert run("approve", str(waiting(run)[0]["id"]), "--no").output.rstrip().endswith("sent again.")
    reply = json.loads(write(run).output)
    assert (reply["code"], reply["data"]["asked"]) == ("NOT_APPROVED", True)


def test_what_waits_is_listed_with_its_first_lines(run: Run):
    assert run("approve").output == "No pending approvals.\n"
    write(run)
    told = run("approve").output
    assert "write_file: it is protected" in told
    assert str(waiting(run)[0]["id"]) in told
    assert "+echo\\x1b[2J" in told
    assert "\x1b" not in told


def test_an_answer_shows_what_it_is_for(run: Run, store: SqliteStore):
    with closing(store):
        store.enqueue(replace(asked("rm -rf build\necho \x1b[31mred"), diff="--- a\n+++ b\n-old\n+new\u202e\n"))
    told = run("approve", asked("rm -rf build\necho \x1b[31mred").hash, "--yes").output
    assert "    rm -rf build\n    echo \\x1b[31mred\n" in told
    assert "-old\n+new\\u202e\n" in told
    assert f"by {get_user_at_host()}." in told


@pytest.mark.parametrize("said", [["--session", "--yes"], ["--pattern", "--yes"], ["--no"]])
def test_an_answer_can_be_for_more_or_for_nothing(run: Run, store: SqliteStore, said: list[str]):
    consent = said[0].removeprefix("--")
    with closing(store):
        answered = json.loads(run("approve", put(store, asked()).id, *said, "--json").output)
        assert (answered["answer"], answered["by"]) == (consent, get_user_at_host())
        spent = store.consume_approval(asked().hash, "s")
        assert spent
        assert spent.answer == consent


@pytest.mark.parametrize("consent", ["session", "pattern"])
def test_what_cannot_be_said_for_more_is_not_answered_for_more(run: Run, store: SqliteStore, consent: str):
    with closing(store):
        store.enqueue(replace(asked(), allows=(), patterns=()))
        assert run("approve", asked().hash, f"--{consent}", "--yes").exit_code == 1
        assert len(store.list_pending()) == 1


def test_an_id_that_names_no_open_question_is_refused(run: Run, store: SqliteStore):
    with closing(store):
        one, other = put(store, asked("one")), put(store, asked("other"))
        store.answer(one.id, "once", by="ann")
    for wanted, because in (
        ("0000-0000-0000", "no question has this id"),
        (other.id[:4], "no question has this id"),
        (one.id, "already answered: once, by ann"),
    ):
        told = run("approve", wanted, "--yes")
        assert (told.exit_code, because in told.output) == (1, True)
    assert run("approve", other.id, "--yes").exit_code == 0


# --- seen first, then answered


LONG = "echo " + "x" * 2_000 + "; rm -rf ~\n" + "true\n" * 10_100 + "echo last"


@pytest.mark.parametrize("more", [[], ["--session"], ["--pattern"], ["--json"], ["--by", "ann"]])
def test_r15_without_a_terminal_nothing_is_approved_unless_yes_is_said(run: Run, store: SqliteStore, more: list[str]):
    with closing(store):
        question = put(store, asked())
        told = run("approve", question.id, *more)
        assert (told.exit_code, "--yes" in told.output) == (2, True)
        assert [each.id for each in store.list_pending()] == [question.id]
        assert run("approve", question.id, *more, "--yes").exit_code == 0
        assert not store.list_pending()


def test_r15_show_shows_everything_and_answers_nothing(run: Run, store: SqliteStore):
    with closing(store):
        question = put(store, asked(LONG))
        told = run("approve", "--show", question.id)
        assert told.exit_code == 0
        shown = "\n".join(line.removeprefix("    ") for line in told.output.splitlines())
        assert (
            f"\n{LONG}\n-old\n+new\n--session also allows, in the session and for a day: this command\n--pattern also allows, in the session and for a day: run rm *"
            in shown
        )
        assert json.loads(run("approve", "--show", question.id, "--json").output)["command"] == LONG
        assert [each.id for each in store.list_pending()] == [question.id]


@pytest.mark.parametrize("more", [["--yes"], ["--no"], ["--session"], ["--pattern"]])
def test_r15_to_show_is_no_answer(run: Run, store: SqliteStore, more: list[str]):
    with closing(store):
        assert run("approve", "--show", put(store, asked()).id, *more).exit_code == 2
        assert len(store.list_pending()) == 1
    assert run("approve", "--show").exit_code == 2


@pytest.mark.parametrize("more", [["--no", "--yes"], ["--yes"]])
def test_r15_yes_goes_with_an_id_and_never_with_no(run: Run, store: SqliteStore, more: list[str]):
    with closing(store):
        question = put(store, asked())
        assert run("approve", *([question.id] if "--no" in more else []), *more).exit_code == 2
        assert len(store.list_pending()) == 1


@pytest.mark.parametrize(
    ("keys", "more", "answer"),
    [(b"y\n", [], "once"), (b"n\n", [], ""), (b"\x04", [], ""), (b"yes\n", ["--session"], "session")],
)
def test_r15_at_a_terminal_everything_is_shown_and_then_asked_about(
    tmp_path: Path, store: SqliteStore, keys: bytes, more: list[str], answer: str
):
    command = "echo " + "x" * 1_000 + "; echo the end"
    where = ["--root", str(tmp_path / "ws"), "--state", str(tmp_path / "state")]
    with closing(store):
        question = put(store, asked(command))
        screen = Terminal.of([*MAIN, "approve", question.id, *more, *where])
        try:
            screen.wait_for("n (no): ")
            assert command in screen.seen
            assert len(store.list_pending()) == 1
            screen.type(keys)
            assert screen.end() == (0 if answer else 1)
        finally:
            screen.process.kill()
            screen.process.wait()
            os.close(screen.ours)
        assert len(store.list_pending()) == (0 if answer else 1)
        spent = store.consume_approval(question.hash, "s")
        assert (spent.answer if spent else "") == answer


def test_an_answer_without_an_id_is_a_wrong_command_line(run: Run):
    assert run("approve", "--no").exit_code == 2


def test_a_state_that_is_not_ours_is_told(run: Run, store: SqliteStore):
    path = store._database.path
    store.close()
    path.write_bytes(b"not a database at all" * 500)
    assert run("approve").exit_code == 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\rb\x08", "a\\x0db\\x08"),
        ("\x9b31m", "\\x9b31m"),
        ("caf\xe9 \u65e5\u672c", "caf\xe9 \u65e5\u672c"),
        ("\u202egnp.exe\u2066\u200b\u3164", "\\u202egnp.exe\\u2066\\u200b\\u3164"),
        ("\udcff \ud800 \U000e0041", "\\xff \\ud800 \\U000e0041"),
        ("\u2028\u0085", "\\u2028\\x85"),
    ],
)
def test_what_cannot_be_seen_is_spelled_out(text: str, shown: str):
    assert escape_invisible(text) == shown
