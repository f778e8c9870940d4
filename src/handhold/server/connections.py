"""All connections of a server, by the token that they brought: the oldest idle one makes room for a new one.

A connection belongs to nobody until a request on it brought a token. Those of nobody have a quarter of the room and one
token has a half, so that neither shuts anybody else out.
"""

import resource
from collections import defaultdict
from typing import Protocol

NO_TOKEN = ""


class Connection(Protocol):
    @property
    def is_idle(self) -> bool:
        """Whether no request is under way on it."""
        ...

    def close(self) -> None: ...


class Connections:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._all: dict[Connection, str] = {}  # in the order in which they came; dictionaries keep it
        self._by_token: defaultdict[str, dict[Connection, None]] = defaultdict(dict)

    def add(self, connection: Connection, token: str = NO_TOKEN) -> bool:
        """Count a connection for a token, or for nobody yet. False if there is no room, and none is idle."""
        if self._all.get(connection) == token:
            return True
        self.discard(connection)
        share = self._limit // 2 if token else self._limit // 4
        for group, limit in ((self._by_token[token], share), (self._all, self._limit)):
            if len(group) >= limit:
                idle = next((each for each in group if each.is_idle), None)
                if idle is None:
                    return False
                self.discard(idle)
                idle.close()
        self._all[connection] = token
        self._by_token[token][connection] = None
        return True

    def discard(self, connection: Connection) -> None:
        token = self._all.pop(connection, None)
        if token is not None:
            del self._by_token[token][connection]


def raise_file_limit(connections: int) -> int:
    """Let the process open twice as many files as there may be connections; how many of those it may really have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, connections * 2)
    wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return min(connections, wanted // 2)
