"""Network access for commands: a proxy that lets them reach named hosts and nothing else.

The command stays in an empty network namespace. Before it starts, a listening socket is opened there and passed to us
over a Unix socket: what connects to it inside talks to the proxy outside.
"""

from collections.abc import Callable
from dataclasses import dataclass

from handhold.backends.network.addresses import ResolveHost, resolve_public

PROXY_PORT = 3128  # in the command's own network namespace
PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


def never_ask(host: str, port: int) -> bool:  # noqa: ARG001
    return False


@dataclass(frozen=True)
class NetworkAccess:
    """The hosts that commands may reach, decided about at each connection.

    find_denial_reason: why a host may not be reached; empty if it may.
    may_ask: whether a person could allow a host that is refused.
    is_closed: whether no host is allowed at the moment, so that package managers work offline.
    """

    find_denial_reason: Callable[[str, int], str]
    resolve: ResolveHost = resolve_public
    may_ask: Callable[[str, int], bool] = never_ask
    is_closed: Callable[[], bool] = lambda: False


def deny_all(host: str, port: int) -> str:  # noqa: ARG001
    return "commands have no network"


NO_HOSTS = NetworkAccess(deny_all, is_closed=lambda: True)


def build_proxy_environment(port: int = PROXY_PORT) -> dict[str, str]:
    """Variables that make programs use the proxy."""
    here = f"http://127.0.0.1:{port}"
    away = {name: "localhost,127.0.0.1,::1" for name in ("no_proxy", "NO_PROXY")}
    return dict.fromkeys(PROXY_VARIABLES, here) | away | {"NODE_USE_ENV_PROXY": "1"}
