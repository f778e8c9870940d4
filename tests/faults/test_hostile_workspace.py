"""Every feature in a hostile workspace: nothing of it runs outside the sandbox, and nothing hangs."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handhold.hooks.events import HOOK_DIALECTS
from tests.faults.hostile_workspace import ODD_NAMES, HostileWorkspace
from tests.scale import sampled

pytestmark = pytest.mark.timeout(180)
TOUCH = "/usr/bin/touch"

# In one process, so that each call costs little: the tools by name, with their arguments.
DRIVER = """
import json, sys
from handhold import Toolbox
calls, options = json.load(sys.stdin)
codes = []
with Toolbox.open(".", session="s", policy="edit", **options) as box:
    for tool, arguments in calls:
        reply = box.call(tool, arguments)
        codes.append(reply.code or "ok")
    box.undo()
    print(json.dumps(codes))
"""


def call_tools(ws: HostileWorkspace, *calls: tuple[str, dict[str, Any]], **options: Any) -> list[str]:
    # `-P`: the folder where a program starts is not our choice, but whoever writes `python` chooses what it imports.
    done = ws.run(sys.executable, "-P", "-c", DRIVER, data=json.dumps([calls, options]))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def use_tools(ws: HostileWorkspace) -> None:
    read = [("read_file", {"path": name}) for name in ("pipe", "self", "none", "out", "abs", "dev", "growing.log")]
    odd = [("read_file", {"path": os.fsdecode(name)}) for name in ODD_NAMES]
    search = [("list_files", {"path": "."}), ("glob", {"pattern": "**/*"}), ("grep", {"pattern": "o[nd]e"})]
    change = [("write_file", {"path": "new.txt", "content": "1\n"}), ("write_file", {"path": "out", "content": "1\n"})]
    codes = call_tools(ws, *read, *odd, *search, *change)
    assert codes[0] == "NOT_REGULAR_FILE"
    assert codes[-2:] == ["ok", "OUTSIDE_WORKSPACE"]
    assert (ws.place / "secret.txt").read_text() == "outside\n"


def use_commands(ws: HostileWorkspace) -> None:
    shell = "python3 -c 'import queue, json'; git status; python3 conftest.py; cat a.txt; cp a.txt made"
    codes = call_tools(ws, ("bash", {"command": shell}))
    assert codes == ["ok"]
    assert ws.handhold("run", "--", "/bin/cat", "a.txt").stdout == "one\ntwo\n"


def use_forks(ws: HostileWorkspace) -> None:
    assert ws.handhold("fork", "try", "--", TOUCH, "made.txt").returncode == 0
    assert "made.txt" in ws.handhold("fork", "diff", "try").stdout
    ws.handhold("fork", "merge", "try")
    assert (ws.root / "made.txt").exists()
    code = "from handhold import Toolbox\nwith Toolbox.open('.') as box, box.fork('two') as fork:\n"
    code += " print(fork.call('read_file', {'path': 'a.txt'}).ok, fork.call('grep', {'pattern': 'one'}).ok)\n"
    code += (
        " print(fork.call('bash', {'command': 'echo 1 >by-tool'}).ok, fork.call('read_file', {'path': 'pipe'}).code)"
    )
    done = ws.run(sys.executable, "-P", "-c", code)
    assert done.stdout.split() == ["True", "True", "True", "NOT_REGULAR_FILE"], done.stderr


def use_watch_and_undo(ws: HostileWorkspace) -> None:
    assert ws.handhold("watch", "--", TOUCH, "watched.txt").returncode == 0
    (ws.root / "src/b.py").write_text("def b():\n    return 2\n")
    ws.handhold("adopt", "src/b.py")
    ws.handhold("diff")
    assert ws.handhold("undo").returncode in (0, 1)


def use_review(ws: HostileWorkspace) -> None:
    """It opens a browser, which is not one of the workspace, and answers."""
    command = [str(Path(sys.executable).with_name("handhold")), "review", "--root", "."]
    with subprocess.Popen(command, cwd=ws.root, env=ws.environment, stdout=subprocess.PIPE, text=True) as page:
        try:
            assert page.stdout
            assert "http://127.0.0.1" in page.stdout.readline() + page.stdout.readline()
        finally:
            page.send_signal(signal.SIGINT)
            page.wait(60)


def use_doctor(ws: HostileWorkspace) -> None:
    assert ws.handhold("doctor").returncode in (0, 1)


def use_explain(ws: HostileWorkspace) -> None:
    for target in ("git push", "pipe"):
        assert ws.handhold("explain", target).returncode in (0, 1)


def use_install(ws: HostileWorkspace) -> None:
    for client in sampled(("claude-code", "codex", "gemini-cli", "opencode", "qwen-code"), 1):
        assert ws.handhold("install", client, "--yes").returncode in (0, 1)
        assert ws.handhold("install", client, "--yes", "--remove").returncode in (0, 1)


def speak_mcp(*calls: tuple[str, dict[str, Any]]) -> str:
    info = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    messages: list[dict[str, Any]] = [{"id": 1, "method": "initialize", "params": info}]
    messages += [{"method": "notifications/initialized"}]
    for number, (name, arguments) in enumerate(calls, 2):
        messages.append({"id": number, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
    return "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)


def use_mcp(ws: HostileWorkspace) -> None:
    said = speak_mcp(("read_file", {"path": "a.txt"}), ("read_file", {"path": "pipe"}), ("grep", {"pattern": "one"}))
    command = [str(Path(sys.executable).with_name("handhold")), "mcp"]
    with subprocess.Popen(
        command, cwd=ws.root, env=ws.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin
        assert server.stdout
        server.stdin.write(said)
        server.stdin.flush()
        answered: set[int] = set()
        while answered != {1, 2, 3, 4}:
            line = server.stdout.readline()
            assert line, "the server has gone"
            answered |= {json.loads(line).get("id", 1)}
        server.stdin.close()
        assert server.wait(60) == 0


def use_serve(ws: HostileWorkspace) -> None:
    command = [str(Path(sys.executable).with_name("handhold")), "serve", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        command, cwd=ws.root, env=ws.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        assert server.stdout
        while "http://" not in server.stdout.readline():
            assert server.poll() is None
        server.send_signal(signal.SIGTERM)
        server.wait(60)


def use_uplink(ws: HostileWorkspace) -> None:
    write = ("write_file", {"path": "shipped.txt", "content": "1\n"})
    assert call_tools(ws, write, ("grep", {"pattern": "one"}), hub="http://127.0.0.1:9") == ["ok", "ok"]


def use_hooks(ws: HostileWorkspace) -> None:
    for client in sampled(tuple(HOOK_DIALECTS), 1):
        for name in HOOK_DIALECTS[client].events:
            event = {"hook_event_name": name, "session_id": "s", "cwd": str(ws.root), "tool_name": "Bash"}
            event |= {"tool_input": {"command": "x"}, "tool_use_id": "1"}
            assert ws.handhold("hook", client, data=json.dumps(event)).returncode == 0


FEATURES: dict[str, Callable[[HostileWorkspace], None]] = {
    "call": use_tools,
    "run": use_commands,
    "fork and merge": use_forks,
    "watch, adopt and undo": use_watch_and_undo,
    "review": use_review,
    "doctor": use_doctor,
    "explain": use_explain,
    "install": use_install,
    "mcp": use_mcp,
    "serve": use_serve,
    "uplink": use_uplink,
    "hooks": use_hooks,
}


@pytest.fixture
def ws(tmp_path: Path) -> HostileWorkspace:
    made = HostileWorkspace(tmp_path)
    made.make()
    return made


@pytest.mark.parametrize("use", FEATURES.values(), ids=FEATURES)
def test_v1_nothing_of_a_hostile_workspace_runs_outside_and_nothing_hangs(
    ws: HostileWorkspace, use: Callable[[HostileWorkspace], None]
):
    with ws.growing():
        use(ws)
    assert ws.ran_outside == []


def test_v1_the_traps_work(ws: HostileWorkspace):
    """Without Handhold they run: else the tests above would prove nothing."""
    ws.run("/bin/sh", "-c", "rg x; xdg-open x")
    ws.run(sys.executable, "-c", "import queue")
    ws.run("/usr/bin/git", "status")
    assert {"rg", "xdg-open", "queue.py", "git-setting"} <= set(ws.ran_outside)
