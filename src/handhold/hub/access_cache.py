"""Recently used tokens, so that not every request asks the database who sent it."""

import time
from threading import Lock

from handhold.hub.access import Access, TokenStore, hash_token

CACHE_SECONDS = 10.0  # a revoked token works that much longer
MAX_CACHED = 50_000


class AccessCache:
    """Thread-safe. Tokens that are not valid are not remembered: whoever guesses must not push others out."""

    def __init__(self, tokens: TokenStore) -> None:
        self._tokens = tokens
        self._lock = Lock()
        self._found: dict[bytes, tuple[float, Access]] = {}

    def peek(self, token: str) -> Access | None:
        """What is remembered of a token. Does not wait."""
        with self._lock:
            until, access = self._found.get(hash_token(token), (0.0, None))
        return access if access is not None and time.monotonic() < until else None

    def find(self, token: str) -> Access | None:
        key, now = hash_token(token), time.monotonic()
        access = self._tokens.authenticate(token)
        with self._lock:
            self._found.pop(key, None)
            if access is not None:
                self._found[key] = now + CACHE_SECONDS, access
                while len(self._found) > MAX_CACHED:
                    del self._found[next(iter(self._found))]
        return access
