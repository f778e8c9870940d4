"""A sample of edits and commands by the own tools of opencode, Gemini CLI and Qwen Code: each is recorded and undone."""

import json
from typing import Any

import pytest

from tests.agents.bed import MARKS, run_agent, without_settings
from tests.containers.engine import Container
from tests.scale import nightly

pytestmark = MARKS
FILES = {"b.txt": "one\ntwo\nthree\n", "log.txt": "1\n", "folder/deep/x.txt": "x\n", "script.sh": "#!/bin/sh\n"}
COMMANDS = (
    "echo new > new.txt",
    "rm -rf folder",
    "mv log.txt moved.txt && chmod +x script.sh",
    "echo partly > failed.txt; exit 3",
    "mkdir hollow && ln -s b.txt link",
    "true",
    "sed -i s/2/zwei/ b.txt",
)
# By client: the shell tool, and the names of its arguments for what differs.
NAMES = {
    "opencode": {"shell": "bash", "write": "write", "edit": "edit", "read": "read", "path": "filePath"},
    "gemini-cli": {"shell": "run_shell_command", "write": "write_file", "edit": "replace", "read": "read_file"},
    "qwen-code": {"shell": "run_shell_command", "write": "write_file", "edit": "edit", "read": "read_file"},
}
MORE = {  # arguments that a tool wants in addition
    ("opencode", "shell"): {"description": "A step"},
    ("gemini-cli", "shell"): {"description": "A step"},
    ("gemini-cli", "edit"): {"instruction": "Change it."},
    ("qwen-code", "shell"): {"is_background": False},
}


def make_call(client: str, kind: str, path: str = "", **arguments: Any) -> dict[str, Any]:
    names = NAMES[client]
    if path:
        arguments[names.get("path", "file_path")] = f"{{project}}/{path}"
    if client == "opencode":
        renamed = {"old_string": "oldString", "new_string": "newString"}
        arguments = {renamed.get(name, name): value for name, value in arguments.items()}
    return {"tool": names[kind], "input": {**arguments, **MORE.get((client, kind), {})}}


def make_steps(client: str) -> list[dict[str, Any]]:
    edits = [
        make_call(client, "write", "e1.txt", content="new\n"),
        make_call(client, "write", "sub/new/e2.txt", content="in new folders\n"),
        make_call(client, "read", "b.txt"),
        make_call(client, "edit", "b.txt", old_string="one", new_string="1"),
        make_call(client, "edit", "b.txt", old_string="two", new_string="2"),
        make_call(client, "read", "script.sh"),
        make_call(client, "write", "script.sh", content="#!/bin/sh\necho hi\n"),
        make_call(client, "edit", "b.txt", old_string="not there", new_string="x"),
    ]
    return [*edits, *(make_call(client, "shell", command=command) for command in COMMANDS)]


@nightly(sampled_by="tests/cli/test_hook.py::test_c94_what_a_client_does_with_its_own_tools_is_undone_by_call_and_turn")
def test_c94_a_sample_of_edits_and_commands_is_recorded_each_and_undone_each(container: Container, client: str):
    if client not in NAMES:
        pytest.skip("all of its calls are in test_recording.py and test_lifecycle.py")
    calls = make_steps(client)
    steps = [[call] for call in calls]
    plain = run_agent(container, client, steps, files=FILES, plain=True, trees=True)
    changing = [n for n, call in enumerate(calls) if changes(call)]
    numbers = [f"{{entry {n}}}" for n in reversed(range(len(changing)))]
    each = [["handhold", "undo", "--session", "{session}", "--call", number] for number in numbers]
    redo = ["handhold", "redo", "--session", "{session}", "--all"]
    turn = ["handhold", "undo", "--session", "{session}", "--turn", "turn-1"]
    everything = ["handhold", "undo", "--session", "{session}", "--all"]
    later = [*each, redo, turn, redo, everything]
    report = run_agent(container, client, steps, files=FILES, trees=True, after=later)

    trees = [without_settings(tree) for tree in report["trees"]]
    assert len(trees) == len(steps) + 1
    assert trees == [without_settings(tree) for tree in plain["trees"]], "it works otherwise with us"
    assert [n for n in range(len(calls)) if trees[n] != trees[n + 1]] == changing
    entries = [entry for entry in report["log"] if entry["call"]["tool"] != "foreign"]
    foreign = {
        path.removeprefix("/ws/project/"): ""
        for entry in report["log"]
        for path in entry["paths"]
        if entry not in entries
    }
    assert without_settings(foreign) == {}, "some complete their settings when they start, but nobody else is there"
    recorded = [(entry["call"]["tool"], read_input(entry)) for entry in entries]
    given = json.loads(json.dumps(calls).replace("{project}", "/ws/project"))
    assert [tool for tool, _ in recorded] == [given[n]["tool"] for n in changing]
    for n, (_, arguments) in zip(changing, recorded, strict=True):
        assert {name: arguments.get(name) for name in given[n]["input"]} == given[n]["input"]
    ids = [entry["call"]["call_id"] for entry in entries]
    assert len(set(ids)) == len(ids)
    if client == "opencode":  # others have ids of their own, or none, and ours are made from the arguments
        assert ids == [f"call_{n}_0" for n in changing]

    *undone, redone, turned, again, left = report["after"]
    for n, done in zip(reversed(changing), undone, strict=True):
        assert done["status"] == 0, done
        assert without_settings(done["tree"]) == trees[n]
    assert without_settings(redone["tree"]) == without_settings(again["tree"]) == trees[-1]
    assert without_settings(turned["tree"]) == without_settings(left["tree"]) == trees[0]


def changes(call: dict[str, Any]) -> bool:
    text = json.dumps(call)
    return '"true"' not in text and "not there" not in text and not call["tool"].startswith("read")


def read_input(entry: dict[str, Any]) -> dict[str, Any]:
    return json.loads(entry["call"]["arguments"])["input"]
