"""A workspace that is a linked worktree of a repository elsewhere."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from handhold import Toolbox
from handhold.backends.shell.worktrees import find_linked_repository
from tests.suites.machine import has_shadows

needs_shadow = pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")


@pytest.fixture
def main(tmp_path: Path) -> Path:
    """A repository, in a folder that commands do not see; its worktree is `tree`, beside it."""
    main = tmp_path / "main"
    main.mkdir()
    script = (
        "git init -qb main; git config user.name a; git config user.email b; echo 1 >f; git add f; git commit -qm one"
    )
    subprocess.run(["bash", "-ec", f"{script}; git worktree add -q -b side ../tree"], cwd=main, check=True)
    return main


def git(folder: Path, *words: str) -> str:
    words = ("--no-optional-locks", *words)  # a person who refreshes the index has changed it
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout


@needs_shadow
def test_e7_git_reads_the_repository_of_a_worktree_and_the_reply_says_how_to_commit(main: Path, tmp_path: Path):
    with Toolbox.open(tmp_path / "tree", state=tmp_path / "state") as box:
        looked = box.call("bash", {"command": "echo 2 >f; git log --format=%s && git status -s && ! cat ../main/f"})
        assert looked.text.startswith("one\n M f\n")
        failed = box.call("bash", {"command": "git commit -qam two"})
        assert failed.data["exit_status"] != 0
        assert f"--root {main}/.git" in failed.text
    assert git(main, "log", "--all", "--format=%s") == "one\n"


@needs_shadow
def test_e7_with_the_repository_as_a_second_root_commits_work_and_are_undone(main: Path, tmp_path: Path):
    tree = tmp_path / "tree"
    with Toolbox.open([tree, main / ".git"], state=tmp_path / "state") as box:
        assert box.call("bash", {"command": "echo 2 >f; git commit -qam two; git switch -qc other"}).status == "success"
        assert git(tree, "log", "--format=%s") == "two\none\n"
        assert git(tree, "status", "-s") == ""
        for place in ("hooks/pre-commit", "info/attributes", "worktrees/tree/commondir"):
            refused = box.call("bash", {"command": f"echo 1 >{main}/.git/{place}"})
            assert refused.status == "error", place
        assert box.undo().status == "success"
    assert git(tree, "log", "--format=%s") == "one\n"
    assert git(tree, "branch", "--show-current") == "side\n"
    assert git(tree, "status", "-s") == ""
    assert git(main, "fsck", "--strict") == ""


def test_e7_a_worktree_is_known_by_both_its_pointers(main: Path, tmp_path: Path):
    assert find_linked_repository(str(tmp_path / "tree")) == f"{main}/.git"
    assert find_linked_repository(str(main)) == ""
    assert find_linked_repository(str(tmp_path)) == ""


def other_root(main: Path, tree: Path) -> None:
    (main / ".git/worktrees/tree/gitdir").write_text(f"{main.parent}/elsewhere/.git\n")


def plain_folder(main: Path, tree: Path) -> None:
    (tree / ".git").write_text(f"gitdir: {secret(main)}\n")


def folder_of_worktrees(main: Path, tree: Path) -> None:
    """What a repository could be taken for, but for the pointer back."""
    (secret(main) / "worktrees/tree").mkdir(parents=True)
    (tree / ".git").write_text(f"gitdir: {secret(main)}/worktrees/tree\n")


def common_elsewhere(main: Path, tree: Path) -> None:
    (main / ".git/worktrees/tree/commondir").write_text(f"{secret(main)}\n")


def no_repository(main: Path, tree: Path) -> None:
    (main / ".git/HEAD").unlink()


def by_a_link(main: Path, tree: Path) -> None:
    os.symlink(main, main.parent / "link")
    (tree / ".git").write_text(f"gitdir: {main.parent}/link/.git/worktrees/tree\n")


def pointer_is_a_link(main: Path, tree: Path) -> None:
    os.rename(tree / ".git", main.parent / "pointer")
    os.symlink(main.parent / "pointer", tree / ".git")


def pointer_is_a_pipe(main: Path, tree: Path) -> None:
    (tree / ".git").unlink()
    os.mkfifo(tree / ".git")


def more_lines(main: Path, tree: Path) -> None:
    (tree / ".git").write_text((tree / ".git").read_text() + "gitdir: /etc\n")


def endless(main: Path, tree: Path) -> None:
    (tree / ".git").write_text("gitdir: " + "x/../" * 10_000 + f"{main}/.git/worktrees/tree\n")


def secret(main: Path) -> Path:
    folder = main.parent / "secret"
    folder.mkdir(exist_ok=True)
    (folder / "key").write_text("private\n")
    return folder


@pytest.mark.parametrize(
    "lie",
    [
        *(other_root, plain_folder, folder_of_worktrees, common_elsewhere, no_repository, by_a_link),
        *(pointer_is_a_link, pointer_is_a_pipe, more_lines, endless),
    ],
)
def test_e7_a_pointer_that_lies_shows_no_folder(main: Path, tmp_path: Path, lie: Callable[[Path, Path], None]):
    lie(main, tmp_path / "tree")
    assert find_linked_repository(str(tmp_path / "tree")) == ""


@needs_shadow
def test_e7_a_hostile_pointer_shows_nothing_to_commands(main: Path, tmp_path: Path):
    folder_of_worktrees(main, tmp_path / "tree")
    with Toolbox.open(tmp_path / "tree", state=tmp_path / "state", policy="open") as box:
        said = box.call("bash", {"command": f"cat {tmp_path}/secret/key; ls {main}"}).text
    assert "private" not in said
    assert said.count("No such file") == 2
