import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.messages.tool import tool_call
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command
from pydantic import SecretStr

from handhold import Target, Toolbox
from handhold.adapters.langchain import approve_by_interrupt, tools
from handhold.adapters.paused_approvals import ANYWAY
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

GIVEN: Any = {"messages": [("user", TASK)]}
HERE: Any = {"configurable": {"thread_id": "here"}}
Made = Callable[[Model], Any]


def chat(model: Model) -> ChatOpenAI:
    return ChatOpenAI(model="scripted", base_url=f"{model.url}/v1", api_key=SecretStr("none"), max_retries=0)


def responses(model: Model) -> ChatOpenAI:
    return ChatOpenAI(
        model="scripted",
        base_url=f"{model.url}/v1",
        api_key=SecretStr("none"),
        max_retries=0,
        use_responses_api=True,
    )


def messages(model: Model) -> ChatAnthropic:
    return ChatAnthropic(
        model_name="scripted", base_url=model.url, api_key=SecretStr("none"), max_retries=0, timeout=None, stop=None
    )


def agent(model: Model, box: Toolbox, by: Made = messages, **options: Any) -> Any:
    return create_agent(by(model), tools(box), **options)


def run(agent: Any, given: Any = GIVEN) -> dict[str, Any]:
    return agent.invoke(given, HERE)


def awaited(agent: Any, given: Any = GIVEN) -> dict[str, Any]:
    return asyncio.run(agent.ainvoke(given, HERE))


def streamed(agent: Any, given: Any = GIVEN) -> dict[str, Any]:
    """The last state, with the interrupts, which come one by one."""

    async def last() -> dict[str, Any]:
        states = [state async for state in agent.astream(given, HERE, stream_mode="values")]
        interrupts = [each for state in states for each in state.get("__interrupt__", ())]
        return {**states[-1], **({"__interrupt__": interrupts} if interrupts else {})}

    return asyncio.run(last())


Run = Callable[..., dict[str, Any]]
RUNS = pytest.mark.parametrize("run", [run, awaited, streamed])
MODELS = pytest.mark.parametrize("by", [chat, responses, messages])


def told(state: dict[str, Any]) -> list[ToolMessage]:
    return [each for each in state["messages"] if isinstance(each, ToolMessage)]


@MODELS
@RUNS
def test_c102_an_agent_mends_a_repository_and_runs_its_tests(shop: Shop, run: Run, by: Made):
    with scripted(*MENDING) as model, shop.open() as box:
        assert run(agent(model, box, by))["messages"][-1].text == DONE
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


def test_a_message_of_the_model_can_be_taken_back(shop: Shop):
    with scripted(*MENDING) as model, shop.open() as box:
        state = run(agent(model, box))
        changing = [each for each in state["messages"] if isinstance(each, AIMessage)][1]
        assert box.undo(Target.turn(changing.id or "")).status == "success"
    assert shop.cart == CART


@RUNS
def test_a_failure_is_marked_and_what_is_known_of_it_goes_to_the_application(shop: Shop, run: Run):
    turns = [Use("read_file", {"path": "cart"}), Use("read_file", {"path": "cart.py"}), DONE]
    with scripted(*turns) as model, shop.open() as box:
        state = run(agent(model, box))
    assert [(each.status, each.artifact["code"]) for each in told(state)] == [
        ("error", "NOT_FOUND"),
        ("success", None),
    ]
    assert [each.error for each in model.results] == [True, False]


def test_arguments_reach_the_dialect_as_they_came(shop: Shop):
    wrong = {"path": "cart.py", "limit": "1", "config": {}, "run_manager": 1}
    turns = [Use("read_file", {"path": "cart.py", "limit": "1"}), Use("read_file", wrong), DONE]
    with scripted(*turns) as model, shop.open() as box:
        first, second = told(run(agent(model, box)))
    assert first.artifact["data"]["lines"] == 1
    assert second.artifact["code"] == "BAD_ARGUMENTS"


@RUNS
@pytest.mark.parametrize(
    "ending", [{"finish_reason": "length"}, {"stop_reason": "max_tokens"}, {"status": "incomplete"}], ids=str
)
def test_a_call_that_was_cut_off_is_not_carried_out(shop: Shop, run: Run, ending: dict[str, str]):
    names = ("whole.py", "half.py")
    calls = [tool_call(name="write_file", args={"path": name, "content": "x"}, id=name) for name in names]
    with shop.open() as box:
        graph = StateGraph(MessagesState).add_node("tools", ToolNode(tools(box))).add_edge(START, "tools").compile()
        state = run(graph, {"messages": [AIMessage("", tool_calls=calls, response_metadata=ending)]})
    assert [each.artifact["code"] for each in told(state)] == [None, "CUT_OFF"]
    assert [(shop.root / name).exists() for name in names] == [True, False]


@MODELS
@RUNS
def test_an_image_reaches_the_model(shop: Shop, run: Run, by: Made):
    with scripted(Use("read_file", {"path": "cart.py"}), DONE) as model, shop.open(Picturing) as box:
        run(agent(model, box, by))
    assert model.results[0].images == (PICTURE_URL,)
    assert "RATE = 91" in model.results[0].text


def test_a_picture_is_read(shop: Shop):
    with scripted(Use("read_file", {"path": "pixel.png"}), DONE) as model, shop.open() as box:
        run(agent(model, box))
    (image,) = model.results[0].images
    assert is_the_picture(image)


# --- approvals


@RUNS
@pytest.mark.parametrize("approve", [True, False])
def test_a_run_stops_at_a_change_until_it_is_approved(shop: Shop, run: Run, approve: bool):
    with scripted(*CHANGING) as model, shop.open(approver=approve_by_interrupt) as box:
        here = agent(model, box, checkpointer=InMemorySaver())
        (asked,) = run(here)["__interrupt__"]
        assert "+RATE = 19" in asked.value["diff"]
        assert shop.cart == CART
        state = run(here, Command(resume=approve))
        assert state["messages"][-1].text == DONE
    assert ("RATE = 19" in shop.cart) is approve
    assert [each.error for each in model.results] == [False, not approve]


def test_a_command_counts_once_it_is_approved(shop: Shop):
    with (
        scripted(Use("bash", {"command": "echo new >> log"}), DONE) as model,
        shop.open(approver=approve_by_interrupt) as box,
    ):
        here = agent(model, box, checkpointer=InMemorySaver())
        (asked,) = run(here)["__interrupt__"]
        assert asked.value["command"] == "echo new >> log"
        assert not (shop.root / "log").exists()
        run(here, Command(resume=True))
    assert (shop.root / "log").read_text() == "new\n"


RANDOM = "cat /proc/sys/kernel/random/uuid > token"  # never the same twice


@RUNS
def test_an_approved_command_runs_once_and_what_was_shown_is_committed(shop: Shop, run: Run):
    with scripted(Use("bash", {"command": RANDOM}), DONE) as model, shop.open(approver=approve_by_interrupt) as box:
        here = agent(model, box, checkpointer=InMemorySaver())
        (asked,) = run(here)["__interrupt__"]
        assert run(here, Command(resume=True))["messages"][-1].text == DONE
    assert f"+{(shop.root / 'token').read_text()}" in asked.value["diff"]


def test_what_is_different_from_what_was_approved_is_asked_again(shop: Shop):
    log = shop.root / "log"
    with (
        scripted(Use("bash", {"command": "echo new >> log"}), DONE) as model,
        shop.open(approver=approve_by_interrupt) as box,
    ):
        here = agent(model, box, checkpointer=InMemorySaver())
        log.write_text("one\n")
        first = run(here)["__interrupt__"][0].value
        log.write_text("two\n")
        second = run(here, Command(resume=True))["__interrupt__"][0].value
        assert (" one\n" in first["diff"], " two\n" in second["diff"]) == (True, True)
        log.write_text("three\n")
        (third,) = run(here, Command(resume=True))["__interrupt__"]
        assert " three\n" in third.value["diff"]
        assert log.read_text() == "three\n"
        run(here, Command(resume=True))
    assert log.read_text() == "three\nnew\n"


def test_somebody_may_not_mind_what_it_will_be(shop: Shop):
    log = shop.root / "log"
    with (
        scripted(Use("bash", {"command": "echo new >> log"}), DONE) as model,
        shop.open(approver=approve_by_interrupt) as box,
    ):
        here = agent(model, box, checkpointer=InMemorySaver())
        run(here)
        log.write_text("one\n")
        assert run(here, Command(resume=ANYWAY))["messages"][-1].text == DONE
    assert log.read_text() == "one\nnew\n"


@pytest.mark.parametrize("by_name", [True, False])
def test_a_run_that_stopped_goes_on_in_another_process(shop: Shop, by_name: bool, monkeypatch: pytest.MonkeyPatch):
    """There what was shown is not remembered: its name says it, or it is shown again."""
    saved = InMemorySaver()
    with scripted(*CHANGING) as model:
        with shop.open(approver=approve_by_interrupt, session="s") as box:
            (asked,) = run(agent(model, box, checkpointer=saved))["__interrupt__"]
        monkeypatch.setattr("handhold.adapters.langchain._shown_changes", {})
        with shop.open(approver=approve_by_interrupt, session="s") as box:
            here = agent(model, box, checkpointer=saved)
            state = run(here, Command(resume=asked.value["change"] if by_name else True))
            if not by_name:
                assert state["__interrupt__"][0].value == asked.value
                assert shop.cart == CART
                state = run(here, Command(resume=True))
            assert state["messages"][-1].text == DONE
    assert "RATE = 19" in shop.cart


@RUNS
def test_several_changes_of_one_turn_are_approved_each(shop: Shop, run: Run):
    with (
        scripted([write("a.py"), write("b.py"), write("c.py")], DONE) as model,
        shop.open(approver=approve_by_interrupt) as box,
    ):
        here = agent(model, box, checkpointer=InMemorySaver())
        asked = run(here)["__interrupt__"]
        assert len(asked) == 3
        answers = {each.id: "b.py" not in each.value["diff"] for each in asked}
        assert run(here, Command(resume=answers))["messages"][-1].text == DONE
    assert sorted(path.name for path in shop.root.glob("?.py")) == ["a.py", "c.py"]


def own_graph(model: Model, box: Toolbox) -> Any:
    """A node that makes all calls of a message itself."""
    given = tools(box)
    bound = messages(model).bind_tools(given)

    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [bound.invoke(state["messages"])]}

    graph = StateGraph(MessagesState).add_node("ask", ask).add_node("tools", ToolNode(given))
    return graph.add_edge(START, "ask").add_edge("ask", "tools").compile(checkpointer=InMemorySaver())


def write(name: str) -> Use:
    return Use("write_file", {"path": name, "content": "x = 1\n"})


@RUNS
@pytest.mark.parametrize("approve", [True, False])
def test_a_graph_of_ones_own_stops_too(shop: Shop, run: Run, approve: bool):
    with scripted(write("a.py")) as model, shop.open(approver=approve_by_interrupt) as box:
        here = own_graph(model, box)
        assert len(run(here)["__interrupt__"]) == 1
        assert told(run(here, Command(resume=approve)))[-1].status == ("success" if approve else "error")
    assert (shop.root / "a.py").exists() is approve


@RUNS
def test_in_a_node_with_several_calls_an_answer_names_its_change(shop: Shop, run: Run):
    """There a plain yes may come to another call than it was meant for."""
    with scripted([write("a.py"), write("b.py")]) as model, shop.open(approver=approve_by_interrupt) as box:
        here = own_graph(model, box)
        asked = run(here)["__interrupt__"]
        for _ in range(3):
            asked = run(here, Command(resume=True))["__interrupt__"]
        assert not list(shop.root.glob("?.py"))
        first = asked[0].value
        (asked,) = run(here, Command(resume=first["change"]))["__interrupt__"]
        assert asked.value["change"] != first["change"]
        assert "__interrupt__" not in run(here, Command(resume=False))
    assert [path.name in first["diff"] for path in shop.root.glob("?.py")] == [True]


def test_what_did_not_come_from_a_graph_is_not_approved(shop: Shop):
    with shop.open(approver=approve_by_interrupt) as box:
        assert box.call("write_file", {"path": "new.py", "content": "x"}).code == "NOT_APPROVED"
    assert not (shop.root / "new.py").exists()


@pytest.mark.parametrize("says", [True, False])
def test_another_approver_is_asked_with_the_change(shop: Shop, says: bool):
    person = Person(says=says)
    with scripted(*CHANGING) as model, shop.open(approver=person) as box:
        assert run(agent(model, box))["messages"][-1].text == DONE
    assert ["+RATE = 19" in question.diff for question in person.asked] == [True]
    assert ("RATE = 19" in shop.cart) is says


def test_the_framework_may_ask_about_the_call_itself(shop: Shop):
    asking = HumanInTheLoopMiddleware(interrupt_on={"edit_file": True})
    with scripted(*CHANGING) as model, shop.open() as box:
        here = agent(model, box, checkpointer=InMemorySaver(), middleware=[asking])
        assert run(here)["__interrupt__"]
        run(here, Command(resume={"decisions": [{"type": "approve"}]}))
    assert "RATE = 19" in shop.cart


# --- while it runs


def test_what_a_command_prints_is_seen_while_it_runs(shop: Shop):
    async def seen() -> list[Any]:
        pieces: list[Any] = []
        async for piece in agent(model, box).astream(GIVEN, HERE, stream_mode="custom"):
            pieces.append(piece)
            box.interrupt()
        return pieces

    with scripted(*ENDLESS) as model, shop.open() as box:
        assert asyncio.run(seen()) == [{"tool_call_id": "call_1", "tool": "bash", "printed": "first\n", "dropped": 0}]


def test_a_run_that_is_cancelled_leaves_no_command_behind(shop: Shop):
    async def cancelled() -> None:
        async with aclosing(agent(model, box).astream(GIVEN, HERE, stream_mode="custom")) as pieces:
            async for _ in pieces:
                break

    with scripted(*ENDLESS) as model, shop.open() as box:
        asyncio.run(cancelled())
        assert [entry.outcome.status for entry in box.log() if entry.outcome] == ["interrupted"]


def test_a_tool_may_be_called_by_hand(shop: Shop):
    with shop.open() as box:
        (read,) = (tool for tool in tools(box) if tool.name == "read_file")
        assert "RATE = 91" in read.invoke({"path": "cart.py"})
        assert "RATE = 91" in asyncio.run(read.ainvoke({"path": "cart.py"}))
