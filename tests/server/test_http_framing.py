"""Request framing: ambiguous requests are rejected and their connections closed."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from handhold.server.tokens import AccessTokens
from tests.server.web import Web, served, token_for

HOST = b"Host: 127.0.0.1\r\n"
KNOWN = HOST + b"Authorization: Bearer anna\r\nContent-Type: application/json\r\n"
SMUGGLED = b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"
CHUNKS = b"0\r\n\r\n"


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    (tmp_path / "shop").mkdir()
    with served(AccessTokens((token_for("anna", tmp_path / "shop", tmp_path / "state"),))) as web:
        yield web


def spoken(web: Web, sent: bytes) -> bytes:
    """Everything that the server sends until it closes the connection."""
    with socket.create_connection(("127.0.0.1", web.port), timeout=8) as line:
        line.sendall(sent)
        data = b""
        while piece := line.recv(65536):
            data += piece
        return data


FRAMINGS = {
    "length and chunks": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    "chunks and length": b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    "no length and chunks": b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
    "a folded coding": b"Content-Length: 5\r\nTransfer-Encoding:\r\n chunked\r\n",
    "a coding in capitals": b"Content-Length: 5\r\nTRANSFER-ENCODING: Chunked\r\n",
    "two lengths": b"Content-Length: 5\r\nContent-Length: 6\r\n",
    "two lengths in one": b"Content-Length: 5, 6\r\n",
    "a length with a sign": b"Content-Length: +5\r\n",
    "a length below zero": b"Content-Length: -5\r\n",
    "a length in hexadecimal": b"Content-Length: 0x5\r\n",
    "a blank before the colon": b"Content-Length : 5\r\n",
    "a blank before the colon of a coding": b"Content-Length: 5\r\nTransfer-Encoding : chunked\r\n",
    "two codings": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    "another coding": b"Transfer-Encoding: gzip, chunked\r\n",
    "an unknown coding": b"Transfer-Encoding: xchunked\r\n",
    "a vertical tab": b"Content-Length: 5\r\nTransfer-Encoding: \x0bchunked\r\n",
    "a bare carriage return": b"Content-Length: 5\r\nX: y\rTransfer-Encoding: chunked\r\n",
    "a zero byte": b"Content-Length: 5\r\nX: \x00\r\n",
    "a fold before any header": b" Content-Length: 5\r\n",
}


@pytest.mark.parametrize("path", [b"/mcp", b"/healthz"])
@pytest.mark.parametrize("framing", FRAMINGS)
def test_r23_a_request_with_two_possible_ends_is_refused_and_nothing_behind_it_is_served(
    web: Web, path: bytes, framing: str
):
    first = FRAMINGS[framing] + KNOWN if framing == "a fold before any header" else KNOWN + FRAMINGS[framing]
    answer = spoken(web, b"POST " + path + b" HTTP/1.1\r\n" + first + b"\r\n" + CHUNKS + SMUGGLED)
    assert answer.split(b" ")[1] in (b"400", b"501"), answer
    assert answer.count(b"HTTP/1.1 ") == 1, answer
    assert b"connection: close" in answer.lower()
    assert b'"ok"' not in answer


def test_r23_the_same_length_twice_is_one_length(web: Web):
    head = b"GET /healthz HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nContent-Length: 5\r\nConnection: close\r\n\r\n"
    answer = spoken(web, head + b"hello" + SMUGGLED)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.count(b"HTTP/1.1 ") == 1, "it was told to close behind the first"


def test_r23_an_honest_request_behind_another_is_served(web: Web):
    last = SMUGGLED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    assert spoken(web, SMUGGLED + last).count(b"HTTP/1.1 200 ") == 2
