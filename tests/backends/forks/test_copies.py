"""Forks where there can be no overlay: copies, at the workspace's own path if something can be mounted, else elsewhere."""

import os
import subprocess
from pathlib import Path

import pytest

from handhold import Toolbox, forks
from handhold.backends.forks import fork_mount
from handhold.core.errors import ForkUnavailable, MergeConflict
from tests.faults.trees import tree

TEXT = "".join(f"line {n}\n" for n in range(1, 10))


@pytest.fixture(params=["bind", ""], ids=["mounted", "elsewhere"])
def support(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    for module in (forks, fork_mount):
        monkeypatch.setattr(module, "find_mount_support", lambda _: request.param)
    return request.param


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    (root / "src").mkdir(parents=True)
    (root / "old/deep").mkdir(parents=True)
    (root / "src/a.txt").write_text(TEXT)
    (root / "b.txt").write_text("b\n")
    (root / "old/deep/two").write_text("2\n")
    os.link(root / "b.txt", root / "linked")
    return root


def test_a_copy_is_merged_and_undone_like_any_fork(
    root: Path, tmp_path: Path, support: str, monkeypatch: pytest.MonkeyPatch
):
    said: list[str] = []
    monkeypatch.setattr(forks, "warn_once", lambda area, message: said.append(message))
    before = tree(root)
    with Toolbox.open(root, state=tmp_path / "state") as box:
        fork = box.fork("try")
        assert "4 files" in said[0]
        assert ("its own path" in said[0]) == (support == "bind")
        shown = fork.roots[0]
        assert (shown == str(root)) == (support == "bind")
        script = "sed -i s/2$/two/ src/a.txt; rm -r old; mkdir old; echo 3 >old/three; ln -s src link; chmod 700 src; pwd >where"
        assert fork.run(["sh", "-c", f"set -e; {script}"]) == 0
        assert tree(root) == before
        assert "+line two" in fork.diff()
        (root / "src/a.txt").write_text(TEXT.replace("line 8", "line eight"))
        changed = tree(root)
        assert fork.call("write_file", {"path": "tool.txt", "content": "x"}).ok
        assert fork.call("bash", {"command": "echo more >>tool.txt"}).ok
        assert fork.undo().ok
        with pytest.raises(ForkUnavailable):
            fork.run_contained(["true"])
        assert fork.merge().dropped
        assert (root / "src/a.txt").read_text() == TEXT.replace("line 2", "line two").replace("line 8", "line eight")
        assert (root / "where").read_text() == f"{shown}\n"
        assert (root / "src").stat().st_mode & 0o777 == 0o700
        assert (root / "tool.txt").read_text() == "x"
        assert os.listdir(root / "old") == ["three"]
        assert not (root / ".handhold-fork").exists()
        assert box.undo().ok
        assert tree(root) == changed
        left = [path for path in (tmp_path / "state").rglob("*") if "fork" in path.name]
        assert [path.name for path in left if path.name != "fork-marker"] == []


def test_what_changed_since_it_was_copied_is_a_conflict_and_what_the_copy_did_not_touch_stays(
    root: Path, tmp_path: Path, support: str
):
    with Toolbox.open(root, state=tmp_path / "state") as box:
        fork = box.fork("try")
        (root / "src/a.txt").write_text(TEXT.replace("line 8", "line eight"))  # before the fork changes it
        (root / "old/deep/two").write_text("other\n")
        (root / "new").write_text("of the workspace\n")
        assert fork.run(["sh", "-c", "sed -i s/2$/two/ src/a.txt; test ! -e new"]) == 0
        before = tree(root)
        with pytest.raises(MergeConflict):
            fork.merge()
        assert tree(root) == before
        fork.merge(take="fork")
        assert (root / "old/deep/two").read_text() == "other\n"
        assert (root / "new").exists()
        assert "two" in (root / "src/a.txt").read_text()


def test_commits_in_a_copy_arrive_as_refs(root: Path, tmp_path: Path, support: str):
    git = "git -c user.name=x -c user.email=x@y.z"
    subprocess.run(["sh", "-c", f"git init -q; git add -A; {git} commit -qm first"], cwd=root, check=True)
    with Toolbox.open(root, state=tmp_path / "state") as box:
        assert box.fork("try").run(["sh", "-c", f"echo c >>b.txt; {git} commit -qam second"]) == 0
        report = box.fork("try").merge()
        shown = subprocess.run(
            ["git", "log", "--format=%s", report.branches[0]], cwd=root, capture_output=True, text=True, check=True
        )
        assert shown.stdout.split() == ["second", "first"]


def test_a_fork_elsewhere_whose_repository_is_outside_is_refused(root: Path, tmp_path: Path, support: str):
    git = "git -c user.name=x -c user.email=x@y.z"
    script = f"git init -q; git add -A; {git} commit -qm first; git worktree add -q ../tree -b topic"
    subprocess.run(["sh", "-c", script], cwd=root, check=True)
    with Toolbox.open(tmp_path / "tree", state=tmp_path / "state") as box:
        if support:
            assert box.fork("try").run(["sh", "-c", f"echo c >>b.txt; {git} commit -qam second"]) == 0
        else:
            with pytest.raises(ForkUnavailable, match="repository is outside"):
                box.fork("try")
    log = subprocess.run(["git", "log", "--all", "--format=%s"], cwd=root, capture_output=True, text=True, check=True)
    assert log.stdout.split() == ["first"]
