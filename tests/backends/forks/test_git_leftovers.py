"""What a merge does not take out of a repository: it is named, and the fork is kept for it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from handhold import Toolbox
from handhold.backends.forks.root_merge import MergeReport
from tests.backends.forks.test_git import GIT, git, make_repository, sh

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="needs git")
FILE_PROTOCOL = "-c protocol.file.allow=always"


def merge(place: Path, script: str) -> MergeReport:
    with Toolbox.open(place / "work", state=place / "state") as box:
        sh(box, "try", script)
        return box.forks.get("try").merge()


LEFT = {  # what the fork does, and what the note names
    "packed tags and stashes": (
        f"{GIT} tag v1; echo b >>a.txt; {GIT} stash -q; {GIT} pack-refs --all; {GIT} gc -q",
        (".git/refs/stash", ".git/refs/tags/v1"),
    ),
    "a worktree": (
        f"{GIT} worktree add -q --detach wt",
        (".git/worktrees/wt/gitdir", "wt/.git"),
    ),
    "files of other programs": (
        "mkdir -p .git/lfs/objects .git/annex; echo 1 >.git/lfs/objects/o; echo 2 >.git/annex/index",
        (".git/lfs/objects/o", ".git/annex/index"),
    ),
    "a rebase": (
        f"{GIT} commit -q --allow-empty -m x; {GIT} rebase -q --exec false HEAD~1 >/dev/null 2>&1 || true",
        (".git/rebase-merge/",),
    ),
    "what was only staged": (f"echo staged >a.txt; {GIT} add a.txt; echo a >a.txt", ("a.txt as it was staged",)),
    "a changed hook": ("mkdir -p .git/hooks; echo true >.git/hooks/pre-commit", (".git/hooks/pre-commit",)),
}


@pytest.mark.parametrize("how", LEFT)
def test_what_is_not_merged_is_named_and_the_fork_is_kept(tmp_path: Path, how: str):
    root, (script, names) = make_repository(tmp_path / "work"), LEFT[how]
    report = merge(tmp_path, f"{script}; echo new >new")
    assert not report.dropped
    assert all(name in "; ".join(report.notes) for name in names)
    assert (root / "new").exists()
    assert git(root, "fsck --strict --no-dangling") == ""
    assert not (root / "wt/.git").exists()


def test_a_repository_that_was_removed_is_named(tmp_path: Path):
    root = make_repository(tmp_path / "work")
    with Toolbox.open(root, state=tmp_path / "state") as box:
        sh(box, "try", "rm -rf .git")
        report = box.forks.get("try").merge(include_ignored=True)
    assert (report.notes[0].startswith(".git: "), report.dropped) == (True, False)
    assert git(root, "status --porcelain") == ""


HARMLESS = {
    "a commit and a look": f"{GIT} commit -q --allow-empty -m x; {GIT} status; {GIT} gc -q",
    "staged as it is": f"echo b >>a.txt; echo new >new; ln -s new link; {GIT} add .; {GIT} rm -q --cached tracked.log",
    "a branch and back": f"{GIT} checkout -q -b side; {GIT} checkout -q main; {GIT} stash list",
    "a stash that was popped": f"echo b >>a.txt; {GIT} stash -q; {GIT} stash pop -q",
    "tags that were packed": f"{GIT} pack-refs --all",
}


@pytest.mark.parametrize("how", HARMLESS)
def test_what_git_makes_by_itself_keeps_no_fork(tmp_path: Path, how: str):
    root = make_repository(tmp_path / "work")
    git(root, "tag before")
    report = merge(tmp_path, HARMLESS[how])
    assert (report.notes, report.dropped) == ([], True)


def test_commits_that_would_be_broken_stay_in_the_fork(tmp_path: Path):
    root, other = make_repository(tmp_path / "work"), make_repository(tmp_path / "other")
    git(other, "commit -q --allow-empty -m second")
    report = merge(tmp_path, f"{GIT} {FILE_PROTOCOL} fetch -q --depth 1 file://{other}; {GIT} branch new FETCH_HEAD")
    assert (report.branches, report.dropped) == ([], False)
    assert ".git/shallow" in report.notes[0]
    assert git(root, "fsck --strict") == ""


def test_a_worktree_that_is_on_no_branch_has_a_ref(tmp_path: Path):
    root = make_repository(tmp_path / "work")
    git(root, "worktree add -q --detach wt")
    report = merge(tmp_path, f"cd wt; {GIT} commit -q --allow-empty -m in-wt")
    assert report.branches == ["refs/handhold/try/worktrees/wt/HEAD"]
    assert git(root, "log -1 --format=%s refs/handhold/try/worktrees/wt/HEAD") == "in-wt"


@pytest.mark.parametrize("packed", [False, True])
def test_a_ref_of_an_earlier_fork_of_the_same_name_is_kept(tmp_path: Path, packed: bool):
    root = make_repository(tmp_path / "work")
    first = merge(tmp_path, f"{GIT} checkout -q -b a; {GIT} commit -q --allow-empty -m first-a").branches
    if packed:
        git(root, "pack-refs --all")
    second = merge(tmp_path, f"{GIT} checkout -q -b a; {GIT} commit -q --allow-empty -m second-a").branches
    nested = merge(tmp_path, f"{GIT} checkout -q -b a/b; {GIT} commit -q --allow-empty -m third").branches
    assert (first, second, nested) == (
        ["refs/handhold/try/a"],
        ["refs/handhold/try-2/a"],
        ["refs/handhold/try-3/a/b"],
    )
    found = [git(root, f"log -1 --format=%s {ref}") for ref in (*first, *second, *nested)]
    assert found == ["first-a", "second-a", "third"]


def test_a_kept_fork_moves_its_own_ref_on(tmp_path: Path):
    root = make_repository(tmp_path / "work")
    for message in ("one", "two"):
        script = f"{GIT} commit -q --allow-empty -m {message}; echo 1 >x.log"
        assert merge(tmp_path, script).branches == ["refs/handhold/try/main"]
        assert git(root, "log -1 --format=%s refs/handhold/try/main") == message


def test_a_submodule_that_was_added_is_merged_without_its_pointer(tmp_path: Path):
    root, other = make_repository(tmp_path / "work"), make_repository(tmp_path / "other")
    report = merge(tmp_path, f"{GIT} {FILE_PROTOCOL} submodule --quiet add file://{other} sub 2>/dev/null")
    assert "sub/.git" in "; ".join(report.notes)
    assert not report.dropped
    assert (root / "sub/a.txt").exists()
    assert not (root / "sub/.git").exists()
    assert "sub" in git(root, "status --porcelain")


def test_what_a_repository_ignores_stays_ignored_in_a_repository_inside(tmp_path: Path):
    root = make_repository(tmp_path / "work")
    report = merge(
        tmp_path, f"mkdir -p build/inner kept; {GIT} init -q build/inner; echo 1 >build/inner/f; {GIT} init -q kept"
    )
    assert str(root / "build/inner/f") in report.ignored
    assert not (root / "build").exists()
    assert (root / "kept/.git/HEAD").exists()


def test_a_new_repository_is_merged_whole_whatever_names_are_ignored(tmp_path: Path):
    (tmp_path / "work").mkdir()
    script = (
        f"{GIT} init -q new; cd new; printf 'logs\nobjects\nHEAD\n' >.gitignore; {GIT} add .; {GIT} commit -qm first"
    )
    assert merge(tmp_path, script).dropped
    assert git(tmp_path / "work/new", "log --format=%s") == "first"
    assert git(tmp_path / "work/new", "fsck --strict") == ""


def test_names_with_a_colon_mean_nothing_to_git(tmp_path: Path):
    root = make_repository(tmp_path / "work")
    names = [":foo", ":!x", ":(top)y", ":z.log", "*", "-v"]
    script = "; ".join(f"echo 1 >'./{name}'" for name in names)
    assert merge(tmp_path, script).ignored == [str(root / ":z.log")]
    assert [name for name in names if (root / name).exists()] == [":foo", ":!x", ":(top)y", "*", "-v"]


def test_a_git_folder_without_a_head(tmp_path: Path):
    root = make_repository(tmp_path / "work")
    (root / "odd/.git").mkdir(parents=True)
    (root / "odd/.git/config").write_text("")
    report = merge(tmp_path, f"cd odd; echo 1 >.git/config; {GIT} -C .. branch new")
    assert "odd/.git/config" in "; ".join(report.notes)
    assert subprocess.run(["git", "-C", root, "rev-parse", "-q", report.branches[0]], check=True, capture_output=True)
