"""`handhold doctor CLIENT`: whether recording is on is shown by a call, not by settings alone."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from handhold.hooks.events import HOOK_DIALECTS

HANDHOLD = Path(sys.executable).with_name("handhold")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{HANDHOLD.parent}:/usr/bin:/bin")
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def handhold(*words: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run([HANDHOLD, *words], input=given, capture_output=True, text=True, check=False)


def diagnose(client: str, *words: str) -> tuple[int, dict[str, Any]]:
    done = handhold("doctor", client, "--json", *words)
    told = json.loads(done.stdout)
    return done.returncode, {each["what"]: each["holds"] for each in told["findings"]} | {"recorded": told["recorded"]}


def make_call(client: str, folder: Path, *actions: str) -> None:
    for action in actions:
        name = next(name for name, each in HOOK_DIALECTS[client].events.items() if each == action)
        tool = sorted(HOOK_DIALECTS[client].shells)[0]
        event = {"hook_event_name": name, "session_id": "s", "cwd": str(folder), "tool_name": tool}
        assert handhold("hook", client, given=json.dumps({**event, "tool_input": {"command": "true"}})).stdout == "{}\n"


@pytest.mark.timeout(240)  # it starts Handhold 20 times
@pytest.mark.parametrize("client", HOOK_DIALECTS)
def test_c94_settings_alone_prove_nothing_and_a_call_does(client: str, project: Path):
    names = ("the server", "hooks", "recorded")
    status, found = diagnose(client)
    assert (status, [found[name] for name in names]) == (1, [False, False, False])
    assert handhold("install", client).returncode == 0
    status, found = diagnose(client)
    assert (status, [found[name] for name in names]) == (1, [True, True, False])
    make_call(client, project, "begin")
    assert diagnose(client)[0] == 1, "a call that never ended was recorded"
    make_call(client, project, "end")
    assert diagnose(client) == (0, {**found, "a recorded call": True, "recorded": True})
    other = next(name for name in HOOK_DIALECTS if name != client)
    assert diagnose(other)[0] == 1


def test_c94_a_server_is_known_by_its_command_not_by_a_word(project: Path):
    file = project / ".mcp.json"
    for entry, is_ours in (
        ({"command": "tree", "args": ["/work/handhold-notes/x"]}, False),
        ({"command": "/opt/a b/handhold", "args": ["mcp"]}, True),
        ({"command": "uvx", "args": ["handhold[mcp]", "mcp"]}, True),
        ({"url": "http://handhold/"}, False),
    ):
        file.write_text(json.dumps({"mcpServers": {"handhold": entry}}))
        assert diagnose("claude-code")[1]["the server"] is is_ours, entry


def test_c94_waiting_is_for_a_new_call(project: Path):
    assert handhold("install", "claude-code").returncode == 0
    make_call("claude-code", project, "begin", "end")
    assert handhold("doctor", "claude-code", "--wait", "0.5").returncode == 1
    waiting = subprocess.Popen([HANDHOLD, "doctor", "claude-code", "--wait", "50"], stdout=subprocess.PIPE, text=True)
    assert waiting.stdout
    while waiting.stdout.readline() != "    true\n":
        assert waiting.poll() is None
    time.sleep(0.5)
    make_call("claude-code", project, "begin", "end")
    said = waiting.communicate()[0]
    assert waiting.returncode == 0, said
    assert "Bash" in said
