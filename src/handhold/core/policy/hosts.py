"""Host names: one spelling each, or none. What could be read in two ways is refused before anybody compares it.

A name is two labels or more of ASCII letters, digits and inner hyphens. It is not an address in any of the spellings
that programs take for one: a name whose last label is a number is one to them.
"""

import re
from dataclasses import dataclass

MAX_HOST_CHARS = 253  # characters
DEFAULT_PORTS = (80, 443)

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_LOCAL_DOMAINS = ("localhost", "localdomain", "local", "internal", "home", "lan", "invalid", "onion", "arpa")


class BadHost(ValueError):
    """This is not a name that anybody connects to, and why."""


def normalize_host(text: str) -> str:
    """A host's name as it is compared: in lower case, without the dot at its end."""
    if not text.isascii():
        raise BadHost("it holds letters that are not ASCII; such a name is spelled in punycode")
    name = text.lower().removesuffix(".")
    if not name or len(name) > MAX_HOST_CHARS:
        raise BadHost("it is empty" if not name else f"it has more than {MAX_HOST_CHARS} characters")
    labels = name.split(".")
    if not all(map(_LABEL.fullmatch, labels)):
        raise BadHost("it is not made of letters, digits and hyphens between dots")
    if _NUMBER.fullmatch(labels[-1]):
        raise BadHost("it is an address, and hosts are opened by name")
    if len(labels) == 1 or labels[-1] in _LOCAL_DOMAINS:
        raise BadHost("it names something on this machine or beside it")
    return name


def parse_port(text: str) -> int:
    if not _PORT.fullmatch(text) or int(text) > 65535:
        raise BadHost("its port is not a number from 1 to 65535")
    return int(text)


@dataclass(frozen=True)
class HostPattern:
    """`example.org`, or `*.example.org` for all names below it and not itself; `:port` for one that is not usual."""

    name: str
    is_wildcard: bool
    ports: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> "HostPattern":
        """BadHost if it could match what nobody meant: half a label, a whole top level domain, an address."""
        host_text, colon, port = text.partition(":")
        is_wildcard = host_text.startswith("*.")
        return cls(
            normalize_host(host_text.removeprefix("*.")), is_wildcard, (parse_port(port),) if colon else DEFAULT_PORTS
        )

    def matches(self, host: str, port: int) -> bool:
        if port not in self.ports:
            return False
        return host.endswith(f".{self.name}") if self.is_wildcard else host == self.name
