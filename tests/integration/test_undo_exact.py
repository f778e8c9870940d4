"""Undo is exact, and removes only what it can bring back: what earlier calls and undos wrote is nobody else's change."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from handhold import Target, Toolbox
from handhold.core.ports.approvals import Question
from handhold.core.ports.files import MAX_EDITABLE_BYTES
from tests.suites.machine import has_shadows

pytestmark = pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")

LARGE = MAX_EDITABLE_BYTES + 1
COMMIT = "git -c user.name=n -c user.email=n@example.com commit -qam"


class Workspace:
    def __init__(self, root: Path, box: Toolbox) -> None:
        self.root, self.box = root, box

    def run(self, *commands: str) -> None:
        for command in commands:
            reply = self.box.call("bash", {"command": command})
            assert reply.ok, reply.text

    def undo_each(self, count: int) -> None:
        for _ in range(count):
            reply = self.box.undo()
            assert reply.ok, reply.text

    def list_entries(self) -> list[str]:
        return sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*"))


@pytest.fixture(params=["contained", "brokered"])
def workspace(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Workspace]:
    root = tmp_path / "ws"
    root.mkdir()
    with Toolbox.open(root, state=tmp_path / "state", policy="open", settings=False, shell=request.param) as box:
        yield Workspace(root, box)


BY = pytest.mark.parametrize("by", ["call", "session"])


def undo(workspace: Workspace, by: str, count: int) -> None:
    if by == "call":
        workspace.undo_each(count)
    else:
        reply = workspace.box.undo(Target.session())
        assert reply.ok, reply.text


@BY
def test_w1_a_repository_that_a_call_created_is_undone(workspace: Workspace, by: str):
    workspace.run(
        f"git init -q p && cd p && echo 1 > f && git add -A && {COMMIT} 1", f"cd p && echo 2 > f && {COMMIT} 2"
    )
    undo(workspace, by, 2)
    assert workspace.list_entries() == []


@BY
def test_w2_a_file_over_1_mib_in_a_created_folder_is_undone(workspace: Workspace, by: str):
    workspace.run("mkdir d && head -c 2000000 /dev/zero > d/big", "echo x >> d/big")
    undo(workspace, by, 2)
    assert workspace.list_entries() == []


@BY
def test_v9_two_commands_that_append_to_a_very_large_file_are_undone(workspace: Workspace, by: str):
    large = workspace.root / "f"
    with large.open("wb") as file:
        file.truncate(LARGE)
    workspace.run("echo one >> f", "echo two >> f")
    undo(workspace, by, 2)
    assert large.stat().st_size == LARGE
    for _ in range(2 if by == "call" else 1):
        assert workspace.box.redo().ok
    assert large.stat().st_size == LARGE + 8
    undo(workspace, by, 2)
    assert large.stat().st_size == LARGE


@pytest.mark.parametrize("name", ["d/db", "top"])
def test_v12_what_others_wrote_into_a_new_file_stays_even_if_size_and_time_are_the_same(
    workspace: Workspace, name: str
):
    workspace.run(f"mkdir d; head -c 3000000 /dev/zero > d/db; truncate -s {LARGE} top")
    file = workspace.root / name
    found = file.stat()
    with file.open("r+b") as opened:
        opened.seek(100)
        opened.write(b"theirs")
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert workspace.box.undo().code == "UNDO_CONFLICT"
    assert file.read_bytes()[100:106] == b"theirs"


def test_w8_what_an_undo_wrote_into_a_repository_is_nobody_elses_change(workspace: Workspace):
    root = workspace.root
    subprocess.run("git init -q && echo 1 > f && git add f && " + COMMIT + " 1", shell=True, cwd=root, check=True)
    before = workspace.list_entries()
    workspace.run("echo 2 > f && git add f", f"{COMMIT} 2")
    workspace.undo_each(2)
    assert workspace.list_entries() == before


def test_w5_a_commit_in_a_repository_due_for_gc_leaves_no_lock(workspace: Workspace):
    root = workspace.root
    setup = "git init -q && git config gc.auto 1 && for i in $(seq 600); do echo $i > f$i; done && git add . && "
    subprocess.run(
        setup + COMMIT + " 1 -q",
        shell=True,
        cwd=root,
        check=True,
        env=os.environ | {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "gc.auto", "GIT_CONFIG_VALUE_0": "0"},
    )
    workspace.run(f"echo 2 > f1 && {COMMIT} 2")
    assert not (root / ".git/gc.pid.lock").exists()
    assert not (root / ".git/gc.pid").exists()
    workspace.run(f"echo 3 > f1 && {COMMIT} 3")


def test_n1_a_restored_file_of_a_command_can_be_redone(workspace: Workspace):
    workspace.run("echo one > a; echo two > b")
    box = workspace.box
    (entry,) = box.log()
    box.history.restore(entry, [0])
    assert workspace.list_entries() == ["b"]
    assert box.undo().ok
    assert workspace.list_entries() == ["a", "b"]
    assert box.undo().ok
    assert workspace.list_entries() == []


@pytest.mark.parametrize("workspace", ["contained"], indirect=True)  # the broker refuses such a path by its name
def test_v10_a_command_that_removes_a_very_deep_folder_is_undone(workspace: Workspace):
    chain = "cd deep; for i in $(seq 40); do mkdir " + "e" * 150 + " && cd " + "e" * 150 + "; done; echo leaf > leaf"
    subprocess.run(["bash", "-c", "mkdir deep; " + chain], cwd=workspace.root, check=True)
    workspace.run("rm -rf deep")
    workspace.undo_each(1)
    found = subprocess.run(
        ["find", "deep", "-name", "leaf", "-size", "5c"], cwd=workspace.root, capture_output=True, check=True
    )
    assert found.stdout.count(b"/e") == 40
    assert workspace.box.redo().ok
    assert workspace.list_entries() == []


@pytest.mark.parametrize("workspace", ["contained"], indirect=True)
def test_v13_a_content_that_changed_during_a_question_is_not_told_as_dropped(workspace: Workspace, tmp_path: Path):
    def tamper(_: Question) -> bool:
        (staged,) = (path for path in tmp_path.rglob("1") if path.is_file() and path.read_bytes() == b"new\n")
        staged.write_bytes(b"other\n")
        return True

    with Toolbox.open(workspace.root, state=tmp_path / "state", policy="ask", approver=tamper) as box:
        reply = box.call("bash", {"command": "echo new > a"})
    assert reply.ok
    assert [each["clash"] for each in reply.data["conflicts"]] == ["changed"]
    assert not (workspace.root / "a").exists()
