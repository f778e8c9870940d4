import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from openai import AsyncOpenAI, OpenAI

from handhold import OutputChunk, Target
from handhold.adapters.openai import Chat, Responses
from tests.adapters.scripted import Model, Use, scripted
from tests.adapters.shop import (
    CART,
    CHANGING,
    DONE,
    ENDLESS,
    FIXED,
    MENDING,
    PICTURE_URL,
    TASK,
    Person,
    Picturing,
    Shop,
    is_the_picture,
)

Agent = Callable[..., str]
MODEL = "scripted"


def client(model: Model) -> OpenAI:
    return OpenAI(base_url=f"{model.url}/v1", api_key="none", max_retries=0)


# Four agents, as their makers' documentation has them: a loop around the client.


def responses(model: Model, runner: Responses) -> str:
    ours = client(model)
    history: Any = [{"role": "user", "content": TASK}]
    while True:
        response = ours.responses.create(model=MODEL, input=history, tools=runner.tools)
        results = runner.run_calls(response)
        if not results:
            return response.output_text
        history += [*response.output, *results]


def responses_streamed(model: Model, runner: Responses) -> str:
    ours = client(model)
    history: Any = [{"role": "user", "content": TASK}]
    while True:
        with ours.responses.stream(model=MODEL, input=history, tools=runner.tools) as stream:
            response: Any = stream.get_final_response()
        results = runner.run_calls(response)
        if not results:
            return response.output_text
        history += [*(item.to_dict() for item in response.output), *results]


def chat(model: Model, runner: Chat) -> str:
    ours = client(model)
    history: Any = [{"role": "user", "content": TASK}]
    while True:
        completion = ours.chat.completions.create(model=MODEL, messages=history, tools=runner.tools)
        results = runner.run_calls(completion)
        if not results:
            return completion.choices[0].message.content or ""
        history += [completion.choices[0].message, *results]


def chat_awaited(model: Model, runner: Chat) -> str:
    async def run() -> str:
        history: Any = [{"role": "user", "content": TASK}]
        async with AsyncOpenAI(base_url=f"{model.url}/v1", api_key="none", max_retries=0) as ours:
            while True:
                completion = await ours.chat.completions.create(model=MODEL, messages=history, tools=runner.tools)
                results = await runner.arun_calls(completion)
                if not results:
                    return completion.choices[0].message.content or ""
                history += [completion.choices[0].message, *results]

    return asyncio.run(run())


def responses_awaited(model: Model, runner: Responses) -> str:
    async def run() -> str:
        history: Any = [{"role": "user", "content": TASK}]
        async with AsyncOpenAI(base_url=f"{model.url}/v1", api_key="none", max_retries=0) as ours:
            while True:
                response = await ours.responses.create(model=MODEL, input=history, tools=runner.tools)
                results = await runner.arun_calls(response)
                if not results:
                    return response.output_text
                history += [*response.output, *results]

    return asyncio.run(run())


BOTH = pytest.mark.parametrize(("agent", "runner"), [(responses, Responses), (chat, Chat)])
AWAITED = pytest.mark.parametrize(("agent", "runner"), [(responses_awaited, Responses), (chat_awaited, Chat)])
EVERY = pytest.mark.parametrize(
    ("agent", "runner"),
    [
        (responses, Responses),
        (responses_streamed, Responses),
        (responses_awaited, Responses),
        (chat, Chat),
        (chat_awaited, Chat),
    ],
)


@EVERY
def test_c102_an_agent_mends_a_repository_and_runs_its_tests(shop: Shop, agent: Agent, runner: Any):
    with scripted(*MENDING) as model, shop.open() as box:
        assert agent(model, runner(box)) == DONE
    assert shop.cart == FIXED
    assert len(model.results) == 5
    assert "OK" in model.results[4].text


@BOTH
def test_what_one_answer_did_is_taken_back_by_its_id(shop: Shop, agent: Agent, runner: Any):
    with scripted(*MENDING) as model, shop.open() as box:
        agent(model, runner(box))
        assert box.undo(Target.turn("resp_2" if runner is Responses else "chatcmpl-2")).status == "success"
    assert shop.cart == CART


@BOTH
def test_a_refusal_is_a_result_like_any_other(shop: Shop, agent: Agent, runner: Any):
    with scripted(Use("read_file", {"path": "cart"}), DONE) as model, shop.open() as box:
        assert agent(model, runner(box)) == DONE
    assert "cart.py" in model.results[0].text


@BOTH
def test_a_tool_that_nobody_has_is_answered(shop: Shop, agent: Agent, runner: Any):
    class Generous(runner):
        @property
        def tools(self) -> Any:
            tools = super().tools
            renamed: Any = json.loads(json.dumps(tools[0]).replace('"read_file"', '"read_mind"'))
            return [renamed, *tools]

    with scripted(Use("read_mind", {}), DONE) as model, shop.open() as box:
        assert agent(model, Generous(box)) == DONE
    assert "read_mind" in model.results[0].text


@BOTH
def test_what_others_answer_for_is_left_to_them(shop: Shop, agent: Agent, runner: Any):
    with scripted(Use("bash", {"command": "touch made"})) as model, shop.open() as box:
        assert agent(model, runner(box, other_tools=("bash",))) == ""
    assert not (shop.root / "made").exists()


@EVERY
def test_an_image_reaches_the_model(shop: Shop, agent: Agent, runner: Any):
    with scripted(Use("read_file", {"path": "cart.py"}), DONE) as model, shop.open(Picturing) as box:
        agent(model, runner(box))
    assert "RATE = 91" in model.results[0].text
    if runner is Responses:
        assert model.results[0].images == (PICTURE_URL,)
    else:  # a message of a tool has no place for one
        last = model.requests[-1]["messages"][-1]
        assert last["role"] == "user"
        assert last["content"][0]["text"] == "The result of read_file (call_1):"
        assert last["content"][1]["image_url"]["url"] == PICTURE_URL


def test_images_come_behind_the_last_message_of_a_tool(shop: Shop):
    looks = [Use("read_file", {"path": "cart.py"}), Use("read_file", {"path": "test_cart.py"})]
    with scripted(looks, DONE) as model, shop.open(Picturing) as box:
        chat(model, Chat(box))
    roles = [message["role"] for message in model.requests[-1]["messages"]]
    assert roles == ["user", "assistant", "tool", "tool", "user"]


def test_a_picture_is_read(shop: Shop):
    with scripted(Use("read_file", {"path": "pixel.png"}), DONE) as model, shop.open() as box:
        responses(model, Responses(box))
    (image,) = model.results[0].images
    assert is_the_picture(image)


@EVERY
@pytest.mark.parametrize("says", [True, False])
def test_an_approval_is_asked_for_with_the_change(shop: Shop, agent: Agent, runner: Any, says: bool):
    person = Person(says=says)
    with scripted(*CHANGING) as model, shop.open(approver=person) as box:
        assert agent(model, runner(box)) == DONE
    assert ["+RATE = 19" in question.diff for question in person.asked] == [True]
    assert ("RATE = 19" in shop.cart) is says
    assert len(model.results) == 2


@AWAITED
def test_what_a_command_prints_is_seen_while_it_runs(shop: Shop, agent: Agent, runner: Any):
    seen: list[tuple[str, str]] = []

    def watch(call_id: str, printed: OutputChunk) -> None:
        seen.append((call_id, printed.text))
        box.interrupt()

    with scripted(*ENDLESS) as model, shop.open() as box:
        assert agent(model, runner(box, watch=watch)) == DONE
    assert seen == [("call_1", "first\n")]
    assert len(model.results) == 1


@BOTH
def test_a_patch_comes_as_plain_text(shop: Shop, agent: Agent, runner: Any):
    patch = "*** Begin Patch\n*** Update File: cart.py\n@@\n-RATE = 91\n+RATE = 19\n*** End Patch\n"
    with scripted(Use("apply_patch", patch), DONE) as model, shop.open(dialect="codex") as box:
        assert agent(model, runner(box, freeform=("apply_patch",))) == DONE
    assert "RATE = 19" in shop.cart
    declared = model.requests[0]["tools"][0]
    assert declared["type"] == "custom"


def completed(runner: type, arguments: str, ending: str) -> Any:
    """One answer with one call, as the client would have parsed it."""
    from openai.types.chat import ChatCompletion
    from openai.types.responses import Response

    if runner is Responses:
        item = {"type": "function_call", "call_id": "c", "name": "write_file", "arguments": arguments}
        return Response.model_validate(
            {
                "id": "r",
                "object": "response",
                "created_at": 1,
                "model": MODEL,
                "output": [item],
                "parallel_tool_calls": True,
                "tool_choice": "auto",
                "tools": [],
                "status": ending,
            }
        )
    call = {"id": "c", "type": "function", "function": {"name": "write_file", "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "finish_reason": ending, "message": message}
    return ChatCompletion.model_validate(
        {"id": "r", "object": "chat.completion", "created": 1, "model": MODEL, "choices": [choice]}
    )


WHOLE = '{"path": "new.py", "content": "x"}'


@pytest.mark.parametrize(("runner", "ending"), [(Responses, "incomplete"), (Chat, "length"), (Chat, "content_filter")])
def test_a_call_that_was_cut_off_is_not_carried_out(shop: Shop, runner: Any, ending: str):
    with shop.open() as box:
        [answer] = runner(box).run_calls(completed(runner, WHOLE, ending))
        [awaited] = asyncio.run(runner(box).arun_calls(completed(runner, WHOLE, ending)))
    assert "cut off" in answer.get("output", answer.get("content"))
    assert awaited == answer
    assert not (shop.root / "new.py").exists()


@pytest.mark.parametrize(("runner", "ending"), [(Responses, "completed"), (Chat, "tool_calls")])
@pytest.mark.parametrize("arguments", ['{"path": "new.py", "content": "x",}', WHOLE])
def test_arguments_that_are_nearly_json_are_mended(shop: Shop, runner: Any, ending: str, arguments: str):
    with shop.open() as box:
        runner(box).run_calls(completed(runner, arguments, ending))
    assert (shop.root / "new.py").read_text() == "x"


@pytest.mark.parametrize(("runner", "ending"), [(Responses, "completed"), (Chat, "tool_calls")])
@pytest.mark.parametrize("arguments", ["", "null", "[]", "7", '{"path": "new.py", "cont', "\ud800", "[" * 100_000])
def test_arguments_that_are_none_are_refused(shop: Shop, runner: Any, ending: str, arguments: str):
    with shop.open() as box:
        [answer] = runner(box).run_calls(completed(runner, arguments, ending))
    json.dumps(answer).encode()
    assert answer.get("output", answer.get("content"))
    assert not (shop.root / "new.py").exists()


def test_a_call_that_is_sent_twice_is_done_once(shop: Shop):
    with shop.open() as box:
        runner = Responses(box)
        first = runner.run_calls(completed(Responses, WHOLE, "completed"))
        assert runner.run_calls(completed(Responses, WHOLE, "completed")) == first
        (shop.root / "new.py").unlink()
        (again,) = runner.run_calls(completed(Responses, WHOLE, "completed"))
        assert "Changed since: new.py." in str(again)
    assert not (shop.root / "new.py").exists()


@pytest.mark.parametrize(
    "dialect", ["handhold", "claude", "codex", "deepagents", "tiny", "hello", "anthropic", "gemini"]
)
def test_c102_every_dialect_is_declared_by_its_own_schemas(shop: Shop, dialect: str):
    with shop.open(dialect=dialect) as box:
        by_responses: Any = Responses(box).tools
        by_chat: Any = Chat(box).tools
        assert [(each["name"], each["parameters"]) for each in by_responses] == [
            (spec.name, spec.input_schema) for spec in box.specs
        ]
        assert [each["function"]["name"] for each in by_chat] == [spec.name for spec in box.specs]
