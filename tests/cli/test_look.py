"""Terminal output: the log, the diff, the confirmation of an undo, and the progress bar."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from handhold import Toolbox
from handhold import progress as reports
from handhold.cli import progress
from handhold.cli.commands import handhold
from handhold.cli.diffstat import FileDiffStat, format_counts, parse_stats, sum_stats
from handhold.cli.log import LogRow, format_day, format_timeline
from handhold.cli.terminal import measure_width, truncate, truncate_path
from handhold.core.ports.journal import Call, JournalEntry, Outcome
from handhold.core.text.diff import unified_diff
from tests.cli.test_prompt import Terminal
from tests.scale import sampled
from tests.suites.machine import has_shadows

MAIN = [sys.executable, "-c", "from handhold.cli import main; main()"]
SGR = re.compile(r"\x1b\[[\d;]*m")


@pytest.fixture
def where(tmp_path: Path) -> list[str]:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/a.py").write_text("x = 1\n")
    return ["--root", str(tmp_path / "ws"), "--state", str(tmp_path / "state")]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(handhold, [*arguments])


def write(where: list[str], path: str, content: str, *more: str) -> None:
    done = run("call", "write_file", json.dumps({"path": path, "content": content}), *where, *more)
    assert done.exit_code == 0, done.output


@contextmanager
def terminal(*arguments: str) -> Iterator[Terminal]:
    screen = Terminal.of([*MAIN, *arguments])
    try:
        yield screen
    finally:
        screen.process.kill()
        screen.process.wait()
        os.close(screen.ours)


# --- the log


def test_the_log_counts_lines_and_names_what_was_asked(where: list[str]):
    write(where, "new/b.py", "1\n2\n3\n")
    run("call", "read_file", '{"path": "a.py"}', *where)
    run("undo", *where)
    first, second, third = run("log", *where).output.splitlines()
    assert re.search(r"write_file +undone +\+3 +new/b.py  \(allowed", first)
    assert re.search(r"read_file +success +a.py", second)
    assert re.search(r"undo +success +-3 +#1", third)
    rows = json.loads(run("log", "--json", *where).output)
    assert [(row["added"], row["removed"]) for row in rows] == [(3, 0), (0, 0), (0, 3)]


def test_the_log_of_everyone_names_the_sessions_and_a_dash_is_the_last(where: list[str]):
    write(where, "b", "1\n", "--session", "monday")
    write(where, "c", "1\n2\n", "--session", "tuesday")
    told = run("log", "--everyone", *where).output
    assert "monday/1" in told
    assert "+2" in told.splitlines()[1]
    assert run("log", *where).output == run("log", "--session", "tuesday", *where).output != ""
    unknown = run("log", "--session", "monda", *where)
    assert (unknown.exit_code, "Did you mean 'monday'?" in unknown.output) == (1, True)
    assert "c  (allowed" in run("log", "--session", "-", *where).output
    assert "Undid #2: removed c." in run("undo", "--session", "-", *where).output


def test_the_log_tells_of_a_root_that_is_not_open_here(where: list[str], tmp_path: Path):
    (tmp_path / "other").mkdir()
    write([*where, "--root", str(tmp_path / "other")], str(tmp_path / "other/b"), "1\n2\n")
    assert "+2" in run("log", *where, "--root", str(tmp_path / "other")).output
    (told,) = json.loads(run("log", "--json", *where).output)
    assert (told["changed"], told["added"]) in ((1, 2), (1, None))


def entry(tool: str, name: str, decision: str = "allowed", code: str | None = None) -> JournalEntry:
    call = Call("s", "", name, tool, "{}", "handhold")
    return JournalEntry(
        1, 0.0, call, decision, "rule", "", Outcome("success", code, 0, None), (), 0, (), undone=False, kept=True
    )


@given(
    st.lists(
        st.tuples(
            st.text(alphabet="ab日é", max_size=30),
            st.text(alphabet="ab日", min_size=1, max_size=30),
            st.text(alphabet="a/日 e\u0301", max_size=90),
            st.booleans(),
            st.integers(0, 10**6),
            st.sampled_from(["", "undone", "NOT_APPROVED", "success (no undo)", "preview only"]),
            st.text(alphabet="ab 日", max_size=90),
        ),
        min_size=1,
        max_size=5,
    ),
    st.integers(100, 200),
)
def test_no_line_of_the_timeline_is_ever_wider_than_the_terminal(rows: list[tuple], room: int):
    at = datetime(2026, 3, 2, 10, 14, 7)
    made = [
        LogRow(entry(tool, name), at, name, tool, target, path, lines, lines, end, why)
        for name, tool, target, path, lines, end, why in rows
    ]
    lines = [SGR.sub("", line) for line in format_timeline(made, room, at.date())]
    assert lines[0] == "Today"
    assert max(map(measure_width, lines)) <= room
    assert len(lines) == len(rows) + 1


def test_a_day_has_a_name():
    today = date(2026, 3, 2)
    assert format_day(today, today) == "Today"
    assert format_day(date(2026, 3, 1), today) == "Yesterday"
    assert format_day(date(2026, 2, 27), today) == "Friday, 27 February"
    assert format_day(date(2025, 2, 27), today) == "Thursday, 27 February 2025"


@given(st.text(alphabet="a日e\u0301/", max_size=40), st.integers(1, 30))
def test_what_is_fitted_always_fits(text: str, room: int):
    assert measure_width(truncate(text, room)) <= room
    assert measure_width(truncate_path(text, room)) <= room
    if measure_width(text) <= room:
        assert truncate(text, room) == truncate_path(text, room) == text


def test_at_a_terminal_the_log_has_days_and_colours_and_no_foreign_ones(where: list[str]):
    write(where, "a\x1b[2Jb", "1\n")
    with terminal("log", *where) as screen:
        screen.end()
    assert "\x1b[1mToday" in screen.seen
    assert "\x1b[32m+1" in screen.seen
    assert "\x1b[2J" not in screen.seen
    surroundings = {**os.environ, "NO_COLOR": "1"}
    with terminal(*["log", *where]) as screen:
        screen.end()
    done = subprocess.run([*MAIN, "log", *where], env=surroundings, capture_output=True, text=True, check=True)
    assert "\x1b" not in done.stdout


def test_no_color_is_heeded_at_a_terminal(where: list[str], monkeypatch: pytest.MonkeyPatch):
    write(where, "b", "1\n")
    monkeypatch.setenv("NO_COLOR", "1")
    for command in ("log", "diff", "doctor"):
        with terminal(command, *where[: None if command != "doctor" else 2]) as screen:
            screen.end()
        assert "\x1b[3" not in screen.seen


# --- the diff

texts = st.lists(st.sampled_from(["a", "-- b", "++ c", "@@ -1 +1 @@", "", "[x: y]", "\\"]), max_size=8).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)


@given(texts, texts)
def test_the_lines_of_a_diff_are_counted_as_they_are_whatever_they_look_like(before: str, after: str):
    diff = unified_diff("f", before, after) + unified_diff("g", None, "1\n2\n")
    (*first, last) = parse_stats(diff)
    assert last == FileDiffStat("g", 2, 0)
    assert len(first) == (before != after)
    if first:
        added, removed = first[0].added, first[0].removed
        assert added - removed == after.count("\n") - before.count("\n")


def test_what_is_no_text_is_counted_as_a_note():
    found = parse_stats(
        "[a/link: nothing -> a link to b]\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n[y: binary content differs]\n"
    )
    assert found == [
        FileDiffStat("a/link", note="nothing -> a link to b"),
        FileDiffStat("x", 1, 1),
        FileDiffStat("y", note="binary content differs"),
    ]
    assert sum_stats(found) == (1, 1)
    assert [format_counts(*each) for each in ((0, 0), (1200, 0), (0, 1), (2, 3))] == ["", "+1,200", "-1", "+2 -3"]


def test_a_diff_is_told_by_call_turn_and_session_to_programs_and_in_short(where: list[str]):
    write(where, "b", "1\n", "--turn", "t", "--call-id", "w1")
    write(where, "c", "1\n2\n", "--turn", "t")
    assert "+++ b/c" in run("diff", *where).output
    told = json.loads(run("diff", "--turn", "t", "--json", *where).output)
    assert (told["added"], told["removed"], [each["path"] for each in told["files"]]) == (3, 0, ["b", "c"])
    assert json.loads(run("diff", "--call", "w1", "--json", *where).output)["added"] == 1
    assert run("diff", "--all", "--stat", *where).output == "  b  +1\n  c  +2\n2 files: +3\n"
    with terminal("diff", *where) as screen:
        screen.end()
    assert "\x1b[32m+2\x1b[" in screen.seen


# --- undo


@pytest.mark.parametrize(
    ("answer", "status"), sampled([(b"y\n", 0), (b"n\n", 1), (b"\n", 1), (b"\x04", 1)], 2, lambda each: each[1])
)
def test_u8_at_a_terminal_an_undo_is_shown_and_asked_about(
    where: list[str], tmp_path: Path, answer: bytes, status: int
):
    file = tmp_path / "ws/b"
    write(where, "b", "1\n2\n")
    with terminal("undo", *where) as screen:
        screen.wait_for("n (no): ")
        assert "Would undo #1: remove b." in screen.seen
        assert "1 file: \x1b[31m-2" in screen.seen
        assert file.exists()
        screen.type(answer)
        assert screen.end() == status
    assert file.exists() is (status == 1)
    assert ("Undid #1" in screen.seen, "Nothing changed." in screen.seen) == (status == 0, status == 1)


def test_u8_an_undo_that_is_no_longer_what_was_shown_is_shown_again(where: list[str], tmp_path: Path):
    write(where, "b", "1\n")
    with terminal("undo", *where) as screen:
        screen.wait_for("n (no): ")
        write(where, "c", "1\n")
        screen.seen = ""
        screen.type(b"y\n")
        screen.wait_for("n (no): ")  # input before the question is discarded
        assert "Something changed in the meantime" in screen.seen
        assert "Would undo #2: remove c." in screen.seen
        screen.type(b"n\n")
        assert screen.end() == 1
    assert (tmp_path / "ws/b").exists()
    assert (tmp_path / "ws/c").exists()


def test_u8_yes_asks_nobody(where: list[str], tmp_path: Path):
    write(where, "b", "1\n")
    with terminal("undo", "--yes", *where) as screen:
        assert screen.end() == 0
    assert not (tmp_path / "ws/b").exists()
    with terminal("redo", "-y", *where) as screen:
        assert screen.end() == 0
    assert (tmp_path / "ws/b").exists()


def test_u8_json_at_a_terminal_answers_no_question_about_a_protected_name(where: list[str], tmp_path: Path):
    """With --json nothing is shown first, so only `--yes` confirms it."""
    file = tmp_path / "ws/.envrc"
    root, state = Path(where[1]), Path(where[3])
    with Toolbox.open(root, state=state, session="default", policy="edit", approver=lambda _: True) as box:
        for content in ("use nix\n", "use flake\n"):
            assert box.call("write_file", {"path": ".envrc", "content": content}).status == "success"
    with terminal("undo", "--json", *where) as screen:
        assert screen.end() == 1
    assert "NOT_APPROVED" in screen.seen
    assert file.read_text() == "use flake\n"
    with terminal("undo", "--json", "--yes", *where) as screen:
        assert screen.end() == 0
    assert file.read_text() == "use nix\n"


# --- progress


def test_nobody_is_told_before_a_second_and_the_bar_is_wiped(monkeypatch: pytest.MonkeyPatch):
    drawn: list[str] = []
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "write", drawn.append)
    with progress.show_progress():
        reports.report("files written", 1, 2)
    assert drawn == []
    monkeypatch.setattr(progress, "SHOW_AFTER_SECONDS", 0.0)
    with progress.show_progress():
        reports.report("files written", 500, 2000)
    assert drawn == ["\r[######..................] 500 of 2,000 files written\x1b[K", "\r\x1b[K"]
    reports.report("files written", 2, 2)
    assert len(drawn) == 2


def test_things_are_counted_only_where_somebody_looks():
    things = [1, 2, 3]
    assert reports.track(things, "x") is things
    seen: list[tuple[str, int, int]] = []
    with reports.listen(lambda *came: seen.append(came)):
        assert list(reports.track(things, "x")) == things
    assert seen == [("x", n, 3) for n in range(4)]


def test_a_large_file_and_a_journal_are_looked_at_under_somebodys_eyes(where: list[str], tmp_path: Path):
    (tmp_path / "ws/large").write_bytes(b"line\n" * 1_000_000)
    write(where, "b", "1\n")
    seen: list[tuple[str, int, int]] = []
    with reports.listen(lambda *came: seen.append(came)):
        assert run("call", "read_file", '{"path": "large", "offset": 999999}', *where).exit_code == 0
        assert run("log", "--verify", *where).exit_code == 0
    told = {what: (done, of) for what, done, of in seen}
    assert told["bytes scanned"][1] == 5_000_000
    assert told["records checked"][0] > 3


@pytest.mark.slow
@pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")
def test_a_large_undo_shows_how_far_it_has_come(where: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """On a real terminal, without the delay, because the work takes less than a second."""
    (tmp_path / "ws/many").mkdir()
    for n in range(2000):
        (tmp_path / f"ws/many/{n}").write_text("1\n")
    done = run("call", "bash", '{"command": "sed -i s/1/2/ many/*"}', *where)
    assert "1,970 more" in done.output
    code = "from handhold.cli import progress, main; progress.SHOW_AFTER_SECONDS = 0.0; progress.REDRAW_INTERVAL_SECONDS = 0.0; main()"
    screen = Terminal.of([sys.executable, "-c", code, "undo", "--yes", *where])
    assert screen.end() == 0
    os.close(screen.ours)
    assert "of 2,000 files checked" in screen.seen
    assert "of 2,000 files put in place" in screen.seen
    assert screen.seen.rpartition("\x1b[K")[2].strip() == "Undid #1: restored many (2,000 files)."
    assert (tmp_path / "ws/many/7").read_text() == "1\n"
