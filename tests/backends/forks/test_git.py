"""Forks of git repositories: ignored files, commits, and linked worktrees."""

import itertools
import shutil
import subprocess
from pathlib import Path

import pytest

from handhold import Toolbox
from handhold.backends.forks import text_merge
from handhold.backends.forks.fork_store import FORK_NAME
from handhold.core.errors import Denied, ForkUnavailable, MergeConflict
from tests.backends.shell.forked import as_user
from tests.faults.trees import tree

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="needs git")
GIT = "git -c user.name=a -c user.email=a@example.org -c init.defaultBranch=main"


def git(folder: Path, command: str) -> str:
    done = subprocess.run(f"{GIT} {command}", cwd=folder, shell=True, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def make_repository(folder: Path) -> Path:
    folder.mkdir()
    git(folder, "init -q .")
    (folder / ".gitignore").write_text("*.log\nbuild/\n")
    (folder / "a.txt").write_text("a\n")
    (folder / "tracked.log").write_text("tracked\n")
    git(folder, "add -f .")
    git(folder, "commit -qm first")
    return folder


def sh(box: Toolbox, name: str, script: str) -> None:
    assert box.fork(name).run(["sh", "-c", f"set -e; {script}"]) == 0


def test_commits_arrive_as_refs_and_their_files_in_the_working_tree(who: str, place: Path):
    def work() -> None:
        root = make_repository(place / "work")
        head, status = git(root, "rev-parse HEAD"), git(root, "status --porcelain")
        before = tree(root)
        with Toolbox.open(root, state=place / "state") as box:
            sh(
                box,
                "try",
                f"echo b >>a.txt; {GIT} commit -qam second; {GIT} checkout -qb side; echo c >c; {GIT} add c; {GIT} commit -qm third",
            )
            assert tree(root) == before
            report = box.fork("try").merge()
            assert sorted(report.branches) == ["refs/handhold/try/main", "refs/handhold/try/side"]
            assert report.dropped
            assert git(root, "rev-parse HEAD") == head
            assert git(root, "log --format=%s refs/handhold/try/side").split() == ["third", "second", "first"]
            assert git(root, "status --porcelain").splitlines() == ["M a.txt", "?? c"]
            assert git(root, "fsck --strict --no-dangling") == ""
            assert box.undo().ok
            assert (git(root, "status --porcelain"), git(root, "for-each-ref refs/handhold")) == (status, "")

    as_user(who, work)


def merge_second_commit(box: Toolbox) -> None:
    sh(box, "try", f"echo b >>a.txt; {GIT} commit -qam second")
    box.fork("try").merge()


def test_an_undo_of_a_merge_leaves_objects_that_a_later_commit_uses(tmp_path: Path):
    root = make_repository(tmp_path / "work")
    with Toolbox.open(root, state=tmp_path / "state") as box:
        merge_second_commit(box)
        git(root, "commit -qam mine")
        assert box.undo().ok
        assert git(root, "fsck --strict --no-dangling") == ""
        assert git(root, "show HEAD:a.txt") == "a\nb"
        assert (root / "a.txt").read_text() == "a\n"


def test_a_merge_can_be_undone_after_git_packed_its_refs(tmp_path: Path):
    root = make_repository(tmp_path / "work")
    with Toolbox.open(root, state=tmp_path / "state") as box:
        merge_second_commit(box)
        git(root, "gc -q")
        assert box.undo().ok
        assert (root / "a.txt").read_text() == "a\n"
        assert git(root, "fsck --strict --no-dangling") == ""
        assert box.redo().ok
        assert (root / "a.txt").read_text() == "a\nb\n"


def test_a_merge_that_the_policy_refuses_adds_no_objects(tmp_path: Path):
    root = make_repository(tmp_path / "work")
    with Toolbox.open(root, state=tmp_path / "state") as box:
        sh(box, "try", f"echo b >>a.txt; {GIT} commit -qam second")
    before = tree(root)
    with Toolbox.open(root, state=tmp_path / "state", policy="read-only") as box, pytest.raises(Denied):
        box.forks.get("try").merge()
    assert tree(root) == before


def test_a_repacked_repository_and_a_detached_head(who: str, place: Path):
    def work() -> None:
        root = make_repository(place / "work")
        with Toolbox.open(root, state=place / "state") as box:
            sh(
                box,
                "try",
                f"{GIT} checkout -q --detach; {GIT} commit -q --allow-empty -m loose; {GIT} pack-refs --all; {GIT} gc -q",
            )
            report = box.fork("try").merge()
            assert report.branches == ["refs/handhold/try/HEAD"]
            assert git(root, "log --format=%s refs/handhold/try/HEAD").split() == ["loose", "first"]
            assert git(root, "fsck --strict --no-dangling") == ""
            assert git(root, "status --porcelain") == ""

    as_user(who, work)


def test_tags_stashes_and_settings_stay_in_the_fork_which_is_kept_for_them(who: str, place: Path):
    def work() -> None:
        root = make_repository(place / "work")
        with Toolbox.open(root, state=place / "state") as box:
            sh(box, "try", f"{GIT} tag v1; echo b >>a.txt; {GIT} stash -q; {GIT} config a.b c; echo new >new")
            report = box.fork("try").merge()
            assert (root / "new").exists()
            assert not report.dropped
            assert all(name in report.notes[0] for name in (".git/config", ".git/refs/stash", ".git/refs/tags/v1"))
            assert (git(root, "tag"), git(root, "stash list")) == ("", "")

    as_user(who, work)


def test_ignored_files_merge_only_if_asked_and_the_fork_is_kept_for_them(who: str, place: Path):
    def work() -> None:
        root = make_repository(place / "work")
        with Toolbox.open(root, state=place / "state") as box:
            sh(box, "try", "echo 1 >x.log; mkdir build; echo 2 >build/out; echo 3 >>tracked.log; echo 4 >new")
            assert "x.log" not in box.fork("try").diff()
            report = box.fork("try").merge()
            assert report.ignored == [str(root / "build/out"), str(root / "x.log")]
            assert not report.dropped
            assert not (root / "x.log").exists()
            assert not (root / "build").exists()
            assert (root / "tracked.log").read_text() == "tracked\n3\n"
            assert (root / "new").exists()
            report = box.fork("try").merge(include_ignored=True)
            assert report.dropped
            assert (root / "build/out").exists()

    as_user(who, work)


def test_a_kept_fork_brings_nothing_back_that_was_merged_before(tmp_path: Path):
    root = make_repository(tmp_path / "work")
    with Toolbox.open(root, state=tmp_path / "state") as box:
        sh(box, "try", "echo fork >>a.txt; echo new >new; rm tracked.log; echo 1 >x.log")
        assert not box.fork("try").merge().dropped
        assert box.fork("try").diff() == ""
        (root / "a.txt").write_text("a\n")
        (root / "new").unlink()
        (root / "tracked.log").write_text("again\n")
        sh(box, "try", "echo other >other")
        assert box.fork("try").merge().paths == [str(root / "other")]
        assert ((root / "a.txt").read_text(), (root / "tracked.log").read_text()) == ("a\n", "again\n")


def test_a_kept_fork_merges_what_it_changed_since(tmp_path: Path):
    root = make_repository(tmp_path / "work")
    lines = [f"{n}\n" for n in range(9)]
    (root / "a.txt").write_text("".join(lines))
    with Toolbox.open(root, state=tmp_path / "state") as box:
        sh(box, "try", "sed -i s/1/one/ a.txt; echo 1 >x.log")
        (root / "a.txt").write_text("".join([*lines, "base\n"]))
        box.fork("try").merge()
        sh(box, "try", "sed -i s/5/five/ a.txt")
        box.fork("try").merge()
        assert (root / "a.txt").read_text() == "0\none\n2\n3\n4\nfive\n6\n7\n8\nbase\n"


def test_a_merge_that_was_undone_can_be_made_again(tmp_path: Path):
    root = make_repository(tmp_path / "work")
    with Toolbox.open(root, state=tmp_path / "state") as box:
        sh(box, "try", "echo fork >>a.txt; rm tracked.log; echo 1 >x.log")
        first = box.fork("try").merge()
        sh(box, "try", "echo more >>a.txt")
        second = box.fork("try").merge()
        assert [second.paths, box.undo().ok, box.undo().ok] == [[str(root / "a.txt")], True, True]
        assert (root / "a.txt").read_text() == "a\n"
        assert "+fork\n+more\n" in box.fork("try").diff()
        assert box.fork("try").merge().paths == first.paths
        assert (root / "a.txt").read_text() == "a\nfork\nmore\n"


def test_a_fork_of_a_linked_worktree_leaves_its_repository_alone(who: str, place: Path):
    def work() -> None:
        main = make_repository(place / "main")
        git(main, "worktree add -q ../work -b topic")
        root, before = place / "work", tree(main)
        with Toolbox.open(root, state=place / "state") as box:
            sh(box, "try", f'echo b >>a.txt; {GIT} commit -qam second; test -z "$({GIT} status --porcelain)"')
            assert tree(main) == before
            report = box.fork("try").merge()
            assert (root / "a.txt").read_text() == "a\nb\n"
            assert str(main / ".git") in report.notes[0]
            assert not report.dropped
            assert tree(main) == before
            assert git(root, "log --format=%s") == "first"

    as_user(who, work)


def test_a_worktree_and_its_repository_as_two_roots(who: str, place: Path):
    def work() -> None:
        main = make_repository(place / "main")
        git(main, "worktree add -q ../work -b topic")
        root = place / "work"
        with Toolbox.open([root, main], state=place / "state") as box:
            sh(box, "try", f"echo b >>a.txt; {GIT} commit -qam second")
            report = box.fork("try").merge()
            assert report.branches == ["refs/handhold/try/topic"]
            assert git(main, "log --format=%s refs/handhold/try/topic").split() == ["second", "first"]

    as_user(who, work)


def test_without_git_texts_conflict_and_ignored_files_must_be_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    root = make_repository(tmp_path / "work")
    with Toolbox.open(root, state=tmp_path / "state") as box:
        sh(box, "try", "echo fork >>a.txt")
        monkeypatch.setattr("handhold.backends.forks.ignored_files.find_git", lambda: "")
        monkeypatch.setattr(text_merge, "find_git", lambda: "")
        with pytest.raises(ForkUnavailable, match="git is not installed"):
            box.fork("try").merge()
        (root / "a.txt").write_text("first\na\n")
        with pytest.raises(MergeConflict):
            box.fork("try").merge(include_ignored=True)
        (root / "a.txt").write_text("a\n")
        box.fork("try").merge(include_ignored=True)
        assert (root / "a.txt").read_text() == "a\nfork\n"


def test_v11_a_name_of_a_fork_is_one_of_git(tmp_path: Path):
    """Git's own rule decides which refs may be named after a fork."""
    parts = ("", "a", "..", ".", ".lock", "-", "B.lock.x")
    for name in map("".join, itertools.product(parts, repeat=3)):
        if FORK_NAME.fullmatch(name):
            command = ["git", "check-ref-format", f"refs/handhold/{name}/main"]
            assert subprocess.run(command, check=False).returncode == 0, name
    with Toolbox.open(make_repository(tmp_path / "ws"), state=tmp_path / "state", settings=False) as box:
        for name in ("a..b", "a.lock", "a."):
            with pytest.raises(ForkUnavailable):
                box.fork(name)
