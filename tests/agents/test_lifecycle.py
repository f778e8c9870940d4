"""Commands that fail, go on, run at once, belong to a sub-agent or outlive their agent: each is recorded and undone.

They run by the own tools of Claude Code and Codex, with `npm install`, `git commit` and a push over ssh among them.
What they write late arrives as the pages of the clients say.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.agents import lifecycle
from tests.agents.bed import MARKS, run_agent, without_settings
from tests.agents.lifecycle import SCRIPTS, SUBAGENT_STEP, TURN_2
from tests.agents.programs import find_programs
from tests.containers.engine import Container
from tests.scale import nightly

pytestmark = MARKS
SUBAGENT_CALLS = ["call_1000_0", "call_1001_0"]
PARALLEL = ["call_6_0", "call_6_1", "call_6_2"]
# Steps whose calls change files, and those calls.
CHANGING = {step: [f"call_{step}_0"] for step in (0, 1, 2, 3, 4, 8, 9, 10, 11)}
CHANGING |= {6: PARALLEL, SUBAGENT_STEP: SUBAGENT_CALLS}
# In results: names that a client makes up, times, and the length of a poll.
VARYING = (
    r"(?<=ID: )\w+|(?<=session ID )\d+|(?<=Chunk ID: )\w+|(?<=Wall time: )[\d.]+|/tmp/claude-\S+"
    r'|(?<=agentId: )\w+|(?<=to: \')\w+|(?<="agent_id":")[\w-]+|(?<="nickname":")[^"]+'
)
Tree = dict[str, str]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes | Path]:
    return find_programs(tmp_path_factory.mktemp("programs"))


def skip_others(client: str) -> None:
    if client not in SCRIPTS:
        pytest.skip("a sample of its calls is in test_other_agents.py")


def comparable(tree: Tree) -> Tree:
    """What is the same in two runs: git's index has times and inodes in it."""
    return {name: text for name, text in without_settings(tree).items() if name != ".git/index"}


def read_final_results(report: dict[str, Any]) -> dict[str, str]:
    results: dict[str, str] = {}
    for request in report["requests"]:
        results |= request["results"]
    return {call: re.sub(VARYING, "…", result) for call, result in results.items()}


def undo(*target: str) -> list[str]:
    return ["handhold", "undo", "--session", "{session}", *target]


def list_names(entry: dict[str, Any]) -> list[str]:
    return [path.rpartition("/project/")[2] for path in entry["paths"]]


def read_arguments(entry: dict[str, Any]) -> dict[str, Any]:
    return json.loads(entry["call"]["arguments"])


@nightly(sampled_by="tests/cli/test_hook.py::test_c94_the_end_of_a_turn_does_not_end_the_call_of_a_sub_agent")
def test_c94_whatever_way_a_command_ends_it_is_recorded_with_its_call_and_undone(container: Container, client: str):
    skip_others(client)
    script, steps = SCRIPTS[client], lifecycle.make_steps(client)
    run: dict[str, Any] = {
        "files": lifecycle.FILES,
        "home": lifecycle.HOME,
        "before": lifecycle.BEFORE,
        "subagent": lifecycle.make_subagent_steps(client),
        "after_subagent": SUBAGENT_STEP + 1,
        "gates": lifecycle.make_gates(client),
        "arguments": script.arguments,
        "runs": [{"last": TURN_2}, {"arguments": script.resume}],
        "trees": True,
    }
    plain = run_agent(container, client, steps, plain=True, **run)
    calls = [call for step in sorted(CHANGING, reverse=True) for call in reversed(CHANGING[step])]
    remote = ["git", "--git-dir", "/home/user/remote.git", "log", "--format=%s", "main"]
    redo = ["handhold", "redo", "--session", "{session}", "--all"]
    turns = [undo("--turn", f"{{turn of call_{step}_0}}") for step in (TURN_2, 0)]
    each = [undo("--call", call) for call in calls]
    later = [undo("--all", "--with-foreign"), redo, *turns, redo, *each, remote]
    report = run_agent(container, client, steps, after=later, **run)

    trees = [without_settings(tree) for tree in report["trees"]]
    assert len(trees) == len(steps) + 1
    assert list(map(comparable, trees)) == list(map(comparable, plain["trees"])), "it works otherwise with us"
    assert read_final_results(report) == read_final_results(plain), "the model is told something else with us"
    late = {name: trees[-1][name] for name in script.goes_on}
    assert "ampersand.txt" not in trees[-1] or "ampersand.txt" in late

    entries = report["log"]
    assert {name for entry in entries if entry["call"]["tool"] == "foreign" for name in list_names(entry)} == (
        script.foreign
    )
    owned = [entry for entry in entries if entry["call"]["tool"] != "foreign"]
    named = {call for entry in owned for call in read_arguments(entry)["while"]}
    assert named == {call for made in CHANGING.values() for call in made}
    assert len({entry["call"]["session"] for entry in owned}) == 1
    check_undone(client, trees, report["after"][:-1])
    assert report["after"][-1]["output"] == "second\nfirst\n", "the push arrived; undo does not reach it"


def check_undone(client: str, trees: list[Tree], after: list[dict[str, Any]]) -> None:
    """Without --with-foreign, what foreign programs wrote stays."""
    everything, redone, turn_2, turn_1, again, *each = after
    foreign = {name: trees[-1][name] for name in SCRIPTS[client].foreign}
    assert without_settings(everything["tree"]) == trees[0]
    assert without_settings(redone["tree"]) == without_settings(again["tree"]) == trees[-1]
    assert without_settings(turn_2["tree"]) == trees[TURN_2]
    # Codex has turns of their own for sub-agents.
    others = {name: trees[-1][name] for name in ("sub1.txt", "sub2.txt")} if client == "codex" else {}
    assert without_settings(turn_1["tree"]) == {**trees[0], **foreign, **others}
    remaining = iter(each)
    for step in sorted(CHANGING, reverse=True):
        done = [next(remaining) for _ in CHANGING[step]]
        assert done[0]["status"] == 0, (step, done)
        assert without_settings(done[-1]["tree"]) == {**trees[step], **foreign}, step


@nightly(
    sampled_by="tests/cli/test_hook.py::test_c94_the_call_of_a_killed_client_is_closed_when_another_session_begins"
)
@pytest.mark.parametrize("signal", ["SIGINT", "SIGKILL"])
def test_c94_the_command_of_an_agent_that_is_interrupted_or_killed_is_recorded_and_undone(
    container: Container, client: str, signal: str
):
    """What it leaves running writes twice: before the next session begins, and after that one has ended."""
    skip_others(client)
    left = [lifecycle.detached("late", "late.txt"), lifecycle.detached("last", "last.txt")]
    command = lifecycle.shell(client, f"{' '.join(left)} echo now > now.txt; sleep 100", **STAYS[client])
    others = [[[lifecycle.shell(client, f"echo {name} > {name}.txt")]] for name in ("second", "third")]
    runs: list[dict[str, Any]] = [
        {"signal": {"signal": signal, "file": "now.txt"}, "gates": {"late": "late.txt"}},
        {"steps": others[0], "gates": {"last": "last.txt"}},
        {"steps": others[1]},
    ]
    run: dict[str, Any] = {"files": lifecycle.FILES, "arguments": SCRIPTS[client].arguments, "runs": runs}
    plain = run_agent(container, client, [[command]], plain=True, **run)
    report = run_agent(container, client, [[command]], after=[undo("--all", "--with-foreign")], **run)

    assert [agent["status"] for agent in report["agents"]] == [agent["status"] for agent in plain["agents"]]
    assert without_settings(report["tree"]) == without_settings(plain["tree"])
    booked = [(entry["call"]["tool"] == "foreign", sorted(list_names(entry))) for entry in report["log"]]
    own = ["late.txt", "now.txt"] if signal == "SIGKILL" else ["now.txt"]
    foreign = [(True, [name]) for name in ("late.txt", "last.txt") if name not in own]
    assert booked[0] == (False, own)
    assert [each for each in booked[1:] if each[0]] == foreign
    assert [each for each in booked[1:] if not each[0]] == [(False, ["second.txt"]), (False, ["third.txt"])]
    assert read_arguments(report["log"][0])["never_ended"] == ["call_0_0"]
    assert len({entry["call"]["session"] for entry in report["log"] if entry["call"]["tool"] != "foreign"}) == 3
    (undone,) = report["after"]
    assert undone["status"] == 0
    kept = {"second.txt", "third.txt"}  # other sessions are not undone
    assert without_settings(undone["tree"]) == {
        name: text for name, text in without_settings(report["tree"]).items() if name in kept or name in INITIAL
    }


@nightly(sampled_by="tests/cli/test_hook.py::test_c94_the_end_of_a_turn_does_not_end_the_call_of_a_sub_agent")
def test_c94_what_a_sub_agent_does_after_the_agents_answer_is_its_own(container: Container, client: str):
    if client != "claude-code":
        pytest.skip("its sub-agents end when it answers, if nobody is there to ask it more")
    slow = lifecycle.shell(client, "echo 1 > sub1.txt; sleep 5; echo 2 > sub2.txt")
    report = run_agent(
        container,
        client,
        [[SCRIPTS[client].subagent]],
        subagent=[[slow]],
        arguments=SCRIPTS[client].arguments,
        gates={"1": {"none": "sub1.txt"}},  # the answer waits until the command has begun
        events=True,
    )
    events = [json.loads(line)["hook_event_name"] for line in report["events"]["hooks"].splitlines() if line]
    assert events.index("PreToolUse") < events.index("Stop") < events.index("PostToolUse")
    booked = [(entry["call"]["call_id"], name) for entry in report["log"] for name in list_names(entry)]
    assert booked == [("call_1000_0", "sub1.txt"), ("call_1000_0", "sub2.txt")]


STAYS: dict[str, dict[str, Any]] = {"claude-code": {}, "codex": {"yield_time_ms": 30000}}
INITIAL = {*lifecycle.FILES, "left/"}
