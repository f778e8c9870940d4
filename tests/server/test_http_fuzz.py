"""Fuzzed HTTP requests: methods, paths, headers, bodies and messages of both revisions, complete and in pieces.

Every response must be valid for HTTP and the protocol and must not be a 500. Nothing may hang, and the next honest
request must succeed. HANDHOLD_FUZZ_CASES sets the number of cases; the seed of each case is its number.
"""

import json
import os
import random
import socket
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from handhold.server.admission import ServerLimits
from handhold.server.tokens import AccessTokens
from tests.scale import scaled
from tests.server.web import ENVELOPE, HANDSHAKE, MODERN, Client, Web, served, token_for

CASES = int(os.environ.get("HANDHOLD_FUZZ_CASES", scaled(400, 3000)))
STATUSES = {200, 202, 400, 401, 403, 404, 405, 406, 408, 411, 413, 415, 421, 429, 431, 501, 505}
CODES = {-32700, -32600, -32601, -32602, -32800, -32020, -32021, -32022}  # of JSON-RPC and the protocol
METHODS = ["POST"] * 12 + [
    "GET",
    "PUT",
    "DELETE",
    "OPTIONS",
    "HEAD",
    "PATCH",
    "TRACE",
    "CONNECT",
    "post",
    "BREW",
    "P\tST",
]
PATHS = ["/mcp"] * 14 + [
    "/",
    "/mcp/",
    "//mcp",
    "/MCP",
    "/mcp?x=1",
    "/healthz",
    "/%6dcp",
    "*",
    "/mcp/../healthz",
    "http://localhost/mcp",
    "/\xff",
    "/" + "a" * 9000,
]
VERSIONS = (
    [MODERN] * 6
    + [HANDSHAKE] * 4
    + ["2025-06-18", "2025-03-26", "2024-11-05", "1999-01-01", "", "x" * 300, "2026-07-28, 2025-11-25"]
)
NAMES = ["tools/call"] * 8 + [
    "tools/list",
    "initialize",
    "ping",
    "server/discover",
    "resources/read",
    "prompts/get",
    "notifications/cancelled",
    "notifications/initialized",
    "logging/setLevel",
    "subscriptions/listen",
    "completion/complete",
    "nope",
    "",
    "\x00",
    "tools/call\n",
]
TOOLS = ["read_file"] * 4 + ["grep", "list_files", "nope", "", "read_file\x00", "__init__", "READ_FILE", "x" * 500]


def odd(chance: random.Random, depth: int = 0) -> Any:
    """An unexpected JSON value."""
    kinds = 10 if depth < 3 else 8
    match chance.randrange(kinds):
        case 0:
            return None
        case 1:
            return chance.choice([True, False])
        case 2:
            return chance.choice([0, -1, 2**31, 2**63, 2**64, 10**30, 1e308, -0.0, 0.1])
        case 3:
            return chance.choice(
                ["", "a", "a.py", "../a", "/etc/passwd", "\x00", "\ud800", "é" * 50, "x" * 5000, "💥", "null"]
            )
        case 4:
            return chance.choice(["__class__", "$ref", "{}", "[]", "%s%n", "\r\nx: y", "-1", "1e999"])
        case 5 | 6 | 7:
            return chance.randrange(-5, 5)
        case 8:
            return [odd(chance, depth + 1) for _ in range(chance.randrange(4))]
        case _:
            keys = ["_meta", "name", "arguments", "path", "id", "method", "progressToken", "session", "x", ""]
            return {chance.choice(keys): odd(chance, depth + 1) for _ in range(chance.randrange(4))}


def message(chance: random.Random) -> Any:
    """A message that is often almost valid."""
    method = chance.choice(NAMES)
    params: Any = {"name": chance.choice(TOOLS), "arguments": {"path": "a.py"}} if method == "tools/call" else {}
    if method == "initialize":
        params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    params["_meta"] = dict(ENVELOPE)
    whole: Any = {
        "jsonrpc": "2.0",
        "id": chance.choice([1, 1, 1, "a", 0, -1, 2**70]),
        "method": method,
        "params": params,
    }
    for _ in range(chance.choice([0, 0, 0, 1, 1, 2, 3])):
        place = chance.choice(
            [
                whole,
                whole,
                params,
                params.get("arguments", params),
                params["_meta"] if isinstance(params.get("_meta"), dict) else params,
            ]
        )
        if not isinstance(place, dict) or not place:
            continue
        key = chance.choice([*place, "extra", "id"])
        if chance.random() < 0.4:
            place.pop(key, None)
        else:
            place[key] = odd(chance)
        if not isinstance(params, dict):
            break
    return chance.choice(
        [whole] * 12
        + [
            [whole],
            [],
            odd(chance),
            {"jsonrpc": "2.0", "id": 1, "result": {}},
            {"jsonrpc": "2.0", "id": 1, "error": odd(chance)},
        ]
    )


def body(chance: random.Random) -> bytes:
    data = json.dumps(message(chance)).encode()
    match chance.randrange(14):
        case 0:
            return data[: chance.randrange(len(data) + 1)]
        case 1:
            return bytes(chance.randrange(256) for _ in range(chance.randrange(200)))
        case 2:
            return b"[" * 3000 + b"]" * chance.choice([0, 3000])
        case 3:
            return b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}'
        case 4:
            at = chance.randrange(len(data) + 1)
            return data[:at] + chance.choice([b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"NaN", b"\\u"]) + data[at:]
        case 5:
            return chance.choice(
                [
                    b"",
                    b" ",
                    b"\xef\xbb\xbf" + data,
                    data + data,
                    data + b"\n\n",
                    data.decode().encode("utf-16"),
                    b"a" * 70_000,
                ]
            )
        case _:
            return data


def request(chance: random.Random, session: str) -> tuple[bytes, bool]:
    """The bytes of a request, and whether it is complete. An incomplete request may get no response."""
    honest = chance.random() < 0.6  # valid except for its body
    pick: Any = (lambda options: options[0]) if honest else chance.choice
    method, path, data = pick(METHODS), pick(PATHS), body(chance)
    try:
        told: Any = json.loads(data)
        named = told["method"] if isinstance(told["method"], str) else "tools/call"
        tool = told["params"]["name"] if named == "tools/call" else ""
    except (ValueError, TypeError, KeyError, RecursionError):
        named, tool = "tools/call", "read_file"
    headers = [
        ("host", pick(["localhost"] * 20 + ["127.0.0.1:80", "evil.example", "", "[::1]"])),
        ("authorization", pick(["Bearer anna"] * 20 + ["Bearer x", "", "Basic YQ==", "Bearer " + "x" * 9000])),
        (
            "content-type",
            pick(
                ["application/json"] * 14
                + ["application/json; charset=utf-8", "text/plain", "", "application/jsonx", "a" * 200]
            ),
        ),
        (
            "accept",
            pick(["application/json, text/event-stream"] * 14 + ["*/*", "text/html", "", "application/json", ";;,,"]),
        ),
        ("mcp-protocol-version", chance.choice([MODERN, HANDSHAKE]) if honest else chance.choice(VERSIONS)),
        ("mcp-method", pick([named] * 10 + ["tools/list", "", "é"])),
        ("mcp-name", pick([tool] * 10 + ["x", "=?base64?AAA?=", "=?base64?***?="])),
        ("mcp-session-id", pick([session] * 8 + ["x", "", session + "x", "~a", "." * 100])),
        ("origin", pick([None] * 20 + ["http://evil.example", "null", "http://localhost:1"])),
    ]
    chance.shuffle(headers)
    headers = [(name, value) for name, value in headers if value is not None and (honest or chance.random() > 0.04)]
    if chance.random() < 0.05 and headers:
        headers.append(chance.choice(headers))
    whole = True
    match chance.randrange(3, 12) if honest else chance.randrange(12):
        case 0:  # chunked, sometimes malformed
            headers.append(("transfer-encoding", "chunked"))
            pieces = [data[at : at + 700] for at in range(0, len(data), 700)]
            data = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
            end = chance.choice([b"0\r\n\r\n"] * 4 + [b"", b"zz\r\n", b"0\r\n", b"-1\r\n\r\n", b"ffffffffffffffff\r\n"])
            data, whole = data + end, end == b"0\r\n\r\n"
        case 1:
            length = chance.choice([len(data) + 5, max(0, len(data) - 5), -1, 10**12, "x", "5,5"])
            headers.append(("content-length", str(length)))
            whole = length != len(data) + 5
        case 2:
            headers.append(("content-length", str(len(data))))
            headers.append(
                chance.choice(
                    [
                        ("expect", "100-continue"),
                        ("upgrade", "websocket"),
                        ("connection", "close"),
                        ("content-encoding", "gzip"),
                        ("x", "\x01"),
                        ("", "x"),
                        ("transfer-encoding", "gzip"),
                    ]
                )
            )
        case _:
            headers.append(("content-length", str(len(data))))
    version = pick(["HTTP/1.1"] * 30 + ["HTTP/1.0", "HTTP/2.0", "HTTP/9", ""])
    lines = [f"{method} {path} {version}", *(f"{name}: {value}" for name, value in headers), "", ""]
    sent = "\r\n".join(lines).encode("utf-8", "surrogatepass") + data
    if chance.random() < (0 if honest else 0.05):
        return sent[: chance.randrange(len(sent))], False
    return sent, whole


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    root = tmp_path / "shop"
    root.mkdir()
    (root / "a.py").write_text("price = 1\n")
    limits = ServerLimits(max_body_bytes=60_000, body_timeout_seconds=1.0)
    with served(AccessTokens((token_for("anna", root, tmp_path / "state", policy="read-only"),)), limits=limits) as web:
        yield web


@pytest.mark.slow
@pytest.mark.timeout(60 + CASES // 10)
def test_whatever_is_sent_is_answered_rightly_and_the_next_request_too(web: Web, caplog: pytest.LogCaptureFixture):
    client = Client(web.port, "anna")
    client.begin()
    seen: Counter[int] = Counter()
    for number in range(CASES):
        chance = random.Random(number)
        sent, whole = request(chance, client.session)
        status, answer = exchanged(web.port, sent, whole=whole)
        seen[status] += 1
        assert status in STATUSES or (status == 0 and not whole), (number, status, sent[:300], answer[:300])
        for error in errors(answer):
            assert error["code"] in CODES, (number, error, sent[:600])
        if number % 100 == 0:
            assert "price = 1" in client.tool("read_file", {"path": "a.py"}).text, number
            client.begin()
    print(dict(sorted(seen.items())))
    assert {200, 202, 400, 401, 404, 405, 406, 413, 415, 421} <= seen.keys(), "the generator no longer comes everywhere"
    assert not [record for record in caplog.records if record.exc_info], "something went wrong inside"


def exchanged(port: int, sent: bytes, *, whole: bool) -> tuple[int, bytes]:
    """The status and the body; status 0 if the connection was closed without a response."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
        began, data = time.monotonic(), b""
        try:
            line.sendall(sent)
            if not whole:
                line.shutdown(socket.SHUT_WR)
            while not done(data, bare=sent.startswith(b"HEAD ")):
                piece = line.recv(65536)
                if not piece:
                    break
                data = finally_said(data + piece)
                assert time.monotonic() - began < 20, sent[:300]
        except ConnectionError:
            pass
    if not data:
        return 0, b""
    head, _, rest = data.partition(b"\r\n\r\n")
    return int(head.split()[1]), rest


def finally_said(data: bytes) -> bytes:
    """The response without a preceding 100 Continue."""
    head, gap, rest = data.partition(b"\r\n\r\n")
    return rest if gap and head.split()[1] == b"100" else data


def done(data: bytes, *, bare: bool) -> bool:
    head, gap, rest = data.partition(b"\r\n\r\n")
    if not gap:
        return False
    if bare:
        return True
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length: "):
            return len(rest) >= int(line[16:])
    return rest.endswith(b"0\r\n\r\n") or head.split()[1] in (b"202", b"204")


def errors(answer: bytes) -> list[dict[str, Any]]:
    try:
        told: Any = json.loads(answer)
    except ValueError:
        return []
    return [told["error"]] if isinstance(told, dict) and isinstance(told.get("error"), dict) else []
