"""The connections of a server, by client. When a limit is reached, the oldest idle connection is closed.

A client is whom a request was authenticated as: a token of the server, a tenant of the hub, the browsers of the review
page. Until then a connection has none. Connections without a client get a quarter of the limit and each client at most
half, so that neither can lock out the others.
"""

import resource
from collections import defaultdict
from typing import Protocol

NO_CLIENT = ""


class Connection(Protocol):
    @property
    def is_idle(self) -> bool:
        """Whether no request is in progress on it."""
        ...

    def close(self) -> None: ...


class Connections:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._all: dict[Connection, str] = {}  # in order of arrival
        self._by_client: defaultdict[str, dict[Connection, None]] = defaultdict(dict)

    def add(self, connection: Connection, client: str = NO_CLIENT) -> bool:
        """Count the connection for a client. False if the limit is reached and no connection is idle."""
        if self._all.get(connection) == client:
            return True
        self.discard(connection)
        share = self._limit // 2 if client else self._limit // 4
        for group, limit in ((self._by_client.get(client, {}), share), (self._all, self._limit)):
            if len(group) >= limit:
                idle = next((each for each in group if each.is_idle), None)
                if idle is None:
                    return False
                self.discard(idle)
                idle.close()
        self._all[connection] = client
        self._by_client[client][connection] = None
        return True

    def discard(self, connection: Connection) -> None:
        client = self._all.pop(connection, None)
        if client is not None:
            group = self._by_client[client]
            del group[connection]
            if not group:
                del self._by_client[client]


def raise_file_limit(connections: int) -> int:
    """Allow two open files per connection. Returns how many connections that really allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, connections * 2)
    wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return min(connections, wanted // 2)
