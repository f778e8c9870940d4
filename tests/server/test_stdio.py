"""`handhold mcp` as a client starts it: a separate process, over standard input and output."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from mcp import Client

from handhold.toolbox import Toolbox
from tests.scale import sampled
from tests.server.hosting import ERAS, Nap, Shop, Wire, text_of


def until(true: Callable[[], Any], what: str, seconds: float = 30) -> Any:
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, what
        time.sleep(0.02)
    return found


@pytest.mark.parametrize("era", ERAS)
def test_a_client_of_either_era_starts_it_and_is_served(shop: Shop, era: str):
    async def run() -> None:
        async with Client(shop.in_a_process("--dialect", "claude", "--session", "mine"), mode=era) as client:
            assert len((await client.list_tools()).tools) == 11
            path = str(shop.root / "a.py")
            assert "price = 1" in text_of(await client.call_tool("Read", {"file_path": path}))
            assert "hi" in text_of(await client.call_tool("Bash", {"command": "echo hi"}))

    asyncio.run(run())
    with Toolbox.open(shop.root, state=shop.state, session="mine") as box:
        assert [entry.call.tool for entry in box.log()] == ["Read", "Bash"]


def test_the_first_answer_has_the_instructions_and_says_how_to_take_back(shop: Shop):
    wire = Wire([*shop.command, "--session", "my work"])
    said = wire.begin()["result"]["instructions"]
    wire.end()
    assert "handhold undo --session 'my work'" in said
    with Toolbox.open(shop.root, state=shop.state) as box:
        assert said.startswith(box.instructions[:100])


NOISE = """\
import sys, warnings, logging, os
import handhold.toolbox as toolbox

real = toolbox.Toolbox.call
def noisy(self, tool, arguments, **how):
    print("printed by Python")
    os.write(1, b"written to descriptor one\\n")
    os.system("echo printed by a child")
    warnings.warn("a warning")
    logging.getLogger("x").error("logged")
    if tool == "glob":
        raise RuntimeError("a bug of ours")
    return real(self, tool, arguments, **how)
toolbox.Toolbox.call = noisy

import handhold.server.approvals as approvals
asked = approvals.ElicitationApprover.__call__
def chatty(self, question):
    print("printed by an approver")
    return asked(self, question)
approvals.ElicitationApprover.__call__ = chatty

sys.argv = ["handhold", *sys.argv[1:]]
from handhold.cli import main
main()
"""


NOISES = (
    "printed by Python",
    "written to descriptor one",
    "printed by a child",
    "printed by an approver",
    "a warning",
    "a bug of ours",
)


def test_nothing_but_protocol_is_ever_said_on_standard_output(shop: Shop):
    command = [sys.executable, "-c", NOISE, *shop.command[1:], "--policy", "ask", "--structured"]
    wire = Wire(command, env={**os.environ, "PYTHONWARNINGS": "always", "PYTHONDEVMODE": "1"})
    wire.begin(elicitation={})
    wire.hear(wire.call("bash", {"command": "echo to stdout; echo to stderr >&2; yes | head -n 1000"}))
    refused = wire.hear(wire.call("write_file", {"path": "b.py", "content": "x\n"}))
    facts = refused["result"]["structuredContent"]
    # It is declined at once: nobody was asked.
    assert (refused["result"]["isError"], facts["code"], facts["asked"]) == (True, "NOT_APPROVED", False)
    assert "error" in wire.hear(wire.call("glob", {"pattern": "*"})), "a bug is told as one"
    shown = wire.hear(wire.call("read_file", {"path": "a.py"}))
    assert "price = 1" in shown["result"]["content"][0]["text"], "it still serves"
    errors = wire.end().decode()
    for line in wire.lines:
        assert json.loads(line)["jsonrpc"] == "2.0"
    for noise in NOISES:
        assert noise in errors


@pytest.mark.parametrize("end", sampled(["its input ends", signal.SIGTERM, signal.SIGINT, signal.SIGKILL], 2))
def test_when_it_goes_every_command_goes_with_it(shop: Shop, end: Any):
    nap = Nap(shop)
    wire = Wire([*shop.command, "--policy", "open"])  # else a job whose changes cannot be undone asks
    wire.begin()
    wire.call("bash", {"command": f"touch made; {nap.command}"})
    wire.call("bash", {"command": f"{nap.command}; true", "background": True})
    until(lambda: nap.asleep == 2, "the commands never ran")
    if isinstance(end, str):
        wire.end()
    else:
        wire.process.send_signal(end)
        wire.process.wait(timeout=30)
        wire.end()
    until(lambda: not nap.left, "a command is left")
    assert not (shop.root / "made").exists()
    if end != signal.SIGKILL:
        left = [path.name for path in (shop.root).iterdir()]
        assert left == ["a.py"]


@pytest.mark.slow
def test_a_call_that_died_with_the_server_and_is_sent_again_happens_once(shop: Shop):
    """If the server is killed during or after a call, retrying with the same id on a new server writes the line once."""
    append = {"command": "echo line >> log.txt"}
    wire = Wire([*shop.command, "--session", "s"])
    wire.begin()
    for n, delay in enumerate(sampled((0.05, 0.3, 1.5), 2)):
        wire.call("bash", append, call_id=f"c{n}")
        time.sleep(delay)
        wire.process.kill()
        wire.end()
        wire = Wire([*shop.command, "--session", "s"])
        wire.begin()
        answer = wire.hear(wire.call("bash", append, call_id=f"c{n}"))
        assert answer["result"]["isError"] is False, answer
        again = wire.hear(wire.call("bash", append, call_id=f"c{n}"))
        assert again["result"]["content"] == answer["result"]["content"]
        assert (shop.root / "log.txt").read_text() == "line\n" * (n + 1)
    wire.end()


def test_without_a_name_each_process_is_a_session_of_its_own_and_its_handle_leads_back_to_it(shop: Shop):
    handles: list[str] = []
    for _ in range(2):
        wire = Wire(shop.command)
        wire.begin()
        answer = wire.hear(wire.call("read_file", {"path": "a.py"}))
        handles.append(answer["result"]["_meta"]["handhold/session"])
        wire.end()
    assert len(set(handles)) == 2
    edit = {"path": "a.py", "old_string": "1", "new_string": "2"}
    wire = Wire(shop.command)
    wire.begin()
    assert wire.hear(wire.call("edit_file", edit))["result"]["isError"] is True, "this session has not read it"
    params = {"name": "edit_file", "arguments": edit, "_meta": {"handhold/session": handles[0]}}
    assert wire.hear(wire.say("tools/call", params))["result"]["isError"] is False
    wire.end()
