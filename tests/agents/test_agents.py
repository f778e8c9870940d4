"""The agents that people use, run for real on a scripted model: they offer our tools, and do what the script says.

Each has a throw-away container without a network. What they send is compared by its shape with `shapes/`: a difference
means that a client's protocol changed. `HANDHOLD_WRITE_SHAPES=true just clients-e2e` writes the files anew.
"""

import json
import os
from typing import Any

import pytest

from tests.agents.bed import AFTER, HERE, MARKS, SCRIPT, read_files, run_agent, without_settings
from tests.containers.engine import Container

SHAPES = HERE / "shapes"
pytestmark = MARKS


def conversation(report: dict[str, Any]) -> list[dict[str, Any]]:
    """The requests of the conversation, in order. Others have no tools: they want a title, or a summary."""
    return [request for request in report["requests"] if request["tools"]]


def our_tools(request: dict[str, Any]) -> list[str]:
    return list(request["shape"]["our tools"])


def test_an_agent_does_what_the_script_says_and_all_of_it_is_recorded_and_undone(container: Container, client: str):
    undo_all = ["handhold", "undo", "--session", "{session}", "--all"]
    report = run_agent(container, client, after=[undo_all])
    assert report["install"]["status"] == 0
    assert report["agent"]["status"] == 0
    first, *_, last = conversation(report)
    assert our_tools(first)
    assert last["step"] == len(SCRIPT)
    assert read_files(report["tree"], AFTER) == AFTER
    calls = [entry["call"] for entry in report["log"] if entry["call"]["tool"] != "foreign"]
    assert [call["tool"] for call in calls] == [step["recorded"][client] for step in SCRIPT if "recorded" in step]
    assert {(call["session"], call["turn"]) for call in calls} == {(calls[0]["session"], calls[-1]["turn"])}
    assert calls[0]["session"].startswith(f"{client}:")
    assert all(call["turn"] for call in calls)
    assert report["after"][0]["status"] == 0
    assert without_settings(report["after"][0]["tree"]) == without_settings(report["installed"])
    check_shape(client, report)


def test_r31_in_the_local_scope_of_claude_code_nothing_is_to_be_approved(container: Container, client: str):
    if client != "claude-code":
        pytest.skip("it has no such scope")
    report = run_agent(container, client, install=["--local"], home={".claude/settings.json": "{}"})
    assert report["install"]["status"] == 0
    assert {".mcp.json", ".claude/settings.json"}.isdisjoint(report["installed"])
    assert our_tools(conversation(report)[0])
    calls = [entry["call"] for entry in report["log"] if entry["call"]["tool"] != "foreign"]
    assert [call["tool"] for call in calls] == [step["recorded"][client] for step in SCRIPT if "recorded" in step]


def check_shape(client: str, report: dict[str, Any]) -> None:
    first, *_, last = conversation(report)
    beside = {json.dumps(each["shape"], sort_keys=True) for each in report["requests"] if not each["tools"]}
    shape = {
        "first request": first["shape"],
        "last request": last["shape"],
        "requests without tools": [json.loads(each) for each in sorted(beside)],
    }
    file = SHAPES / f"{client}.json"
    if os.environ.get("HANDHOLD_WRITE_SHAPES"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(shape, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert shape == json.loads(file.read_text(encoding="utf-8"))
