import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from anthropic import Anthropic, AsyncAnthropic
from anthropic.types import Message

from handhold import OutputChunk, Target
from handhold.adapters.anthropic import Messages
from tests.adapters.scripted import Model, Use, scripted
from tests.adapters.shop import (
    CART,
    CHANGING,
    DONE,
    EDITOR,
    ENDLESS,
    FIXED,
    MENDING,
    MENDING_BY_TYPES,
    PICTURE_URL,
    TASK,
    Person,
    Picturing,
    Shop,
    is_the_picture,
)

Agent = Callable[[Model, Messages], str]
ASKED: Any = {"model": "scripted", "max_tokens": 1000}
FIRST: Any = {"role": "user", "content": TASK}


def client(model: Model) -> Anthropic:
    return Anthropic(base_url=model.url, api_key="none", max_retries=0)


def async_client(model: Model) -> AsyncAnthropic:
    return AsyncAnthropic(base_url=model.url, api_key="none", max_retries=0)


# Agents: loops of one's own, whole and in events, awaited, and the client's.


def loop(model: Model, messages: Messages) -> str:
    ours, history = client(model), [FIRST]
    while True:
        message = ours.messages.create(**ASKED, messages=history, tools=messages.tools)
        results = messages.run_calls(message)
        if not results:
            return message.content[0].text if message.content[0].type == "text" else ""
        history += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]


def loop_in_events(model: Model, messages: Messages) -> str:
    ours, history = client(model), [FIRST]
    while True:
        with ours.messages.stream(**ASKED, messages=history, tools=messages.tools) as stream:
            message = stream.get_final_message()
        results = messages.run_calls(message)
        if not results:
            return message.content[0].text if message.content[0].type == "text" else ""
        content: Any = [block.to_dict() for block in message.content]
        history += [{"role": "assistant", "content": content}, {"role": "user", "content": results}]


def loop_awaited(model: Model, messages: Messages) -> str:
    async def run() -> str:
        history = [FIRST]
        async with async_client(model) as ours:
            while True:
                message = await ours.messages.create(**ASKED, messages=history, tools=messages.tools)
                results = await messages.arun_calls(message)
                if not results:
                    return message.content[0].text if message.content[0].type == "text" else ""
                history += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]

    return asyncio.run(run())


def runner(model: Model, messages: Messages) -> str:
    last = (
        client(model)
        .beta.messages.tool_runner(**ASKED, messages=[FIRST], tools=messages.make_runnable_tools())
        .until_done()
    )
    return last.content[0].text if last.content[0].type == "text" else ""


def runner_in_events(model: Model, messages: Messages) -> str:
    said = ""
    ours: Any = client(model).beta.messages
    for stream in ours.tool_runner(**ASKED, messages=[FIRST], tools=messages.make_runnable_tools(), stream=True):
        said = "".join(event.text for event in stream if event.type == "text")
    return said


def runner_awaited(model: Model, messages: Messages) -> str:
    async def run() -> str:
        async with async_client(model) as ours:
            asked = ours.beta.messages.tool_runner(
                **ASKED, messages=[FIRST], tools=messages.make_async_runnable_tools()
            )
            last = await asked.until_done()
            return last.content[0].text if last.content[0].type == "text" else ""

    return asyncio.run(run())


SOME = pytest.mark.parametrize("agent", [loop, runner])
AWAITED = pytest.mark.parametrize("agent", [loop_awaited, runner_awaited])
EVERY = pytest.mark.parametrize("agent", [loop, loop_in_events, loop_awaited, runner, runner_in_events, runner_awaited])


@EVERY
def test_c102_an_agent_mends_a_repository_and_runs_its_tests(shop: Shop, agent: Agent):
    with scripted(*MENDING) as model, shop.open() as box:
        assert agent(model, Messages(box)) == DONE
    assert shop.cart == FIXED
    assert [result.error for result in model.results] == [False] * 5
    assert "OK" in model.results[4].text


@EVERY
def test_c102_the_same_with_the_tools_the_vendor_has_types_for(shop: Shop, agent: Agent):
    with scripted(*MENDING_BY_TYPES) as model, shop.open(dialect="anthropic") as box:
        assert agent(model, Messages(box)) == DONE
    assert shop.cart == FIXED
    assert [result.error for result in model.results] == [False] * 5
    assert model.requests[0]["tools"] == [
        {"type": "text_editor_20250728", "name": EDITOR},
        {"type": "bash_20250124", "name": "bash"},
    ]


@pytest.mark.parametrize("dialect", ["handhold", "claude", "codex", "deepagents", "tiny", "hello", "gemini"])
def test_c102_other_dialects_are_declared_by_their_own_schemas(shop: Shop, dialect: str):
    with shop.open(dialect=dialect) as box:
        declared: Any = Messages(box).tools
        assert [(each["name"], each["input_schema"]) for each in declared] == [
            (spec.name, spec.input_schema) for spec in box.specs
        ]


def test_what_one_message_did_is_taken_back_by_its_id(shop: Shop):
    with scripted(*MENDING) as model, shop.open() as box:
        loop(model, Messages(box))
        assert box.undo(Target.turn("msg_2")).status == "success"
    assert shop.cart == CART


@EVERY
def test_a_refusal_is_marked_as_an_error(shop: Shop, agent: Agent):
    with scripted(Use("read_file", {"path": "cart"}), DONE) as model, shop.open() as box:
        assert agent(model, Messages(box)) == DONE
        assert model.results[0].text == box.call("read_file", {"path": "cart"}).text
    assert model.results[0].error


@SOME
def test_a_command_that_fails_is_told_as_it_was(shop: Shop, agent: Agent):
    with scripted(Use("bash", {"command": "exit 3"}), DONE) as model, shop.open() as box:
        agent(model, Messages(box))
    assert "3" in model.results[0].text


@EVERY
def test_an_image_reaches_the_model(shop: Shop, agent: Agent):
    with scripted(Use("read_file", {"path": "cart.py"}), DONE) as model, shop.open(Picturing) as box:
        agent(model, Messages(box))
    assert model.results[0].images == (PICTURE_URL,)
    assert "RATE = 91" in model.results[0].text


def test_a_picture_is_read(shop: Shop):
    with scripted(Use("read_file", {"path": "pixel.png"}), DONE) as model, shop.open() as box:
        loop(model, Messages(box))
    (image,) = model.results[0].images
    assert is_the_picture(image)


@EVERY
@pytest.mark.parametrize("says", [True, False])
def test_an_approval_is_asked_for_with_the_change(shop: Shop, agent: Agent, says: bool):
    person = Person(says=says)
    with scripted(*CHANGING) as model, shop.open(approver=person) as box:
        assert agent(model, Messages(box)) == DONE
    assert ["+RATE = 19" in question.diff for question in person.asked] == [True]
    assert ("RATE = 19" in shop.cart) is says
    assert model.results[1].error is not says


@AWAITED
def test_what_a_command_prints_is_seen_while_it_runs(shop: Shop, agent: Agent):
    seen: list[str] = []

    def watch(call_id: str, printed: OutputChunk) -> None:
        seen.append(printed.text)
        box.interrupt()

    with scripted(*ENDLESS) as model, shop.open() as box:
        assert agent(model, Messages(box, watch=watch)) == DONE
    assert seen == ["first\n"]
    assert model.results[0].error


def answered(stop_reason: str, calls: int = 1) -> Message:
    """A message with calls, as the client would have parsed it."""
    written = {"path": "new.py", "content": "half"}
    call = {"type": "tool_use", "name": "write_file", "input": written}
    return Message.model_validate(
        {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "scripted",
            "content": [{**call, "id": f"c{number}"} for number in range(calls)],
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
    )


@pytest.mark.parametrize("reason", ["max_tokens", "refusal", "model_context_window_exceeded"])
def test_a_call_that_was_cut_off_is_not_carried_out(shop: Shop, reason: str):
    # The client mends what came of its arguments into an object: they do not look cut.
    with shop.open() as box:
        [answer] = Messages(box).run_calls(answered(reason))
        [awaited] = asyncio.run(Messages(box).arun_calls(answered(reason)))
    assert awaited == answer
    assert answer.get("is_error")
    assert not (shop.root / "new.py").exists()


def test_what_stands_in_front_of_a_call_that_was_cut_off_is_done(shop: Shop):
    with shop.open() as box:
        answers = Messages(box).run_calls(answered("max_tokens", calls=2))
    assert [answer.get("is_error", False) for answer in answers] == [False, True]
    assert (shop.root / "new.py").exists()


def test_nothing_of_a_message_that_was_refused_is_done(shop: Shop):
    with shop.open() as box:
        answers = Messages(box).run_calls(answered("refusal", calls=2))
    assert [answer.get("is_error", False) for answer in answers] == [True, True]
    assert not (shop.root / "new.py").exists()


def test_a_message_that_pauses_has_no_calls_yet(shop: Shop):
    with shop.open() as box:
        assert Messages(box).run_calls(answered("pause_turn")) == []
    assert not (shop.root / "new.py").exists()


def test_a_call_that_is_sent_twice_is_done_once(shop: Shop):
    with shop.open() as box:
        messages = Messages(box)
        first = messages.run_calls(answered("tool_use"))
        assert messages.run_calls(answered("tool_use")) == first
        (shop.root / "new.py").unlink()
        (again,) = messages.run_calls(answered("tool_use"))
        assert "Changed since: new.py." in str(again)
    assert not (shop.root / "new.py").exists()


def test_what_others_answer_for_is_left_to_them(shop: Shop):
    with shop.open() as box:
        assert Messages(box, other_tools=("write_file",)).run_calls(answered("tool_use")) == []
    assert not (shop.root / "new.py").exists()


@SOME
def test_strange_names_reach_the_model(shop: Shop, agent: Agent):
    (shop.root / "odd").mkdir()
    for name in (b"caf\xe9.py", b"new\nline.py", "\u202egpj.py".encode()):
        with open(bytes(shop.root / "odd") + b"/" + name, "w"):
            pass
    with scripted(Use("glob", {"pattern": "odd/*"}), DONE) as model, shop.open() as box:
        agent(model, Messages(box))
    assert not model.results[0].error
    assert json.dumps(model.results[0].text).encode()
    assert model.results[0].text.count(".py") == 3
