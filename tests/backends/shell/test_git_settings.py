"""Which of the user's git settings a command sees."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold import Toolbox
from handhold.backends.shell import git_settings
from handhold.backends.shell.git_settings import filter_safe_settings, format_setting
from handhold.backends.shell.sandbox import is_coverable
from handhold.backends.shell.sandbox_support import list_overlaid_folders
from tests.suites.machine import has_shadows

SETTINGS = """
[user]
	name = Ann \\"A\\" Lee
	email = ann@example.org
	signingKey = ABCD
[init]
	defaultBranch = trunk
[alias]
	last = log -1 --format=%an
	shout = "!echo loud"
[core]
	excludesFile = {excludes}
	hooksPath = /evil
	sshCommand = run-me
	pager = less
[filter "upper"]
	clean = tr a-z A-Z
	smudge = tr A-Z a-z
	required
[filter "absent"]
	clean = no-such-program-here
	required = true
[credential]
	helper = store
[commit]
	gpgSign = true
[url "https://token@host/"]
	insteadOf = https://host/
"""


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "excludes").write_text("*.scratch\n")
    (tmp_path / "gitconfig").write_text(SETTINGS.format(excludes=tmp_path / "excludes"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    cached = (git_settings.read_user_settings, git_settings.build_user_settings, git_settings.read_git_excludes)
    for each in cached:
        each.cache_clear()
    yield
    for each in cached:
        each.cache_clear()


@pytest.mark.usefixtures("user")
def test_e11_what_is_safe_is_carried_over_and_nothing_else():
    names = {name for name, _ in filter_safe_settings(git_settings.read_user_settings(), lambda name: name == "tr")}
    assert names == {
        *("user.name", "user.email", "init.defaultbranch", "alias.last", "alias.shout"),
        *("filter.upper.clean", "filter.upper.smudge", "filter.upper.required"),
    }


@pytest.mark.usefixtures("user")
@pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")
def test_e11_git_works_as_the_user_has_set_it_up(tmp_path: Path):
    ws = tmp_path / "ws"
    ws.mkdir()
    (ws / ".gitattributes").write_text("*.txt filter=upper\n")
    (ws / "a.txt").write_text("hello\n")
    (ws / "b.scratch").write_text("\n")
    with Toolbox.open(ws, state=tmp_path / "state", policy="open") as box:

        def run(command: str) -> str:
            reply = box.call("bash", {"command": command})
            assert reply.data["exit_status"] == 0, reply.text
            return reply.text

        run("git init -q && git add -A && git commit -qm first")
        assert run("git last; git shout; git branch --show-current").startswith('Ann "A" Lee\nloud\ntrunk\n')
        assert run("git ls-files; git cat-file -p :a.txt").startswith(".gitattributes\na.txt\nHELLO\n")
        assert run("git config --list; env").count("token") == 0
        if is_coverable(git_settings.SYSTEM_CONFIG, can_create="/etc" in list_overlaid_folders()):
            assert run("env -u GIT_CONFIG_SYSTEM git config init.defaultBranch").startswith("trunk\n")


@given(st.lists(st.tuples(st.from_regex(r"alias\.[a-z][a-z0-9-]{0,8}", fullmatch=True), st.text(max_size=20))))
def test_e11_git_reads_every_value_as_it_was(settings: list[tuple[str, str]]):
    settings = [(name, value.replace("\0", "").replace("\r", "")) for name, value in settings]
    settings = [(name, value) for name, value in settings if value.encode("utf-8", "ignore").decode() == value]
    text = "\n".join(line for setting in settings for line in format_setting(*setting)) + "\n"
    asked = ["git", "config", "--file", "-", "--null", "--list"]
    said = subprocess.run(asked, input=text.encode(), capture_output=True, check=True, env=os.environ).stdout
    assert said.decode() == "".join(f"{name}\n{value}\0" for name, value in settings)
