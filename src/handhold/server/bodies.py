"""Request bodies: read within limits of time and size, and parsed within limits of shape.

JSON can expand far beyond its size: four megabytes of `{},` are more than a million dictionaries. So tokens and depth
are counted before parsing.
"""

import asyncio
import json
import re
from typing import Any

from mcp_types import INVALID_REQUEST, PARSE_ERROR
from starlette.datastructures import Headers
from starlette.types import Receive

from handhold.server.admission import ServerLimits
from handhold.server.http_errors import RequestRejected

MAX_JSON_TOKENS = 50_000  # strings, brackets and commas
MAX_JSON_DEPTH = 64
JSON_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{},]', re.DOTALL)
CLOSE_HEADERS = {"connection": "close"}  # the rest of the body is not read
MAX_DRAINED_BYTES = 64 * 1024  # a smaller body of a rejected request is read, to keep the connection


def check_framing(headers: Headers) -> None:
    """Reject ambiguous framing, which allows request smuggling."""
    if "transfer-encoding" in headers and "content-length" in headers:
        text = "Content-Length and Transfer-Encoding cannot be combined"
        raise RequestRejected(400, text, headers=CLOSE_HEADERS)


def is_worth_draining(headers: Headers) -> bool:
    """Whether the body of a rejected request is small enough to read and keep the connection."""
    given = headers.get("content-length", "0")
    return "transfer-encoding" not in headers and given.isdecimal() and int(given) <= MAX_DRAINED_BYTES


def get_declared_length(headers: Headers, limits: ServerLimits) -> int:
    """How many bytes to reserve before reading the body. A chunked body reserves the maximum."""
    given = headers.get("content-length", "")
    length = int(given) if given.isdecimal() else limits.max_body_bytes
    if length > limits.max_body_bytes:
        raise RequestRejected(413, f"The body is larger than {limits.max_body_bytes} bytes", headers=CLOSE_HEADERS)
    return length


async def read_body(receive: Receive, limits: ServerLimits) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_timeout_seconds):
            while len(body) <= limits.max_body_bytes:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RequestRejected(400, "The connection closed before the end of the body")
                body += message.get("body", b"")
                if not message.get("more_body") and len(body) <= limits.max_body_bytes:
                    return bytes(body)
    except TimeoutError:
        raise RequestRejected(408, "Timed out reading the body", headers=CLOSE_HEADERS) from None
    raise RequestRejected(413, f"The body is larger than {limits.max_body_bytes} bytes", headers=CLOSE_HEADERS)


def parse_json(body: bytes) -> Any:
    check_shape(body)
    try:
        # Decoded here, because `loads` accepts other encodings than the UTF-8 that `check_shape` assumes.
        return json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise RequestRejected(400, "The body is not valid JSON", PARSE_ERROR) from None


def check_shape(body: bytes) -> None:
    """Reject JSON that has too many tokens or is nested too deeply. The time is bounded by the limits."""
    brackets = body.count(b"[") + body.count(b"{")
    if brackets <= MAX_JSON_DEPTH and brackets * 2 + body.count(b'"') + body.count(b",") <= MAX_JSON_TOKENS:
        return
    depth = 0
    for count, token in enumerate(JSON_TOKEN.finditer(body)):
        kind = body[token.start()]
        depth += (kind in b"[{") - (kind in b"]}")
        if count >= MAX_JSON_TOKENS:
            raise RequestRejected(413, f"The body has more than {MAX_JSON_TOKENS} JSON tokens", INVALID_REQUEST)
        if depth > MAX_JSON_DEPTH:
            raise RequestRejected(400, f"The body is nested deeper than {MAX_JSON_DEPTH} levels", INVALID_REQUEST)
