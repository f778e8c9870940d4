"""Limits of a server, and the share of them that one token can use."""

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from handhold.server.http_errors import RequestRejected

RETRY_AFTER_HEADERS = {"retry-after": "1"}


@dataclass(frozen=True)
class ServerLimits:
    """The limits of one server. If there are several tokens, each can use at most half of every limit."""

    max_calls: int = 256
    max_body_bytes: int = 4 * 1024 * 1024
    body_timeout_seconds: float = 30.0

    @property
    def max_requests(self) -> int:
        """Includes requests whose bodies are still arriving. Higher than `max_calls`, so that an answer to a waiting
        call always gets through."""
        return self.max_calls * 4

    @property
    def max_pending_bytes(self) -> int:
        """The total size of all bodies in progress. A parsed body can take several times its size in memory."""
        return self.max_body_bytes * 8

    @property
    def max_connections(self) -> int:
        return max(512, self.max_calls * 4)


class SharedQuota:
    """A quantity that all tokens share. A token over its share gets 429; 503 means that the server is full."""

    def __init__(self, noun: str, limit: int, *, has_several_tokens: bool) -> None:
        self._noun, self._limit = noun, limit
        self._share = max(1, limit // 2) if has_several_tokens else limit
        self._used: Counter[str] = Counter()

    @contextmanager
    def reserve(self, token: str, amount: int = 1) -> Generator[Callable[[int], None]]:
        """Reserve an amount during the block. The yielded function reduces the reservation."""
        if self._used.total() + amount > self._limit:
            text = f"The server is at its limit of concurrent {self._noun}; retry later"
            raise RequestRejected(503, text, headers=RETRY_AFTER_HEADERS)
        if self._used[token] + amount > self._share:
            text = f"This token is at its limit of concurrent {self._noun}; retry later"
            raise RequestRejected(429, text, headers=RETRY_AFTER_HEADERS)
        self._used[token] += amount

        def shrink_to(kept: int) -> None:
            nonlocal amount
            self._used[token] -= amount - kept
            amount = kept

        try:
            yield shrink_to
        finally:
            shrink_to(0)
