"""How much one server takes on, and how much of that one token may have."""

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from handhold.server.answers import Refused

RETRY_LATER = {"retry-after": "1"}


@dataclass(frozen=True)
class Limits:
    """What one server takes on. Where there are several tokens, one may have a half of each."""

    calls: int = 256
    body: int = 4 * 1024 * 1024  # bytes
    sending: float = 30.0  # seconds for a client to send its body

    @property
    def requests(self) -> int:
        """Those with their bodies still on the way count too, but must not keep an answer from a call that waits."""
        return self.calls * 4

    @property
    def bytes(self) -> int:
        """Of all bodies under way. Parsed, a body may take several times its size in memory."""
        return self.body * 8

    @property
    def connections(self) -> int:
        return max(512, self.calls * 4)


class Allowance:
    """A quantity that all tokens share. A token over its share gets 429; 503 means that nothing is left for anybody."""

    def __init__(self, what: str, most: int, *, has_several_tokens: bool) -> None:
        self._what, self._most = what, most
        self._share = max(1, most // 2) if has_several_tokens else most
        self._used: Counter[str] = Counter()

    @contextmanager
    def take(self, token: str, amount: int = 1) -> Generator[Callable[[int], None]]:
        """While it is taken, all but a part can be given back."""
        if self._used.total() + amount > self._most:
            raise Refused(503, f"Too many {self._what} are under way", headers=RETRY_LATER)
        if self._used[token] + amount > self._share:
            raise Refused(429, f"Too many of your {self._what} are under way", headers=RETRY_LATER)
        self._used[token] += amount

        def keep(part: int) -> None:
            nonlocal amount
            self._used[token] -= amount - part
            amount = part

        try:
            yield keep
        finally:
            keep(0)
