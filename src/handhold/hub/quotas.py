"""Quotas of tenants in records and bytes, looked up at most every few seconds."""

import time
from dataclasses import dataclass
from threading import Lock

from psycopg import Connection
from psycopg.rows import TupleRow

from handhold.core.ports.record_store import QuotaExceeded

LOOKUP_SECONDS = 5.0  # a tenant may exceed its quota by what it sends meanwhile

SELECT_USAGE = """
    SELECT max_records, max_bytes, usage.records, usage.bytes FROM tenants,
        LATERAL (SELECT coalesce(sum(stored_records), 0)::bigint AS records,
                        coalesce(sum(stored_bytes), 0)::bigint AS bytes
                 FROM workspaces WHERE tenant = tenants.id) AS usage
    WHERE id = %s
"""


@dataclass(frozen=True)
class TenantUsage:
    """What a tenant may store (None: no limit), and what it stores."""

    max_records: int | None
    max_bytes: int | None
    records: int
    size: int

    def check(self, added: int) -> None:
        if self.max_records is not None and self.records >= self.max_records:
            raise QuotaExceeded("records", self.max_records)
        if self.max_bytes is not None and self.size + max(added, 1) > self.max_bytes:
            raise QuotaExceeded("bytes", self.max_bytes)


DELETED = TenantUsage(0, 0, 0, 0)


class TenantQuotas:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._found: dict[int, tuple[float, TenantUsage]] = {}

    def check(self, connection: Connection[TupleRow], tenant: int, added: int = 0) -> None:
        """Raise QuotaExceeded if the tenant has used up one of its quotas, or has no room for `added` bytes."""
        now = time.monotonic()
        with self._lock:
            looked_at, usage = self._found.get(tenant, (0.0, DELETED))
        if now - looked_at >= LOOKUP_SECONDS or not looked_at:
            row = connection.execute(SELECT_USAGE, (tenant,)).fetchone()
            usage = TenantUsage(*row) if row else DELETED
            with self._lock:
                self._found[tenant] = now, usage
        usage.check(added)
