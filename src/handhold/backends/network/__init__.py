"""The network of a command, where it has one: a proxy of ours, which lets it reach named hosts and nothing else.

The command stays in a network of its own, with nothing in it. There, before it starts, a socket is opened to listen,
and handed out to us over a Unix socket: whoever connects to it in there talks to the proxy out here.
"""

from collections.abc import Callable
from dataclasses import dataclass

from handhold.backends.network.addresses import ResolveHost, resolve_public

PROXY_PORT = 3128  # in the command's own network, where nobody else is
PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


@dataclass(frozen=True)
class NetworkAccess:
    """The hosts that commands may reach: `find_denial_reason` says why not, and nothing if they may."""

    find_denial_reason: Callable[[str, int], str]
    resolve: ResolveHost = resolve_public


def build_proxy_environment() -> dict[str, str]:
    """What tells programs to go through it."""
    here = f"http://127.0.0.1:{PROXY_PORT}"
    away = {name: "localhost,127.0.0.1,::1" for name in ("no_proxy", "NO_PROXY")}
    return dict.fromkeys(PROXY_VARIABLES, here) | away | {"NODE_USE_ENV_PROXY": "1"}
