"""Host names in one canonical spelling. Ambiguous spellings are rejected before any comparison.

A name has two or more labels of ASCII letters, digits and inner hyphens. It is not an IP address in any spelling that
programs accept: a name whose last label is a number would be taken for one.
"""

import re
from dataclasses import dataclass

MAX_HOST_CHARS = 253
DEFAULT_PORTS = (80, 443)

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_CREDENTIAL_HOST = re.compile(
    r"(?:(?P<protocol>https?)://)?(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?)/?"
)
_LOCAL_DOMAINS = ("localhost", "localdomain", "local", "internal", "home", "lan", "invalid", "onion", "arpa")


class BadHost(ValueError):
    """A text that is not a valid host name, and why."""


def normalize_host(text: str) -> str:
    """The canonical form of a host name: lower case, without a trailing dot."""
    if not text.isascii():
        raise BadHost("it contains letters that are not ASCII; write the name in punycode")
    name = text.lower().removesuffix(".")
    if not name or len(name) > MAX_HOST_CHARS:
        raise BadHost("it is empty" if not name else f"it has more than {MAX_HOST_CHARS} characters")
    labels = name.split(".")
    if not all(map(_LABEL.fullmatch, labels)):
        raise BadHost("it must consist of letters, digits and hyphens, separated by dots")
    if _NUMBER.fullmatch(labels[-1]):
        raise BadHost("it is an address; hosts are allowed by name")
    if len(labels) == 1 or labels[-1] in _LOCAL_DOMAINS:
        raise BadHost("it names this machine or its local network")
    return name


def parse_port(text: str) -> int:
    if not _PORT.fullmatch(text) or int(text) > 65535:
        raise BadHost("its port is not a number from 1 to 65535")
    return int(text)


@dataclass(frozen=True)
class HostPattern:
    """`example.org`, or `*.example.org` for all names below it but not itself; `:port` for a non-default port."""

    name: str
    is_wildcard: bool
    ports: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> "HostPattern":
        """Raise BadHost for a pattern that is too broad or ambiguous: part of a label, a TLD, an address."""
        host_text, colon, port = text.partition(":")
        is_wildcard = host_text.startswith("*.")
        return cls(
            normalize_host(host_text.removeprefix("*.")), is_wildcard, (parse_port(port),) if colon else DEFAULT_PORTS
        )

    def matches(self, host: str, port: int) -> bool:
        if port not in self.ports:
            return False
        return host.endswith(f".{self.name}") if self.is_wildcard else host == self.name


@dataclass(frozen=True)
class CredentialHost:
    """A server that git may log in to."""

    protocol: str
    host: str  # with its port, if that is not the protocol's own

    @property
    def url(self) -> str:
        return f"{self.protocol}://{self.host}"


def parse_credential_host(text: str) -> CredentialHost:
    """`example.org`, `example.org:8443`, or `http://…` where the user accepts that it is not encrypted."""
    found = _CREDENTIAL_HOST.fullmatch(text)
    if found is None:
        raise BadHost(f"hosts such as example.org; {text!r} is not one")
    return CredentialHost(found["protocol"] or "https", found["host"].lower())
