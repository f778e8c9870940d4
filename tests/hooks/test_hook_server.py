"""The socket of a running server: hooks pass their events on, and do the work themselves if nobody answers."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from handhold import Toolbox
from handhold.backends.state.client_sessions import SqliteClientSessions
from handhold.backends.state.sqlite import SqliteStore
from handhold.hooks.hook_client import SOCKET_FILE

HANDHOLD = Path(sys.executable).with_name("handhold")
WAIT_SECONDS = 30
REACH = """
import os, socket
try:
    folder = os.open({path!r}, os.O_PATH)
    socket.socket(socket.AF_UNIX).connect(f"/proc/self/fd/{{folder}}/{name}")
    print("ends 0")
except OSError as error:
    print("ends", error.errno)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # A long path: the address of a socket has 108 bytes.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ("x" * 120)))
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    return folder


def socket_path() -> Path:
    return Path(os.environ["XDG_STATE_HOME"]) / "handhold" / SOCKET_FILE


class Server:
    """`handhold mcp`, as a client starts it."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [HANDHOLD, "mcp", "--dialect", "claude", "--root", folder, *options]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.number = 0
        told = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        self.ask("initialize", told)
        self.ask("tools/list", {})  # then it loads the tools, and opens the socket

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        assert self.process.stdin
        assert self.process.stdout
        self.number += 1
        request = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        while reply := self.process.stdout.readline():
            if json.loads(reply).get("id") == self.number:
                return json.loads(reply)["result"]
        raise AssertionError("the server ended")

    def write(self, path: Path, meta: dict[str, Any] | None = None) -> None:
        arguments = {"file_path": str(path), "content": "ours\n"}
        done = self.ask("tools/call", {"name": "Write", "arguments": arguments, "_meta": meta or {}})
        assert not done["isError"], done


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Server]:
    server = Server(folder, *options)
    try:
        wait_for_socket()
        yield server
    finally:
        server.process.kill()
        server.process.communicate()


def wait_for_socket() -> None:
    until = time.monotonic() + WAIT_SECONDS
    while not answers():
        assert time.monotonic() < until, "nobody listens"
        time.sleep(0.02)


def answers() -> bool:
    folder = os.open(socket_path().parent, os.O_PATH) if socket_path().exists() else None
    if folder is None:
        return False
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(f"/proc/self/fd/{folder}/{SOCKET_FILE}")
        except OSError:
            return False
        finally:
            os.close(folder)
        return True


def hook(folder: Path, name: str, *, call: str = "", trace: Path | None = None, **fields: Any) -> dict[str, Any]:
    event = {"hook_event_name": name, "session_id": "abc", "cwd": str(folder), **fields}
    if call:
        event |= {"tool_name": "Bash", "tool_input": {"command": "x"}, "tool_use_id": call}
    command = [HANDHOLD, "hook", "claude-code"]
    if trace:
        command = ["strace", "-f", "-e", "trace=openat", "-o", str(trace), *command]
    done = subprocess.run(command, input=json.dumps(event), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def entries(folder: Path) -> list[tuple[str, str, str]]:
    with Toolbox.open(folder) as box:
        return [(each.call.session, each.call.turn, each.call.tool) for each in box.log(everyone=True) if each.changed]


def test_c94_a_running_server_records_and_the_hook_opens_no_database(folder: Path, tmp_path: Path):
    with serving(folder):
        assert stat.S_IMODE(socket_path().stat().st_mode) == 0o600
        assert hook(folder, "UserPromptSubmit") == {}
        assert hook(folder, "PreToolUse", call="1", trace=tmp_path / "trace") == {}
        (folder / "a.txt").write_text("changed\n")
        assert hook(folder, "PostToolUse", call="1") == {}
    opened = (tmp_path / "trace").read_text()
    assert "hook_client" in opened
    assert "journal" not in opened
    assert "click" not in opened
    assert entries(folder) == [("claude-code:abc", "turn-1", "Bash")]
    with Toolbox.open(folder, session="claude-code:abc") as box:
        assert box.undo().ok
    assert (folder / "a.txt").read_text() == "one\n"


def test_c94_our_calls_and_those_of_the_clients_own_tools_are_one_session(folder: Path):
    """This process stands for the client: both the hooks and the server are its children."""
    with serving(folder) as server:
        server.write(folder / "before.txt")
        hook(folder, "UserPromptSubmit")
        server.write(folder / "ours.txt")
        hook(folder, "PreToolUse", call="1")
        (folder / "a.txt").write_text("changed\n")
        hook(folder, "PostToolUse", call="1")
        hook(folder, "Stop")
        hook(folder, "UserPromptSubmit")
        server.write(folder / "later.txt")
        hook(folder, "UserPromptSubmit", session_id="other")
        server.write(folder / "whose.txt")  # two sessions of one client have turns under way
    session = "claude-code:abc"
    (first, *_), *joined, (last, *_) = entries(folder)
    assert joined == [(session, "turn-1", "Write"), (session, "turn-1", "Bash"), (session, "turn-2", "Write")]
    assert first == last
    assert first.startswith("mcp-")
    command = [HANDHOLD, "undo", "--root", folder, "--session", session, "--turn", "turn-1"]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    assert not (folder / "ours.txt").exists()
    assert (folder / "a.txt").read_text() == "one\n"
    assert (folder / "later.txt").exists()


def test_c94_codex_names_its_session_with_each_call(folder: Path):
    with serving(folder) as server:
        server.write(folder / "x.txt", {"x-codex-turn-metadata": {"session_id": "s", "turn_id": "t"}})
    assert entries(folder) == [("codex:s", "t", "Write")]


def test_c94_a_session_that_was_named_stays(folder: Path):
    with serving(folder, "--session", "mine") as server:
        hook(folder, "UserPromptSubmit")
        server.write(folder / "x.txt")
    assert entries(folder) == [("mine", "", "Write")]


def test_c94_when_a_server_is_killed_the_next_one_listens_and_a_hook_between_does_the_work(folder: Path):
    with serving(folder) as first:
        with serving(folder) as second:
            first.process.send_signal(signal.SIGSTOP)  # it has the socket, and does not answer
            first.process.kill()
            first.process.wait()
            wait_for_socket()
            hook(folder, "PreToolUse", call="1")
            (folder / "a.txt").write_text("changed\n")
            hook(folder, "PostToolUse", call="1")
            second.process.kill()
            second.process.wait()
        assert socket_path().exists(), "a killed server leaves its socket"
        assert not answers()
        hook(folder, "PreToolUse", call="2")
        (folder / "a.txt").write_text("again\n")
        hook(folder, "PostToolUse", call="2")
    assert [tool for _, _, tool in entries(folder)] == ["Bash", "Bash"]


def test_c94_the_socket_takes_nothing_but_events(folder: Path):
    with serving(folder):
        for said in (
            b"",
            b"\n",
            b"codex\0\0/\0",
            b"\xff\0\0/\0\0{}",
            b"nobody\0\0/\0\0{}",
        ):
            with socket.socket(socket.AF_UNIX) as client:
                parent = os.open(socket_path().parent, os.O_PATH)
                client.connect(f"/proc/self/fd/{parent}/{SOCKET_FILE}")
                os.close(parent)
                client.sendall(said)
                client.shutdown(socket.SHUT_WR)
                assert client.recv(100) == b""
        assert answers()
        hook(folder, "PreToolUse", call="1")
    assert entries(folder) == []


@pytest.mark.parametrize("answer", [b"", b"0\0{}", b"0\0{}\0", b"no\0{}\0\0", b"no"])
def test_c94_a_server_that_answers_with_nonsense_leaves_the_work_to_the_hook(folder: Path, answer: bytes):
    socket_path().parent.mkdir(parents=True)
    parent = os.open(socket_path().parent, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{parent}/{SOCKET_FILE}")
        os.close(parent)
        server.listen()

        def answer_twice() -> None:
            for _ in range(2):
                client = server.accept()[0]
                while client.recv(65536):
                    pass
                client.sendall(answer)
                client.close()

        thread = threading.Thread(target=answer_twice)
        thread.start()
        hook(folder, "PreToolUse", call="1")
        (folder / "a.txt").write_text("changed\n")
        hook(folder, "PostToolUse", call="1")
        thread.join()
    assert entries(folder) == [("claude-code:abc", "turn-1", "Bash")]


def test_c94_a_command_cannot_reach_the_socket(folder: Path):
    with serving(folder) as server:
        program = folder / "reach.py"
        program.write_text(REACH.format(path=str(socket_path().parent), name=SOCKET_FILE))
        assert subprocess.run(["python3", program], capture_output=True, text=True, check=True).stdout == "ends 0\n"
        done = server.ask("tools/call", {"name": "Bash", "arguments": {"command": "python3 reach.py"}})
        assert done["content"][0]["text"].startswith("ends 2"), done  # ENOENT: it is not there


def test_c94_the_newest_session_of_a_process_is_its_own_unless_several_are_active(tmp_path: Path):
    store = SqliteStore(tmp_path / "state")
    found: SqliteClientSessions = store.client_sessions
    assert found.find("1:1") == ""
    found.note("a", "1:1", "", is_active=False)
    assert found.find("1:1") == "a"
    found.note("b", "1:1", "", is_active=True)
    found.note("c", "2:2", "", is_active=True)
    assert found.find("1:1") == "b"
    found.note("a", "1:1", "", is_active=True)
    assert found.find("1:1") == ""
    found.note("b", "1:1", "", is_active=False)
    assert found.find("1:1") == "a"
    found.note("a", "1:1", "", is_active=None)
    found.note("b", "1:1", "", is_active=None)
    assert found.find("1:1") == "a", "a start that comes late ends a turn"
    store.close()
