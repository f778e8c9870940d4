"""Twelve calls of our tools in each agent, one after the other: the model is told what each did."""

import json

from tests.agents.bed import HERE, MARKS, read_files, run_agent
from tests.agents.clients import CLIENTS
from tests.containers.engine import Container

CALLS = json.loads((HERE / "ours.json").read_text(encoding="utf-8"))
SAME_DIALECT = {"opencode": "qwen-code"}
LEFT = {"a.txt": "1\n3\n", "c.txt": "c\n"}
pytestmark = MARKS


def test_twelve_calls_of_our_tools_work(container: Container, client: str):
    calls = CALLS[SAME_DIALECT.get(client, client)]
    prefix = CLIENTS[client].our_tools
    steps = [[{"tool": prefix + call["tool"], "input": call["input"]}] for call in calls]
    report = run_agent(container, client, steps, files={})
    assert report["agent"]["status"] == 0
    last = max((each for each in report["requests"] if each["tools"]), key=lambda each: each["step"])
    results = list(last["results"].values())
    assert len(results) == len(calls) == 12
    for call, result in zip(calls, results, strict=True):
        assert call["told"] in result, (call, result)
    assert read_files(report["tree"], LEFT) == LEFT
    assert not [path for path in report["tree"] if path.startswith("d/")]
