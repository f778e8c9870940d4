"""What a program asks of a proxy, read strictly: a request that two readers could take in two ways is refused."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from handhold.core.policy.hosts import BadHost, host_named, port_numbered

LONGEST = 16 * 1024  # bytes of a request's head
_LINE = re.compile(rb"([A-Z]{1,20}) ([\x21-\x7e]{1,8000}) HTTP/1\.[01]")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}):[ \t]*([\x20-\x7e\x80-\xff\t]*?)[ \t]*")
_ABSOLUTE = re.compile(r"http://([^/?#]+)([^#]*)")
_HOP = ("connection", "keep-alive", "proxy-connection", "proxy-authorization", "te", "trailer", "upgrade", "expect")


class BadRequest(ValueError):
    """This is not a request that is passed on, and why."""


@dataclass(frozen=True)
class Asked:
    """A request: where to, and the head that is sent there; a tunnel has none."""

    host: str
    port: int
    head: bytes = b""
    length: int = 0  # bytes of the body that follow, and are sent with it
    chunked: bool = False

    @property
    def tunnel(self) -> bool:
        return not self.head


def asked(head: bytes) -> Asked:
    """The request with this head, which ends with an empty line. BadRequest or BadHost if it is refused."""
    first, *rest = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    line = _LINE.fullmatch(first)
    if not line:
        raise BadRequest("its first line is not one of HTTP")
    headers = [_header(each) for each in rest]
    method, target = line[1].decode(), line[2].decode()
    named = [value for name, value in headers if name == "host"]
    if len(named) > 1:
        raise BadRequest("it names two hosts")
    if method == "CONNECT":
        host, port = _authority(target, default="")
        if named and _authority(named[0], default=str(port)) != (host, port):
            raise BadRequest("it names two hosts")
        return Asked(host, port)
    absolute = _ABSOLUTE.fullmatch(target)
    if not absolute:
        raise BadRequest("it asks for no http:// address; https goes through CONNECT")
    host, port = _authority(absolute[1], default="80")
    if named and _authority(named[0], default="80") != (host, port):
        raise BadRequest("it names two hosts")
    length, chunked = _body(headers)
    return Asked(host, port, _passed_on(method, absolute, host, port, headers), length, chunked)


def _header(line: bytes) -> tuple[str, str]:
    found = _HEADER.fullmatch(line)
    if not found:
        raise BadRequest("a header of it is not one")
    return found[1].decode().lower(), found[2].decode("latin-1")


def _authority(text: str, *, default: str) -> tuple[str, int]:
    name, colon, port = text.partition(":")
    if not colon and not default:
        raise BadHost("it has no port")
    return host_named(name), port_numbered(port if colon else default)


def _body(headers: Sequence[tuple[str, str]]) -> tuple[int, bool]:
    lengths = [value for name, value in headers if name == "content-length"]
    codings = [value.lower() for name, value in headers if name == "transfer-encoding"]
    if len(lengths) + len(codings) > 1 or codings not in ([], ["chunked"]):
        raise BadRequest("it says in two ways how long it is")
    if lengths and not re.fullmatch(r"[0-9]{1,15}", lengths[0]):
        raise BadRequest("its length is not a number")
    return int(lengths[0]) if lengths else 0, bool(codings)


def _passed_on(method: str, absolute: re.Match[str], host: str, port: int, headers: Sequence[tuple[str, str]]) -> bytes:
    path = absolute[2] if absolute[2].startswith("/") else f"/{absolute[2]}"
    kept = [f"{name}: {value}" for name, value in headers if name not in (*_HOP, "host")]
    where = host if port == 80 else f"{host}:{port}"
    lines = [f"{method} {path} HTTP/1.1", f"Host: {where}", *kept, "Connection: close"]
    return "\r\n".join((*lines, "", "")).encode("latin-1")
