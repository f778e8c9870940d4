"""The body of a request: read within limits of time and size, and parsed within limits of its shape.

What JSON expands to is out of proportion to its size: four megabytes of `{},` are more than a million dictionaries.
So tokens and depth are counted before anything is made of them.
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
CLOSE_HEADERS = {"connection": "close"}  # what is still to come of the body is nothing to us
MAX_DRAINED_BYTES = 64 * 1024  # bytes of a body that are read although its request was refused, to keep the connection


def check_framing(headers: Headers) -> None:
    """Refuse a request whose end two readers may see in different places: what follows could be taken for another."""
    if "transfer-encoding" in headers and "content-length" in headers:
        raise RequestRejected(400, "Content-Length and Transfer-Encoding exclude each other", headers=CLOSE_HEADERS)


def is_worth_draining(headers: Headers) -> bool:
    """Whether a refused request leaves so little behind that its connection can be kept."""
    given = headers.get("content-length", "0")
    return "transfer-encoding" not in headers and given.isdecimal() and int(given) <= MAX_DRAINED_BYTES


def get_declared_length(headers: Headers, limits: ServerLimits) -> int:
    """How many bytes to reserve for a body before it is read; of one in chunks, as many as it may have."""
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
                    raise RequestRejected(400, "The body broke off")
                body += message.get("body", b"")
                if not message.get("more_body") and len(body) <= limits.max_body_bytes:
                    return bytes(body)
    except TimeoutError:
        raise RequestRejected(408, "The body took too long", headers=CLOSE_HEADERS) from None
    raise RequestRejected(413, f"The body is larger than {limits.max_body_bytes} bytes", headers=CLOSE_HEADERS)


def parse_json(body: bytes) -> Any:
    check_shape(body)
    try:
        return json.loads(
            body.decode("utf-8-sig")
        )  # not any Unicode, as `loads` would take: the shape is that of UTF-8
    except (ValueError, RecursionError):
        raise RequestRejected(400, "The body is not JSON", PARSE_ERROR) from None


def check_shape(body: bytes) -> None:
    """Refuse JSON with too many tokens or too deep, in time that is bounded by the limits and not by the tokens."""
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
