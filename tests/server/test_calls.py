"""Calls by the SDK's client in both eras: sessions, order and progress."""

import asyncio
import sqlite3
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ImageContent

from handhold.server import calls, worker_pools
from handhold.toolbox import Toolbox
from tests.server.hosting import ERAS, Nap, Shop, talk, text_of

eras = pytest.mark.parametrize("era", ERAS)


def journalled(shop: Shop, session: str = "s") -> list[str]:
    with Toolbox.open(shop.root, state=shop.state, session=session) as box:
        return [entry.call.tool for entry in box.log()]


@eras
def test_a_client_lists_the_tools_reads_a_file_and_edits_it(shop: Shop, era: str):
    async def run() -> None:
        async with talk(shop.serving(dialect="claude"), era) as client:
            assert [tool.name for tool in (await client.list_tools()).tools][:3] == ["Read", "Write", "Edit"]
            path = str(shop.root / "a.py")
            assert "price = 1" in text_of(await client.call_tool("Read", {"file_path": path}))
            edit = {"file_path": path, "old_string": "1", "new_string": "2"}
            edited = await client.call_tool("Edit", edit)
            assert not edited.is_error

    asyncio.run(run())
    assert (shop.root / "a.py").read_text() == "price = 2\n"


@eras
def test_a_tool_that_does_not_exist_is_an_error_of_the_protocol_and_a_refusal_is_not(shop: Shop, era: str):
    async def run() -> None:
        async with talk(shop.serving(), era) as client:
            with pytest.raises(MCPError, match="Unknown tool"):
                await client.call_tool("no_such_tool", {})
            refused = await client.call_tool("read_file", {"path": "absent.py"})
            assert refused.is_error
            assert "absent.py" in text_of(refused)
            wrong = await client.call_tool("read_file", {"path": 7, "lines": "all"})
            assert wrong.is_error

    asyncio.run(run())


@eras
def test_the_same_call_id_twice_happens_once_and_with_other_arguments_not_at_all(shop: Shop, era: str):
    async def run() -> None:
        async with talk(shop.serving(), era) as client:
            add = {"command": "echo line >> log.txt"}
            at_once = (client.call_tool("bash", add, meta={"handhold/callId": "c1"}) for _ in range(4))
            later = await asyncio.gather(*at_once), await client.call_tool("bash", add, meta={"callId": "c1"})
            assert len({text_of(each) for each in (*later[0], later[1])}) == 1
            other = await client.call_tool("bash", {"command": "echo other"}, meta={"handhold/callId": "c1"})
            assert other.is_error

    asyncio.run(run())
    assert (shop.root / "log.txt").read_text() == "line\n"


def test_a_client_that_cannot_send_metadata_names_session_and_call_by_arguments(shop: Shop):
    async def run() -> None:
        async with talk(shop.serving(handles=True)) as client:
            tools = (await client.list_tools()).tools
            assert all({"session", "call_id"} <= set(tool.input_schema["properties"]) for tool in tools)
            began = await client.call_tool("read_file", {"path": "a.py", "session": "new"})
            handle = began.meta["handhold/session"] if began.meta else ""
            assert handle in text_of(began), "a model sees no metadata"
            add = {"command": "echo line >> log.txt", "session": handle, "call_id": "c1"}
            for _ in range(2):
                assert not (await client.call_tool("bash", add)).is_error
            edit = {"path": "a.py", "old_string": "1", "new_string": "2"}
            assert (await client.call_tool("edit_file", edit)).is_error, "the client's own session has not read it"
            assert not (await client.call_tool("edit_file", {**edit, "session": handle})).is_error

    asyncio.run(run())
    assert (shop.root / "log.txt").read_text() == "line\n"


@pytest.mark.parametrize(
    "handle", ["s", "s.", ".", "mcp-00.0123456789abcdef0123", "s.0123456789abcdef0123", "x" * 9999]
)
def test_a_forged_handle_is_refused_and_nothing_is_done(shop: Shop, handle: str):
    async def run() -> CallToolResult:
        async with talk(shop.serving()) as client:
            write = {"path": "new.py", "content": "x\n"}
            return await client.call_tool("write_file", write, meta={"handhold/session": handle})

    assert asyncio.run(run()).is_error
    assert not (shop.root / "new.py").exists()


# --- order


@eras
def test_changes_of_one_session_that_are_sent_at_once_are_made_in_the_order_they_came(shop: Shop, era: str):
    async def run() -> None:
        async with talk(shop.serving(), era) as client:
            await client.call_tool("write_file", {"path": "n.txt", "content": "0\n"})
            edits = [{"path": "n.txt", "old_string": f"{n}\n", "new_string": f"{n + 1}\n"} for n in range(20)]
            done = await asyncio.gather(
                *(client.call_tool("edit_file", edit) for edit in edits),
                client.call_tool("read_file", {"path": "n.txt"}),
            )
            assert [text_of(each) for each in done if each.is_error] == []
            assert "20" in text_of(done[-1])

    asyncio.run(run())
    assert (shop.root / "n.txt").read_text() == "20\n"


def test_nobody_waits_for_a_command(shop: Shop):
    async def run() -> None:
        async with talk(shop.serving()) as client:
            slow = asyncio.ensure_future(client.call_tool("bash", {"command": "sleep 20"}))
            await asyncio.sleep(0.2)
            started = monotonic()
            assert not (await client.call_tool("write_file", {"path": "b.py", "content": "x\n"})).is_error
            assert not (await client.call_tool("read_file", {"path": "a.py"})).is_error
            assert monotonic() - started < 5
            assert not slow.done()
            slow.cancel()

    asyncio.run(run())


def test_a_look_that_has_to_wait_for_the_journal_keeps_nobody_else_waiting(shop: Shop):
    """The event loop must not be blocked for long by other calls."""
    rests: list[float] = []

    async def beat() -> None:
        while True:
            before = monotonic()
            await asyncio.sleep(0.01)
            rests.append(monotonic() - before)

    async def run() -> None:
        async with talk(shop.serving()) as client:
            assert not (await client.call_tool("read_file", {"path": "a.py"})).is_error
            heart = asyncio.ensure_future(beat())
            writer = sqlite3.connect(next(shop.state.rglob("state.db")), isolation_level=None)
            writer.execute("BEGIN IMMEDIATE")
            looks = [asyncio.ensure_future(client.call_tool("read_file", {"path": "a.py"})) for _ in range(40)]
            await asyncio.sleep(2)
            assert not any(look.done() for look in looks)
            writer.execute("ROLLBACK")
            writer.close()
            assert not any(done.is_error for done in await asyncio.gather(*looks))
            heart.cancel()

    asyncio.run(run())
    assert len(rests) > 20
    assert max(rests) < 1


def test_beyond_what_may_run_at_once_a_command_is_refused_politely(shop: Shop, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(worker_pools.MAX_THREADS, "command", 1)

    async def run() -> None:
        async with talk(shop.serving()) as client:
            slow = asyncio.ensure_future(client.call_tool("bash", {"command": "sleep 20"}))
            await asyncio.sleep(0.3)
            refused = await client.call_tool("bash", {"command": "touch made"}, meta={"handhold/callId": "c1"})
            assert refused.is_error
            assert "Retry when" in text_of(refused)
            slow.cancel()
            await asyncio.wait([slow])
            until = monotonic() + 20
            while (again := await client.call_tool("bash", {"command": "touch made"})).is_error:
                assert monotonic() < until, text_of(again)
                await asyncio.sleep(0.1)

    asyncio.run(run())
    assert (shop.root / "made").exists()


# --- while it runs


@eras
def test_output_arrives_while_a_command_runs_and_silence_is_broken_in_time(
    shop: Shop, era: str, monkeypatch: pytest.MonkeyPatch
):
    assert calls.PROGRESS_INTERVAL_SECONDS < 20, "a client that hears nothing for twenty seconds may give up"
    monkeypatch.setattr(calls, "PROGRESS_INTERVAL_SECONDS", 0.4)
    heard: list[tuple[float, float, str]] = []

    async def listen(progress: float, total: float | None, message: str | None) -> None:
        heard.append((monotonic(), progress, message or ""))

    async def run() -> float:
        async with talk(shop.serving(), era) as client:
            command = {"command": "echo one; sleep 1.5; echo two"}
            await client.call_tool("bash", command, progress_callback=listen)
            return monotonic()

    ended = asyncio.run(run())
    said = [message for _, _, message in heard]
    assert [message for message in said if not message.startswith("Running for")] == ["one\n", "two\n"]
    assert any(message.startswith("Running for") for message in said)
    (printed,) = (at for at, _, message in heard if message == "one\n")
    assert ended - printed > 1, "the first line came while it ran"
    numbers = [number for _, number, _ in heard]
    assert numbers == sorted(set(numbers)), "progress goes up"


@eras
def test_a_cancelled_call_leaves_no_process_and_does_nothing(shop: Shop, era: str):
    nap = Nap(shop)

    async def run() -> None:
        async with talk(shop.serving(), era) as client:
            running = asyncio.ensure_future(client.call_tool("bash", {"command": f"touch made; {nap.command}"}))
            until = monotonic() + 20
            while not nap.asleep:
                assert monotonic() < until, "it never ran"
                await asyncio.sleep(0.05)
            running.cancel()
            await asyncio.wait([running])
            while nap.left:
                assert monotonic() < until, "it still runs"
                await asyncio.sleep(0.05)
            assert not (await client.call_tool("read_file", {"path": "a.py"})).is_error

    asyncio.run(run())
    assert not (shop.root / "made").exists()


# --- what a result is


@eras
def test_an_image_is_image_content(shop: Shop, era: str):
    from PIL import Image

    Image.new("RGB", (40, 20), "red").save(shop.root / "a.png")

    async def run() -> CallToolResult:
        async with talk(shop.serving(), era) as client:
            return await client.call_tool("read_file", {"path": "a.png"})

    shown = asyncio.run(run())
    [image] = [each for each in shown.content if isinstance(each, ImageContent)]
    assert image.mime_type.startswith("image/")
    assert len(image.data) > 50


@eras
def test_facts_are_sent_as_data_only_where_that_is_wanted_and_never_alone(shop: Shop, era: str):
    async def run(**wanted: Any) -> CallToolResult:
        async with talk(shop.serving(**wanted), era) as client:
            return await client.call_tool("read_file", {"path": "a.py"})

    assert asyncio.run(run()).structured_content is None
    told = asyncio.run(run(structured=True))
    assert told.structured_content["total_lines"] == 1
    assert "price = 1" in text_of(told)


def test_a_workspace_that_is_gone_is_told_and_the_server_lives(shop: Shop, tmp_path: Path):
    (tmp_path / "file").write_text("")

    async def run() -> None:
        async with talk(shop.serving(state=str(tmp_path / "file"))) as client:
            for _ in range(2):
                assert (await client.call_tool("read_file", {"path": "a.py"})).is_error
            assert (await client.list_tools()).tools

    asyncio.run(run())
