"""V-1: what a workspace names like a module is not imported by a program of ours, in a fork or outside."""

import os
import sys
import time
from pathlib import Path

import pytest

from handhold import Toolbox
from handhold.backends import program_search
from handhold.backends.forks import tool_process
from handhold.backends.program_search import distrust, find_program
from handhold.backends.programs import build_own_environment, build_python_argv, build_user_environment, run_program

NAMES = ("queue.py", "sitecustomize.py", "usercustomize.py", "handhold.py", "json.py", "pickle.py", "socket.py")
WAIT_SECONDS = 30


def plant(root: Path, canary: Path) -> None:
    for name in NAMES:
        (root / name).write_text(f"open({str(canary)!r}, 'a').write({name!r})\n")
    (root / "planted.pth").write_text(f"import os; open({str(canary)!r}, 'a').write('pth')\n")


def test_v1_the_tools_of_a_fork_import_nothing_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tool_process, "IDLE_SECONDS", 0.2)
    root, canary = tmp_path / "work", tmp_path / "canary"
    root.mkdir()
    (root / "a.txt").write_text("x\n")
    monkeypatch.chdir(root)
    monkeypatch.setenv("PYTHONPATH", str(root))
    with Toolbox.open(root, state=tmp_path / "state") as box, box.fork("try") as fork:
        for name in NAMES:
            code = f"open({str(canary)!r}, 'a').write({name!r})\n"
            assert fork.call("write_file", {"path": name, "content": code}).ok
        deadline = time.monotonic() + WAIT_SECONDS
        while fork.is_running and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not fork.is_running
        assert fork.call("read_file", {"path": "a.txt"}).ok
        assert fork.call("edit_file", {"path": "a.txt", "old": "x", "new": "y"}).ok
    assert not canary.exists()


def test_v1_an_interpreter_of_ours_imports_nothing_from_its_folder_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    canary = tmp_path / "canary"
    plant(tmp_path, canary)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONSTARTUP", str(tmp_path / "queue.py"))
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tmp_path}::/usr/lib")
    monkeypatch.setenv("LD_PRELOAD", str(tmp_path / "none.so"))
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), *sys.path])
    monkeypatch.setattr(program_search, "_roots", set[str]())  # other tests open other workspaces
    distrust(str(tmp_path))
    for environment in (build_own_environment(), build_user_environment()):
        done = run_program(build_python_argv("handhold.cli.fork_tools"), env=environment, cwd=str(tmp_path))
        assert b"IndexError" in done.stderr  # it wants the number of a descriptor
        assert not {name for name in environment if name.startswith(("PYTHON", "LD_"))} - {
            "LD_LIBRARY_PATH",
            "PYTHONDONTWRITEBYTECODE",
            "PYTHONUNBUFFERED",
            "PYTHONUTF8",
        }
        assert environment["LD_LIBRARY_PATH"] == "/usr/lib"
    assert not canary.exists()


def test_v1_a_program_is_not_found_in_a_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    root, other = tmp_path / "root", tmp_path / "other"
    for folder in (root, other):
        folder.mkdir()
        (folder / "git").write_text("#!/bin/sh\n")
        (folder / "git").chmod(0o755)
    (tmp_path / "link").symlink_to(root)
    monkeypatch.chdir(root)
    monkeypatch.setenv("PATH", f".::{root}:{tmp_path}/link:{other}:{os.environ['PATH']}")
    with Toolbox.open(root, state=tmp_path / "state"):
        assert find_program("git") == str(other / "git")
        (other / "git").unlink()
        (other / "git").symlink_to(root / "git")
        assert not find_program("git").startswith(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        run_program(("git", "--version"))
