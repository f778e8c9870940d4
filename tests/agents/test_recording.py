"""What the agents' own tools do is recorded call by call, and undone byte for byte. Their results are as without us."""

import json
from typing import Any

import pytest

from tests.agents.bed import HERE, MARKS, run_agent, without_settings
from tests.agents.clients import CLIENTS
from tests.containers.engine import Container
from tests.scale import nightly

pytestmark = MARKS
DATA = json.loads((HERE / "recorded.json").read_text(encoding="utf-8"))
RULES = json.loads((HERE / "rules.json").read_text(encoding="utf-8"))
RECORDED = tuple(DATA["edits"])  # whose tools the script calls
Steps = list[list[dict[str, Any]]]


def make_steps(client: str, kind: str) -> Steps:
    if kind == "edits":
        return DATA["edits"][client]
    return [[make_call(client, command)] for command in DATA["commands"]]


def make_call(client: str, command: str) -> dict[str, Any]:
    if client == "codex":
        return {"tool": "exec_command", "input": {"cmd": command}}
    return {"tool": "Bash", "input": {"command": command, "description": "A step"}}


def comparable(tree: dict[str, str]) -> dict[str, str]:
    """What is the same in two runs: git's index has times and inodes in it."""
    return {name: text for name, text in without_settings(tree).items() if name != ".git/index"}


def undo(call: str) -> list[str]:
    return ["handhold", "undo", "--session", "{session}", *(["--call", call] if call else ["--all"])]


@nightly(sampled_by="tests/cli/test_hook.py::test_c94_what_a_client_does_with_its_own_tools_is_undone_by_call_and_turn")
@pytest.mark.parametrize("kind", ["commands", "edits"])
def test_c94_twenty_calls_are_recorded_each_and_undone_each(container: Container, client: str, kind: str):
    if client not in RECORDED:
        pytest.skip("a sample of its calls is in test_agents.py")
    steps = make_steps(client, kind)
    plain = run_agent(container, client, steps, files=DATA["files"], plain=True, trees=True)
    calls = [f"call_{number}_0" for number in range(len(steps))]
    later = [
        *(undo(call) for call in reversed(calls)),
        ["handhold", "redo", "--session", "{session}", "--all"],
        undo(""),
    ]
    report = run_agent(container, client, steps, files=DATA["files"], trees=True, after=later)
    trees = [without_settings(tree) for tree in report["trees"]]
    assert len(trees) == len(steps) + 1
    assert list(map(comparable, trees)) == list(map(comparable, plain["trees"])), "it works otherwise with us"
    changed = [call for call, before, after in zip(calls, trees[:-1], trees[1:], strict=True) if before != after]
    assert len(changed) > 15
    assert [entry["call"]["call_id"] for entry in report["log"]] == changed
    assert {entry["call"]["session"].split(":")[0] for entry in report["log"]} == {client}
    *each, redone, undone = report["after"]
    for call, before, done in zip(reversed(calls), reversed(trees[:-1]), each, strict=True):
        assert (done["status"] == 0) is (call in changed), (call, done)
        assert without_settings(done["tree"]) == before, call
    assert without_settings(redone["tree"]) == trees[-1]
    assert without_settings(undone["tree"]) == trees[0]


@nightly(sampled_by="tests/cli/test_hook.py::test_c94_what_a_client_does_with_its_own_tools_is_undone_by_call_and_turn")
def test_c94_only_our_tools_are_offered_for_files_and_commands(container: Container, client: str):
    if client == "gemini-cli":
        pytest.skip("install refuses --only")
    report = run_agent(container, client, [], install=["--only"])
    assert report["agent"]["status"] == 0
    first = next(request for request in report["requests"] if request["tools"])
    others = [name for name in first["tools"] if not name.startswith(CLIENTS[client].our_tools)]
    assert any(name.startswith(CLIENTS[client].our_tools) for name in first["tools"])
    own = {*DATA["own tools"][client]}
    remains = {"codex": {"apply_patch"}}.get(client, set())
    assert own.intersection(others) == remains, others


@nightly(sampled_by="tests/cli/test_hook.py::test_c94_what_a_client_does_with_its_own_tools_is_undone_by_call_and_turn")
def test_c94_the_users_own_rules_decide_as_without_us(container: Container, client: str):
    """Deny, ask and allow in Claude Code, the read-only sandbox of Codex, what the others deny and allow. Without a person,
    what is asked is denied."""
    rules = RULES[client]
    home = {name: json.dumps(settings) for name, settings in rules["home"].items()}
    run = {"files": DATA["files"] | rules["files"], "arguments": rules["arguments"], "home": home, "trees": True}
    plain = run_agent(container, client, rules["steps"], plain=True, **run)
    report = run_agent(container, client, rules["steps"], **run)
    made = [
        name for name in report["tree"] if name in without_settings(report["tree"]) and name not in report["installed"]
    ]
    assert sorted(name for name in made if not name.endswith("/")) == rules["made"]
    assert list(map(comparable, report["trees"])) == list(map(comparable, plain["trees"]))
    assert len(report["trees"]) == len(rules["steps"]) + 1
    changed = [entry["paths"] for entry in report["log"] if entry["call"]["tool"] != "foreign"]
    assert len(changed) == len(rules["made"])


@nightly(sampled_by="tests/cli/test_claude_plugin.py::test_the_plugin_has_the_hooks_and_the_server_of_install")
@pytest.mark.parametrize("source", ["folder", "marketplace"])
def test_c94_the_plugin_does_what_install_does(container: Container, client: str, source: str):
    if client != "claude-code":
        pytest.skip("there is a plugin for Claude Code only")
    tools = "mcp__plugin_handhold_handhold"
    write = {"tool": f"{tools}__Write", "input": {"file_path": "{project}/ours.txt", "content": "ours\n"}}
    program = "/agents/" + CLIENTS[client].program[0]
    enter = [["marketplace", "add", "/plugins"], ["install", "handhold@handhold"]] if source == "marketplace" else []
    given = ["--plugin-dir", "/plugins/claude-code"] if source == "folder" else []
    report = run_agent(
        container,
        client,
        [[write], [make_call(client, "echo 1 > shell.txt")]],
        plain=True,
        before=[[program, "plugin", *words] for words in enter],
        arguments=[*CLIENTS[client].arguments, *given, "--allowedTools", f"Bash,{tools}"],
        after=[undo("")],
    )
    assert {"ours.txt", "shell.txt"} <= set(report["tree"])
    calls = [(entry["call"]["session"], entry["call"]["turn"], entry["call"]["tool"]) for entry in report["log"]]
    assert [tool for _, _, tool in calls] == ["Write", "Bash"]
    assert len({(session, turn) for session, turn, _ in calls}) == 1
    assert report["after"][0]["tree"] == report["installed"]


HOOK_FILES = {"claude-code": ".claude/settings.json", "codex": ".codex/hooks.json"}
HANG = """
import re, sys
text = open(sys.argv[1]).read().replace(sys.argv[2], "sleep 60")
open(sys.argv[1], "w").write(re.sub(r'"timeout": \\d+', '"timeout": 2', text))
"""


@nightly(sampled_by="tests/cli/test_hook.py::test_c94_a_hook_that_fails_says_so_and_lets_the_client_go_on")
@pytest.mark.parametrize("fault", ["missing", "missing, strict", "hangs", "killed server"])
def test_c94_if_a_hook_fails_the_client_goes_on_or_is_blocked_and_the_gap_is_booked(
    container: Container, client: str, fault: str
):
    if client not in HOOK_FILES:
        pytest.skip("a sample of its calls is in test_agents.py")
    file, command = HOOK_FILES[client], f"handhold hook {client}"
    commands = ["echo 1 > one.txt", "echo 2 > two.txt"]
    between: list[list[str]] = []
    if fault.startswith("missing"):
        between = [["sed", "-i", f"s/{command}/no{command}/g", file]]
    elif fault == "hangs":
        between = [["python3", "-c", HANG, file, command]]
    else:
        commands.insert(0, "pkill -9 -f '[m]ain.. mcp'")
    report = run_agent(
        container,
        client,
        [[make_call(client, each)] for each in commands],
        install=["--strict"] if "strict" in fault else [],
        between=between,
        after=[["handhold", "watch", "--", "true"], ["handhold", "log", "--everyone", "--json"]],
    )
    assert report["agent"]["status"] == 0
    made = {name for name in report["tree"] if name in ("one.txt", "two.txt")}
    entries = json.loads(report["after"][1]["output"])
    booked = {(entry["call"]["tool"], path.rsplit("/")[-1]) for entry in entries for path in entry["paths"]}
    if "strict" in fault:
        assert (made, booked) == (set(), set())
    else:
        tool = "Bash" if fault == "killed server" else "foreign"
        assert made == {"one.txt", "two.txt"}
        assert booked == {(tool, name) for name in made}
