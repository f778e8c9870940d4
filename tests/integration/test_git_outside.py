"""Row 35 of the nasties: a `.git` that leads out of the workspace, to settings that name programs.

Git heeds them wherever it runs. So it runs in the sandbox only, where it cannot write out there; whatever we do
ourselves, in the file tools, the searches and the journal, never runs it on a repository.
"""

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from handhold import Reply, Target, Toolbox
from handhold.backends.files.workspace import Workspace
from handhold.backends.search import ENGINES, DiskSearch
from tests.backends.shell.forked import as_user
from tests.backends.shell.shadows import seen
from tests.suites.machine import has_shadows

pytestmark = pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")

GIT = (
    "git",
    "-c",
    "user.name=a",
    "-c",
    "user.email=a@b",
    "-c",
    "init.defaultBranch=main",
    "-c",
    "protocol.file.allow=always",
)
LEADS = ("worktree", "submodule")


@dataclass
class Ground:
    """A workspace whose `.git`, or that of a folder in it, is a file that names a folder outside."""

    place: Path
    lead: str

    @property
    def ws(self) -> Path:
        return self.place / "ws"

    @property
    def tree(self) -> Path:
        """Where the `.git` is."""
        return self.ws / "sub" if self.lead == "submodule" else self.ws

    @property
    def outside(self) -> Path:
        return self.place / "outside"

    @property
    def ran(self) -> Path:
        return self.outside / "ran"

    def laid(self) -> None:
        origin = self.place / "origin"
        for folder in (self.outside, origin):
            folder.mkdir()
        git(origin, "init", "--quiet", ".")
        (origin / "a.txt").write_text("needle\n")
        (origin / ".gitattributes").write_text("*.txt diff=x filter=x\n")
        git(origin, "add", ".")
        git(origin, "commit", "--quiet", "-m", "1")
        self.ws.mkdir()
        at = self.outside / "repository"
        if self.lead == "worktree":
            git(self.place, "clone", "--quiet", "--bare", str(origin), str(at))
            git(at, "worktree", "add", "--quiet", str(self.tree), "main")
        else:  # as git lays out a submodule, but for where its own folder is
            git(self.place, "clone", "--quiet", f"--separate-git-dir={at}", str(origin), str(self.tree))
        assert (self.tree / ".git").read_text().startswith(f"gitdir: {at}")
        (self.tree / "b.txt").write_text("needle too\n")

    def set_a_trap(self) -> None:
        """Every setting that names a program, and every hook: each leaves a trace, outside if it can and here."""
        script = self.outside / "script"
        script.write_text(f'#!/bin/sh\necho "$0 $*" >>{self.ran}\necho x >>{self.ws}/ran\ncat\n')
        script.chmod(0o755)
        at = self.outside / "repository"
        settings = [
            *(("core", "fsmonitor"), ("core", "pager"), ("core", "editor"), ("core", "sshCommand"), ("pager", "grep")),
            *(('diff "x"', "textconv"), ('filter "x"', "clean"), ('filter "x"', "smudge"), ("diff", "external")),
        ]
        with open(at / "config", "a") as config:
            config.writelines(f"[{section}]\n\t{key} = {script}\n" for section, key in settings)
        for hook in ("pre-commit", "post-checkout", "post-index-change", "reference-transaction", "post-commit"):
            (at / "hooks" / hook).unlink(missing_ok=True)
            (at / "hooks" / hook).symlink_to(script)

    def opened(self, **options: Any) -> Toolbox:
        """The outside can be read: else git would not find what it is led to."""
        return Toolbox.open(
            self.ws, state=self.place / "state", session="s", policy="open", read_only=[self.outside], **options
        )


def git(folder: Path, *words: str) -> None:
    subprocess.run([*GIT, *words], cwd=folder, check=True, capture_output=True)


def both(test: Callable[[Ground], None]) -> Callable[..., None]:
    """A worktree's and a submodule's, as root and as a plain user."""

    @pytest.mark.parametrize("lead", LEADS)
    def wrapped(who: str, place: Path, lead: str) -> None:
        def work() -> None:
            ground = Ground(place, lead)
            ground.laid()
            test(ground)

        as_user(who, work)

    wrapped.__name__, wrapped.__doc__, wrapped.__module__ = test.__name__, test.__doc__, test.__module__
    return wrapped


def done(reply: Reply) -> Reply:
    assert reply.status in ("success", "partial"), reply
    return reply


@both
def test_nasty_35_git_in_a_command_reads_what_it_is_led_to_and_cannot_write_there(ground: Ground):
    before = seen(ground.outside)
    folder = f"cd {ground.tree} && "
    with ground.opened() as box:
        status = done(box.call("bash", {"command": folder + "git status --short && git log --oneline | wc -l"}))
        assert status.data["exit_status"] == 0
        assert status.text.startswith("?? b.txt\n1\n")
        for command in (
            "git add b.txt",
            "git -c user.name=a -c user.email=a@b commit -a --allow-empty -m 2",
            "git checkout -b other",
            "git config core.fsmonitor true",
            "git gc --prune=now",
            f"echo x >{ground.outside}/repository/hooks/pre-commit",
            f"rm -rf {ground.outside}/repository",
        ):
            reply = done(box.call("bash", {"command": folder + command}))
            assert reply.data["exit_status"] != 0, (command, reply.text)
            assert seen(ground.outside) == before, command


@both
def test_nasty_35_where_a_git_file_leads_counts_only_after_a_question(ground: Ground):
    leads = (ground.tree / ".git").read_text()
    with ground.opened() as box:
        reply = box.call("bash", {"command": f"echo gitdir: /elsewhere >{ground.tree}/.git"})
        assert reply.code == "NOT_APPROVED"
        box.call("read_file", {"path": f"{ground.tree}/.git"})
        assert box.call("write_file", {"path": f"{ground.tree}/.git", "content": "x"}).code == "NOT_APPROVED"
    assert (ground.tree / ".git").read_text() == leads


@both
def test_nasty_35_no_tool_of_ours_runs_what_a_repository_names(ground: Ground):
    ground.set_a_trap()
    way = os.path.relpath(ground.tree, ground.ws)
    for engine in ENGINES:
        with ground.opened() as box:
            assert isinstance(box.files, Workspace)
            box.searcher = DiskSearch(box.files, engines=[engine])
            for mode in ("content", "files_with_matches", "count"):
                assert "a.txt" in done(box.call("grep", {"pattern": "needle", "mode": mode})).text
            done(box.call("glob", {"pattern": "**/*.txt"}))
            done(box.call("list_files", {"path": "."}))
            done(box.call("read_file", {"path": f"{way}/a.txt"}))
            done(box.call("edit_file", {"path": f"{way}/a.txt", "old_string": "needle", "new_string": "needles"}))
            done(box.call("write_file", {"path": f"{way}/{engine}.txt", "content": "x\n"}))
            done(box.call("bash", {"command": f"rm {ground.tree}/a.txt"}))  # and what we do with what it did
            assert box.diff()
            for verb in (box.undo, box.redo, box.undo):
                done(verb())
            done(box.undo(Target.session()))
            assert box.log()
    assert not ground.ran.exists()
    assert not (ground.ws / "ran").exists()


@both
def test_nasty_35_in_the_sandbox_what_a_repository_names_runs_and_reaches_nothing_outside(ground: Ground):
    ground.set_a_trap()
    before, here = seen(ground.outside), seen(ground.ws)
    with ground.opened() as box:
        reply = done(
            box.call("bash", {"command": f"cd {ground.tree} && git status; git diff | cat; git checkout -b x"})
        )
        assert "ran" in [each["path"] for each in reply.data["files"]]  # it did run, and that counts like all else
        assert seen(ground.outside) == before
        done(box.undo())
    assert seen(ground.ws) == here
    subprocess.run(["git", "status"], cwd=ground.tree, check=False, capture_output=True)
    assert ground.ran.exists()  # the trap was set: outside, it would have run
