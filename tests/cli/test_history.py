"""What a person does after an agent worked: find the calls, read them, undo some, and lose nothing by mistake."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from handhold import Toolbox
from handhold.cli.commands import handhold
from tests.cli.test_look import terminal
from tests.suites.machine import has_shadows

Run = Callable[..., Result]
MAIN = [sys.executable, "-c", "from handhold.cli import main; main()"]
with_overlay = pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command as a user does, without options, in the workspace `ws`."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "ws/sub").mkdir(parents=True)
    (tmp_path / "ws/a.txt").write_text("one\n")
    monkeypatch.chdir(tmp_path / "ws")
    return lambda *words: CliRunner().invoke(handhold, [*words])


def write(path: str, text: str, session: str = "default", turn: str = "") -> None:
    with Toolbox.open(".", session=session) as box:
        box.call("read_file", {"path": path})
        assert box.call("write_file", {"path": path, "content": text}, turn=turn).ok


# --- found from below


def test_n13_the_workspace_is_found_from_below_and_said(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write("a.txt", "two\n")
    monkeypatch.chdir(tmp_path / "ws/sub")
    said = run("log")
    assert "a.txt" in said.stdout
    done = subprocess.run([*MAIN, "undo"], capture_output=True, text=True, check=True)
    assert f"in the workspace {tmp_path}/ws\n" in done.stderr
    assert (tmp_path / "ws/a.txt").read_text() == "one\n"


def test_n13_a_nearer_journal_is_taken_and_one_around_the_home_is_not(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write("a.txt", "two\n")
    monkeypatch.chdir(tmp_path / "ws/sub")
    with Toolbox.open(".") as box:  # a journal without a call does not count
        assert not box.log()
    assert "a.txt" in run("log").stdout
    with Toolbox.open(".") as box:
        assert box.call("write_file", {"path": "b.txt", "content": "b\n"}).ok
    assert "b.txt" in run("log").stdout
    (tmp_path / "ws/other").mkdir()
    home = {**os.environ, "HOME": str(tmp_path / "ws")}
    done = subprocess.run(
        [*MAIN, "log"], cwd=tmp_path / "ws/other", env=home, capture_output=True, text=True, check=True
    )
    assert done.stdout == ""


# --- numbers are names


def test_n12_numbers_and_ranges_name_calls_of_any_session(run: Run, tmp_path: Path):
    for name in ("b", "c", "d"):  # calls 2, 4 and 6: each is read first
        write(f"{name}.txt", f"{name}\n", session="monday")
    write("e.txt", "e\n", session="tuesday")
    shown = run("show", "4")
    assert shown.stdout.startswith("Call 4: write_file, success\n")
    assert "session   monday" in shown.stdout
    assert "+c\n" in shown.stdout
    assert [each for each in "bcde" if f"+{each}\n" in run("diff", "2..4").stdout] == ["b", "c"]
    assert run("undo", "6").exit_code == 0
    assert run("undo", "2..5", "--session", "monday").exit_code == 0
    left = {name for name in os.listdir(tmp_path / "ws") if name.endswith(".txt")}
    assert left == {"a.txt", "e.txt"}
    assert run("redo", "2").exit_code in (0, 1)  # undone together with call 4
    assert run("redo").exit_code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["undo", "99"], "There is no call #99; the last is #2."),
        (["diff", "98..99"], "There is no call from #98 to #99."),
        (["show", "wrote"], "There is no call 'wrote' in the session 'default'"),
        (["log", "--session", "defualt"], "There is no session 'defualt'. Did you mean 'default'?"),
        (["undo", "--session", "monday"], "There is no session 'monday'."),
        (["undo", "1"], "No change of call 1 is left."),
    ],
)
def test_n12_an_unknown_call_or_session_is_named_with_the_nearest(run: Run, words: list[str], said: str):
    write("a.txt", "two\n")
    done = run(*words)
    assert done.exit_code == 1
    assert said in done.output.replace("nothing to undo: no", "No")


# --- the log and the diff


@with_overlay
def test_n14_the_log_tells_how_a_command_ended_and_what_was_watched(run: Run):
    with Toolbox.open(".") as box:
        box.call("bash", {"command": "echo 2 >> a.txt; exit 3"})
        box.call("bash", {"command": "kill -9 $$"})
    script = "echo 3 >> a.txt"
    subprocess.run([*MAIN, "watch", "--", "sh", "-c", script], check=True, capture_output=True)
    failed, killed, watched = run("log", "--everyone").stdout.splitlines()
    assert " exit 3 " in failed
    assert " SIGKILL " in killed
    assert "partial" not in killed
    assert script in watched
    assert [row["exit"] for row in json.loads(run("log", "--json", "--everyone").stdout)] == ["exit 3", "SIGKILL", ""]
    assert "  a.txt  +1" in run("log", "--stat", "--session", "default").stdout
    assert "+3\n" in run("log", "-p", "--session", "default").stdout


def test_n14_a_diff_is_the_net_change_and_not_of_what_is_undone(run: Run):
    for text in ("two\n", "three\n", "four\n"):
        write("a.txt", text)
    found = json.loads(run("diff", "--json").stdout)
    assert [(each["path"], each["added"], each["removed"]) for each in found["files"]] == [("a.txt", 1, 1)]
    assert run("undo").exit_code == 0
    assert "+three\n" in run("diff").stdout
    assert run("undo", "--all").exit_code == 0
    assert "No change of this session is left." in run("diff").output


@with_overlay
def test_n14_what_came_and_went_in_a_session_is_no_change(run: Run):
    with Toolbox.open(".") as box:
        for command in ("mkdir d; echo 1 > d/f", "echo 2 >> d/f; echo x > sub/new", "rm -r d; echo two > a.txt"):
            assert box.call("bash", {"command": command}).ok
    found = json.loads(run("diff", "--json").stdout)["files"]
    assert [each["path"] for each in found] == ["a.txt", "sub/new"]


# --- asked before something is lost


def test_e21_forget_shows_no_name_that_could_move_the_cursor(run: Run, tmp_path: Path):
    name = "a\x1b[2J\u202eb"
    (tmp_path / "ws" / name).write_text("one\n")
    forgotten = run("forget", "--yes", name)
    assert forgotten.exit_code == 0
    assert "a\\x1b[2J\\u202eb" in forgotten.output
    assert forgotten.output.strip().isprintable()


def test_n6_forget_asks_and_names_the_only_copies(run: Run, tmp_path: Path):
    with Toolbox.open(".") as box:
        box.call("read_file", {"path": "a.txt"})
        assert box.call("bash", {"command": "rm a.txt"}).ok or box.call("delete", {"path": "a.txt"})
    refused = run("forget")
    assert refused.exit_code == 2
    assert "--yes" in refused.output
    with terminal("forget") as screen:
        screen.wait_for("n (no): ")
        assert "1 file (a.txt)" in screen.seen
        screen.type(b"n\n")
        assert screen.end() == 1
    assert run("undo").exit_code == 0
    assert (tmp_path / "ws/a.txt").read_text() == "one\n"
    assert run("forget", "--yes").exit_code == 0


@with_overlay
def test_n6_n11_only_new_or_dashes_make_a_fork_and_dropping_changes_asks(run: Run):
    for words in (["fork", "drp", "t1"], ["fork", "t1"]):
        done = run(*words)
        assert done.exit_code == 2
        assert "There is no command" in done.output
    assert "Did you mean 'drop'?" in run("fork", "drp", "t1").output
    assert json.loads(run("fork", "list", "--json").stdout) == []
    assert subprocess.run([*MAIN, "fork", "new", "t1"], check=False, capture_output=True).returncode == 0
    assert subprocess.run([*MAIN, "fork", "t1", "--", "sh", "-c", "echo x > new"], check=False).returncode == 0
    assert [each["name"] for each in json.loads(run("fork", "list", "--json").stdout)] == ["t1"]
    refused = run("fork", "drop", "t1")
    assert refused.exit_code == 2
    assert "new" in refused.output
    assert run("fork", "drop", "--yes", "t1").exit_code == 0
    assert json.loads(run("forks", "--json").stdout) == []


def test_n17_the_help_has_groups_and_a_mistyped_name_gets_the_nearest(run: Run):
    told = run("--help").output
    headings = [line for line in told.splitlines() if line in ("Work:", "Set up:", "Parallel:", "Serve:", "Advanced:")]
    assert headings == ["Work:", "Set up:", "Parallel:", "Serve:", "Advanced:"]
    assert "  hook" not in told
    mistyped = run("udno")
    assert (mistyped.exit_code, "Did you mean 'undo'?" in mistyped.output) == (2, True)
    for command in ("log", "diff", "undo", "redo", "show"):
        assert not {"--dialect", "--policy", "--shell"} & {*run(command, "--help").output.split()}, command
