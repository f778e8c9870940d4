"""`handhold hook`: the events of agent clients become windows, and nothing stands in the client's way."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from handhold.cli.commands import handhold
from handhold.core.ports.recording import Window
from handhold.hooks.events import HOOK_DIALECTS, parse_event
from handhold.toolbox import Toolbox

CASES = {  # by client: the shell's tool and arguments, the edit tool and arguments
    "claude-code": ("Bash", {"command": "x"}, "Edit", {"file_path": "a.txt"}),
    "codex": (
        "Bash",
        {"command": "x"},
        "apply_patch",
        {"command": "*** Begin Patch\n*** Update File: a.txt\n@@\n-1\n+2\n*** End Patch"},
    ),
    "gemini-cli": ("run_shell_command", {"command": "x"}, "replace", {"file_path": "a.txt"}),
    "qwen-code": ("run_shell_command", {"command": "x"}, "edit", {"file_path": "a.txt"}),
    "opencode": ("bash", {"command": "x"}, "write", {"filePath": "a.txt"}),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    (folder / "b.txt").write_text("two\n")
    return folder


def names_of(client: str, action: str) -> str:
    return next(name for name, each in HOOK_DIALECTS[client].events.items() if each == action)


def run(client: str, folder: Path, action: str, *options: str, **fields: Any) -> Any:
    event = {"hook_event_name": names_of(client, action), "session_id": "abc", "cwd": str(folder), **fields}
    done = CliRunner().invoke(handhold, ["hook", client, *options], input=json.dumps(event))
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def call(client: str, which: int) -> dict[str, Any]:
    tool, arguments = CASES[client][2 * which : 2 * which + 2]
    given = {"tool_name": tool, "tool_input": arguments}
    return given if client == "gemini-cli" else {**given, "tool_use_id": f"call-{which}"}


@pytest.mark.parametrize("client", HOOK_DIALECTS)
def test_c94_what_a_client_does_with_its_own_tools_is_undone_by_call_and_turn(client: str, folder: Path):
    if "turn" in HOOK_DIALECTS[client].events.values():
        assert run(client, folder, "turn") == {}
    assert run(client, folder, "begin", **call(client, 0)) == {}
    (folder / "b.txt").write_text("by the shell\n")
    (folder / "new").mkdir()
    assert run(client, folder, "end", **call(client, 0)) == {}
    assert run(client, folder, "begin", **call(client, 1)) == {}
    (folder / "a.txt").write_text("by the edit tool\n")
    assert run(client, folder, "end", **call(client, 1)) == {}
    assert run(client, folder, "sweep") == {}
    session = f"{client}:abc"
    with Toolbox.open(folder, session=session) as box:
        tools = [(entry.call.tool, entry.call.turn) for entry in box.log()]
    assert tools == [(CASES[client][0], "turn-1"), (CASES[client][2], "turn-1")]
    undone = CliRunner().invoke(handhold, ["undo", "--session", session, "--root", str(folder), "--turn", "turn-1"])
    assert undone.exit_code == 0, undone.output
    assert sorted(path.name for path in folder.iterdir()) == ["a.txt", "b.txt"]
    assert [(folder / name).read_text() for name in ("a.txt", "b.txt")] == ["one\n", "two\n"]


@pytest.mark.parametrize("client", HOOK_DIALECTS)
def test_c94_what_a_hook_does_not_know_is_not_recorded_and_not_refused(client: str, folder: Path):
    assert run(client, folder, "begin", tool_name="Read", tool_input={"file_path": "a.txt"}) == {}
    outside = {"tool_name": CASES[client][2], "tool_input": {"file_path": "/etc/hosts", "filePath": "/etc/hosts"}}
    if client != "codex":
        assert run(client, folder, "begin", **outside) == {}
    done = CliRunner().invoke(handhold, ["hook", client], input='{"hook_event_name": "Unheard"}')
    assert (done.exit_code, done.stdout) == (0, "{}\n")


def test_c94_a_hook_that_fails_says_so_and_lets_the_client_go_on(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(folder))
    told = run("claude-code", folder, "begin", **call("claude-code", 0))
    assert "home folder" in told["systemMessage"]
    garbled = CliRunner().invoke(handhold, ["hook", "claude-code"], input="not json")
    assert garbled.exit_code == 0
    assert "not recorded" in json.loads(garbled.stdout)["systemMessage"]


def test_c94_the_home_folder_is_not_copied(folder: Path, monkeypatch: pytest.MonkeyPatch):
    with Toolbox.open(folder) as box:
        monkeypatch.setenv("HOME", str(folder))
        assert not box.snapshots.complete()
        assert not box.snapshots.recorder.baseline.exists
        monkeypatch.setenv("HOME", "/nowhere")
        assert box.snapshots.complete()
        assert box.snapshots.recorder.baseline.exists


def test_c94_a_strict_hook_that_fails_refuses(folder: Path):
    event = {"hook_event_name": "PreToolUse", "session_id": "s", "cwd": "/", **call("claude-code", 0)}
    command = [Path(sys.executable).with_name("handhold"), "hook", "claude-code", "--strict"]
    done = subprocess.run(command, input=json.dumps(event), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "not recorded" in done.stderr


@pytest.mark.parametrize("client", ["claude-code", "qwen-code"])
def test_c94_another_prompt_is_another_turn_and_the_same_one_is_not(client: str, folder: Path):
    for number, prompt in enumerate(["p1", "p1", "p2"]):
        used = {"tool_name": CASES[client][0], "tool_input": {"command": "x"}, "tool_use_id": str(number)}
        run(client, folder, "begin", prompt_id=prompt, **used)
        (folder / f"{number}.txt").write_text("x")
        run(client, folder, "end", prompt_id=prompt, **used)
    with Toolbox.open(folder, session=f"{client}:abc") as box:
        assert [entry.call.turn for entry in box.log()] == ["turn-1", "turn-1", "turn-2"]


@pytest.mark.parametrize(
    "result",
    ['{"type":"function_call_output","call_id":"call-0"}', '{"type":"tool_result","tool_use_id":"call-0"}', ""],
)
def test_c94_a_call_that_was_denied_ends_when_its_result_is_in_the_transcript(
    result: str, folder: Path, tmp_path: Path
):
    transcript = tmp_path / "transcript.jsonl"
    transcript.write_text('{"type":"function_call","call_id":"call-0"}\n')
    fields = {"transcript_path": str(transcript)}
    run("codex", folder, "turn")
    run("codex", folder, "begin", **call("codex", 0), **fields)
    with transcript.open("a") as file:
        file.write(result + "\n")
    run("codex", folder, "begin", **call("codex", 1), **fields)
    (folder / "a.txt").write_text("by the second\n")
    run("codex", folder, "end", **call("codex", 1), **fields)
    with Toolbox.open(folder, session="codex:abc") as box:
        (entry,) = box.log()
    assert entry.call.call_id == ("call-1" if result else "call-0"), (
        "both were under way, and the first names the entry"
    )


def test_c94_a_patch_names_every_file_that_it_touches():
    patch = "*** Begin Patch\n*** Add File: n\n+x\n*** Update File: a\n*** Move to: b\n@@\n-1\n+2\n*** Delete File: d\n*** End Patch"
    event = {"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "apply_patch", "tool_use_id": "c"}
    found = parse_event("codex", {**event, "tool_input": {"command": patch}})
    assert found is not None
    assert found.window == Window(
        "codex:s", "c", "apply_patch", "", json.dumps({"command": patch}), ("n", "a", "b", "d")
    )


CLIENT = """
import subprocess, sys, time
subprocess.run([sys.executable, "-c", "from handhold.cli import main; main()", "hook", "codex"], check=True)
time.sleep(600)
"""


def test_c94_the_call_of_a_killed_client_is_closed_when_another_session_begins(folder: Path):
    """It runs no hook at its end, so its window would name whatever anybody changes later."""
    fields = {"hook_event_name": "PreToolUse", "session_id": "killed", "cwd": str(folder)}
    event = json.dumps({**fields, **call("codex", 0)}).encode()
    client = subprocess.Popen([sys.executable, "-c", CLIENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert client.stdin
        assert client.stdout
        client.stdin.write(event)
        client.stdin.close()
        assert client.stdout.readline() == b"{}\n"
        (folder / "a.txt").write_text("by the killed one\n")
        run("codex", folder, "start")
        (folder / "b.txt").write_text("it still runs\n")
    finally:
        client.kill()
        client.wait()
    run("codex", folder, "start")
    (folder / "late.txt").write_text("by what it left running\n")
    run("codex", folder, "begin", **call("codex", 0))
    (folder / "next.txt").write_text("by the next one\n")
    run("codex", folder, "end", **call("codex", 0))
    with Toolbox.open(folder, session="codex:abc") as box:
        booked = [(entry.call.session, [Path(path).name for path in entry.paths]) for entry in box.log(everyone=True)]
    assert booked == [
        ("codex:killed", ["a.txt"]),
        ("codex:killed", ["b.txt"]),
        ("foreign", ["late.txt"]),
        ("codex:abc", ["next.txt"]),
    ]


SUBAGENT = {"agent_id": "helper", "tool_name": "Bash", "tool_input": {"command": "x"}, "tool_use_id": "call-sub"}


def list_booked(folder: Path, client: str) -> list[tuple[str, str, list[str]]]:
    with Toolbox.open(folder, session=f"{client}:abc") as box:
        return [
            (entry.call.call_id, entry.call.turn, [Path(path).name for path in entry.paths])
            for entry in box.log(everyone=True)
        ]


@pytest.mark.parametrize("client", ["claude-code", "codex"])
def test_c94_the_end_of_a_turn_does_not_end_the_call_of_a_sub_agent(client: str, folder: Path):
    """A sub-agent in the background goes on when the agent has answered; its own end closes what never ended."""
    run(client, folder, "turn")
    run(client, folder, "begin", **SUBAGENT)
    run(client, folder, "sweep")
    (folder / "by the helper").touch()
    run(client, folder, "end", **SUBAGENT)
    run(client, folder, "begin", **SUBAGENT)  # denied, so there is no end
    run(client, folder, "begin", agent_id="other", **{**call(client, 0), "tool_use_id": "call-other"})
    event = {"hook_event_name": "SubagentStop", "agent_id": "helper", "session_id": "abc", "cwd": str(folder)}
    CliRunner().invoke(handhold, ["hook", client], input=json.dumps(event))
    (folder / "by another").touch()
    run(client, folder, "end", agent_id="other", **{**call(client, 0), "tool_use_id": "call-other"})
    assert list_booked(folder, client) == [
        ("call-sub", "turn-1", ["by the helper"]),
        ("call-other", "turn-1", ["by another"]),
    ]


def test_c94_the_prompt_of_a_sub_agent_neither_ends_a_call_nor_begins_a_turn(folder: Path):
    run("codex", folder, "turn")
    run("codex", folder, "begin", **call("codex", 0))
    run("codex", folder, "turn", agent_id="helper")
    (folder / "by the agent").touch()
    run("codex", folder, "end", **call("codex", 0))
    run("codex", folder, "begin", **SUBAGENT)
    (folder / "by the helper").touch()
    run("codex", folder, "end", **SUBAGENT)
    assert list_booked(folder, "codex") == [
        ("call-0", "turn-1", ["by the agent"]),
        ("call-sub", "turn-1", ["by the helper"]),
    ]


def test_c94_a_sub_agent_that_goes_on_with_an_earlier_prompt_begins_no_turn(folder: Path):
    agent = {"tool_name": "Bash", "tool_input": {"command": "x"}}
    run("claude-code", folder, "turn", prompt_id="p1")
    run("claude-code", folder, "turn", prompt_id="p2")
    for number in range(2):
        used = {**agent, "tool_use_id": f"call-{number}", "prompt_id": "p2"}
        for fields in ({**SUBAGENT, "tool_use_id": f"call-sub-{number}", "prompt_id": "p1"}, used):
            run("claude-code", folder, "begin", **fields)
            (folder / fields["tool_use_id"]).touch()
            run("claude-code", folder, "end", **fields)
    assert {turn for _, turn, _ in list_booked(folder, "claude-code")} == {"turn-2"}
