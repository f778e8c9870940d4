"""R-38: the log shows commands, previews and damage as they are, and git's internal files as one line."""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from handhold.cli.commands import handhold
from handhold.cli.diffstat import FileDiffStat, count_files, format_stats
from handhold.cli.git_files import git_folder, is_git_internal
from handhold.cli.reversal import format_reversal
from handhold.core.entry_summary import find_command
from tests.suites.machine import has_shadows

with_overlay = pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")
with_git = pytest.mark.skipif(shutil.which("git") is None, reason="no git on this machine")
COMMIT = "git -c user.name=a -c user.email=a@example.org commit --quiet --message first"


@pytest.fixture
def where(tmp_path: Path) -> list[str]:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/a.py").write_text("x = 1\n")
    return ["--root", str(tmp_path / "ws"), "--state", str(tmp_path / "state")]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(handhold, [*arguments])


def call(where: list[str], tool: str, arguments: dict[str, Any], *more: str) -> Result:
    return run("call", tool, json.dumps(arguments), *where, *more)


def log_rows(where: list[str]) -> list[dict[str, Any]]:
    return json.loads(run("log", "--json", *where).stdout)


# --- commands


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({"command": "ls -l"}, "ls -l"),
        ({"cmd": "ls -l"}, "ls -l"),
        ({"command": ["ls", "-l", "a b"]}, "ls -l 'a b'"),
        ({"command": ["bash", "-lc", "ls | wc -l"]}, "ls | wc -l"),
        ({"command": ["/bin/sh", "-c", "ls"]}, "ls"),
        ({"command": []}, ""),
        ({"command": {"a": 1}}, ""),
        ({}, ""),
    ],
)
def test_r38_a_command_is_found_as_text_or_as_a_list(arguments: dict[str, Any], shown: str):
    assert find_command(arguments) == shown


@with_overlay
def test_r38_the_log_shows_the_command_of_the_shell_tool_of_codex(where: list[str]):
    done = call(where, "shell", {"command": ["bash", "-lc", "echo hello >b.py"]}, "--dialect", "codex")
    assert done.exit_code == 0, done.output
    (line,) = run("log", *where).output.splitlines()
    assert "  echo hello >b.py  (" in line


def test_r38_the_log_shows_the_path_of_an_editor_whose_action_is_called_command(where: list[str]):
    arguments = {"command": "create", "path": "b.py", "file_text": "x\n"}
    done = call(where, "str_replace_based_edit_tool", arguments, "--dialect", "anthropic")
    assert done.exit_code == 0, done.output
    assert "  b.py  (" in run("log", *where).output


# --- previews


@with_overlay
def test_r38_a_previewed_command_is_marked_as_a_preview(where: list[str], tmp_path: Path):
    assert call(where, "bash", {"command": "rm -rf *", "preview": True}).exit_code == 0
    assert call(where, "bash", {"command": "cat a.py"}).exit_code == 0
    assert (tmp_path / "ws/a.py").exists()
    previewed, applied = run("log", *where).output.splitlines()
    assert "preview only" in previewed
    assert "preview" not in applied
    assert [row["preview"] for row in log_rows(where)] == [True, False]


# --- a damaged journal


@contextmanager
def tampered(state: Path) -> Iterator[sqlite3.Connection]:
    """The database without the triggers that keep the journal append-only."""
    (database,) = state.rglob("state.db")
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        yield connection


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE calls SET arguments = 'text' WHERE seq = 2",
        "UPDATE calls SET at = -1 WHERE seq = 2",
        "UPDATE calls SET packed = 7 WHERE seq = 2",
        "UPDATE outcomes SET time_us = 'soon' WHERE seq = 2",
        "UPDATE intents SET files = 'many' WHERE seq = 2",
        "UPDATE changes SET path = 5 WHERE seq = 2",
        "UPDATE changes SET mode = 123456 WHERE seq = 2",
    ],
)
def test_r38_a_damaged_entry_is_named_and_the_others_are_shown(where: list[str], tmp_path: Path, statement: str):
    for name in ("1.py", "2.py", "3.py"):
        assert call(where, "write_file", {"path": name, "content": "x\n"}).exit_code == 0
    with tampered(tmp_path / "state") as connection:
        assert connection.execute(statement).rowcount
    done = run("log", *where)
    assert done.exit_code == 1
    assert isinstance(done.exception, SystemExit)
    assert "1.py" in done.stdout
    assert "3.py" in done.stdout
    assert "Entry #2 is damaged" in done.stderr
    as_json = run("log", "--json", *where)
    assert as_json.exit_code == 1
    assert {1, 3} <= {row["seq"] for row in json.loads(as_json.stdout)}


def test_r38_a_damaged_list_of_undone_calls_does_not_hide_the_others(where: list[str], tmp_path: Path):
    for name in ("1.py", "2.py"):
        assert call(where, "write_file", {"path": name, "content": "x\n"}).exit_code == 0
    assert run("undo", *where).exit_code == 0
    with tampered(tmp_path / "state") as connection:
        connection.execute("UPDATE taken SET call = 'two'")
    done = run("log", *where)
    assert done.exit_code == 1
    assert "1.py" in done.stdout
    assert "Entry #3 is damaged" in done.stderr


# --- git


@pytest.mark.parametrize(
    ("path", "internal"),
    [
        (".git/objects/45/b983be", True),
        (".git/refs/heads/main", True),
        (".git/index", True),
        (".git/HEAD", True),
        (".git/ORIG_HEAD", True),
        (".git/COMMIT_EDITMSG", True),
        ("vendor/lib/.git/logs/HEAD", True),
        (".git/hooks/pre-commit", False),
        (".git/config", False),
        (".git/config.worktree", False),
        (".git/info/attributes", False),
        (".git/modules/lib/hooks/post-checkout", False),
        (".git", False),
        ("index", False),
        ("objects/a", False),
        (".github/refs/heads", False),
    ],
)
def test_r38_hooks_and_configuration_are_not_internal_files_of_git(path: str, internal: bool):
    assert is_git_internal(path) is internal
    if internal:
        assert git_folder(path).endswith(".git")


@with_overlay
@with_git
def test_r38_a_commit_is_one_line_in_a_summary(where: list[str]):
    assert call(where, "bash", {"command": "git init --quiet"}, "--policy", "open").exit_code == 0
    assert call(where, "bash", {"command": f"git add --all && {COMMIT}"}).exit_code == 0
    stat = run("diff", "2", "--stat", *where).output
    assert len(stat.splitlines()) == 1
    assert "internal git files" in stat
    assert "objects" not in stat
    assert len(json.loads(run("diff", "2", "--json", *where).output)["files"]) > 5, "programs get all of it"
    *_, row = log_rows(where)
    assert (row["added"], row["removed"]) == (0, 0)
    undone = run("undo", *where).output
    assert undone.startswith("Undid #2: ")
    assert ".git (" in undone
    assert "objects" not in undone
    assert len(undone.splitlines()) == 1


def test_r38_a_hook_is_named_next_to_the_summary_of_git():
    stats = [
        FileDiffStat(".git/hooks/pre-commit", 1),
        *(FileDiffStat(f".git/objects/{n}/x", note="binary content differs") for n in range(20)),
        FileDiffStat("src/a.py", 2, 1),
    ]
    lines = list(format_stats(stats))
    assert [line.split()[0] for line in lines] == [".git/hooks/pre-commit", "src/a.py", ".git", "2"]
    assert click.unstyle(lines[-1]) == "2 files: +3 -1"
    assert count_files(stats) == 22


# --- what an undo did


def reversal(verb: str, paths: list[str], stats: list[FileDiffStat], *, preview: bool = False) -> str:
    facts = {"verb": verb, "calls": ["#4"], "paths": [f"/ws/{path}" for path in paths], "preview": preview}
    return format_reversal(facts, stats, ["/ws"])


def test_an_undo_says_in_one_line_what_it_restored():
    folder = [FileDiffStat(f"src/{n}", 1, status="created") for n in range(48)]
    assert reversal("undo", ["src"], folder) == "Undid #4: restored src (48 files)."
    many = [f"src/{n}" for n in range(48)]
    assert reversal("undo", many, [FileDiffStat(each, 1, 1) for each in many]) == "Undid #4: restored src (48 files)."
    mixed = [FileDiffStat("a.py", 1, 1), FileDiffStat("b.py", 0, 1, status="deleted")]
    assert reversal("undo", ["a.py", "b.py"], mixed) == "Undid #4: restored a.py; removed b.py."
    assert reversal("undo", ["a.py"], mixed, preview=True) == "Would undo #4: restore a.py."
    assert reversal("redo", ["a.py"], mixed) == "Redid what #4 undid: wrote a.py."
    assert reversal("undo", [], []) == "Undid #4: only folders changed."


def test_an_undo_of_many_folders_names_the_first():
    many = [f"{n}/{name}" for n in range(9) for name in "ab"]
    text = reversal("undo", many, [FileDiffStat(each, 1, 1) for each in many])
    assert text == "Undid #4: restored 0 (2 files), 1 (2 files), 2 (2 files), 3 (2 files), and 5 more."


@with_overlay
def test_an_undo_of_a_removed_folder_counts_its_files(where: list[str], tmp_path: Path):
    (tmp_path / "ws/src/deep").mkdir(parents=True)
    for n in range(3):
        (tmp_path / f"ws/src/deep/{n}").write_text("x\n")
    assert call(where, "bash", {"command": "rm -r src"}).exit_code == 0
    assert run("undo", *where).output == "Undid #1: restored src (3 files).\n"
