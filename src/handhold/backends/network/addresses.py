"""Resolve host names. Each is resolved once, and the checked addresses are used: the next answer may differ."""

import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

from handhold.core.policy.hosts import BadHost

ResolveHost = Callable[[str, int], Sequence[str]]  # a name and a port to addresses; raises BadHost

# Addresses that embed others: a gateway would forward to the embedded ones.
_TUNNEL_NETWORKS = tuple(map(IPv6Network, ("2002::/16", "2001::/32")))
_GLOBAL_UNICAST = IPv6Network("2000::/3")  # other ranges are link-local, site-local, or embed addresses, too


def resolve_public(name: str, port: int) -> Sequence[str]:
    """The public addresses of a name; raise BadHost if one of them is not public, or there is none."""
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise BadHost(f"its name could not be resolved ({error})") from None
    addresses = list(dict.fromkeys(str(where[0]) for *_, where in found))
    for address in addresses:
        if not is_public(address):
            raise BadHost(f"its name resolves to {address}, which is not on the public network")
    return addresses


def is_public(text: str) -> bool:
    try:
        address: IPv4Address | IPv6Address = ip_address(text)
    except ValueError:  # with a zone, so it is link-local
        return False
    if isinstance(address, IPv6Address) and (
        address not in _GLOBAL_UNICAST or any(address in net for net in _TUNNEL_NETWORKS)
    ):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved
