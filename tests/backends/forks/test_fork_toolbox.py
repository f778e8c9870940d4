"""The tools in a fork: a toolbox as the workspace's own, in a process inside the fork."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from handhold import Toolbox, ToolboxClosed
from handhold.backends.forks import tool_process
from handhold.core.errors import ForkUnavailable
from handhold.core.policy.rules import Rule
from handhold.core.ports.approvals import Question, RunPaused
from handhold.core.results import OutputChunk, Reply
from handhold.toolbox import ForkToolbox
from tests.backends.shell.forked import as_user
from tests.faults.trees import tree


def lay(place: Path) -> Path:
    root = place / "work"
    (root / "src").mkdir(parents=True)
    (root / "a.txt").write_text("one\ntwo\n")
    (root / "src/b.txt").write_text("b\n")
    return root


def run(who: str, place: Path, work: Callable[[Toolbox, Path], None], **options: object) -> None:
    def do() -> None:
        root = lay(place)
        with Toolbox.open(root, state=place / "state", **options) as box:  # pyright: ignore[reportArgumentType]
            work(box, root)

    as_user(who, do, first=share_interpreter if who == "nobody" else None)


def share_interpreter() -> None:
    """Ours may be in a home that is closed to others: show it elsewhere."""
    shown = Path("/mnt")
    subprocess.run(["mount", "--bind", sys.base_prefix, shown], check=True)
    sys.executable = str(shown / Path(sys.executable).resolve().relative_to(sys.base_prefix))
    os.environ["PYTHONPATH"] = ":".join(path for path in sys.path if path)


def bash(fork: Toolbox, command: str) -> Reply:
    reply = fork.call("bash", {"command": command})
    assert reply.ok, reply.text
    return reply


def test_tools_and_commands_in_a_fork_change_nothing_outside_until_the_merge(who: str, place: Path):
    def work(box: Toolbox, root: Path) -> None:
        before = tree(root)
        with box.fork("try") as fork:
            assert isinstance(fork, Toolbox)
            assert (fork.dialect.name, fork.session, fork.files.roots) == ("handhold", box.session, box.files.roots)
            assert fork.specs == box.specs
            assert fork.call("edit_file", {"path": "a.txt", "old": "two", "new": "2"}).code == "UNREAD"
            assert fork.call("read_file", {"path": "a.txt"}).ok
            assert fork.call("edit_file", {"path": "a.txt", "old": "two", "new": "2"}).ok
            reply = bash(fork, "cat a.txt; rm -r src; mkdir src; echo new >src/new; mv a.txt c.txt; git init -q")
            assert "one\n2" in reply.text
            assert "cannot be undone" not in reply.text
            assert tree(root) == before
            assert [entry.call.tool for entry in fork.log()][2:] == ["edit_file", "bash"]
            assert fork.undo().ok
            assert bash(fork, "ls").text.split()[:2] == ["a.txt", "src"]
            assert fork.redo().ok
            assert "src/new" in fork.diff()
            assert "src/new" not in fork.diff(fork.log()[2])
            assert bash(fork, "sed -i s/one/ONE/ c.txt").ok
            first = fork.log()[-1]
            assert bash(fork, "sed -i s/ONE/1/ c.txt").ok
            conflict = fork.undo(first)
            assert (conflict.code, len(conflict.data["texts"])) == ("UNDO_CONFLICT", 1)
            assert fork.undo(first, take="old").ok
            assert "one" in bash(fork, "cat c.txt").text
            assert fork.merge().dropped
        assert sorted(os.listdir(root)) == [".git", "c.txt", "src"]
        assert os.listdir(root / "src") == ["new"]
        assert box.undo().ok
        assert tree(root) == before
        assert [entry.call.tool for entry in box.log()] == ["merge", "undo"]

    run(who, place, work)


def test_the_rules_are_those_of_the_workspace_and_our_own_files_are_out_of_reach(who: str, place: Path):
    rule = Rule("no b", "deny", ["read", "change"], "not this one", ["src/b.txt"], ["a.txt"], paths=["src/b.txt"])

    def work(box: Toolbox, root: Path) -> None:
        with box.fork("try") as fork:
            bash(fork, "echo 3 >a.txt")  # what it replaces is kept in the fork
            for path in ("src/b.txt", ".handhold-fork/.gitignore"):
                assert fork.call("read_file", {"path": path}).code == "DENIED"
            assert not bash(fork, "ls .handhold-fork; cat src/b.txt 2>/dev/null || true").text.startswith("b")
            assert fork.decide_command("ls")[1].verdict == box.decide_command("ls")[1].verdict

    run(who, place, work, rules=rule)


def test_an_approver_is_asked_outside(tmp_path: Path):
    asked: list[str] = []

    async def approve(question: Question) -> bool:
        asked.append(question.diff)
        return "yes" in question.diff

    root = lay(tmp_path)
    with Toolbox.open(root, state=tmp_path / "state", approver=approve) as box, box.fork("try") as fork:
        assert fork.call("write_file", {"path": "new", "content": "yes"}).ok
        assert fork.call("write_file", {"path": "other", "content": "no"}).code == "NOT_APPROVED"
        assert asyncio.run(fork.acall("write_file", {"path": "more", "content": "yes"})).ok
        assert len(asked) == 3
        fork.approver = lambda _: "perhaps"  # pyright: ignore[reportAttributeAccessIssue]
        assert fork.call("write_file", {"path": "x", "content": "yes"}).code == "APPROVER_INVALID"

        def pause(question: Question) -> bool:
            raise RunPaused(LookupError("later"))

        fork.approver = pause
        with pytest.raises(LookupError):
            fork.call("write_file", {"path": "x", "content": "yes"})
        fork.approver = None
        assert fork.call("write_file", {"path": "x", "content": "yes"}).data["approval"]
        assert sorted(os.listdir(root)) == ["a.txt", "src"]


def test_output_is_streamed_and_a_cancelled_command_leaves_nothing(tmp_path: Path):
    root = lay(tmp_path)

    async def work(fork: ForkToolbox) -> None:
        seen: list[object] = []
        async with fork.stream("bash", {"command": "echo first; sleep 0.3; echo second; echo 1 >new"}) as events:
            async for event in events:
                seen.append(event)
        assert isinstance(seen[0], OutputChunk)
        assert isinstance(seen[-1], Reply)
        call = asyncio.create_task(fork.acall("bash", {"command": "echo 1 >gone; sleep 60"}))
        await asyncio.sleep(1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(call, 10)
        reply = await fork.acall("bash", {"command": "ls"})
        assert reply.text.split()[:3] == ["a.txt", "new", "src"]

    with Toolbox.open(root, state=tmp_path / "state") as box, box.fork("try") as fork:
        asyncio.run(work(fork))


def test_an_idle_fork_has_no_process_and_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tool_process, "IDLE_SECONDS", 0.2)
    root = lay(tmp_path)
    with Toolbox.open(root, state=tmp_path / "state") as box:
        fork = box.fork("try")
        assert not fork.is_running
        bash(fork, "echo 1 >new; rm a.txt; rm -r src")
        assert fork.is_running
        deadline = time.monotonic() + 20
        while fork.is_running and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not fork.is_running
        assert len(fork.log()) == 1
        undone = fork.undo()
        assert undone.ok, undone.text
        assert fork.diff() == ""
        fork.close()
        assert not fork.is_running
        with pytest.raises(ToolboxClosed):
            fork.call("bash", {"command": "ls"})


def test_calls_from_threads_that_end(tmp_path: Path):
    """The kernel kills a process when the thread ends that started it, if asked to end it with its parent."""
    root = lay(tmp_path)
    replies: list[Reply] = []
    with Toolbox.open(root, state=tmp_path / "state") as box, box.fork("try") as fork:
        for many in (1, 4):
            threads = [
                threading.Thread(target=lambda: replies.append(fork.call("bash", {"command": "sleep 0.2; ls"})))
                for _ in range(many)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert [reply.ok for reply in replies] == [True] * 5


def test_a_fork_in_use_and_a_process_that_dies_are_errors_of_the_reply(tmp_path: Path):
    root = lay(tmp_path)
    with Toolbox.open(root, state=tmp_path / "state") as box, box.fork("try") as fork:
        ready = tmp_path / "ready"
        with box.forks.get("try").start(["sh", "-c", f"touch {ready}; exec sleep 60"]) as program:
            while not ready.exists():
                time.sleep(0.01)
            reply = fork.call("bash", {"command": "ls"})
            assert (reply.code, reply.error_source) == ("NO_FORK", "tool")
            program.process.kill()
        bash(fork, "echo 1 >new")
        threading.Timer(0.5, kill_tools).start()
        assert fork.call("bash", {"command": "sleep 30"}).code == "IO_ERROR"
        assert bash(fork, "cat new").text.startswith("1")
        with pytest.raises(ForkUnavailable):
            fork.fork("inner")


def kill_tools() -> None:
    """Bubblewrap is our only child, and ends with everything in it."""
    children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    for pid in {pid for each in children for pid in each.read_text().split()}:
        if b"fork_tools" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(int(pid), 9)


def test_closing_the_workspace_ends_the_tools_of_its_forks(tmp_path: Path):
    root = lay(tmp_path)
    with Toolbox.open(root, state=tmp_path / "state") as box:
        fork = box.fork("try")
        bash(fork, "echo 1 >new")
    with Toolbox.open(root, state=tmp_path / "state") as box:
        assert not box.forks.get("try").is_running
        assert box.forks.get("try").merge().dropped
        assert (root / "new").exists()
