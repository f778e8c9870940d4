"""F-1: the same tools from a shell."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from handhold.cli.commands import handhold

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
    assert (reply["status"], reply["code"], reply["blame"]) == ("error", "NOT_FOUND", "model")


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
    assert "e1" in run("log").output
    assert "+x = 2\n" in run("diff", "--call", "e1").output
    assert "-x = 2\n" in run("undo", "--turn", "t", "--preview").output
    assert file.read_text() == "x = 2\n"
    assert run("undo", "--all").exit_code == 0
    assert file.read_text() == "x = 1\n"
    assert "taken back" in run("log").output
    assert run("undo").exit_code == 1
    assert run("redo").exit_code == 0
    assert file.read_text() == "x = 2\n"


def test_c90_a_policy_can_be_given(run: Run, tmp_path: Path):
    done = run("call", "write_file", '{"path": "new", "content": ""}', "--policy", "read-only")
    assert done.exit_code == 1
    assert not (tmp_path / "ws/new").exists()


def test_tools_are_listed_by_dialect():
    listed = CliRunner().invoke(handhold, ["tools", "--dialect", "claude", "--json"])
    names = ["Read", "Write", "Edit", "MultiEdit", "Glob", "Grep", "LS"]
    assert [tool["name"] for tool in json.loads(listed.output)] == names
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
