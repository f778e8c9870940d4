"""E-2 and C-89: with `secrets="usable"` a project with secret files works; with "strict" they are unreadable."""

import base64
import subprocess
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from handhold import Rule, Toolbox
from tests.suites.held_by import HeldBy, held_by  # noqa: F401 — a fixture

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.usefixtures("held_by"),
]

TOKEN = "xK9mQ2vL7pR4tW8zA1"
ENV = f"API_TOKEN={TOKEN}\nVITE_API_URL=http://localhost:3000/api\nDEBUG=true\n"
KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw\nabcdefghij12==\n-----END PRIVATE KEY-----\n"
SHOWN = "[redacted: API_TOKEN]"
LINE = "fetch('http://localhost:3000/api', true)\n"
RULE = Rule(
    "vault", "deny", ["read", "change", "create", "delete"], "it is private", ["vault.txt"], ["a"], paths=["vault.*"]
)
MODES = ("usable", "strict")


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    ws = tmp_path.resolve() / "ws"
    (ws / "certs").mkdir(parents=True)
    (ws / ".env").write_text(ENV)
    (ws / "certs/server.key").write_text(KEY)
    (ws / "app.js").write_text(LINE + f"const token = '{TOKEN}'\n")
    (ws / "vault.txt").write_text("PIN=hunter2hunter2\n")
    git(ws, "init", "-q", "-b", "main")
    git(ws, "config", "user.email", "a@example.com")
    git(ws, "config", "user.name", "A")
    git(ws, "add", "-A")
    git(ws, "commit", "-qm", "first")
    return ws


def git(ws: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=ws, check=True, capture_output=True, text=True).stdout


def opened(ws: Path, **options: Any) -> Toolbox:
    return Toolbox.open(ws, state=ws.parent / "state", settings=False, policy="open", **options)


@pytest.fixture
def box(ws: Path) -> Iterator[Toolbox]:
    with opened(ws) as box:
        yield box


def run(box: Toolbox, command: str, **more: Any) -> str:
    reply = box.call("bash", {"command": command, **more})
    assert reply.code is None, reply.text
    assert reply.data["exit_status"] == 0, reply.text
    assert TOKEN not in f"{reply.text}{reply.data}"
    return reply.text


# --- projects work


def test_e2_git_stash_diff_add_merge_and_rebase_with_a_tracked_env(ws: Path, box: Toolbox):
    shown = run(box, "echo MORE=1 >>.env; git diff")
    assert "+MORE=1" in shown
    assert SHOWN in shown
    run(box, "git stash && git stash pop && git add -A && git commit -qm second")
    assert git(ws, "show", "HEAD:.env") == ENV + "MORE=1\n"
    run(box, "git checkout -q -b other HEAD~1 && echo x >x && git add -A && git commit -qm third && git rebase -q main")
    run(box, "git checkout -q main && git merge -q --no-edit other")
    assert git(ws, "status", "--porcelain") == ""
    assert (ws / ".env").read_text() == ENV + "MORE=1\n"


def test_e2_programs_read_their_settings(box: Toolbox):
    program = "import re; print(dict(re.findall(r'(\\w+)=(.*)', open('.env').read())))"
    assert SHOWN in run(box, f'python3 -c "{program}"')
    run(box, f'. ./.env && test "$API_TOKEN" = {TOKEN[:9]}"{TOKEN[9:]}"')


def test_e2_archives_with_keys_are_unpacked_whole_and_undone(ws: Path, box: Toolbox):
    run(box, "tar cf $TMPDIR/a.tar certs; mkdir new; tar xf $TMPDIR/a.tar -C new")
    assert (ws / "new/certs/server.key").read_text() == KEY
    assert box.undo().status == "success"
    assert not (ws / "new").exists()


@pytest.mark.parametrize(
    "command", ["rm -rf certs .env", "mv certs moved; mv .env old.env", "cp -r certs copied", "echo A=1 >.env"]
)
def test_e2_secret_files_are_removed_moved_and_copied_and_undo_is_exact(ws: Path, box: Toolbox, command: str):
    def tree() -> dict[str, bytes]:
        files = (path for path in ws.rglob("*") if path.is_file() and ".git" not in path.parts)
        return {str(path.relative_to(ws)): path.read_bytes() for path in files}

    before = tree()
    run(box, command)
    after = tree()
    assert after != before
    undone = box.undo()
    assert undone.status == "success", undone.text
    assert TOKEN not in f"{undone.text}{undone.ui_extra}"
    assert tree() == before
    assert box.redo().status == "success"
    assert tree() == after


def test_e2_file_tools_do_not_show_them(ws: Path, box: Toolbox):
    for path in (".env", "certs/server.key"):
        assert box.call("read_file", {"path": path}).code == "DENIED"
        assert box.call("write_file", {"path": path, "content": "x"}).code == "DENIED"
    assert ".env" not in box.call("grep", {"pattern": "API_TOKEN", "hidden": True}).text
    run(box, "echo MORE=1 >>.env")
    assert TOKEN not in box.diff()
    assert "MORE" not in box.diff()


# --- what is redacted


def test_e2_c89_output_is_redacted_in_the_foreground_as_a_preview_and_while_it_runs(ws: Path, box: Toolbox):
    assert f"API_TOKEN={SHOWN}" in run(box, "cat .env")
    assert f"API_TOKEN={SHOWN}" in run(box, "cat .env", preview=True)
    assert "[redacted: server.key]\n[redacted: server.key]\n" in run(box, "cat certs/server.key")
    assert SHOWN in run(box, "base64 .env; xxd -p .env 2>/dev/null || od -An -tx1 .env")
    assert SHOWN in run(box, "grep --color=always -o 'T.*' .env; touch $(cut -d= -f2 .env | head -n1); ls")
    assert SHOWN in run(box, "mv .env ordinary.txt; cat ordinary.txt")
    assert SHOWN in run(box, "cat ordinary.txt")  # it is remembered


def test_e2_c89_of_a_command_that_fails_or_runs_out_of_time(box: Toolbox):
    for command in ("cat .env; exit 3", "cat .env; sleep 30", "head -c 20 .env; sleep 30", "cat .env >&2; kill -9 $$"):
        reply = box.call("bash", {"command": command, "timeout": 1})
        assert TOKEN not in f"{reply.text}{reply.data}"
        assert SHOWN in reply.text or command.startswith("head")


def test_e2_c89_a_kept_output_has_no_secret_in_its_file(ws: Path, box: Toolbox):
    command = (
        "for i in $(seq 30000); do echo $i line of output; done; cat .env; for i in $(seq 30000); do echo $i more; done"
    )
    text = run(box, command)
    assert "/large_tool_results/" in text
    kept = list((ws.parent / "state").rglob("results/*.txt"))
    assert len(kept) == 1
    data = kept[0].read_bytes()
    assert data.count(SHOWN.encode()) == 1
    assert TOKEN.encode() not in data
    assert data.count(b"\n") == 60_003


def test_e2_c89_a_job_prints_nothing_secret_from_any_offset(ws: Path, box: Toolbox):
    reply = box.call("bash", {"command": "printf 'ready> '; cat .env; read x; cat .env; echo over", "background": True})
    job = reply.data["job"]
    printed = reply.text
    until = monotonic() + 20
    while "DEBUG=true" not in printed and monotonic() < until:
        sleep(0.05)
        printed += box.call("bash_output", {"job": job}).text
    assert "ready> " in printed  # perhaps in a reply of its own
    assert f"API_TOKEN={SHOWN}" in printed
    box.call("bash_input", {"job": job, "text": "go\n"})
    while "over" not in printed and monotonic() < until:
        sleep(0.05)
        printed += box.call("bash_output", {"job": job}).text
    for offset in (0, 3, 17, 30):
        printed += box.call("bash_output", {"job": job, "offset": offset}).text
    assert TOKEN not in printed
    assert not any(TOKEN.encode() in path.read_bytes() for path in (ws.parent / "state").rglob("results/*.txt"))


def test_e2_c89_who_watches_a_command_sees_nothing_secret(box: Toolbox):
    import asyncio

    async def watch() -> str:
        async with box.stream("bash", {"command": "cat .env; sleep 0.2; cat .env"}) as events:
            return "".join([repr(each) async for each in events])

    seen = asyncio.run(watch())
    assert SHOWN in seen
    assert TOKEN not in seen


def test_e2_c89_search_hits_are_redacted_and_reads_and_edits_are_not(ws: Path, box: Toolbox):
    hit = box.call("grep", {"pattern": "token", "mode": "content"})
    assert f"const token = '{SHOWN}'" in hit.text
    assert TOKEN not in f"{hit.text}{hit.data}"
    assert "http://localhost:3000/api" in box.call("grep", {"pattern": "fetch", "mode": "content"}).text
    assert f"const token = '{TOKEN}'" in box.call("read_file", {"path": "app.js"}).text
    edited = box.call("edit_file", {"path": "app.js", "old_string": "const", "new_string": "let"})
    assert edited.status == "success"
    assert (ws / "app.js").read_text() == LINE + f"let token = '{TOKEN}'\n"
    assert f"+let token = '{TOKEN}'" in box.diff()


def test_e2_c89_an_address_in_the_file_is_redacted_nowhere(box: Toolbox):
    shown = run(box, "cat app.js; env | sort; echo true 3000 localhost")
    assert LINE in shown
    assert shown.count("[redacted") == 1  # the token in app.js


def test_e2_a_file_that_a_rule_allows_is_not_redacted(ws: Path):
    allow = Rule("env", "allow", ["read"], "no secrets in it", [".env"], ["a"], paths=[".env"])
    with opened(ws, rules=[allow]) as box:
        assert TOKEN in box.call("bash", {"command": "cat .env"}).text
        assert TOKEN in box.call("read_file", {"path": ".env"}).text


# --- what stays strict


@pytest.mark.parametrize("mode", MODES)
def test_e2_a_rule_of_the_users_own_stays_strict(ws: Path, mode: str):
    with opened(ws, rules=[RULE], secrets=mode) as box:
        for command in (
            "cat vault.txt",
            "mv vault.txt x; cat x",
            "cp vault.txt x; cat x",
            "git stash; base64 vault.txt",
        ):
            reply = box.call("bash", {"command": command})
            assert "hunter2" not in reply.text
            assert "denied" in reply.text or "busy" in reply.text
            assert reply.data["sandbox"]["hidden"][-1:] == ("vault.txt",)
    assert (ws / "vault.txt").read_text() == "PIN=hunter2hunter2\n"


def test_e2_strict_makes_them_unreadable_as_before(ws: Path):
    with opened(ws, secrets="strict") as box:
        reply = box.call("bash", {"command": "cat .env certs/server.key; mv .env x; rm -rf certs; cat x"})
        assert TOKEN not in reply.text
        assert reply.text.count("Permission denied") >= 2
        assert reply.data["sandbox"]["hidden"] == (".env", "certs/server.key")
        assert box.call("bash", {"command": "echo x >new.env"}).code is None
    assert (ws / ".env").read_text() == ENV
    assert (ws / "certs/server.key").read_text() == KEY
    assert not (ws / "new.env").exists()


def test_e2_strict_is_a_setting_that_a_project_may_make_and_cannot_lift(
    ws: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    users = tmp_path / "user.toml"
    monkeypatch.setenv("HANDHOLD_CONFIG", str(users))
    for user, project, code, wanted in (
        ("", "", None, "usable"),
        ('secrets = "strict"', "", None, "strict"),
        ('secrets = "strict"', 'secrets = "usable"', None, "strict"),
        ("", 'secrets = "strict"', None, "strict"),
        ("", 'secrets = "strict"', "usable", "strict"),
        ('secrets = "strict"', "", "usable", "usable"),
    ):
        users.write_text(user)
        (ws / "handhold.toml").write_text(project)
        options: Any = {"secrets": code}
        with Toolbox.open(ws, state=ws.parent / "state", **options) as box:
            readable = SHOWN in box.call("bash", {"command": "cat .env"}).text
        assert readable == (wanted == "usable"), (user, project, code)
    (ws / "handhold.toml").write_text('secrets = "loose"')
    with pytest.raises(Exception, match="secrets must be one of usable, strict"):
        Toolbox.open(ws, state=ws.parent / "state")
    with pytest.raises(ValueError, match="secrets must be one of usable, strict"):
        opened(ws, secrets="loose")


def test_e2_a_link_to_a_secret_outside_the_workspace_leads_nowhere(ws: Path, held_by: HeldBy):  # noqa: F811
    outside = ws.parent / "outside.txt"
    outside.write_text(ENV)
    (ws / ".env.local").symlink_to(outside)
    with opened(ws) as box:
        reply = box.call("bash", {"command": f"cat .env.local {outside}"})
    assert TOKEN not in reply.text
    if held_by == "overlay":  # which has a private /tmp
        assert SHOWN not in reply.text


@pytest.mark.parametrize("options", [{"secrets": "strict"}, {"rules": [Rule("keys", "deny", ["read", "create"], "mine", ["a.key"], ["a"], paths=["*.key"])]}])  # fmt: skip
def test_e2_a_path_that_cannot_be_taken_over_is_left_out_and_said(ws: Path, options: dict[str, Any]):
    packed = base64.b64encode(
        subprocess.run(["tar", "c", "certs", "app.js"], cwd=ws, check=True, capture_output=True).stdout
    )
    with opened(ws, **options) as box:
        (ws / "t").write_bytes(packed)
        reply = box.call("bash", {"command": "mkdir new; base64 -d t | tar x -C new; echo x >top.key; echo y >top.txt"})
        assert reply.code is None, reply.text
        (left_out,) = [note for note in reply.data["notes"] if "left out" in note]
        assert "new/certs/server.key" in left_out
        assert "top.key" in left_out
        assert (ws / "new/app.js").exists()
        assert (ws / "top.txt").exists()
        assert not (ws / "new/certs/server.key").exists()
        assert not (ws / "top.key").exists()
        assert box.undo().status == "success"
        assert not (ws / "new").exists()
