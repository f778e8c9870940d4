"""The record store on PostgreSQL, shared by any number of hub processes.

All that two of them must agree on is one row: the head of a chain. An append moves it from the hash that the batch
starts from to the hash that it ends with, in the statement that inserts the records. If the row was elsewhere, nothing
is inserted.
"""

from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from typing import Any, LiteralString

from psycopg import Connection, sql
from psycopg.errors import ForeignKeyViolation
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool

from handhold.core.ports.record_store import (
    MAX_READ_BYTES,
    CallPage,
    ChainDiverged,
    ChainHead,
    ChainId,
    QuotaExceeded,
    StoredContent,
    WorkspaceSummary,
    select_kept,
    select_new,
)
from handhold.core.shipped_records import RecordBatch
from handhold.hub.index_keys import MAX_KEY_BYTES, make_key
from handhold.hub.postgres_calls import select_calls, select_path
from handhold.hub.quotas import TenantQuotas
from handhold.hub.session_totals import add_totals

MAX_RACES = 10  # of other hub processes for the same head, before a request gives up

COMPARE: LiteralString = "record = %(record)s AND digest = %(previous)s AND diverged_at = 0"
APPEND: LiteralString = """
    WITH moved AS (
        UPDATE workspaces SET record = %(last)s, digest = %(digest)s, claimed = %(claimed)s, seen = now(),
            stored_records = stored_records + %(added)s, stored_bytes = stored_bytes + %(bytes)s
        WHERE id = %(workspace)s AND {compare}
        RETURNING tenant, id, generation
    ), with_changes AS (
        INSERT INTO changes SELECT tenant, id, generation, seq, now(), path
        FROM moved, unnest(%(change_seqs)s::bigint[], %(change_paths)s::bytea[]) AS new (seq, path)
    ), with_reversals AS (
        INSERT INTO reversals SELECT tenant, id, generation, seq, call, now()
        FROM moved, unnest(%(reversal_seqs)s::bigint[], %(reversal_calls)s::bigint[]) AS new (seq, call)
        ON CONFLICT DO NOTHING
    )
    INSERT INTO records SELECT tenant, id, generation, number, now(), seq, kind, session, is_committed, digest, line,
        at, turn, tool, verdict, files, time_us, listed
    FROM moved, unnest(%(numbers)s::bigint[], %(seqs)s::bigint[], %(kinds)s::text[], %(sessions)s::bytea[],
        %(committed)s::boolean[], %(digests)s::bytea[], %(lines)s::bytea[], %(times)s::bigint[], %(turns)s::bytea[],
        %(tools)s::bytea[], %(verdicts)s::text[], %(files)s::integer[], %(durations)s::bigint[], %(listed)s::bytea[])
        AS new (number, seq, kind, session, is_committed, digest, line, at, turn, tool, verdict, files, time_us, listed)
"""
SELECT_HEAD: LiteralString = "SELECT record, digest, diverged_at FROM workspaces WHERE id = %s"
SELECT_DIGESTS: LiteralString = """
    SELECT records.record, records.digest FROM records
    JOIN workspaces ON id = workspace AND workspaces.generation = records.generation
    WHERE workspace = %s AND records.record BETWEEN %s AND %s
"""
MARK_DIVERGED: LiteralString = """
    UPDATE workspaces SET diverged_at = CASE WHEN diverged_at = 0 THEN %(at)s ELSE diverged_at END, seen = now()
    WHERE id = %(workspace)s
"""
MEASURE_DIVERGED: LiteralString = """
    SELECT count(*), coalesce(sum(length(line)), 0)::bigint FROM diverged
    JOIN workspaces ON workspaces.id = workspace AND workspaces.generation = diverged.generation
    WHERE workspace = %(workspace)s
"""
KEEP_APART: LiteralString = """
    WITH kept AS (
        INSERT INTO diverged (tenant, workspace, generation, digest, line)
        SELECT tenant, workspaces.id, generation, new.digest, new.line
        FROM workspaces, unnest(%(digests)s::bytea[], %(lines)s::bytea[]) AS new (digest, line)
        WHERE id = %(workspace)s ON CONFLICT DO NOTHING RETURNING line
    )
    UPDATE workspaces SET stored_bytes = stored_bytes + (SELECT coalesce(sum(length(line)), 0) FROM kept)
    WHERE id = %(workspace)s
"""
# How much of what is found fits into an answer is known without reading it: lengths are not in the lines.
SELECT_LINES: LiteralString = """
    SELECT line FROM (
        SELECT line, record, sum(length(line)) OVER (ORDER BY record) - length(line) AS before FROM (
            SELECT line, records.record
            FROM records JOIN workspaces ON id = workspace AND workspaces.generation = records.generation
            WHERE workspace = %(workspace)s AND {where} ORDER BY records.record LIMIT %(limit)s
        ) AS wanted
    ) AS found WHERE before < %(most)s ORDER BY record
"""
ADD_CONTENT: LiteralString = """
    WITH stored AS (
        INSERT INTO contents (tenant, workspace, hash, size, upload)
        VALUES (%(tenant)s, %(workspace)s, %(hash)s, %(size)s, %(upload)s)
        ON CONFLICT (workspace, hash) DO UPDATE SET used = now() RETURNING size, upload
    )
    UPDATE workspaces SET stored_bytes = stored_bytes + stored.size FROM stored
    WHERE id = %(workspace)s AND stored.upload = %(upload)s
"""


class PostgresRecordStore:
    """Implements the port RecordStore. Thread-safe."""

    def __init__(self, pool: ConnectionPool[Connection[TupleRow]]) -> None:
        self._pool = pool
        self._quotas = TenantQuotas()

    @contextmanager
    def for_tenant(self, tenant: int) -> Generator[Connection[TupleRow]]:
        """A transaction that sees the rows of one tenant only."""
        with self._pool.connection() as connection, connection.transaction():
            connection.execute(
                "SELECT set_config('role', 'handhold_tenant', true), set_config('handhold.tenant', %s, true)",
                (str(tenant),),
            )
            yield connection

    def open_chain(self, tenant: int, name: str) -> ChainId:
        with self.for_tenant(tenant) as connection:
            connection.execute(
                "INSERT INTO workspaces (tenant, name) VALUES (%s, %s) ON CONFLICT DO NOTHING", (tenant, name)
            )
            row = connection.execute("SELECT id FROM workspaces WHERE name = %s", (name,)).fetchone()
        assert row is not None
        return ChainId(tenant, row[0])

    def find_chain(self, tenant: int, name: str) -> ChainId | None:
        with self.for_tenant(tenant) as connection:
            row = connection.execute("SELECT id FROM workspaces WHERE name = %s", (name,)).fetchone()
        return ChainId(tenant, row[0]) if row else None

    def find_generation(self, tenant: int, name: str) -> tuple[ChainId, int] | None:
        """The chain of a workspace, and its number if an earlier one was given up."""
        with self.for_tenant(tenant) as connection:
            row = connection.execute("SELECT id, generation FROM workspaces WHERE name = %s", (name,)).fetchone()
        return (ChainId(tenant, row[0]), row[1]) if row else None

    def head(self, chain: ChainId) -> ChainHead:
        with self.for_tenant(chain.tenant) as connection:
            return _read_head(connection, chain)

    # --- appending

    def append(self, chain: ChainId, batch: RecordBatch, *, claimed: int) -> ChainHead:
        """The usual batch continues the chain: one statement. Otherwise the head tells what of it is new."""
        with self.for_tenant(chain.tenant) as connection:
            self._quotas.check(connection, chain.tenant)
            if _try_append(connection, chain, batch, claimed):
                return ChainHead(batch.last.number, batch.last.digest)
        for _ in range(MAX_RACES):
            try:
                with self.for_tenant(chain.tenant) as connection:
                    head = _read_head(connection, chain)
                    new = _select_new(connection, chain, head, batch)
                    if not new.records:
                        return head
                    if _try_append(connection, chain, new, claimed):
                        return ChainHead(new.last.number, new.last.digest)
            except ChainDiverged as found:
                self._keep_apart(chain, batch, found.head)
                raise
        raise TimeoutError("other requests kept moving the head of this chain")

    def _keep_apart(self, chain: ChainId, batch: RecordBatch, head: ChainHead) -> None:
        """Keep the first batches of a diverged chain, and mark the workspace."""
        values: dict[str, Any] = {"tenant": chain.tenant, "workspace": chain.workspace, "at": head.diverged_at}
        with self.for_tenant(chain.tenant) as connection:
            connection.execute(MARK_DIVERGED, values)  # locks the row: others that diverge wait
            row = connection.execute(MEASURE_DIVERGED, values).fetchone()
            kept = select_kept(batch, *(row or (0, 0)))
            values |= {"digests": [each.digest for each in kept], "lines": [each.line for each in kept]}
            connection.execute(KEEP_APART, values)

    def restart(self, chain: ChainId) -> bool:
        with self.for_tenant(chain.tenant) as connection:
            restarted = connection.execute(
                "UPDATE workspaces SET generation = generation + 1, record = 0, digest = %s, diverged_at = 0"
                " WHERE id = %s AND diverged_at > 0",
                (ChainHead().digest, chain.workspace),
            )
            return restarted.rowcount > 0

    # --- reading

    def read_lines(self, chain: ChainId, *, after: int = 0, limit: int = 1000) -> Sequence[bytes]:
        return self._select_lines(chain, "records.record > %(after)s", after=after, limit=limit)

    def read_call(self, chain: ChainId, seq: int, *, after: int = 0) -> Sequence[bytes]:
        return self._select_lines(
            chain, "seq = %(seq)s AND records.record > %(after)s", seq=seq, after=after, limit=None
        )

    def _select_lines(self, chain: ChainId, where: LiteralString, **values: int | None) -> list[bytes]:
        with self.for_tenant(chain.tenant) as connection:
            rows = connection.execute(
                sql.SQL(SELECT_LINES).format(where=sql.SQL(where)),
                {"workspace": chain.workspace, "most": MAX_READ_BYTES, **values},
                binary=True,
            )
            return [line for (line,) in rows]

    def read_diverged(self, chain: ChainId) -> Sequence[bytes]:
        with self.for_tenant(chain.tenant) as connection:
            rows = connection.execute("SELECT line FROM diverged WHERE workspace = %s ORDER BY id", (chain.workspace,))
            return [line for (line,) in rows]

    def list_workspaces(
        self, tenant: int, *, only: str | None = None, start: str = "", limit: int | None = None
    ) -> Sequence[WorkspaceSummary]:
        """By name; from a name on, or only one of them."""
        with self.for_tenant(tenant) as connection:
            rows = connection.execute(
                "SELECT name, record, digest, diverged_at, claimed, extract(epoch FROM seen), stored_bytes"
                " FROM workspaces WHERE tenant = %(tenant)s AND name >= %(start)s"
                " AND (%(only)s::text IS NULL OR name = %(only)s) ORDER BY name LIMIT %(limit)s",
                {"tenant": tenant, "start": start, "only": only, "limit": limit},
            )
            return [
                WorkspaceSummary(name, ChainHead(*head), claimed, float(seen), size)
                for name, *head, claimed, seen, size in rows
            ]

    def list_calls(
        self,
        tenant: int,
        *,
        workspace: str | None = None,
        session: str | None = None,
        last: int = 20,
        cursor: str = "",
    ) -> CallPage:
        with self.for_tenant(tenant) as connection:
            return select_calls(connection, tenant, workspace, session, last, cursor)

    def find_path(
        self, tenant: int, path: str, *, workspace: str | None = None, last: int = 20, cursor: str = ""
    ) -> CallPage:
        with self.for_tenant(tenant) as connection:
            return select_path(connection, tenant, path, workspace, last, cursor)

    # --- contents

    def select_present(self, chain: ChainId, hashes: Collection[str]) -> set[str]:
        with self.for_tenant(chain.tenant) as connection:
            keys = (chain.workspace, [bytes.fromhex(each) for each in hashes])
            # Retention spares for a day and an hour what was asked for, so that this need not write every time.
            old, new = "used < now() - interval '1 hour'", "used >= now() - interval '1 hour'"
            asked: LiteralString = "workspace = %s AND hash = ANY(%s)"
            connection.execute(f"UPDATE contents SET used = now() WHERE {asked} AND {old}", keys)
            rows = connection.execute(f"SELECT hash FROM contents WHERE {asked} AND {new}", keys)
            return {hash.hex() for (hash,) in rows}

    def find_content(self, chain: ChainId, hash: str) -> StoredContent | None:
        return self.find_contents(chain, (hash,)).get(hash)

    def find_contents(self, chain: ChainId, hashes: Collection[str]) -> dict[str, StoredContent]:
        with self.for_tenant(chain.tenant) as connection:
            rows = connection.execute(
                "SELECT hash, upload, size FROM contents WHERE workspace = %s AND hash = ANY(%s)",
                (chain.workspace, [bytes.fromhex(each) for each in hashes]),
            )
            return {hash.hex(): StoredContent(upload, size) for hash, upload, size in rows}

    def check_room(self, chain: ChainId, size: int) -> None:
        with self.for_tenant(chain.tenant) as connection:
            self._quotas.check(connection, chain.tenant, size)

    def add_content(self, chain: ChainId, hash: str, content: StoredContent) -> bool:
        values: dict[str, Any] = {"tenant": chain.tenant, "workspace": chain.workspace, "hash": bytes.fromhex(hash)}
        try:
            with self.for_tenant(chain.tenant) as connection:
                self._quotas.check(connection, chain.tenant, content.size)
                values |= {"size": content.size, "upload": content.upload}
                return connection.execute(ADD_CONTENT, values).rowcount > 0
        except ForeignKeyViolation:
            raise QuotaExceeded("bytes", 0) from None  # the tenant was deleted a moment ago


def _read_head(connection: Connection[TupleRow], chain: ChainId) -> ChainHead:
    row = connection.execute(SELECT_HEAD, (chain.workspace,)).fetchone()
    return ChainHead(*row) if row else ChainHead()


def _select_new(connection: Connection[TupleRow], chain: ChainId, head: ChainHead, batch: RecordBatch) -> RecordBatch:
    if head.diverged_at:
        raise ChainDiverged(head)
    stored: dict[int, bytes] = {}
    if batch.first.number <= head.record:
        numbers = (chain.workspace, batch.first.number, batch.last.number)
        stored = dict(connection.execute(SELECT_DIGESTS, numbers).fetchall())
    return select_new(head, batch, stored)


def _try_append(connection: Connection[TupleRow], chain: ChainId, batch: RecordBatch, claimed: int) -> bool:
    """Append the batch if the chain ends where it starts: compare-and-swap."""
    records = batch.records
    changes = [
        (record.seq, path)
        for record in records
        for path in dict.fromkeys(change.path[:MAX_KEY_BYTES] for change in record.changes)
    ]
    reversals = [(record.seq, call) for record in records for call in record.takes_back]
    values: dict[str, Any] = {
        "workspace": chain.workspace,
        "record": batch.first.number - 1,
        "previous": batch.first.previous,
        "last": batch.last.number,
        "digest": batch.last.digest,
        "claimed": max(claimed, batch.last.number),
        "added": len(records),
        "bytes": batch.size,
        "change_seqs": [seq for seq, _ in changes],
        "change_paths": [path for _, path in changes],
        "reversal_seqs": [seq for seq, _ in reversals],
        "reversal_calls": [call for _, call in reversals],
        "numbers": [each.number for each in records],
        "seqs": [each.seq for each in records],
        "kinds": [each.kind for each in records],
        "sessions": [make_key(each.session) if each.kind == "call" else None for each in records],
        "committed": [each.is_committed if each.kind == "outcome" else None for each in records],
        "digests": [each.digest for each in records],
        "lines": [each.line for each in records],
        "times": [each.at for each in records],
        "turns": [make_key(each.turn) if each.kind == "call" else None for each in records],
        "tools": [make_key(each.tool) if each.kind == "call" else None for each in records],
        "verdicts": [each.verdict or None for each in records],
        "files": [len(each.changes) if each.kind == "intent" else None for each in records],
        "durations": [each.time_us if each.kind == "outcome" else None for each in records],
        "listed": [each.listed for each in records],
    }
    statement = sql.SQL(APPEND).format(compare=sql.SQL(COMPARE))
    if not connection.execute(statement, values).rowcount:
        return False
    add_totals(connection, chain, records)
    return True
