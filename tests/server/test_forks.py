"""A server on forks: one for all calls, or one for each agent that a harness starts."""

import asyncio
import os

from handhold.backends.forks import tool_process
from handhold.toolbox import Toolbox
from tests.server.hosting import HANDHOLD, Shop, talk, text_of
from tests.server.test_stdio import Wire


def test_agents_of_one_client_work_in_forks_of_their_own(shop: Shop):
    async def run() -> None:
        async with talk(shop.serving(handles=True)) as client:
            tools = (await client.list_tools()).tools
            assert all("fork" in tool.input_schema["properties"] for tool in tools)
            script = "cat a.py; sed -i s/1/{0}/ a.py; echo {0} >new.txt"
            both = await asyncio.gather(
                client.call_tool("bash", {"command": script.format(2), "fork": "two"}),
                client.call_tool("bash", {"command": script.format(3)}, meta={"handhold/fork": "three"}),
            )
            assert ["price = 1" in text_of(each) for each in both] == [True, True]
            assert "price = 2" in text_of(await client.call_tool("read_file", {"path": "a.py", "fork": "two"}))
            assert "price = 1" in text_of(await client.call_tool("read_file", {"path": "a.py"}))
            assert os.listdir(shop.root) == ["a.py"]
            bad = await client.call_tool("read_file", {"path": "a.py", "fork": "../x"})
            assert bad.is_error
            assert "a name begins with a letter or digit" in text_of(bad)

    asyncio.run(run())
    with Toolbox.open(shop.root, state=shop.state) as box:
        assert sorted(fork.name for fork in box.forks) == ["three", "two"]
        assert not any(fork.is_running for fork in box.forks)
        box.fork("three").merge()
        assert (shop.root / "a.py").read_text() == "price = 3\n"


def test_a_fork_can_be_merged_while_the_server_goes_on(shop: Shop):
    idle, tool_process.IDLE_SECONDS = tool_process.IDLE_SECONDS, 0.1

    async def run() -> None:
        async with talk(shop.serving(fork="try")) as client:
            for n in range(2):
                assert not (await client.call_tool("bash", {"command": f"echo {n} >>new.txt"})).is_error
                with Toolbox.open(shop.root, state=shop.state) as box:
                    while box.forks.get("try").is_running:
                        await asyncio.sleep(0.05)
                    box.fork("try").merge()
                assert (shop.root / "new.txt").read_text() == "0\n1\n"[: 2 * n + 2]

    try:
        asyncio.run(run())
    finally:
        tool_process.IDLE_SECONDS = idle


def test_a_server_in_a_fork_by_option_and_as_a_program(shop: Shop):
    fork = [HANDHOLD, "fork", "--root", str(shop.root), "--state", str(shop.state), "program", "--"]
    for name, command in (("option", [*shop.command, "--fork", "option"]), ("program", [*fork, *shop.command])):
        wire = Wire(command)
        begun = wire.begin()
        assert ("handhold fork diff option" in str(begun)) == (name == "option")
        answer = wire.hear(wire.call("bash", {"command": "echo line >log.txt"}))
        assert answer["result"]["isError"] is False, answer
        assert not (shop.root / "log.txt").exists()
        wire.end()
        with Toolbox.open(shop.root, state=shop.state) as box:
            assert "log.txt" in box.forks.get(name).diff()
            box.forks.get(name).drop()
