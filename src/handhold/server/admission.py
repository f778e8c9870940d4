"""How much one server takes on, and how much of that one token may have."""

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from handhold.server.http_errors import RequestRejected

RETRY_AFTER_HEADERS = {"retry-after": "1"}


@dataclass(frozen=True)
class ServerLimits:
    """What one server takes on. Where there are several tokens, one may have a half of each."""

    max_calls: int = 256
    max_body_bytes: int = 4 * 1024 * 1024  # bytes
    body_timeout_seconds: float = 30.0  # seconds for a client to send its body

    @property
    def max_requests(self) -> int:
        """Those with their bodies still on the way count too, but must not keep an answer from a call that waits."""
        return self.max_calls * 4

    @property
    def max_pending_bytes(self) -> int:
        """Of all bodies under way. Parsed, a body may take several times its size in memory."""
        return self.max_body_bytes * 8

    @property
    def max_connections(self) -> int:
        return max(512, self.max_calls * 4)


class SharedQuota:
    """A quantity that all tokens share. A token over its share gets 429; 503 means that nothing is left for anybody."""

    def __init__(self, noun: str, limit: int, *, has_several_tokens: bool) -> None:
        self._noun, self._limit = noun, limit
        self._share = max(1, limit // 2) if has_several_tokens else limit
        self._used: Counter[str] = Counter()

    @contextmanager
    def reserve(self, token: str, amount: int = 1) -> Generator[Callable[[int], None]]:
        """While it is taken, all but a part can be given back."""
        if self._used.total() + amount > self._limit:
            raise RequestRejected(503, f"Too many {self._noun} are under way", headers=RETRY_AFTER_HEADERS)
        if self._used[token] + amount > self._share:
            raise RequestRejected(429, f"Too many of your {self._noun} are under way", headers=RETRY_AFTER_HEADERS)
        self._used[token] += amount

        def shrink_to(kept: int) -> None:
            nonlocal amount
            self._used[token] -= amount - kept
            amount = kept

        try:
            yield shrink_to
        finally:
            shrink_to(0)
