"""A workspace that lies below the top of a git repository."""

import subprocess
from pathlib import Path

import pytest

from handhold import Toolbox
from tests.suites.machine import has_shadows

pytestmark = pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")


def test_e6_git_finds_the_repository_around_the_root_and_changes_nothing_there(tmp_path: Path):
    top = tmp_path / "repo"
    (top / "web/src").mkdir(parents=True)
    (top / "web/src/a.js").write_text("1\n")
    (top / "private").write_text("of the rest of the repository\n")
    git = ["git", "-C", top, "-c", "user.name=a", "-c", "user.email=b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "web"], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)
    with Toolbox.open(top / "web", state=tmp_path / "state", policy="open", hidden=[top / ".git"]) as box:
        assert "not a git repository" in box.call("bash", {"command": "git log; ls ../.git"}).text
    with Toolbox.open(top / "web", state=tmp_path / "state", policy="open") as box:

        def run(command: str) -> str:
            return box.call("bash", {"command": command}).text

        assert run("cd src && git log --format=%s && git rev-parse --show-prefix").startswith("first\nweb/src/\n")
        run("echo 2 >src/a.js")
        assert run("git diff --name-only -- .").startswith("web/src/a.js\n")
        assert "No such file" in run("cat ../private")
        refused = box.call("bash", {"command": "git add src/a.js"})
        assert "Read-only file system" in refused.text
        assert refused.data["files"] == []
    assert subprocess.run([*git, "diff", "--cached", "--quiet"], check=False).returncode == 0
