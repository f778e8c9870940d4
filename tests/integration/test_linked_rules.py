"""V-3, V-4: what a rule or protected name protects is reached under no other name, through any way into a workspace."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from handhold import Reply, Rule, Toolbox
from handhold.core.errors import Denied
from handhold.core.ports.policy import Verb

pytestmark = pytest.mark.timeout(120)

PATIENCE_SECONDS = 40
TOKEN = "hunter2hunter2"
CHANGES = ["change", "create", "delete"]
SETTINGS = """git init -q -b main . && mkdir scripts githooks conf ed .vscode deep && echo >scripts/pre-commit
ln -s ../../scripts/pre-commit .git/hooks/pre-commit && git config core.hooksPath githooks
ln -s conf .claude && echo {} >conf/settings.json && ln -s ../ed/tasks.json .vscode/tasks.json && echo {} >ed/tasks.json
ln -s rc .envrc && ln -s missing deep/.envrc && echo >rc
git init -q --bare shared.git && rm -r shared.git/hooks && mkdir shared && ln -s ../shared shared.git/hooks
git init -q --bare plain && rm -r plain/hooks && mkdir obeyed && ln -s ../obeyed plain/hooks && git remote add there ./plain
"""
OBEYED = (
    *("scripts/pre-commit", "githooks/post-commit", "conf/settings.json", "ed/tasks.json", "rc", "deep/missing"),
    *("shared/update", "obeyed/pre-receive"),
)


@pytest.fixture(params=["contained", "brokered"])
def shell(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    for name, text in {"priv/key": TOKEN, "conf/prod.txt": f"API_KEY={TOKEN}", "migs/1.py": "x"}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    (root / "db").mkdir()
    for name, target in {"secrets": "priv", ".env": "conf/prod.txt", "db/migrations": "../migs"}.items():
        (root / name).symlink_to(target)
    return root


@contextmanager
def opened(ws: Path, *rules: Rule, **options: Any) -> Iterator[Toolbox]:
    with Toolbox.open(ws, state=ws.parent / "state", settings=False, session="s", rules=rules, **options) as box:
        yield box


def deny(path: str, *verbs: str) -> Rule:
    return Rule(
        path, "deny", map(Verb, verbs), "kept apart", [path if "/" in path else f"x/{path}"], ["other"], paths=[path]
    )


def run(box: Toolbox, command: str) -> Reply:
    return box.call("bash", {"command": command})


def run_in_background(box: Toolbox, command: str) -> None:
    reply = box.call("bash", {"command": command, "background": True})
    until = time.monotonic() + PATIENCE_SECONDS
    while reply.data and reply.data["running"]:
        assert time.monotonic() < until
        reply = box.call("bash_output", {"job": reply.data["job"], "offset": 0})


@pytest.mark.parametrize("rule", ["secrets", "./secrets/key", "secrets/**"])
def test_c96_v4_a_rule_about_a_link_hides_what_it_leads_to(ws: Path, shell: str, rule: str):
    with opened(ws, Rule("s", "deny", ["read"], "no", ["secrets/key"], ["a"], paths=[rule]), shell=shell) as box:
        for path in ("secrets/key", "priv/key", "db/../secrets/key"):
            assert box.call("read_file", {"path": path}).code == "DENIED"
            assert TOKEN not in run(box, f"cat {path}").text
        assert box.call("grep", {"pattern": "^hunter", "hidden": True}).text.count(TOKEN) == 0
        assert box.call("read_file", {"path": "migs/1.py"}).status == "success"


def test_c96_v4_a_strict_secret_file_is_hidden_under_its_other_name(ws: Path, shell: str):
    with opened(ws, secrets="strict", shell=shell) as box:
        for path in (".env", "conf/prod.txt"):
            assert box.call("read_file", {"path": path}).code == "DENIED"
            assert TOKEN not in run(box, f"cat {path}").text


def test_c96_v4_what_a_link_with_a_denied_name_leads_to_is_not_changed(ws: Path, shell: str):
    with opened(ws, deny("db/migrations", *CHANGES), policy="open", shell=shell) as box:
        for path in ("db/migrations/1.py", "migs/1.py", "db/migrations/2.py", "migs/2.py"):
            assert box.call("write_file", {"path": path, "content": "y"}).code == "DENIED"
            run(box, f"echo y >> {path}")
            run_in_background(box, f"echo y >> {path}")
        run(box, "rm migs/1.py; mkdir migs/new")
        assert [path.name for path in (ws / "migs").iterdir()] == ["1.py"]
        assert (ws / "migs/1.py").read_text() == "x\n"


@pytest.mark.parametrize("way", ["tool", "command", "background"])
def test_c96_v3_v4_what_other_programs_obey_under_another_name_is_not_changed_unasked(ws: Path, shell: str, way: str):
    subprocess.run(["sh", "-ec", SETTINGS], cwd=ws, check=True)
    links = {path: os.readlink(path) for path in ws.rglob("*") if path.is_symlink()}
    with opened(ws, shell=shell, policy="open") as box:
        for path in OBEYED:
            before = (ws / path).read_bytes() if (ws / path).exists() else None
            box.call("read_file", {"path": path})
            if way == "tool":
                assert box.call("write_file", {"path": path, "content": "y\n"}).code == "NOT_APPROVED", path
            elif way == "command":
                assert run(box, f"echo y >> {path}").code == "NOT_APPROVED", path
            else:
                run_in_background(box, f"echo y >> {path}")
            assert ((ws / path).read_bytes() if (ws / path).exists() else None) == before, path
    assert all(os.readlink(path) == target for path, target in links.items())


LINKS_ON_THE_WAY = """mkdir good evil hidden && echo good >good/rc && echo evil >evil/rc
ln -s good chosen && ln -s chosen/rc .envrc && ln -s missing/rc hidden/.envrc
"""


@pytest.mark.parametrize(
    "command", ["ln -sfn evil chosen", "rm chosen && mv evil chosen", "ln -s ../evil hidden/missing"]
)
def test_a_link_on_the_way_to_what_other_programs_obey_is_not_replaced_unasked(ws: Path, shell: str, command: str):
    subprocess.run(["sh", "-ec", LINKS_ON_THE_WAY], cwd=ws, check=True)
    with opened(ws, shell=shell, policy="open") as box:
        assert run(box, command).code == "NOT_APPROVED"
        run_in_background(box, command)
        assert run(box, "mkdir new && ln -s good other").code is None
    assert (ws / ".envrc").read_text() == "good\n"
    assert not (ws / "hidden/.envrc").exists()


def test_c96_v3_a_link_in_what_becomes_a_git_directory_needs_approval(ws: Path, shell: str):
    with opened(ws, shell=shell) as box:
        assert run(box, "mkdir x y && ln -s ../y x/hooks").code is None
        assert run(box, "mkdir x/objects x/refs && echo 'ref: refs/heads/main' >x/HEAD").code == "NOT_APPROVED"


def test_c96_v4_a_hard_link_of_a_protected_file_is_not_changed_unasked(ws: Path):
    os.link(ws / "migs/1.py", ws / "conf/.envrc")
    with opened(ws) as box:
        box.call("read_file", {"path": "migs/1.py"})
        assert box.call("write_file", {"path": "migs/1.py", "content": "y\n"}).code == "NOT_APPROVED"
    assert (ws / "conf/.envrc").read_text() == "x\n"


def test_c96_v4_undo_and_merge_change_nothing_that_a_rule_denies_under_another_name(ws: Path):
    with opened(ws) as box:
        assert run(box, "echo y >> migs/1.py").code is None
        fork = box.fork("try")
        assert fork.run(["sh", "-c", "echo z >migs/2.py"]) == 0
    with opened(ws, deny("db/migrations", *CHANGES)) as box:
        assert box.undo().status == "error"
        with pytest.raises(Denied):
            box.fork("try").merge()
        assert (ws / "migs/1.py").read_text() == "x\ny\n"
        assert not (ws / "migs/2.py").exists()
