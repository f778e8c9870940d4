"""The stdio transport: every line is a message or gets an error response."""

import io
import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp_types import INVALID_REQUEST, JSONRPCRequest

from handhold.server import stdio_transport
from handhold.server.stdio_transport import InvalidMessage, parse_message
from tests.clients.line import connected

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
MESSAGES = st.fixed_dictionaries({}, optional={key: VALUES | st.just("2.0") for key in ("jsonrpc", "id", "method", "params", "result", "error")})  # fmt: skip


@given(st.binary() | VALUES.map(json.dumps).map(str.encode) | MESSAGES.map(json.dumps).map(str.encode))
@example(b"\xff\xfe{\x00}\x00")
@example(b"[" * 100_000)
@example(b'{"id": ' + b"9" * 5000 + b"}")
def test_a_line_is_always_a_message_or_unreadable(line: bytes):
    try:
        said = parse_message(line)
    except InvalidMessage as unreadable:
        said = unreadable.response
    assert said.jsonrpc == "2.0"


@given(st.integers() | st.text(st.characters(codec=None)), st.sampled_from(["[1]", '{"a": NaN}', '{"a": "\xff"}']))
def test_what_is_unreadable_is_answered_by_the_id_that_it_was_meant_to_have(id: int | str, params: str):  # noqa: A002
    line = f'{{"jsonrpc": "2.0", "id": {json.dumps(id)}, "method": "ping", "params": {params}}}'
    with pytest.raises(InvalidMessage) as unreadable:
        parse_message(line.encode("latin-1"))
    assert unreadable.value.response.id == id


def test_a_line_that_is_too_long_is_passed_over(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stdio_transport, "MAX_LINE_BYTES", 100)
    said = io.BytesIO(b"x" * 1234 + b'\n{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
    with pytest.raises(InvalidMessage) as unreadable:
        stdio_transport._read_message(said)  # pyright: ignore[reportPrivateUsage]
    assert unreadable.value.response.error.code == INVALID_REQUEST
    assert isinstance(stdio_transport._read_message(said), JSONRPCRequest)  # pyright: ignore[reportPrivateUsage]
    assert stdio_transport._read_message(said) is None  # pyright: ignore[reportPrivateUsage]


def test_a_client_that_listens_no_more_leaves_no_traceback(tmp_path: Path):
    with connected(tmp_path, tmp_path / "state", listening=False) as line:
        assert line.server.stdout
        line.server.stdout.close()
        call = {"jsonrpc": "2.0", "id": "1", "method": "initialize", "params": {}}
        line.say(*[json.dumps(call).encode(), b"noise"] * 50)
        assert line.gone() == (0, "")


def test_half_a_character_comes_back_as_it_was_sent(tmp_path: Path):
    command = {"command": "echo one; sleep 0.3; echo two"}
    with connected(tmp_path, tmp_path / "state") as line:
        line.greet()
        call = {"name": "bash", "arguments": command, "_meta": {"progressToken": "\ud83d"}}
        line.say(json.dumps({"jsonrpc": "2.0", "id": "\udc00", "method": "tools/call", "params": call}).encode())
        *progress, answer = line.until("\udc00")
    assert {each["params"]["progressToken"] for each in progress} == {"\ud83d"}
    assert "two" in answer["result"]["content"][0]["text"]
