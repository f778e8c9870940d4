"""F-1: the same tools from a shell."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from handhold.cli.commands import handhold
from tests.suites.machine import has_shadows

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    root = tmp_path / "ws"
    root.mkdir()
    (root / "a.py").write_text("x = 1\n")

    def run(command: str, *arguments: str, given: str | None = None) -> Result:
        where = ["--root", str(root), "--state", str(tmp_path / "state")]
        return CliRunner().invoke(handhold, [command, *arguments, *where], input=given)

    return run


def read_and_edit(run: Run, *more: str) -> Result:
    run("call", "read_file", '{"path": "a.py"}')
    edit = {"path": "a.py", "old_string": "1", "new_string": "2"}
    return run("call", "edit_file", json.dumps(edit), *more)


def test_f1_a_call_prints_what_the_model_would_read(run: Run):
    done = run("call", "read_file", '{"path": "a.py"}')
    assert (done.exit_code, done.output) == (0, "     1→x = 1\n")


def test_f1_a_session_lasts_from_one_command_to_the_next(run: Run, tmp_path: Path):
    assert read_and_edit(run).exit_code == 0
    assert (tmp_path / "ws/a.py").read_text() == "x = 2\n"
    assert (
        run(
            "call", "edit_file", '{"path": "a.py", "old_string": "2", "new_string": "3"}', "--session", "other"
        ).exit_code
        == 1
    )


def test_f1_json_gives_the_whole_reply(run: Run):
    reply = json.loads(run("call", "read_file", '{"path": "missing"}', "--json").output)
    assert (reply["status"], reply["code"], reply["error_source"]) == ("error", "NOT_FOUND", "model")


def test_f1_arguments_come_from_standard_input_too(run: Run):
    assert "x = 1" in run("call", "read_file", "-", given='{"path": "a.py"}').output


def test_arguments_that_are_not_json_are_a_wrong_command_line(run: Run):
    assert run("call", "read_file", "{").exit_code == 2


def test_f1_the_claude_dialect(run: Run, tmp_path: Path):
    done = run("call", "Read", json.dumps({"file_path": str(tmp_path / "ws/a.py")}), "--dialect", "claude")
    assert "<system-reminder>" in done.output


def test_c92_log_diff_undo_and_redo(run: Run, tmp_path: Path):
    file = tmp_path / "ws/a.py"
    read_and_edit(run, "--call-id", "e1", "--turn", "t")
    assert [row["call"]["tool"] for row in json.loads(run("log", "--json").output)] == ["read_file", "edit_file"]
    for which in (["--call", "e1"], ["e1"], ["2"], ["--call", "2"], ["#2"], ["1..2"], []):
        assert "+x = 2\n" in run("diff", *which).output, which
    assert "-x = 2\n" in run("undo", "--turn", "t", "--preview").output
    assert file.read_text() == "x = 2\n"
    assert run("undo", "--all").exit_code == 0
    assert file.read_text() == "x = 1\n"
    assert "undone" in run("log").output
    assert run("undo").exit_code == 1
    assert run("redo").exit_code == 0
    assert file.read_text() == "x = 2\n"


def test_c91_the_journal_proves_itself(run: Run, tmp_path: Path):
    read_and_edit(run)
    told = run("log", "--verify")
    assert told.exit_code == 0
    assert told.output.startswith("Verified 6 records")
    head = json.loads(run("log", "--verify", "--json").output)["head"]
    assert f"head {head}\n" in told.output
    run("undo")
    later = run("log", "--verify", "--head", head.upper())
    assert (later.exit_code, "record 6: nothing up to it was rewritten" in later.output) == (0, True)
    unknown = run("log", "--verify", "--head", "0" * 63 + "1")
    assert (unknown.exit_code, "not in this chain" in unknown.output) == (1, True)
    assert run("log", "--verify", "--head", "abc").exit_code == 2


def test_c91_a_journal_that_was_altered_is_told_with_its_place(run: Run, tmp_path: Path):
    read_and_edit(run)
    noted = json.loads(run("log", "--verify", "--json").output)["head"]
    (database,) = (tmp_path / "state").rglob("state.db")
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("DROP TRIGGER outcomes_update")
        connection.execute("UPDATE outcomes SET status = 'error' WHERE seq = 2")
        connection.commit()
    told = run("log", "--verify", "--head", noted, "--json")
    assert told.exit_code == 1
    found = json.loads(told.output)
    assert (found["whole"], found["at"], found["count"], found["noted_at"]) == (False, 5, 4, None)
    assert "call #2" in found["problem"]
    plain = run("log", "--verify", "--head", noted)
    assert (plain.exit_code, found["problem"] in plain.output) == (1, True)


def test_c91_the_log_says_why_a_call_was_let_or_refused(run: Run):
    read_and_edit(run)
    run("call", "write_file", '{"path": "new", "content": ""}', "--policy", "read-only")
    run("call", "no\x1b[2J\nsuch", "{}")
    lines = run("log").output.splitlines()
    assert "  (allowed: mode edit" in lines[1]
    assert "(refused: mode read-only" in lines[2]
    assert "no\\x1b[2J such" in lines[3]
    assert len(lines) == 4


def test_c90_a_policy_can_be_given(run: Run, tmp_path: Path):
    done = run("call", "write_file", '{"path": "new", "content": ""}', "--policy", "read-only")
    assert done.exit_code == 1
    assert not (tmp_path / "ws/new").exists()


@pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")
def test_f1_a_command_is_run_shown_and_taken_back(run: Run, tmp_path: Path):
    done = run("call", "bash", '{"command": "sed -i s/1/2/ a.py; cat a.py; exit 3"}')
    assert done.exit_code == 0
    assert done.output.startswith("x = 2\n[Exit status 3 after ")
    assert "changed a.py" in done.output
    assert run("undo").exit_code == 0
    assert (tmp_path / "ws/a.py").read_text() == "x = 1\n"


def test_a_confinement_can_be_given(run: Run):
    done = run("call", "bash", '{"command": "true"}', "--shell", "unconfined", "--policy", "open", "--json")
    assert json.loads(done.output)["data"]["undo"] == "file tools only"
    assert run("call", "bash", '{"command": "true"}', "--shell", "somehow").exit_code == 2


@pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")
def test_ctrl_c_leaves_no_process_and_nothing_of_the_command(tmp_path: Path):
    root, state = tmp_path / "ws", tmp_path / "state"
    root.mkdir()
    sleep = f"sleep 98.{os.getpid()}"
    call = [sys.executable, "-c", "from handhold.cli import main; main()", "call", "bash"]
    arguments = json.dumps({"command": f"echo x >a; {sleep}"})
    with subprocess.Popen([*call, arguments, "--root", root, "--state", state], process_group=0) as begun:
        wait_for(lambda: bool(running(sleep)))
        begun.send_signal(signal.SIGINT)
        begun.wait(50)
    assert not running(sleep)
    assert list(root.iterdir()) == []
    assert not [path for path in state.rglob("shelf/*") if path.is_dir()]
    assert not [line for line in Path("/proc/mounts").read_text().splitlines() if str(root) in line]


def running(command: str) -> bytes:
    return subprocess.run(["pgrep", "-f", f"^{command}$"], check=False, capture_output=True).stdout


def wait_for(event: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 50
    while not event():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_tools_are_listed_by_dialect():
    listed = CliRunner().invoke(handhold, ["tools", "--dialect", "claude", "--json"])
    names = [tool["name"] for tool in json.loads(listed.output)]
    assert {"Read", "Edit", "NotebookEdit", "Grep", "Bash"} <= set(names)
    assert len(names) == 11
    assert "edit_file" in CliRunner().invoke(handhold, ["tools"]).output


def test_a_state_that_cannot_be_made_is_told_plainly(run: Run, tmp_path: Path):
    (tmp_path / "state").write_text("a file")
    done = run("log")
    assert done.exit_code == 1
    assert "Error" in done.output


def test_a_state_that_is_not_ours_is_told_plainly(run: Run, tmp_path: Path):
    run("log")
    (database,) = (tmp_path / "state").rglob("state.db")
    for file in database.parent.glob("state.db*"):
        file.write_bytes(b"not a database at all" * 100)
    done = run("log")
    assert done.exit_code == 1
    assert "STATE_DAMAGED" in done.output
