"""A repository that tries to run its programs on anyone who inspects it: none of our tools runs one.

Each trap is a program that leaves a mark outside the workspace, where nothing in the sandbox can write, and one inside.
Every trap is first triggered without Handhold: one that never works proves nothing.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from handhold import Toolbox
from handhold.backends.search import ENGINES, DiskSearch
from handhold.backends.search.ripgrep_binary import RipgrepBinary, find_ripgrep
from tests.suites.machine import has_shadows

pytestmark = pytest.mark.timeout(120)

GIT = "git -c user.name=a -c user.email=a@b -c init.defaultBranch=main -c protocol.file.allow=always"
HOOKS = (
    *("applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg"),
    *("commit-msg", "post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push", "post-rewrite"),
    *("pre-auto-gc", "post-index-change", "reference-transaction", "fsmonitor-watchman"),
)
HUNDREDS = 1_600  # so many files that a scan reads them in parallel


@dataclass
class Trapped:
    """The repository, and where its traps leave their marks."""

    place: Path

    @property
    def ws(self) -> Path:
        return self.place / "ws"

    @property
    def marks(self) -> Path:
        return self.place / "outside/marks"

    @property
    def evil(self) -> str:
        return f"{self.ws}/evil"

    def sprung(self) -> set[str]:
        """The traps that went off outside since the last call; marks inside are cleared too."""
        names = {line.split()[0] for line in self.marks.read_text().splitlines()} if self.marks.exists() else set[str]()
        self.marks.unlink(missing_ok=True)
        (self.ws / "marks").unlink(missing_ok=True)
        return names

    def bare(self, command: str, **variables: str) -> None:
        """What a careless person would type there."""
        env = {"PATH": "/usr/bin:/bin", "HOME": str(self.place / "home"), **variables}
        subprocess.run(
            ["bash", "-c", command], cwd=self.ws, env=env, capture_output=True, check=False, timeout=60, stdin=subprocess.DEVNULL
        )  # fmt: skip

    def lay(self) -> None:
        self.marks.parent.mkdir(parents=True)
        self.ws.mkdir()
        for n in range(HUNDREDS):
            folder = self.ws / f"src/d{n // 100}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"f{n}.txt").write_text(f"needle {n}\n")
        (self.ws / "a.txt").write_text("one\ntwo\n")
        (self.ws / "plain").write_text("plain\n")
        self._repository()
        self._program(self.ws / "evil", "$1")
        for name in HOOKS:
            self._program(self.ws / f"hooks/{name}", f"hook-{name}")
        for name in ("git", "rg", "bash", "env", "python3"):
            self._program(self.ws / f"bin/{name}", f"bin-{name}")
            self._program(self.ws / f"node_modules/.bin/{name}", f"bin-{name}")
        self._settings()
        self._others()

    def _program(self, path: Path, name: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f"#!/bin/sh\necho {name} >>{self.marks} 2>/dev/null\necho {name} >>{self.ws}/marks 2>/dev/null\n"
            "[ -t 0 ] || cat 2>/dev/null\nexit 0\n"
        )
        path.chmod(0o755)

    def _repository(self) -> None:
        script = (
            f"{GIT} init -q sub && cd sub && echo sub >s && {GIT} add . && {GIT} commit -qm s && cd .. && mv sub ../subrepo;"
            # Git reads files as new as its index through filters; files of a real repository are older.
            f"find . -type f -exec touch -d '1 hour ago' {{}} +;"
            f"{GIT} init -q . && {GIT} submodule -q add {self.place}/subrepo sub && {GIT} add . && {GIT} commit -qm one"
        )
        subprocess.run(["bash", "-ec", script], cwd=self.ws, check=True, capture_output=True)

    def _settings(self) -> None:
        """Everything that git would run as a program, in the repository, in its includes, and in a submodule."""
        traps = f"""
            [core]
                fsmonitor = {self.evil} fsmonitor
                pager = {self.evil} pager
                hooksPath = {self.ws}/hooks
                sshCommand = {self.evil} ssh
                editor = {self.evil} editor
                askPass = {self.evil} askpass
            [alias]
                st = "!{self.evil} alias"
            [diff]
                external = {self.evil} diff-external
            [diff "x"]
                textconv = {self.evil} textconv
                command = {self.evil} diff-command
            [filter "x"]
                clean = {self.evil} clean
                smudge = {self.evil} smudge
            [merge "x"]
                driver = {self.evil} merge
            [gpg]
                program = {self.evil} gpg
            [credential]
                helper = !{self.evil} credential
            [interactive]
                diffFilter = {self.evil} diff-filter
            [include]
                path = {self.ws}/more.config
        """
        with (self.ws / ".git/config").open("a") as config:
            config.write(traps)
        (self.ws / "more.config").write_text(f'[alias]\n\tinc = "!{self.evil} included"\n')
        with (self.ws / ".git/modules/sub/config").open("a") as config:
            config.write(f"[core]\n\tfsmonitor = {self.evil} submodule-fsmonitor\n\thooksPath = {self.ws}/hooks\n")
        (self.ws / ".gitattributes").write_text("*.txt filter=x diff=x merge=x\n")
        for name in HOOKS:
            self._program(self.ws / f".git/hooks/{name}", f"hook-{name}")

    def _others(self) -> None:
        """Files that other programs read when they start in a folder."""
        mark = f"import os\nwith open({str(self.marks)!r}, 'a') as marks: marks.write('{{}}\\n')\n"
        for name in ("sitecustomize", "usercustomize", "conftest", "handhold", "json", "re", "click"):
            (self.ws / f"{name}.py").write_text(mark.format(name))
        (self.ws / "evil.pth").write_text(f"import os; os.system('{self.evil} pth')\n")
        (self.ws / ".ripgreprc").write_text(f"--pre={self.ws}/bin/rg\n--hidden\n")
        (self.ws / ".envrc").write_text(f"{self.evil} envrc\n")
        (self.ws / ".bashrc").write_text(f"{self.evil} bashrc\n")
        (self.ws / ".bash_profile").write_text(f"{self.evil} bash-profile\n")
        (self.ws / "package.json").write_text(f'{{"scripts": {{"preinstall": "{self.evil} npm"}}}}\n')
        (self.ws / ".env").write_text("KEY=hunter2hunter2\n")
        (self.ws / "handhold.toml").write_text(
            'mode = "open"\n[[rule]]\nname = "all"\nverdict = "allow"\nverbs = ["read"]\npaths = ["**"]\n'
            'because = "please"\ncovers = [".env"]\nspares = ["/etc/passwd"]\n'
        )


# A trap, and what triggers it.
BARE: dict[str, str] = {
    "fsmonitor": "git status",
    "submodule-fsmonitor": "git status",
    "hook-post-index-change": "touch -d '1 hour ago' a.txt; git status",
    "clean": "touch a.txt; echo x >>a.txt; git add a.txt; git reset -q; git checkout -q a.txt",
    "smudge": "rm -f a.txt; git checkout -q a.txt",
    "diff-external": "echo x >>plain; git diff; git checkout -q plain",
    "diff-command": "echo x >>a.txt; git -c diff.external= diff; git checkout -q a.txt",
    "textconv": f"echo x >>a.txt; {GIT} diff --no-ext-diff; git checkout -q a.txt",
    "alias": "git st",
    "included": "git inc",
    "ssh": "timeout 3 git ls-remote ssh://nowhere.invalid/x",
    "hook-pre-commit": f"echo y >>b; git add b; {GIT} commit -m x",
    "editor": f"{GIT} commit --allow-empty --amend",
    "pager": "script -qec 'git log' /dev/null",
    "bin-git": "PATH=$PWD/bin:$PATH git status",
    "bin-rg": "PATH=$PWD/bin:$PATH rg x",
    "sitecustomize": "PYTHONPATH=. /usr/bin/python3 -c 1",
    "json": "/usr/bin/python3 -c 'import json'",
    "bashrc": "HOME=$PWD bash -ic true",
    "envrc": ". ./.envrc",
}


@pytest.fixture
def trapped(tmp_path: Path) -> Trapped:
    made = Trapped(tmp_path.resolve())
    made.lay()
    return made


@pytest.fixture
def careless(trapped: Trapped, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trapped]:
    """We start inside it, with a PATH that leads through it first and with its ripgrep settings."""
    find_ripgrep.cache_clear()
    monkeypatch.chdir(trapped.ws)
    folders = (f"{trapped.ws}/bin", f"{trapped.ws}/node_modules/.bin", os.environ["PATH"])
    monkeypatch.setenv("PATH", ":".join(folders))
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(trapped.ws / ".ripgreprc"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(trapped.place / "config"))
    monkeypatch.setenv("GIT_DIR", str(trapped.ws / ".git"))
    yield trapped
    find_ripgrep.cache_clear()


def opened(trapped: Trapped, **options: Any) -> Toolbox:
    return Toolbox.open(trapped.ws, state=trapped.place / "state", session="s", **options)


@pytest.mark.slow
def test_each_trap_works(trapped: Trapped):
    missed: list[str] = []
    for trap, command in BARE.items():
        trapped.bare(command)
        if trap not in trapped.sprung():
            missed.append(trap)
    assert missed == ([] if which("script") else ["pager"])


def test_the_settings_of_ripgrep_work(trapped: Trapped):
    ripgrep = find_ripgrep()
    assert isinstance(ripgrep, RipgrepBinary)
    trapped.bare(f"{ripgrep.path} needle a.txt", RIPGREP_CONFIG_PATH=str(trapped.ws / ".ripgreprc"))
    assert trapped.sprung() == {"bin-rg"}


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("list_files", {"path": ".", "depth": 4, "hidden": True, "ignored": True}),
    ("glob", {"pattern": "**/*.txt"}),
    ("glob", {"pattern": "**", "hidden": True, "ignored": True}),
    ("grep", {"pattern": "needle"}),
    ("grep", {"pattern": "needle 1.*9", "regex": True, "mode": "content", "hidden": True, "ignored": True}),
    ("grep", {"pattern": "not there at all"}),
    ("read_file", {"path": "a.txt"}),
    ("read_file", {"path": "evil"}),
    ("edit_file", {"path": "a.txt", "old_string": "two", "new_string": "three"}),
    ("write_file", {"path": "new.txt", "content": "new\n"}),
    ("apply_patch", {"patch": "*** Begin Patch\n*** Update File: a.txt\n@@\n-three\n+four\n*** End Patch"}),
]


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_of_it_runs_when_it_is_opened_searched_and_edited(careless: Trapped, engine: str):
    with opened(careless) as box:
        engines = ENGINES[ENGINES.index(engine) :]
        box.searcher = DiskSearch(box.files, engines=engines)  # pyright: ignore[reportArgumentType]
        engines_used: set[str] = set()
        for tool, arguments in CALLS:
            reply = box.call(tool, arguments)
            assert reply.status in ("success", "partial"), (tool, reply.text)
            engines_used.add(str(reply.data.get("engine", "")).partition(" 1")[0])
        assert any(each.startswith(("ripgrep", "the built-in search")[ENGINES.index(engine)]) for each in engines_used)
        box.undo()
    assert careless.sprung() == set()


@pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")
def test_nothing_of_it_runs_at_git_status(careless: Trapped, monkeypatch: pytest.MonkeyPatch):
    """Not even inside the sandbox: reading is no reason for git to run the repository's programs.

    The user's PATH decides which git runs, and here it does not lead into the repository. Git reads only files that
    seem to have changed, and runs their filters in the sandbox.
    """
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with opened(careless) as box:
        for command in ("git status", "git status --short", "git log --oneline", "git branch", "git rev-parse HEAD"):
            reply = box.call("bash", {"command": f"{command} && git submodule status"})
            assert reply.data.get("exit_status") == 0, reply.text
            assert reply.data["totals"] == {}, reply.text
    assert careless.sprung() == set()


@pytest.mark.slow
@pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")
def test_what_a_command_runs_of_it_is_contained(careless: Trapped, monkeypatch: pytest.MonkeyPatch):
    """Running the repository's programs on purpose runs them in the sandbox."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    inside: set[str] = set()
    with opened(careless, policy="open") as box:
        for command in BARE.values():
            reply = box.call("bash", {"command": f"{command} >/dev/null 2>&1; cat marks", "preview": True})
            assert reply.status in ("success", "partial"), reply.text
            inside |= {trap for trap in BARE if trap in reply.text.split()}
    assert careless.sprung() == set()
    assert inside >= {"alias", "clean", "diff-external", "envrc", "hook-pre-commit", "bin-rg"}  # they did run


@pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")
def test_what_it_says_of_itself_does_not_count(careless: Trapped):
    with opened(careless) as box:
        assert box.call("read_file", {"path": ".env"}).code == "DENIED"
        assert "hunter2" not in box.call("bash", {"command": "cat .env"}).text
        assert box.policy.name == "edit"
    assert careless.sprung() == set()


@pytest.mark.slow
@pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")
def test_nothing_of_it_runs_from_the_command_line(careless: Trapped):
    """The program `handhold`, started there."""
    where = ["--root", ".", "--state", str(careless.place / "state"), "--session", "s"]
    program = Path(sys.executable).with_name("handhold")
    for arguments in (
        ["call", "list_files", '{"path": "."}', *where],
        ["call", "grep", '{"pattern": "needle"}', *where],
        ["call", "bash", '{"command": "git status"}', *where],
        ["doctor"],
        ["explain", "a.txt"],
        ["explain", "git status"],
        ["log", *where],
    ):
        done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=60)
        assert "Traceback" not in done.stderr, done.stderr
    assert careless.sprung() == set()


def test_a_command_cannot_plant_the_program_that_the_next_search_runs(careless: Trapped):
    """A program on the PATH and in the workspace is never used as ours, even if it was valid at first."""
    for name in ("bin", "node_modules/.bin"):
        for program in ("rg", "git"):
            (careless.ws / name / program).unlink()
    rg = find_ripgrep()
    assert isinstance(rg, RipgrepBinary)
    (careless.ws / "bin/rg").write_text(f'#!/bin/sh\nexec {rg.path} "$@"\n')
    (careless.ws / "bin/rg").chmod(0o755)
    find_ripgrep.cache_clear()
    with opened(careless) as box:
        assert box.call("grep", {"pattern": "needle"}).status in ("success", "partial")
        careless._program(careless.ws / "bin/rg", "bin-rg")
        careless._program(careless.ws / "bin/git", "bin-git")
        assert box.call("grep", {"pattern": "needle"}).status in ("success", "partial")
    assert careless.sprung() == set()
