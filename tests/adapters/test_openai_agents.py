import asyncio
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionTool,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    RunResult,
    RunResultStreaming,
    RunState,
    ToolCallOutputItem,
)
from agents.tool_context import ToolContext
from openai import AsyncOpenAI

from handhold import OutputChunk, Toolbox, ToolSpec
from handhold.adapters.openai_agents import approve_by_run, tools
from handhold.dialects.handhold import Handhold
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

QUIET = RunConfig(tracing_disabled=True)  # else the SDK sends what it did to its maker
Run = Callable[..., Any]


def made(model: Model, box: Toolbox, by: Any = OpenAIResponsesModel, **options: Any) -> Agent:
    ours = AsyncOpenAI(base_url=f"{model.url}/v1", api_key="none", max_retries=0)
    return Agent(name="coder", instructions="You mend code.", model=by("scripted", ours), tools=tools(box, **options))


def run(agent: Agent, given: Any = TASK) -> RunResult:
    return asyncio.run(Runner.run(agent, given, run_config=QUIET))


def run_in_events(agent: Agent, given: Any = TASK) -> RunResultStreaming:
    async def whole() -> RunResultStreaming:
        result = Runner.run_streamed(agent, given, run_config=QUIET)
        async for _ in result.stream_events():
            pass
        return result

    return asyncio.run(whole())


BOTH = pytest.mark.parametrize("run", [run, run_in_events])
MODELS = pytest.mark.parametrize("by", [OpenAIResponsesModel, OpenAIChatCompletionsModel])


@MODELS
@BOTH
def test_c102_an_agent_mends_a_repository_and_runs_its_tests(shop: Shop, run: Run, by: Any):
    with scripted(*MENDING) as model, shop.open() as box:
        assert run(made(model, box, by)).final_output == DONE
    assert shop.cart == FIXED
    assert len(model.results) == 5
    assert "OK" in model.results[4].text


def test_calls_of_one_turn_are_carried_out_as_they_stand(shop: Shop):
    edits = [edit(f"RATE = {n}", f"RATE = {n + 1}") for n in range(91, 99)]
    with scripted(Use("read_file", {"path": "cart.py"}), edits, DONE) as model, shop.open() as box:
        run(made(model, box))
        assert [entry.outcome.status for entry in box.log() if entry.outcome] == ["success"] * 9
    assert shop.cart.startswith("RATE = 99\n")


def test_a_set_of_tools_serves_more_than_one_loop(shop: Shop):
    with scripted(*MENDING, *MENDING[:1], DONE) as model, shop.open() as box:
        agent = made(model, box)
        for _ in range(2):
            assert run(agent).final_output == DONE


def test_what_came_of_a_call_is_told_to_the_application(shop: Shop):
    looks = Use("read_file", {"path": "cart"}), Use("read_file", {"path": "cart.py"})
    with scripted(*looks, DONE) as model, shop.open() as box:
        result = run(made(model, box))
    known = [item.custom_data or {} for item in result.new_items if isinstance(item, ToolCallOutputItem)]
    assert [(each["status"], each["code"]) for each in known] == [("error", "NOT_FOUND"), ("success", None)]
    assert "cart.py" in model.results[0].text


@BOTH
def test_an_image_reaches_the_model(shop: Shop, run: Run):
    with scripted(Use("read_file", {"path": "cart.py"}), DONE) as model, shop.open(Picturing) as box:
        run(made(model, box))
    assert model.results[0].images == (PICTURE_URL,)
    assert "RATE = 91" in model.results[0].text


def test_a_picture_is_read(shop: Shop):
    with scripted(Use("read_file", {"path": "pixel.png"}), DONE) as model, shop.open() as box:
        run(made(model, box))
    (image,) = model.results[0].images
    assert is_the_picture(image)


def decided(result: Any, *, approve: bool) -> RunState:
    state = result.to_state()
    for asked in result.interruptions:
        if approve:
            state.approve(asked)
        else:
            state.reject(asked)
    return state


@BOTH
@pytest.mark.parametrize("approve", [True, False])
def test_a_run_stops_until_a_change_is_approved(shop: Shop, run: Run, approve: bool):
    with scripted(*CHANGING) as model, shop.open(approver=approve_by_run) as box:
        agent = made(model, box)
        stopped = run(agent)
        assert [asked.tool_name for asked in stopped.interruptions] == ["edit_file"]
        assert shop.cart == CART
        result = run(agent, decided(stopped, approve=approve))
        assert result.final_output == DONE
    assert ("RATE = 19" in shop.cart) is approve
    assert len(model.results) == 2


def test_a_run_that_stopped_goes_on_in_another_process(shop: Shop):
    with scripted(*CHANGING) as model:
        with shop.open(approver=approve_by_run, session="s") as box:
            kept = run(made(model, box)).to_state().to_json()
        with shop.open(approver=approve_by_run, session="s") as box:
            agent = made(model, box)
            state = asyncio.run(RunState.from_json(agent, kept))
            for asked in state.get_interruptions():
                state.approve(asked)
            assert run(agent, state).final_output == DONE
    assert "RATE = 19" in shop.cart


def test_what_did_not_come_from_a_run_is_not_approved(shop: Shop):
    with shop.open(approver=approve_by_run) as box:
        assert box.call("write_file", {"path": "new.py", "content": "x"}).code == "NOT_APPROVED"
    assert not (shop.root / "new.py").exists()


@pytest.mark.parametrize(
    "arguments", ['{"path": "new.py", "content": "half of i', '{"path": "new.py", "content": "x"', "null"]
)
def test_arguments_that_were_cut_off_are_refused(shop: Shop, arguments: str):
    with shop.open() as box:
        [tool] = [each for each in tools(box) if isinstance(each, FunctionTool) and each.name == "write_file"]
        context = ToolContext(None, tool_name=tool.name, tool_call_id="c", tool_arguments=arguments)
        told = asyncio.run(tool.on_invoke_tool(context, arguments))  # pyright: ignore[reportArgumentType]
        assert [entry.outcome.code for entry in box.log() if entry.outcome] == ["BAD_ARGUMENTS"]
    assert "arguments" in told
    assert not (shop.root / "new.py").exists()


class Harmless(Handhold):
    """Says of every tool that it only reads."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(replace(spec, annotations={**spec.annotations, "readOnlyHint": True}) for spec in super().specs)


def test_what_the_run_did_not_stop_for_is_not_approved(shop: Shop):
    dialect = Harmless(inspect.getfile(Handhold))
    with scripted(*CHANGING) as model, shop.open(approver=approve_by_run, dialect=dialect) as box:
        assert run(made(model, box)).final_output == DONE
    assert shop.cart == CART


def test_the_sdk_leaves_images_out_for_models_behind_chat_completions(shop: Shop):
    with scripted(Use("read_file", {"path": "cart.py"}), DONE) as model, shop.open(Picturing) as box:
        run(made(model, box, OpenAIChatCompletionsModel))
    assert model.results[0].images == ()
    assert "RATE = 91" in model.results[0].text


@pytest.mark.parametrize("says", [True, False])
def test_another_approver_is_asked_with_the_change(shop: Shop, says: bool):
    person = Person(says=says)
    with scripted(*CHANGING) as model, shop.open(approver=person) as box:
        assert run(made(model, box)).final_output == DONE
    assert ["+RATE = 19" in question.diff for question in person.asked] == [True]
    assert ("RATE = 19" in shop.cart) is says


@BOTH
def test_what_a_command_prints_is_seen_while_it_runs(shop: Shop, run: Run):
    seen: list[tuple[str, str]] = []

    def watch(call_id: str, printed: OutputChunk) -> None:
        seen.append((call_id, printed.text))
        box.interrupt()

    with scripted(*ENDLESS) as model, shop.open() as box:
        assert run(made(model, box, watch=watch)).final_output == DONE
    assert seen == [("call_1", "first\n")]


@pytest.mark.parametrize("approve", [True, False])
def test_a_patch_comes_as_plain_text(shop: Shop, approve: bool):
    patch = "*** Begin Patch\n*** Update File: cart.py\n@@\n-RATE = 91\n+RATE = 19\n*** End Patch\n"
    with scripted(Use("apply_patch", patch), DONE) as model, shop.open(dialect="codex", approver=approve_by_run) as box:
        agent = made(model, box, freeform=("apply_patch",))
        assert run(agent, decided(run(agent), approve=approve)).final_output == DONE
    assert ("RATE = 19" in shop.cart) is approve
    assert model.requests[0]["tools"][0]["type"] == "custom"


def test_a_run_that_is_cancelled_leaves_no_command_behind(shop: Shop):
    async def cancelled() -> None:
        started = asyncio.Event()
        running = asyncio.ensure_future(
            Runner.run(made(model, box, watch=lambda *_: started.set()), TASK, run_config=QUIET)
        )
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    with scripted(*ENDLESS) as model, shop.open() as box:
        asyncio.run(cancelled())
        assert [entry.outcome.status for entry in box.log() if entry.outcome] == ["interrupted"]
