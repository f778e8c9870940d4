"""Tenants of a hub on PostgreSQL: their tokens, limits, retention and deletion. Runs as the owner of the tables."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool

from handhold.core.ports.record_store import ChainId
from handhold.hub.access import Access, NewToken, Role, generate_token, hash_token
from handhold.hub.object_contents import ObjectContents

DELETE_PORTION = 10_000  # rows in one transaction
LATE_UPLOAD_HOURS = 24  # an upload that began before its tenant was deleted has ended by then
LOCK_KEY = 0x48_48_4C_45  # of the advisory lock that keeps two hubs from removing the same at once
# How many records and bytes a row counts.
COUNTED = {"records": ("1", "length(line)"), "diverged": ("0", "length(line)"), "contents": ("0", "size")}


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

    def __init__(
        self, pool: ConnectionPool[Connection[TupleRow]], upkeep: ConnectionPool[Connection[TupleRow]]
    ) -> None:
        """`upkeep` is for what may take long."""
        self._pool, self._upkeep = pool, upkeep

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
        """Remove a tenant with its tokens, rows and objects. If it is interrupted, the next run or the upkeep goes on.

        Hubs that know its tokens add to it for some seconds: rows until it is gone, objects until the next upkeep.
        """
        tenant = self.find_tenant(name)
        with self._upkeep.connection() as connection:
            connection.execute("DELETE FROM tokens WHERE tenant = %s", (tenant,))
            sql = "UPDATE tenants SET max_records = 0, max_bytes = 0 WHERE id = %s"
            connection.execute(sql, (tenant,))
            rows = connection.execute("SELECT id FROM workspaces WHERE tenant = %s", (tenant,)).fetchall()
        for (workspace,) in rows:
            for table in ("records", "changes"):
                self._delete_portions(table, "workspace = %(workspace)s", workspace=workspace)
        with self._upkeep.connection() as connection:
            connection.execute("SELECT 1 FROM tenants WHERE id = %s FOR UPDATE", (tenant,))  # no new workspaces
            rows = connection.execute("SELECT id FROM workspaces WHERE tenant = %s", (tenant,)).fetchall()
            connection.execute("DELETE FROM tenants WHERE id = %s", (tenant,))  # waits for appends under way
            for table in ("records", "changes"):
                sql = f"DELETE FROM {table} WHERE workspace = ANY(%s)"
                connection.execute(sql.encode(), ([workspace for (workspace,) in rows],))
            connection.execute("INSERT INTO deleted_tenants VALUES (%s) ON CONFLICT DO NOTHING", (tenant,))
        contents.delete_tenant(tenant)

    def finish_deletions(self, contents: ObjectContents) -> None:
        """Remove what came for deleted tenants in the meantime."""
        with self._upkeep.connection() as connection:
            sql = "SELECT id, at < now() - %s * interval '1 hour' FROM deleted_tenants"
            rows = connection.execute(sql, (LATE_UPLOAD_HOURS,)).fetchall()
        for tenant, _ in rows:
            contents.delete_tenant(tenant)
        with self._upkeep.connection() as connection:
            finished = [tenant for tenant, is_old in rows if is_old]
            connection.execute("DELETE FROM deleted_tenants WHERE id = ANY(%s)", (finished,))

    # --- retention

    def apply_retention(self, contents: ObjectContents) -> None:
        """Remove what is older than its tenant wants, and whole months that nobody wants any more."""
        with self._upkeep.connection() as connection:
            tenants = connection.execute("SELECT id, retention_days FROM tenants").fetchall()
        days = [each for _, each in tenants]
        if tenants and None not in days:
            self._drop_months(max(days))
        for tenant, kept in tenants:
            if kept is not None:
                self._forget_older(tenant, kept, contents)

    def _drop_months(self, days: int) -> None:
        """Drop the tables of months that ended before. Their records are counted first, while appends go on."""
        with self._upkeep.connection() as connection:
            rows = connection.execute(
                "SELECT inhrelid::regclass::text, inhparent = 'records'::regclass FROM pg_inherits"
                " WHERE inhparent IN ('records'::regclass, 'changes'::regclass)"
                " AND to_date(right(inhrelid::regclass::text, 6), 'YYYYMM') + interval '1 month'"
                " <= (now() AT TIME ZONE 'UTC') - %s * interval '1 day'",
                (days,),
            ).fetchall()
        for name, is_counted in rows:
            self._drop_month(name, is_counted=is_counted)

    def _drop_month(self, name: str, *, is_counted: bool) -> None:
        with self._exclusive() as connection:
            if connection.execute("SELECT to_regclass(%s) IS NULL", (name,)).fetchone() == (True,):
                return  # another hub did it
            freed: list[TupleRow] = []
            if is_counted:
                sql = f"SELECT workspace, count(*), sum(length(line)) FROM {name} GROUP BY workspace"
                freed = connection.execute(sql.encode()).fetchall()  # the name is from the catalogue, quoted there
            # Before the rows of the workspaces: appends lock them in this order, too.
            connection.execute(f"DROP TABLE {name}".encode())
            workspaces, records, sizes = zip(*freed, strict=True) if freed else ((), (), ())
            connection.execute(
                "UPDATE workspaces SET stored_records = stored_records - freed.records,"
                " stored_bytes = stored_bytes - freed.bytes"
                " FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS freed (workspace, records, bytes)"
                " WHERE id = freed.workspace",
                (list(workspaces), list(records), list(sizes)),
            )

    def _forget_older(self, tenant: int, days: int, contents: ObjectContents) -> None:
        older = "tenant = %(tenant)s AND received < now() - %(days)s * interval '1 day'"
        for table in ("records", "changes", "reversals", "diverged"):
            self._delete_portions(table, older, tenant=tenant, days=days)
        for table in ("turn_totals", "session_totals"):  # where `received` is up to a day old
            self._delete_portions(table, older, tenant=tenant, days=days + 1)
        unused = "tenant = %(tenant)s AND used < now() - greatest(%(days)s * interval '1 day', interval '25 hours')"
        is_done = False
        while not is_done:
            rows = self._delete_portion("contents", unused, "workspace, hash, upload", tenant=tenant, days=days)
            # The rows first, see stored_contents.py.
            contents.delete([(ChainId(tenant, workspace), hash.hex(), upload) for workspace, hash, upload in rows])
            is_done = len(rows) < DELETE_PORTION

    def _delete_portions(self, table: str, where: str, **values: int) -> None:
        while len(self._delete_portion(table, where, "1", **values)) == DELETE_PORTION:
            pass

    def _delete_portion(self, table: str, where: str, columns: str, **values: int) -> list[TupleRow]:
        """Delete some rows, subtract them from what their workspaces store, and return these columns of them."""
        records, size = COUNTED.get(table, ("0", "0"))
        # By place: a row that was changed since it was chosen, as by pinning a content, is at another one.
        statement = f"""
            WITH gone AS (
                DELETE FROM {table} WHERE (tableoid, ctid) IN
                    (SELECT tableoid, ctid FROM {table} WHERE {where} LIMIT {DELETE_PORTION})
                RETURNING {table}.*, {records}::bigint AS records, {size}::bigint AS bytes
            ), freed AS (
                SELECT workspace, sum(records) AS records, sum(bytes) AS bytes FROM gone GROUP BY workspace
            ), counted AS (
                UPDATE workspaces SET stored_records = stored_records - freed.records,
                    stored_bytes = stored_bytes - freed.bytes
                FROM freed WHERE id = freed.workspace AND (freed.records, freed.bytes) <> (0, 0)
            )
            SELECT {columns} FROM gone
        """
        with self._exclusive() as connection:
            return connection.execute(statement.encode(), values).fetchall()

    @contextmanager
    def _exclusive(self) -> Generator[Connection[TupleRow]]:
        """A transaction during which no other hub removes anything."""
        with self._upkeep.connection() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK_KEY,))
            yield connection
