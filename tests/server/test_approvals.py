"""Approvals through the client in both eras: given, declined, unavailable, and answers for another question."""

import asyncio
import json
from typing import Any

import pytest
from click.testing import CliRunner
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ElicitResult, InputRequiredResult

from handhold.cli.commands import handhold
from handhold.server.approvals import ANSWER_CHOICES
from handhold.server.session_pool import SessionPool
from handhold.toolbox import Toolbox
from tests.server.hosting import ERAS, Shop, talk, text_of

eras = pytest.mark.parametrize("era", ERAS)
NEW = {"path": "new.py", "content": "x = 1\n"}
YES, NO = ElicitResult(action="accept", content={"answer": "yes, once"}), ElicitResult(action="decline")


class Somebody:
    """Gives every question the same answer, and records the questions."""

    def __init__(self, answer: ElicitResult, thinks: float = 0.4) -> None:
        self.answer = answer
        self.thinks = thinks if answer.action == "decline" else 0.0
        self.asked: list[Any] = []

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.asked.append(params)
        await asyncio.sleep(self.thinks)
        return self.answer


def called(shop: Shop, era: str, person: Somebody | None, *calls: tuple[str, dict[str, Any]]) -> list[CallToolResult]:
    async def run() -> list[CallToolResult]:
        async with talk(shop.serving(policy="ask"), era, elicitation_callback=person) as client:
            ids: list[Any] = [{"handhold/callId": f"c{n}"} for n in range(len(calls))]
            return [await client.call_tool(*call, meta=meta) for call, meta in zip(calls, ids, strict=True)]

    return asyncio.run(run())


@eras
def test_a_change_is_shown_and_made_once_somebody_says_yes(shop: Shop, era: str):
    person = Somebody(YES)
    [written] = called(shop, era, person, ("write_file", NEW))
    assert not written.is_error
    assert (shop.root / "new.py").read_text() == "x = 1\n"
    [asked] = person.asked
    assert "+x = 1" in asked.message
    with Toolbox.open(shop.root, state=shop.state, session="s") as box:
        last = box.log()[-1]
    assert (last.decision, "MCP" in last.approver) == ("approved", True)


@eras
def test_a_command_that_changes_something_is_asked_about_with_what_it_did(shop: Shop, era: str):
    person = Somebody(YES)
    [ran] = called(shop, era, person, ("bash", {"command": "echo 2 > b.txt"}))
    assert not ran.is_error
    assert (shop.root / "b.txt").read_text() == "2\n"
    [asked] = person.asked
    assert "echo 2 > b.txt" in asked.message
    assert "+2" in asked.message


@eras
@pytest.mark.parametrize(
    "answer",
    [
        NO,
        ElicitResult(action="accept", content={"answer": "no"}),
        ElicitResult(action="accept", content={}),
        ElicitResult(action="accept"),
        ElicitResult(action="accept", content={"answer": "YES!"}),
        ElicitResult(action="decline", content={"answer": "yes, once"}),
    ],
)
def test_everything_but_a_plain_yes_is_a_no(shop: Shop, era: str, answer: ElicitResult):
    person = Somebody(answer)
    [refused] = called(shop, era, person, ("write_file", NEW))
    assert refused.is_error
    assert "did not approve" in text_of(refused)
    assert not (shop.root / "new.py").exists()
    assert len(person.asked) == 1


@eras
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_r35_an_answer_that_nobody_gave_is_no_refusal_and_waits_for_one(shop: Shop, era: str, action: Any):
    """Clients that run without a person answer at once."""
    nobody = Somebody(ElicitResult(action=action), thinks=0.0)
    [refused] = called(shop, era, nobody, ("write_file", NEW))
    assert refused.is_error
    assert "did not approve" not in text_of(refused)
    assert "handhold approve" in text_of(refused)
    assert len(nobody.asked) == 1
    with Toolbox.open(shop.root, state=shop.state, session="s") as box:
        (pending,) = box.store.list_pending()
        box.store.answer(pending.hash, "once", by="a person")
    [done] = called(shop, era, nobody, ("write_file", NEW))
    assert not done.is_error
    assert (shop.root / "new.py").exists()


@eras
def test_who_says_yes_for_the_session_is_not_asked_again(shop: Shop, era: str):
    person = Somebody(ElicitResult(action="accept", content={"answer": "yes, for this session"}))
    done = called(shop, era, person, ("write_file", NEW), ("write_file", {**NEW, "path": "other.py"}))
    assert [each.is_error for each in done] == [False, False]
    assert len(person.asked) == 1


def test_every_answer_that_is_offered_is_understood(shop: Shop):
    person = Somebody(NO)
    called(shop, ERAS[0], person, ("write_file", NEW), ("bash", {"command": "curl http://localhost:1/"}))
    offered = [word for asked in person.asked for word in asked.requested_schema["properties"]["answer"]["enum"]]
    assert set(offered) <= set(ANSWER_CHOICES)


@eras
def test_without_anybody_to_ask_the_refusal_says_how_to_approve_and_then_the_same_call_goes_ahead(shop: Shop, era: str):
    async def run() -> None:
        async with talk(shop.serving(policy="ask"), era) as client:
            meta: Any = {"handhold/callId": "c1"}
            refused = await client.call_tool("write_file", NEW, meta=meta)
            assert refused.is_error
            words = text_of(refused).split("`")[1].split()
            assert words[:2] == ["handhold", "approve"]
            where = ["--root", str(shop.root), "--state", str(shop.state)]
            approved = await asyncio.to_thread(CliRunner().invoke, handhold, [*words[1:], "--yes", *where])
            assert approved.exit_code == 0, approved.output
            done = await client.call_tool("write_file", NEW, meta=meta)
            assert not done.is_error
            again = await client.call_tool("write_file", NEW, meta=meta)
            assert text_of(again) == text_of(done)

    asyncio.run(run())
    assert (shop.root / "new.py").read_text() == "x = 1\n"


def test_a_refusal_by_a_dialect_that_speaks_chinese_says_how_to_approve_as_well(shop: Shop):
    async def run() -> CallToolResult:
        async with talk(shop.serving(policy="ask", dialect="tiny")) as client:
            return await client.call_tool("write_file", NEW)

    assert "handhold approve " in text_of(asyncio.run(run()))


# --- what is handed back with an answer (2026-07-28)


async def questioned(client: Any, arguments: dict[str, Any] = NEW) -> InputRequiredResult:
    asked = await client.session.call_tool("write_file", arguments, allow_input_required=True)
    assert isinstance(asked, InputRequiredResult)
    return asked


def test_an_answer_is_for_what_was_shown_and_for_nothing_else(shop: Shop):
    async def run() -> None:
        async with talk(shop.serving(policy="ask"), ERAS[1], elicitation_callback=Somebody(NO)) as client:
            first = await questioned(client)
            other = {**NEW, "content": "x = 2\n"}
            asked = await client.session.call_tool(
                "write_file",
                other,
                input_responses={"approval": YES},
                request_state=first.request_state,
                allow_input_required=True,
            )
            assert isinstance(asked, InputRequiredResult), "another change is another question"
            assert not (shop.root / "new.py").exists()

    asyncio.run(run())


def test_an_answer_counts_once(shop: Shop):
    async def run() -> None:
        async with talk(shop.serving(policy="ask"), ERAS[1], elicitation_callback=Somebody(NO)) as client:
            first = await questioned(client)
            said: Any = {"input_responses": {"approval": YES}, "request_state": first.request_state}
            done = await client.session.call_tool("write_file", NEW, **said, allow_input_required=True)
            assert isinstance(done, CallToolResult)
            (shop.root / "new.py").unlink()
            asked = await client.session.call_tool("write_file", NEW, **said, allow_input_required=True)
            assert not isinstance(asked, CallToolResult) or asked.is_error
            assert not (shop.root / "new.py").exists()

    asyncio.run(run())


def test_a_state_that_was_not_given_to_this_client_is_refused(shop: Shop):
    desks = SessionPool()
    made_up = json.dumps({"question": "0" * 64, "session": "s"})
    for_another = desks.seal(shop.serving(name="somebody else"), "approval", made_up)
    for_another_purpose = desks.seal(shop.serving(), "session", made_up)

    async def run() -> None:
        async with talk(shop.serving(policy="ask"), ERAS[1], elicitation_callback=Somebody(NO)) as client:
            given = (await questioned(client)).request_state or ""
            for state in ("", "x", made_up, given[:-1], given.replace("s", "t"), for_another, for_another_purpose):
                with pytest.raises(MCPError, match="requestState"):
                    await client.session.call_tool(
                        "write_file", NEW, input_responses={"approval": YES}, request_state=state
                    )

    asyncio.run(run())
    assert not (shop.root / "new.py").exists()


# --- while a person is deciding (2025-11-25)


def test_while_somebody_thinks_others_go_on_and_a_cancelled_question_does_nothing(shop: Shop):
    thinking = asyncio.Event()

    async def think(context: Any, params: Any) -> ElicitResult:
        thinking.set()
        await asyncio.sleep(60)
        return YES

    async def run() -> None:
        async with talk(shop.serving(policy="ask"), ERAS[0], elicitation_callback=think) as client:
            waiting = asyncio.ensure_future(client.call_tool("write_file", NEW))
            await asyncio.wait_for(thinking.wait(), 20)
            shown = await asyncio.wait_for(client.call_tool("read_file", {"path": "a.py"}), 10)
            assert not shown.is_error
            waiting.cancel()
            await asyncio.wait([waiting], timeout=20)
            assert waiting.done()

    asyncio.run(run())
    assert not (shop.root / "new.py").exists()


def test_a_client_that_breaks_off_when_it_is_asked_is_told_how_to_approve(shop: Shop):
    async def broken(context: Any, params: Any) -> ElicitResult:
        raise RuntimeError("no window could be opened")

    async def run() -> CallToolResult:
        async with talk(shop.serving(policy="ask"), ERAS[0], elicitation_callback=broken) as client:
            return await client.call_tool("write_file", NEW)

    assert "handhold approve" in text_of(asyncio.run(run()))
    assert not (shop.root / "new.py").exists()
