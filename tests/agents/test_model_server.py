"""The scripted model by itself: it leads each client through the script, and keeps nothing of what it is told."""

import json
import urllib.request
from typing import Any

import pytest

from tests.agents.model_server import DONE, running_model, shape_of_request

STEPS = [[{"tool": "one", "input": {"a": 1}}, {"tool": "two", "input": {}}], [{"tool": "one", "input": {"a": 2}}]]
TOOL = {"name": "one", "description": "secret"}


def ask(url: str, path: str, body: dict[str, Any]) -> str:
    request = urllib.request.Request(url + path, json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=10) as response:
        return response.read().decode()


def anthropic(turns: int) -> tuple[str, dict[str, Any]]:
    said = {"role": "assistant", "content": [{"type": "text", "text": ""}, {"type": "tool_use"}, {"type": "tool_use"}]}
    heard = {"role": "user", "content": [{"type": "tool_result"}]}
    return "/v1/messages?beta=true", {"tools": [{**TOOL, "input_schema": {}}], "messages": [said, heard] * turns}


def responses(turns: int) -> tuple[str, dict[str, Any]]:
    def call(turn: int, n: int) -> list[dict[str, Any]]:
        kind = "function_call" if n else "custom_tool_call"
        mine = {"call_id": f"call_{turn}_{n}"}
        return [{"type": kind, **mine}, {"type": f"{kind}_output", **mine}]

    items = [item for turn in range(turns) for n in range(2) for item in call(turn, n)]
    return "/v1/responses", {"tools": [{"type": "function", **TOOL, "parameters": {}}], "input": items}


def chat(turns: int) -> tuple[str, dict[str, Any]]:
    said, heard = {"role": "assistant", "tool_calls": [{}, {}]}, {"role": "tool"}
    return "/v1/chat/completions", {
        "tools": [{"type": "function", "function": {**TOOL, "parameters": {}}}],
        "messages": [said, heard, heard] * turns,
    }


def gemini(turns: int) -> tuple[str, dict[str, Any]]:
    said, heard = {"role": "model", "parts": [{"functionCall": {}}, {"functionCall": {}}]}, {"role": "user"}
    return "/v1beta/models/m:streamGenerateContent?alt=sse", {
        "tools": [{"functionDeclarations": [{**TOOL, "parameters": {}}]}],
        "contents": [said, heard] * turns,
    }


@pytest.mark.parametrize("face", [anthropic, responses, chat, gemini])
@pytest.mark.parametrize("stream", [True, False])
def test_the_step_is_the_number_of_turns_with_calls(face: Any, stream: bool):
    with running_model(STEPS, ours="one") as model:
        for turns, expected in enumerate(["call_0_1", "call_1_0", DONE, DONE]):
            path, body = face(turns)
            assert expected in ask(model.url, path, {**body, "stream": stream})
        path, body = face(0)
        assert DONE in ask(model.url, path, {**body, "tools": []})
    assert [request.step for request in model.requests] == [0, 1, 2, 3, 0]
    assert [request.tools for request in model.requests] == [["one"]] * 4 + [[]]


def test_a_shape_has_no_text_of_a_prompt_and_no_path():
    body = {
        "system": [{"type": "text", "text": "secret"}],
        "messages": [{"role": "user", "content": "/secret"}, {"role": "user", "content": "secret, too"}],
        "calls": [{"type": "tool_use", "input": {"/secret": "secret"}}],
        "limit": 1,
        "stream": True,
        "none": None,
    }
    tools = [{"name": "theirs", "description": "secret"}, {**TOOL, "parameters": {"properties": {"b": {}, "a": {}}}}]
    shape = shape_of_request("/v1/messages", body, tools, ours="one")
    assert "secret" not in json.dumps(shape)
    assert shape == {
        "path": "/v1/messages",
        "system": [{"type": "text", "text": "string"}],
        "messages": [{"role": "user", "content": "string"}],
        "calls": [{"type": "tool_use", "input": "object"}],
        "limit": "number",
        "stream": "boolean",
        "none": "null",
        "tools": ["theirs"],
        "our tools": {"one": ["a", "b"]},
    }


def test_a_sub_agent_is_led_through_steps_of_its_own():
    task = {"role": "user", "content": [{"type": "text", "text": "sub-agent: do it"}]}
    with running_model(STEPS, ours="one", subagent=[[{"tool": "two", "input": {}}]]) as model:
        for turns, expected in enumerate(["call_1000_0", DONE]):
            path, body = anthropic(turns)
            assert not model.is_subagent_done()
            assert expected in ask(model.url, path, {**body, "messages": [task, *body["messages"]]})
        assert model.is_subagent_done()
        path, body = anthropic(0)
        assert "call_0_1" in ask(model.url, path, body), "the agent itself is where it was"


def test_a_script_may_name_what_only_a_result_has():
    steps = [[], [{"tool": "poll", "input": {"process": "{process of call_0_0}"}}]]
    result = {"type": "function_call_output", "call_id": "call_0_0", "output": "running with session ID 4711\n"}
    path, body = responses(1)
    with running_model(steps, ours="one") as model:
        answer = ask(model.url, path, {**body, "input": [*body["input"][:3], result]})
        assert model.requests[0].results["call_0_0"] == result["output"]
    assert json.dumps({"process": 4711}) in json.loads(answer)["output"][0]["arguments"]
