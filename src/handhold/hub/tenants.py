"""Tenants of a hub on PostgreSQL: their tokens, limits, retention and deletion. Runs as the owner of the tables."""

from dataclasses import dataclass

from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool

from handhold.core.ports.record_store import ChainId
from handhold.hub.access import Access, NewToken, Role, generate_token, hash_token
from handhold.hub.object_contents import ObjectContents

DELETE_PORTION = 10_000  # rows in one transaction


class UnknownTenant(ValueError):
    """There is no tenant of this name."""


@dataclass(frozen=True)
class TenantLimits:
    """None: no limit."""

    retention_days: int | None = None
    max_records: int | None = None
    max_bytes: int | None = None


class PostgresTenants:
    """Implements the port TokenStore. Thread-safe."""

    def __init__(self, pool: ConnectionPool[Connection[TupleRow]]) -> None:
        self._pool = pool

    # --- tokens

    def authenticate(self, token: str) -> Access | None:
        with self._pool.connection() as connection:
            row = connection.execute(
                "SELECT tokens.tenant, role, workspace, name FROM tokens"
                " LEFT JOIN workspaces ON workspaces.id = workspace"
                " WHERE hash = %s AND (expires IS NULL OR expires > now())",
                (hash_token(token),),
            ).fetchone()
        return Access(*row) if row else None

    def create_token(
        self, tenant: int, role: Role, workspace: str | None = None, days: float | None = None
    ) -> NewToken:
        if role == "agent" and workspace is None:
            raise ValueError("a token for an agent needs a workspace")
        token = generate_token()
        with self._pool.connection() as connection:
            if workspace is not None:
                sql = "INSERT INTO workspaces (tenant, name) VALUES (%s, %s) ON CONFLICT DO NOTHING"
                connection.execute(sql, (tenant, workspace))
            row = connection.execute(
                "INSERT INTO tokens (hash, tenant, workspace, role, expires) VALUES"
                " (%(hash)s, %(tenant)s, (SELECT id FROM workspaces WHERE tenant = %(tenant)s AND name = %(name)s),"
                " %(role)s, now() + %(days)s * interval '1 day') RETURNING id",
                {"hash": hash_token(token), "tenant": tenant, "name": workspace, "role": role, "days": days},
            ).fetchone()
        assert row is not None
        return NewToken(row[0], token)

    def revoke_token(self, tenant: int, number: int) -> bool:
        with self._pool.connection() as connection:
            return connection.execute("DELETE FROM tokens WHERE id = %s AND tenant = %s", (number, tenant)).rowcount > 0

    # --- tenants

    def add_tenant(self, name: str, limits: TenantLimits) -> int:
        """Make a tenant, or set the limits of one that is there; return its number."""
        with self._pool.connection() as connection:
            row = connection.execute(
                "INSERT INTO tenants (name, retention_days, max_records, max_bytes) VALUES (%s, %s, %s, %s)"
                " ON CONFLICT (name) DO UPDATE SET retention_days = excluded.retention_days,"
                " max_records = excluded.max_records, max_bytes = excluded.max_bytes RETURNING id",
                (name, limits.retention_days, limits.max_records, limits.max_bytes),
            ).fetchone()
        assert row is not None
        return row[0]

    def find_tenant(self, name: str) -> int:
        with self._pool.connection() as connection:
            row = connection.execute("SELECT id FROM tenants WHERE name = %s", (name,)).fetchone()
        if row is None:
            raise UnknownTenant(f"there is no tenant {name!r}")
        return row[0]

    def delete_tenant(self, name: str, contents: ObjectContents) -> None:
        """Remove a tenant with its tokens, rows and objects. If it is interrupted, the next run goes on."""
        tenant = self.find_tenant(name)
        with self._pool.connection() as connection:  # first, so that nothing is added any more
            connection.execute("DELETE FROM tokens WHERE tenant = %s", (tenant,))
            sql = "UPDATE tenants SET max_records = 0, max_bytes = 0 WHERE id = %s"
            connection.execute(sql, (tenant,))
            rows = connection.execute("SELECT id FROM workspaces WHERE tenant = %s", (tenant,)).fetchall()
        contents.delete_tenant(tenant)
        for (workspace,) in rows:
            for table in ("records", "changes"):
                self._delete_portions(table, "workspace = %(workspace)s", workspace=workspace)
        with self._pool.connection() as connection:
            connection.execute("DELETE FROM tenants WHERE id = %s", (tenant,))

    # --- retention

    def apply_retention(self, contents: ObjectContents) -> None:
        """Remove what is older than its tenant wants, and whole months that nobody wants any more."""
        with self._pool.connection() as connection:
            tenants = connection.execute("SELECT id, retention_days FROM tenants").fetchall()
        days = [each for _, each in tenants]
        if tenants and None not in days:
            self._drop_months(max(days))
        for tenant, kept in tenants:
            if kept is not None:
                self._forget_older(tenant, kept, contents)

    def _drop_months(self, days: int) -> None:
        """Drop the tables of months that ended before. That takes the same time for any number of rows."""
        with self._pool.connection() as connection:
            rows = connection.execute(
                "SELECT inhrelid::regclass::text FROM pg_inherits"
                " WHERE inhparent IN ('records'::regclass, 'changes'::regclass)"
                " AND to_date(right(inhrelid::regclass::text, 6), 'YYYYMM') + interval '1 month'"
                " <= (now() AT TIME ZONE 'UTC') - %s * interval '1 day'",
                (days,),
            ).fetchall()
            for (name,) in rows:
                connection.execute(f"DROP TABLE {name}".encode())  # from the catalogue, quoted there

    def _forget_older(self, tenant: int, days: int, contents: ObjectContents) -> None:
        older = "tenant = %(tenant)s AND received < now() - %(days)s * interval '1 day'"
        for table in ("records", "changes", "reversals", "diverged"):
            self._delete_portions(table, older, tenant=tenant, days=days)
        for table in ("turn_totals", "session_totals"):  # where `received` is up to a day old
            self._delete_portions(table, older, tenant=tenant, days=days + 1)
        while True:
            with self._pool.connection() as connection:
                rows = connection.execute(
                    "DELETE FROM contents WHERE (workspace, hash) IN (SELECT workspace, hash FROM contents"
                    " WHERE tenant = %s AND used < now() - greatest(%s * interval '1 day', interval '25 hours')"
                    " LIMIT %s) RETURNING workspace, hash, size",
                    (tenant, days, DELETE_PORTION),
                ).fetchall()
                for workspace, _, size in rows:
                    sql = "UPDATE workspaces SET stored_bytes = stored_bytes - %s WHERE id = %s"
                    connection.execute(sql, (size, workspace))
            # The row first: an object without a row is only uploaded again, a row without an object would be a lie.
            contents.delete([(ChainId(tenant, workspace), hash.hex()) for workspace, hash, _ in rows])
            if len(rows) < DELETE_PORTION:
                return

    def _delete_portions(self, table: str, where: str, **values: int) -> None:
        statement = (
            f"DELETE FROM {table} WHERE (tableoid, ctid) IN"
            f" (SELECT tableoid, ctid FROM {table} WHERE {where} LIMIT {DELETE_PORTION})"
        )
        while True:
            with self._pool.connection() as connection:
                if connection.execute(statement.encode(), values).rowcount < DELETE_PORTION:
                    return
