"""Bytes that tenants share, in memory or on disk: each may use as much as it leaves free.

So one tenant gets half, of two that take what they can each gets a third, and however many do, something is left for
the next one. A fixed share would leave nothing, once as many tenants as there are shares use theirs.
"""

from collections import Counter

from handhold.hub.http_errors import busy


class ByteBudget:
    def __init__(self, most: int) -> None:
        self._most, self.total = most, 0
        self._used: Counter[int] = Counter()

    def take(self, tenant: int, size: int) -> None:
        """Refuse what is more than would be left free."""
        if self._used[tenant] + size > self._most - self.total - size:
            raise busy()
        self._add(tenant, size)

    def give_back(self, tenant: int, size: int) -> None:
        self._add(tenant, -size)
        if not self._used[tenant]:
            del self._used[tenant]

    def _add(self, tenant: int, size: int) -> None:
        self.total += size
        self._used[tenant] += size
