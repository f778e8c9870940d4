"""What git obeys: ordinary work on a repository asks nobody, and what would run code later always asks."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from handhold import Reply, Toolbox
from tests.suites.held_by import held_by  # noqa: F401 — a fixture

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.usefixtures("held_by"),
]

IDENTITY = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b.example"}
IDENTITY |= {name.replace("AUTHOR", "COMMITTER"): value for name, value in IDENTITY.items()}
FSMONITOR = "[core]\n\tfsmonitor = touch {}; false\n"


def git(folder: Path, *words: str, check: bool = True) -> str:
    """As the user's own git would run, outside every sandbox."""
    quiet = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    return subprocess.run(
        ["git", *words], cwd=folder, env=os.environ | IDENTITY | quiet, check=check, capture_output=True, text=True
    ).stdout


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


@pytest.fixture
def repository(ws: Path) -> Path:
    git(ws, "init", "-q", "-b", "main")
    (ws / "a.txt").write_text("a\n")
    git(ws, "add", ".")
    git(ws, "commit", "-qm", "first")
    return ws


@pytest.fixture
def box(ws: Path) -> Iterator[Toolbox]:
    """The default mode, with nobody to ask."""
    with Toolbox.open(ws, state=ws.parent / "state", settings=False) as opened:
        yield opened


@pytest.fixture
def open_box(ws: Path) -> Iterator[Toolbox]:
    """The mode `open`: commands run, and what they did is judged."""
    with Toolbox.open(ws, state=ws.parent / "state", settings=False, policy="open") as opened:
        yield opened


def bash(box: Toolbox, command: str) -> Reply:
    return box.call("bash", {"command": command})


def call(box: Toolbox, tool: str, **arguments: Any) -> Reply:
    return box.call(tool, arguments)


def tree(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


COMMIT = "git -c user.name=a -c user.email=a@b.example commit -qm"

ORDINARY = {
    "init": "git init -q new && cd new && echo 1 >a && git add a && " + COMMIT + " 1",
    "init here again": "git init -q",
    "init bare": "git init -q --bare new.git",
    "commit": "echo 2 >>a.txt && git add a.txt && " + COMMIT + " 2",
    "checkout -b": "git checkout -qb side",
    "switch and back": "git switch -qc side && git switch -q main",
    "upstream": "git checkout -qb side && git branch -u main",
    "branch -d": "git branch side && git branch -d side",
    "remote add": "git remote add origin https://example.com/team/project.git",
    "remote add by ssh": "git remote add origin git@example.com:team/project.git",
    "remote set-url": "git remote add o https://example.com/a.git && git remote set-url o ssh://git@example.com/b.git",
    "remote remove": "git remote add o https://example.com/a.git && git remote remove o",
    "clone below the root": "git clone -q --no-hardlinks ./ copy",
    "stash": "echo 2 >a.txt && git -c user.name=a -c user.email=a@b.example stash -q && git stash pop -q",
    "worktree": "git worktree add -q tree && git worktree remove tree",
    "merge": f"git checkout -qb side && echo 2 >b && git add b && {COMMIT} 2 && git checkout -q main && git merge -q side",
    "gc": "git gc -q",
    "a branch called config": "git branch team/config && git branch hooks/x && git branch -D hooks/x",
    "rebase": f"git checkout -qb side && {COMMIT} 2 --allow-empty && git checkout -q main && git rebase -q -s ort side",
    "tag": "git tag v1 && git tag -d v1",
    "the author of commits": "git config user.name Ann && git config user.email ann@example.com",
    "sparse": "git sparse-checkout set src",
}


@pytest.mark.parametrize("command", ORDINARY.values(), ids=ORDINARY.keys())
def test_e19_ordinary_work_on_a_repository_asks_nobody(repository: Path, box: Toolbox, command: str):
    before = tree(repository)
    reply = bash(box, command)
    assert (reply.status, reply.data["exit_status"]) == ("success", 0), reply.text
    git(repository, "--no-optional-locks", "status")
    if reply.data["totals"]:
        assert box.undo().status == "success"
        assert tree(repository) == before


def test_e19_a_repository_can_be_made_where_there_was_none(ws: Path, box: Toolbox):
    reply = bash(box, f"git init -q && echo 1 >a && git add a && {COMMIT} 1")
    assert reply.status == "success", reply.text
    assert git(ws, "log", "--format=%s") == "1\n"


ATTACKS = {
    "commondir": "echo ../evil >.git/commondir",
    "commondir of a worktree": "mkdir -p .git/worktrees/w && echo ../../../evil >.git/worktrees/w/commondir",
    "gitdir": "echo ../evil/.git >.git/gitdir",
    "a hook": "printf '#!/bin/sh\\n' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
    "a sample that becomes a hook": "mv .git/hooks/pre-commit.sample .git/hooks/pre-commit",
    "hooksPath": "printf '[core]\\n\\thooksPath = evil\\n' >>.git/config",
    "fsmonitor": "printf '[core]\\n\\tfsmonitor = evil\\n' >>.git/config",
    "an alias": "printf '[alias]\\n\\tst = !evil\\n' >>.git/config",
    "an include": "printf '[include]\\n\\tpath = ../evil\\n' >>.git/config",
    "a filter": "printf '[filter \"x\"]\\n\\tclean = evil\\n' >>.git/config",
    "a helper": "printf '[credential]\\n\\thelper = !evil\\n' >>.git/config",
    "insteadOf": "printf '[url \"ext::evil\"]\\n\\tinsteadOf = https:\\n' >>.git/config",
    "uploadpack": "printf '[remote \"o\"]\\n\\tuploadpack = evil\\n' >>.git/config",
    "vcs": "printf '[remote \"o\"]\\n\\tvcs = evil\\n' >>.git/config",
    "ext": "printf '[remote \"o\"]\\n\\turl = ext::sh -c evil\\n' >>.git/config",
    "a dash": "printf '[remote \"o\"]\\n\\turl = --upload-pack=evil\\n' >>.git/config",
    "a host with a dash": "printf '[remote \"o\"]\\n\\turl = ssh://-oProxyCommand=evil/x\\n' >>.git/config",
    "a local path outside": "git remote add o /tmp/other",
    "the remote of a branch": "printf '[branch \"main\"]\\n\\tremote = ext::evil\\n' >>.git/config",
    "config.worktree": "printf '[core]\\n\\tfsmonitor = evil\\n' >.git/config.worktree",
    "alternates": "echo /tmp/other/objects >.git/objects/info/alternates",
    "attributes": "echo '* filter=x' >.git/info/attributes",
    "a link": "rm -r .git/logs && ln -s /tmp .git/logs",
    "an unknown file": "echo x >.git/something-new",
    "exec in a rebase": "mkdir .git/rebase-merge && echo 'exec evil' >.git/rebase-merge/git-rebase-todo",
    "a strategy of a rebase": "mkdir .git/rebase-merge && echo x/evil >.git/rebase-merge/strategy",
    "a strategy of a cherry-pick": "mkdir .git/sequencer && printf '[options]\\n\\tstrategy = x\\n' >.git/sequencer/opts",
    "a repository among refs": "git init -q --bare .git/refs/x && echo x >.git/refs/x/hooks/post-receive",
    "a command among objects": "mkdir .git/objects/x && printf '[core]\\n\\tfsmonitor = x\\n' >.git/objects/x/config",
    "a remote among refs": 'printf \'[remote "o"]\\n\\turl = %s/.git/refs/x\\n\' "$PWD" >>.git/config',
    "a submodule's hook": "mkdir -p .git/modules/lib/hooks && echo x >.git/modules/lib/hooks/post-checkout",
    "a file that leads elsewhere": "mkdir sub && echo 'gitdir: ../evil' >sub/.git",
    "a link that leads elsewhere": "mkdir sub && ln -s ../evil sub/.git",
    "gone": "rm -rf .git",
    "anew": "rm -rf .git && git init -q",
    "a new one with a hook": "git init -q sub && echo x >sub/.git/hooks/pre-commit",
    "a new one with a command": "git init -q sub && git -C sub config core.fsmonitor evil",
    "a new one with commondir": "git init -q sub && echo ../../evil >sub/.git/commondir",
    "a new bare one with a command": "git init -q --bare sub && git -C sub config core.fsmonitor evil",
    "a bare one by hand": "mkdir -p b/objects b/refs && cp .git/HEAD b && printf '[core]\\n\\tfsmonitor = evil\\n' >b/config",
    "a new one elsewhere": "git init -q --separate-git-dir=store sub && git -C sub config core.fsmonitor evil",
}


@pytest.mark.parametrize("command", ATTACKS.values(), ids=ATTACKS.keys())
def test_r10_what_git_would_obey_later_asks(repository: Path, command: str):
    """Even in the mode `open`, where nothing is asked beforehand."""
    before = tree(repository)
    with Toolbox.open(repository, state=repository.parent / "state", settings=False, policy="open") as box:
        reply = bash(box, command)
    assert reply.code == "NOT_APPROVED", reply.text
    assert reply.data["rule"].startswith("protected names"), reply.data
    assert tree(repository) == before


WRITTEN = {
    ".git/commondir": "../evil\n",
    ".git/gitdir": "../evil\n",
    ".git/hooks/post-commit": "#!/bin/sh\n",
    ".git/config": "[core]\n\tbare = false\n\thooksPath = x\n",
    ".git/config.worktree": "[core]\n\tfsmonitor = x\n",
    ".git/info/attributes": "* filter=x\n",
    ".git/objects/info/alternates": "/tmp\n",
    "sub/.git": "gitdir: ../evil\n",
    "sub/.git/commondir": "../../evil\n",
    ".git/modules/deep/lib/config": "[core]\n\tfsmonitor = x\n",
}


@pytest.mark.parametrize("path", WRITTEN)
def test_r10_file_tools_obey_the_same_rule(repository: Path, box: Toolbox, path: str):
    before = tree(repository)
    if (repository / path).exists():
        call(box, "read_file", path=path)
    assert call(box, "write_file", path=path, content=WRITTEN[path]).code == "NOT_APPROVED"
    if not (repository / path).exists():
        lines = "".join(f"+{line}\n" for line in WRITTEN[path].splitlines())
        patch = f"*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n"
        assert call(box, "apply_patch", patch=patch).code == "NOT_APPROVED"
    assert tree(repository) == before


@pytest.mark.parametrize("after", ["ln -s other conf", "echo x >conf", "mv other conf"])
def test_an_included_file_whose_folder_becomes_something_else_asks(repository: Path, after: str):
    git(repository, "config", "include.path", "../conf/shared")
    for name, text in {"conf": "", "other": FSMONITOR.format("evil")}.items():
        (repository / name).mkdir()
        (repository / name / "shared").write_text(text)
    before = tree(repository)
    with Toolbox.open(repository, state=repository.parent / "state", settings=False, policy="open") as box:
        assert bash(box, f"rm -r conf; {after}").code == "NOT_APPROVED"
    assert tree(repository) == before


def test_r10_harmless_settings_are_allowed_to_file_tools_too(repository: Path, box: Toolbox):
    call(box, "read_file", path=".git/config")
    text = (repository / ".git/config").read_text()
    added = text + '[remote "origin"]\n\turl = https://example.com/x.git\n'
    assert call(box, "write_file", path=".git/config", content=added).status == "success"
    assert call(box, "write_file", path=".git/config", content=added + "\tproxy = x\n").code == "NOT_APPROVED"


def test_r10_the_commondir_attack_is_stopped(repository: Path, box: Toolbox):
    """With a configuration elsewhere, the user's next `git status` would run what that names, outside every sandbox."""
    mark = repository.parent / "pwned"
    git(repository, "clone", "-q", "--bare", ".", "evil")
    config = (repository / "evil/config").read_text().replace("bare = true", "bare = false")
    (repository / "evil/config").write_text(config + FSMONITOR.format(mark))
    git(repository, "status", check=False)
    assert not mark.exists()
    assert call(box, "write_file", path=".git/commondir", content="../evil\n").code == "NOT_APPROVED"
    assert bash(box, "python3 -c \"open('.git/commondir', 'w').write('../evil')\"").code == "NOT_APPROVED"
    git(repository, "status", check=False)
    assert not mark.exists()
    (repository / ".git/commondir").write_text("../evil\n")  # the attack is a real one
    git(repository, "status", check=False)
    assert mark.exists()


def test_r10_a_repository_that_is_put_together_step_by_step_asks(ws: Path, box: Toolbox):
    """Each file by itself is harmless in a plain folder; the one that makes it a repository is not."""
    steps = {
        "b/config": FSMONITOR.format("x"),
        "b/objects/keep": "x",
        "b/refs/keep": "x",
        "b/HEAD": "ref: refs/heads/main\n",
    }
    codes = [call(box, "write_file", path=path, content=content).code for path, content in steps.items()]
    assert codes == [None, None, None, "NOT_APPROVED"]


def test_r10_a_bare_repository_is_known_by_what_is_in_it(ws: Path, box: Toolbox):
    git(ws, "init", "-q", "--bare", "store")
    (ws / "plain").mkdir()
    call(box, "read_file", path="store/config")
    for path in ("store/config", "store/hooks/post-update", "store/commondir"):
        assert call(box, "write_file", path=path, content="[core]\n\tfsmonitor = x\n").code == "NOT_APPROVED"
    assert bash(box, "printf '[core]\\n\\tfsmonitor = x\\n' >>store/config").code == "NOT_APPROVED"
    assert call(box, "write_file", path="plain/config", content="[core]\n\tfsmonitor = x\n").status == "success"


def test_e19_a_preview_names_only_what_would_be_asked_about(ws: Path):
    with Toolbox.open(ws, state=ws.parent / "state", settings=False, policy="open") as box:
        told = call(box, "bash", command="git init -q new", preview=True)
        assert told.data["protected"] == []
        told = call(box, "bash", command="git init -q new; echo x >new/.git/hooks/update", preview=True)
        assert told.data["protected"] == ["new/.git/hooks/update"]


HOOK = "printf '#!/bin/sh\\n' >{0}; chmod +x {0}"


def test_r10_a_new_folder_in_a_bare_repository_is_judged_by_its_entries(ws: Path, box: Toolbox):
    git(ws, "init", "-q", "--bare", "lib.git")
    for name in ("hooks", "info", "objects/info"):
        bash(box, f"rm -r lib.git/{name}")
        assert not (ws / "lib.git" / name).exists()
    before = tree(ws)
    for name, what in (
        ("hooks", HOOK.format("lib.git/hooks/post-receive")),
        ("info", "echo '* filter=x' >lib.git/info/attributes"),
        ("objects/info", "echo /tmp >lib.git/objects/info/alternates"),
    ):
        assert bash(box, f"mkdir lib.git/{name}; {what}").code == "NOT_APPROVED"
        assert tree(ws) == before
    assert bash(box, "mkdir lib.git/hooks lib.git/info; echo x >lib.git/hooks/a.sample").status == "success"


def test_r10_a_bare_repository_may_have_files_in_place_of_its_folders(repository: Path, box: Toolbox):
    """Git asks only whether `objects` and `refs` can be executed."""
    files = "echo x >t/objects; echo x >t/refs; chmod +x t/objects t/refs; cp .git/HEAD t"
    assert bash(box, f"mkdir t; {files}; printf '[core]\\n\\tfsmonitor = x\\n' >t/config").code == "NOT_APPROVED"
    assert not (repository / "t").exists()


@pytest.mark.parametrize("folder", ["node_modules/p", ".venv/src/p", "lib/site-packages/p"])
def test_r10_a_repository_among_packages_is_protected_like_any_other(repository: Path, open_box: Toolbox, folder: str):
    """Git opens it as soon as it is added as a submodule."""
    before = tree(repository)
    fsmonitor = "printf '[core]\\n\\tfsmonitor = x\\n'"
    made = f"mkdir -p {folder} && cd {folder} && git init -q"
    for command in (
        f"{made} && {fsmonitor} >>.git/config",
        f"{made} && {HOOK.format('.git/hooks/pre-commit')}",
        f"{made} --bare && {fsmonitor} >>config",
    ):
        reply = bash(open_box, command)
        assert (reply.code, reply.data["rule"]) == ("NOT_APPROVED", "protected names (built in)"), reply.text
        assert tree(repository) == before
    assert call(open_box, "write_file", path=f"{folder}/.git/hooks/pre-commit", content="x").code == "NOT_APPROVED"
    ordinary = f"{made} && mkdir .vscode .husky && echo x >.vscode/tasks.json && echo x >.husky/pre-commit"
    assert bash(open_box, ordinary).status == "success"
