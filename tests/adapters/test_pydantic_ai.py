import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from pydantic_ai import Agent, AgentRunResult, DeferredToolRequests, ModelResponse, ToolCallPart, ToolReturnPart
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, TextPart
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from handhold import Target, Toolbox
from handhold.adapters.paused_approvals import ANYWAY
from handhold.adapters.pydantic_ai import approve_by_deferral, toolset
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
    edit,
    is_the_picture,
)

Made = Callable[[Model], Any]


def chat(model: Model) -> OpenAIChatModel:
    return OpenAIChatModel("scripted", provider=OpenAIProvider(base_url=f"{model.url}/v1", api_key="none"))


def responses(model: Model) -> OpenAIResponsesModel:
    return OpenAIResponsesModel("scripted", provider=OpenAIProvider(base_url=f"{model.url}/v1", api_key="none"))


def messages(model: Model) -> AnthropicModel:
    return AnthropicModel("scripted", provider=AnthropicProvider(base_url=model.url, api_key="none"))


def agent(model: Model, box: Toolbox, by: Made = messages) -> Agent[None, str | DeferredToolRequests]:
    return Agent(by(model), toolsets=[toolset(box)], output_type=[str, DeferredToolRequests])


def run(agent: Any, given: Any = TASK, **more: Any) -> AgentRunResult[Any]:
    return agent.run_sync(given, **more)


def streamed(agent: Any, given: Any = TASK, **more: Any) -> AgentRunResult[Any]:
    async def last() -> AgentRunResult[Any]:
        async with agent.run_stream_events(given, **more) as events:
            return [event async for event in events][-1].result

    return asyncio.run(last())


Run = Callable[..., AgentRunResult[Any]]
RUNS = pytest.mark.parametrize("run", [run, streamed])
MODELS = pytest.mark.parametrize("by", [chat, responses, messages])


def returns(result: AgentRunResult[Any]) -> list[ToolReturnPart]:
    return [part for each in result.all_messages() for part in each.parts if isinstance(part, ToolReturnPart)]


@MODELS
@RUNS
def test_c102_an_agent_mends_a_repository_and_runs_its_tests(shop: Shop, run: Run, by: Made):
    with scripted(*MENDING) as model, shop.open() as box:
        assert run(agent(model, box, by)).output == DONE
    assert shop.cart == FIXED
    assert len(model.results) == 5
    assert "OK" in model.results[4].text


@RUNS
def test_calls_of_one_turn_are_carried_out_as_they_stand(shop: Shop, run: Run):
    edits = [edit(f"RATE = {n}", f"RATE = {n + 1}") for n in range(91, 99)]
    with scripted(Use("read_file", {"path": "cart.py"}), edits, DONE) as model, shop.open() as box:
        run(agent(model, box))
        assert [entry.outcome.status for entry in box.log() if entry.outcome] == ["success"] * 9
    assert shop.cart.startswith("RATE = 99\n")


@MODELS
def test_an_answer_of_the_model_can_be_taken_back(shop: Shop, by: Made):
    with scripted(*MENDING) as model, shop.open() as box:
        answers = [each for each in run(agent(model, box, by)).all_messages() if isinstance(each, ModelResponse)]
        assert box.undo(Target.turn(answers[1].provider_response_id or "")).status == "success"
    assert shop.cart == CART


@RUNS
def test_failures_are_marked_and_none_counts_as_a_retry(shop: Shop, run: Run):
    wrong = [Use("read_file", {"path": "cart"})] * 4
    with scripted(*wrong, Use("read_file", {"path": "cart.py"}), DONE) as model, shop.open() as box:
        result = run(agent(model, box))
    assert result.output == DONE
    assert [part.outcome for part in returns(result)] == ["failed"] * 4 + ["success"]
    assert [each.error for each in model.results] == [True] * 4 + [False]
    assert [part.metadata["code"] for part in returns(result)] == ["NOT_FOUND"] * 4 + [None]
    assert returns(result)[4].metadata["data"]["path"] == "cart.py"


def test_arguments_reach_the_dialect_as_they_came(shop: Shop):
    wrong = Use("read_file", {"path": ["cart.py", "test_cart.py"]})
    with scripted(Use("read_file", {"path": "cart.py", "limit": "1"}), wrong, "Sorry.") as model, shop.open() as box:
        first, second = returns(run(agent(model, box)))
    assert first.metadata["data"]["lines"] == 1
    assert second.outcome == "failed"
    assert "path" in model.results[1].text


def test_arguments_that_are_no_json_are_refused_by_the_dialect(shop: Shop):
    def model(history: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        answered = any(isinstance(part, ToolReturnPart) for each in history for part in each.parts)
        return ModelResponse([TextPart(DONE) if answered else ToolCallPart("read_file", '{"path": cart', "call_1")])

    with shop.open() as box:
        result = run(Agent(FunctionModel(model), toolsets=[toolset(box)]))
        assert [entry.outcome.code for entry in box.log() if entry.outcome] == ["BAD_ARGUMENTS"]
    assert [part.outcome for part in returns(result)] == ["failed"]


def test_a_call_that_was_cut_off_is_not_carried_out(shop: Shop):
    names = ("whole.py", "half.py")

    def model(history: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        if any(isinstance(part, ToolReturnPart) for each in history for part in each.parts):
            return ModelResponse([TextPart(DONE)])
        calls = [ToolCallPart("write_file", {"path": name, "content": "x"}, name) for name in names]
        return ModelResponse(calls, finish_reason="length")

    with shop.open() as box:
        result = run(Agent(FunctionModel(model), toolsets=[toolset(box)]))
    assert [part.outcome for part in returns(result)] == ["success", "failed"]
    assert [(shop.root / name).exists() for name in names] == [True, False]


@MODELS
@RUNS
def test_an_image_reaches_the_model(shop: Shop, run: Run, by: Made):
    with scripted(Use("read_file", {"path": "cart.py"}), DONE) as model, shop.open(Picturing) as box:
        run(agent(model, box, by))
    if by is chat:  # whose tool results hold text alone: it follows in a message of the user
        assert PICTURE_URL in str(model.requests[-1]["messages"][-1])
    else:
        assert model.results[0].images == (PICTURE_URL,)
    assert "RATE = 91" in model.results[0].text


def test_a_picture_is_read(shop: Shop):
    with scripted(Use("read_file", {"path": "pixel.png"}), DONE) as model, shop.open() as box:
        run(agent(model, box))
    (image,) = model.results[0].images
    assert is_the_picture(image)


# --- approvals


def answered(result: AgentRunResult[Any], **answer: Any) -> dict[str, Any]:
    return {"message_history": result.all_messages(), "deferred_tool_results": result.output.build_results(**answer)}


@RUNS
@pytest.mark.parametrize("approve", [True, False])
def test_a_run_ends_at_a_change_until_it_is_approved(shop: Shop, run: Run, approve: bool):
    with scripted(*CHANGING) as model, shop.open(approver=approve_by_deferral) as box:
        here = agent(model, box)
        stopped = run(here)
        (asked,) = stopped.output.approvals
        assert "+RATE = 19" in stopped.output.metadata[asked.tool_call_id]["diff"]
        assert shop.cart == CART
        result = run(here, None, **answered(stopped, approvals={asked.tool_call_id: approve}))
        assert result.output == DONE
    assert ("RATE = 19" in shop.cart) is approve
    assert len(model.results) == 2


def test_an_approved_command_runs_once_and_what_was_shown_is_committed(shop: Shop):
    command = "cat /proc/sys/kernel/random/uuid > token"  # never the same twice
    with scripted(Use("bash", {"command": command}), DONE) as model, shop.open(approver=approve_by_deferral) as box:
        here = agent(model, box)
        stopped = run(here)
        (shown,) = stopped.output.metadata.values()
        assert run(here, None, **answered(stopped, approve_all=True)).output == DONE
    assert f"+{(shop.root / 'token').read_text()}" in shown["diff"]


def test_what_is_different_from_what_was_approved_is_asked_again(shop: Shop):
    log = shop.root / "log"
    with (
        scripted(Use("bash", {"command": "echo new >> log"}), DONE) as model,
        shop.open(approver=approve_by_deferral) as box,
    ):
        here = agent(model, box)
        result = run(here)
        assert not log.exists()
        for found in ("one\n", "two\n"):
            log.write_text(found)
            result = run(here, None, **answered(result, approve_all=True))
            (shown,) = result.output.metadata.values()
            assert f" {found}" in shown["diff"]
            assert log.read_text() == found
        assert run(here, None, **answered(result, approve_all=True)).output == DONE
    assert log.read_text() == "two\nnew\n"


def test_somebody_may_not_mind_what_it_will_be(shop: Shop):
    log = shop.root / "log"
    with (
        scripted(Use("bash", {"command": "echo new >> log"}), DONE) as model,
        shop.open(approver=approve_by_deferral) as box,
    ):
        here = agent(model, box)
        stopped = run(here)
        log.write_text("one\n")
        anyway = {asked.tool_call_id: {"change": ANYWAY} for asked in stopped.output.approvals}
        assert run(here, None, **answered(stopped, approve_all=True, metadata=anyway)).output == DONE
    assert log.read_text() == "one\nnew\n"


@pytest.mark.parametrize("with_metadata", [True, False])
def test_a_run_that_ended_goes_on_in_another_process(shop: Shop, with_metadata: bool, monkeypatch: pytest.MonkeyPatch):
    """There what was shown is not remembered: the metadata say it, or it is shown again."""
    with scripted(*CHANGING) as model:
        with shop.open(approver=approve_by_deferral, session="s") as box:
            stopped = run(agent(model, box))
            kept = stopped.all_messages_json()
        monkeypatch.setattr("handhold.adapters.pydantic_ai._shown_changes", {})
        with shop.open(approver=approve_by_deferral, session="s") as box:
            here = agent(model, box)
            metadata = stopped.output.metadata if with_metadata else None
            answer = stopped.output.build_results(approve_all=True, metadata=metadata)
            history = ModelMessagesTypeAdapter.validate_json(kept)
            result = run(here, None, message_history=history, deferred_tool_results=answer)
            if not with_metadata:
                assert result.output.metadata == stopped.output.metadata
                assert shop.cart == CART
                result = run(here, None, **answered(result, approve_all=True))
            assert result.output == DONE
    assert "RATE = 19" in shop.cart


@RUNS
def test_several_changes_of_one_turn_are_approved_each(shop: Shop, run: Run):
    writes = [Use("write_file", {"path": f"{name}.py", "content": "x = 1\n"}, id=name) for name in "abc"]
    with scripted(writes, DONE) as model, shop.open(approver=approve_by_deferral) as box:
        here = agent(model, box)
        stopped = run(here)
        assert len(stopped.output.approvals) == 3
        result = run(here, None, **answered(stopped, approvals={"a": True, "b": False, "c": True}))
        assert result.output == DONE
    assert sorted(path.name for path in shop.root.glob("?.py")) == ["a.py", "c.py"]


def test_what_did_not_come_from_a_run_is_not_approved(shop: Shop):
    with shop.open(approver=approve_by_deferral) as box:
        assert box.call("write_file", {"path": "new.py", "content": "x"}).code == "NOT_APPROVED"
    assert not (shop.root / "new.py").exists()


@pytest.mark.parametrize("says", [True, False])
def test_another_approver_is_asked_with_the_change(shop: Shop, says: bool):
    person = Person(says=says)
    with scripted(*CHANGING) as model, shop.open(approver=person) as box:
        assert run(agent(model, box)).output == DONE
    assert ["+RATE = 19" in question.diff for question in person.asked] == [True]
    assert ("RATE = 19" in shop.cart) is says


# --- while it runs


def test_what_a_command_prints_is_seen_while_it_runs(shop: Shop):
    async def seen() -> list[Any]:
        pieces: list[Any] = []
        async with agent(model, box).run_stream_events(TASK) as events:
            async for event in events:
                if getattr(event, "name", "") == "command_printed":
                    pieces.append(event)
                    box.interrupt()
        return pieces

    with scripted(*ENDLESS) as model, shop.open() as box:
        assert [(each.tool_call_id, each.printed, each.dropped) for each in asyncio.run(seen())] == [
            ("call_1", "first\n", 0)
        ]


def test_a_run_that_is_cancelled_leaves_no_command_behind(shop: Shop):
    async def cancelled() -> None:
        async with agent(model, box).run_stream_events(TASK) as events:
            async for event in events:
                if getattr(event, "name", "") == "command_printed":
                    break

    with scripted(*ENDLESS) as model, shop.open() as box:
        asyncio.run(cancelled())
        assert [entry.outcome.status for entry in box.log() if entry.outcome] == ["interrupted"]
