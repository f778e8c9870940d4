"""Parse proxy requests strictly: a request that two parsers could read differently is refused."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from handhold.core.policy.hosts import BadHost, normalize_host, parse_port

MAX_HEAD_BYTES = 16 * 1024  # of a request's head
_REQUEST_LINE = re.compile(rb"([A-Z]{1,20}) ([\x21-\x7e]{1,8000}) HTTP/1\.[01]")
_HEADER_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}):[ \t]*([\x20-\x7e\x80-\xff\t]*?)[ \t]*")
_ABSOLUTE_URL = re.compile(r"http://([^/?#]+)([^#]*)")
_HOP_BY_HOP_HEADERS = (
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "te",
    "trailer",
    "upgrade",
    "expect",
)


class BadRequest(ValueError):
    """A request that is not forwarded, and why."""


@dataclass(frozen=True)
class ProxyRequest:
    """A request: its target, and the head that is sent there; a tunnel has none."""

    host: str
    port: int
    head: bytes = b""
    content_length: int = 0  # of the body, which is forwarded as well
    is_chunked: bool = False

    @property
    def is_tunnel(self) -> bool:
        return not self.head


def parse_request(head: bytes) -> ProxyRequest:
    """Parse a head that ends with an empty line. Raise BadRequest or BadHost if it is refused."""
    first, *rest = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    line = _REQUEST_LINE.fullmatch(first)
    if not line:
        raise BadRequest("its first line is not an HTTP request line")
    headers = [_parse_header(each) for each in rest]
    method, target = line[1].decode(), line[2].decode()
    host_headers = [value for name, value in headers if name == "host"]
    if len(host_headers) > 1:
        raise BadRequest("it names two hosts")
    if method == "CONNECT":
        host, port = _parse_authority(target, default="")
        if host_headers and _parse_authority(host_headers[0], default=str(port)) != (host, port):
            raise BadRequest("it names two hosts")
        return ProxyRequest(host, port)
    absolute = _ABSOLUTE_URL.fullmatch(target)
    if not absolute:
        raise BadRequest("it does not request an http:// URL; https needs CONNECT")
    host, port = _parse_authority(absolute[1], default="80")
    if host_headers and _parse_authority(host_headers[0], default="80") != (host, port):
        raise BadRequest("it names two hosts")
    length, chunked = _parse_body_length(headers)
    return ProxyRequest(host, port, _build_head(method, absolute, host, port, headers), length, chunked)


def _parse_header(line: bytes) -> tuple[str, str]:
    found = _HEADER_LINE.fullmatch(line)
    if not found:
        raise BadRequest("one of its headers is malformed")
    return found[1].decode().lower(), found[2].decode("latin-1")


def _parse_authority(text: str, *, default: str) -> tuple[str, int]:
    name, colon, port = text.partition(":")
    if not colon and not default:
        raise BadHost("it has no port")
    return normalize_host(name), parse_port(port if colon else default)


def _parse_body_length(headers: Sequence[tuple[str, str]]) -> tuple[int, bool]:
    lengths = [value for name, value in headers if name == "content-length"]
    codings = [value.lower() for name, value in headers if name == "transfer-encoding"]
    if len(lengths) + len(codings) > 1 or codings not in ([], ["chunked"]):
        raise BadRequest("it gives its length in two ways")
    if lengths and not re.fullmatch(r"[0-9]{1,15}", lengths[0]):
        raise BadRequest("its length is not a number")
    return int(lengths[0]) if lengths else 0, bool(codings)


def _build_head(
    method: str, absolute: re.Match[str], host: str, port: int, headers: Sequence[tuple[str, str]]
) -> bytes:
    path = absolute[2] if absolute[2].startswith("/") else f"/{absolute[2]}"
    kept = [f"{name}: {value}" for name, value in headers if name not in (*_HOP_BY_HOP_HEADERS, "host")]
    where = host if port == 80 else f"{host}:{port}"
    lines = [f"{method} {path} HTTP/1.1", f"Host: {where}", *kept, "Connection: close"]
    return "\r\n".join((*lines, "", "")).encode("latin-1")
