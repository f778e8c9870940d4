"""Quotas of tenants in records and bytes, looked up at most every few seconds."""

import time
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


class TenantQuotas:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._found: dict[int, tuple[float, QuotaExceeded | None]] = {}

    def check(self, connection: Connection[TupleRow], tenant: int) -> None:
        """Raise QuotaExceeded if the tenant has used up one of its quotas."""
        now = time.monotonic()
        with self._lock:
            looked_at, exceeded = self._found.get(tenant, (0.0, None))
        if now - looked_at >= LOOKUP_SECONDS or not looked_at:
            exceeded = _find_exceeded(connection, tenant)
            with self._lock:
                self._found[tenant] = now, exceeded
        if exceeded:
            raise QuotaExceeded(exceeded.what, exceeded.limit)


def _find_exceeded(connection: Connection[TupleRow], tenant: int) -> QuotaExceeded | None:
    row = connection.execute(SELECT_USAGE, (tenant,)).fetchone()
    if row is None:
        return QuotaExceeded("records", 0)  # the tenant was deleted
    max_records, max_bytes, records, size = row
    if max_records is not None and records >= max_records:
        return QuotaExceeded("records", max_records)
    if max_bytes is not None and size >= max_bytes:
        return QuotaExceeded("bytes", max_bytes)
    return None
