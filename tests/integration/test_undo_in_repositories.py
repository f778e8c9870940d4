"""An undo takes nothing from a git repository that others need."""

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from handhold import Toolbox
from handhold.backends.files.workspace import Workspace
from handhold.core.errors import PermissionDenied
from handhold.core.facts import FolderEntry
from tests.suites.machine import has_shadows

pytestmark = pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")


class Repository:
    def __init__(self, root: Path, box: Toolbox) -> None:
        self.root, self.box = root, box

    def run(self, command: str) -> None:
        """As the agent."""
        assert self.box.call("bash", {"command": command}).ok

    def git(self, *arguments: str) -> str:
        """As somebody else."""
        done = subprocess.run(["git", *arguments], cwd=self.root, capture_output=True, text=True, check=True)
        return done.stdout

    def undo(self) -> str:
        reply = self.box.undo()
        assert reply.ok, reply.text
        assert self.git("fsck", "--no-dangling") == ""
        return reply.text

    def list_objects(self) -> list[str]:
        return sorted(str(path) for path in (self.root / ".git/objects").rglob("*"))


@pytest.fixture(params=["contained", "brokered"])
def repository(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "n")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "n@example.com")
    root = tmp_path / "ws"
    root.mkdir()
    with Toolbox.open(root, state=tmp_path / "state", policy="open", settings=False, shell=request.param) as box:
        made = Repository(root, box)
        made.git("init", "-q")
        (root / ".git/config").open("a").write("[user]\nname = n\nemail = n@example.com\n")
        (root / "a").write_text("one\n")
        made.git("add", "a")
        made.git("commit", "-qm", "one")
        yield made


def test_a_branch_that_somebody_made_of_an_undone_commit_stays_whole(repository: Repository):
    repository.run("echo two > a; git commit -qam two")
    repository.git("branch", "keep")
    assert "Git objects stay in .git" in repository.undo()
    assert (repository.root / "a").read_text() == "one\n"
    assert repository.git("show", "keep:a") == "two\n"
    assert repository.git("log", "--format=%s") == "one\n"


def test_what_somebody_merged_after_an_undone_fetch_stays_whole(repository: Repository, tmp_path: Path):
    repository.run(
        f"git clone -q . {repository.root}/other && cd other && echo two > b && git add b && git commit -qm two"
    )
    repository.run("git fetch -q ./other HEAD:refs/remotes/other/new")
    repository.git("merge", "-q", "--ff-only", "refs/remotes/other/new")
    repository.undo()
    assert repository.git("show", "HEAD:b") == "two\n"


def test_without_others_the_objects_go_as_well(repository: Repository):
    before = repository.list_objects()
    repository.run("echo two > a; git commit -qam two")
    repository.run("echo three > a; git commit -qam three; git tag v3")
    assert repository.list_objects() != before
    assert "Git objects" not in repository.undo()
    assert "Git objects" not in repository.undo()
    assert repository.list_objects() == before


def test_the_first_commit_is_undone_with_its_objects(repository: Repository):
    repository.git("update-ref", "-d", "HEAD")
    shutil.rmtree(repository.root / ".git/logs")
    before = repository.list_objects()
    repository.run("echo two > a; git commit -qam two")
    assert "Git objects" not in repository.undo()
    assert repository.list_objects() == before


def test_links_in_the_git_folder_that_lead_outside_do_not_keep_a_commit_from_being_undone(repository: Repository):
    (repository.root / ".git/hooks/outside").symlink_to("/etc/hostname")
    (repository.root / ".git/loop").symlink_to("loop")
    before = repository.list_objects()
    repository.run("echo two > a; git commit -qam two")
    repository.undo()
    assert repository.list_objects() == before


def test_objects_stay_if_nobody_can_tell_whether_they_are_needed(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
):
    repository.run("echo two > a; git commit -qam two")
    real = Workspace.list_folder

    def list_folder(files: Workspace, path: str) -> Sequence[FolderEntry]:
        if path.endswith("/refs/tags"):
            raise PermissionDenied(path, "closed")
        return real(files, path)

    monkeypatch.setattr(Workspace, "list_folder", list_folder)
    assert "Git objects stay in .git" in repository.undo()


def test_a_folder_called_objects_is_no_repository(repository: Repository):
    (repository.root / "src").mkdir()
    repository.run("mkdir -p src/objects/ab; echo new > src/objects/ab/x")
    (repository.root / "src/HEAD").write_text("somebody's\n")
    assert "Git objects" not in repository.undo()
    assert not (repository.root / "src/objects").exists()


def test_an_undo_that_would_only_remove_an_object_leaves_it(repository: Repository):
    repository.run("git hash-object -w --stdin < /dev/null > /dev/null")
    repository.git("tag", "empty", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391")
    repository.undo()
    assert repository.git("cat-file", "-t", "empty") == "blob\n"
    assert repository.box.redo().ok
