"""The record store in one SQLite file, for a hub on one machine: to try it out, and for a team of a few sandboxes."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from handhold.backends.state.database import Database
from handhold.core.ports.record_store import (
    MAX_PAGE_BYTES,
    MAX_READ_BYTES,
    CallPage,
    ChainDiverged,
    ChainHead,
    ChainId,
    HubEntry,
    StoredContent,
    WorkspaceSummary,
    select_kept,
    select_new,
)
from handhold.core.shipped_entries import make_entry
from handhold.core.shipped_records import MAX_NUMBER, START_DIGEST, RecordBatch
from handhold.hub.access import Access, NewToken, Role, generate_token, hash_token
from handhold.hub.call_cursor import format_cursor, parse_cursor

VERSION = 3
MIGRATIONS = {
    1: (
        "ALTER TABLE diverged ADD COLUMN generation INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE contents ADD COLUMN upload TEXT NOT NULL DEFAULT ''",
    ),
    2: ("ALTER TABLE records ADD COLUMN listed BLOB",),
}
LOCAL_TENANT = 1  # the only one that has tokens
SCHEMA = (
    """CREATE TABLE workspaces (
        id INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, name TEXT NOT NULL, generation INTEGER NOT NULL DEFAULT 1,
        record INTEGER NOT NULL DEFAULT 0, digest BLOB NOT NULL, diverged_at INTEGER NOT NULL DEFAULT 0,
        claimed INTEGER NOT NULL DEFAULT 0, seen REAL NOT NULL DEFAULT (julianday('now')),
        stored_bytes INTEGER NOT NULL DEFAULT 0, UNIQUE (tenant, name)
    )""",
    """CREATE TABLE records (
        workspace INTEGER NOT NULL, generation INTEGER NOT NULL, record INTEGER NOT NULL, seq INTEGER NOT NULL,
        kind TEXT NOT NULL, session BLOB NOT NULL, is_committed INTEGER NOT NULL, digest BLOB NOT NULL,
        line BLOB NOT NULL, place INTEGER NOT NULL, listed BLOB, PRIMARY KEY (workspace, generation, record)
    ) WITHOUT ROWID""",
    "CREATE INDEX records_seq ON records (workspace, generation, seq)",
    "CREATE INDEX records_session ON records (workspace, generation, session, seq) WHERE kind = 'call'",
    "CREATE INDEX records_place ON records (place) WHERE kind = 'call'",
    """CREATE TABLE changes (
        workspace INTEGER NOT NULL, generation INTEGER NOT NULL, seq INTEGER NOT NULL, path BLOB NOT NULL
    )""",
    "CREATE INDEX changes_path ON changes (path)",
    """CREATE TABLE reversals (
        workspace INTEGER NOT NULL, generation INTEGER NOT NULL, call INTEGER NOT NULL, seq INTEGER NOT NULL,
        PRIMARY KEY (workspace, generation, call, seq)
    ) WITHOUT ROWID""",
    """CREATE TABLE diverged (
        id INTEGER PRIMARY KEY, workspace INTEGER NOT NULL, digest BLOB NOT NULL, line BLOB NOT NULL,
        generation INTEGER NOT NULL, UNIQUE (workspace, digest)
    )""",
    """CREATE TABLE contents (
        workspace INTEGER NOT NULL, hash BLOB NOT NULL, size INTEGER NOT NULL, upload TEXT NOT NULL,
        PRIMARY KEY (workspace, hash)
    ) WITHOUT ROWID""",
    """CREATE TABLE tokens (
        id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, workspace INTEGER, role TEXT NOT NULL, expires REAL
    )""",
)
IN_CHAIN = "workspace = (SELECT id FROM workspaces WHERE id = ? AND tenant = ?)"
OF_GENERATION = "JOIN workspaces ON workspaces.id = workspace AND workspaces.generation = {0}.generation"
IS_UNDONE = """EXISTS (
    SELECT 1 FROM reversals AS taken JOIN records AS ended USING (workspace, generation, seq)
    WHERE taken.workspace = ?1 AND taken.generation = ?2 AND taken.call = ?3 AND ended.is_committed AND NOT EXISTS (
        SELECT 1 FROM reversals AS again JOIN records AS ended USING (workspace, generation, seq)
        WHERE again.workspace = taken.workspace AND again.generation = taken.generation
            AND again.call = taken.seq AND ended.is_committed
    )
)"""


class SqliteRecordStore:
    """Implements the ports RecordStore and TokenStore, without quotas and retention. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._database = Database(path, SCHEMA, VERSION, MIGRATIONS)

    def close(self) -> None:
        self._database.close()

    def open_chain(self, tenant: int, name: str) -> ChainId:
        with self._database.write_transaction() as connection:
            sql = "INSERT OR IGNORE INTO workspaces (tenant, name, digest) VALUES (?, ?, ?)"
            connection.execute(sql, (tenant, name, START_DIGEST))
            row = connection.execute("SELECT id FROM workspaces WHERE tenant = ? AND name = ?", (tenant, name))
            return ChainId(tenant, row.fetchone()[0])

    def find_chain(self, tenant: int, name: str) -> ChainId | None:
        row = self._database.fetch_row("SELECT id FROM workspaces WHERE tenant = ? AND name = ?", (tenant, name))
        return ChainId(tenant, row[0]) if row else None

    def head(self, chain: ChainId) -> ChainHead:
        sql = "SELECT record, digest, diverged_at FROM workspaces WHERE id = ? AND tenant = ?"
        row = self._database.fetch_row(sql, (chain.workspace, chain.tenant))
        return ChainHead(*row) if row else ChainHead()

    # --- appending

    def append(self, chain: ChainId, batch: RecordBatch, *, claimed: int) -> ChainHead:
        try:
            with self._database.write_transaction(durable=True) as connection:
                return self._append(connection, chain, batch, claimed)
        except ChainDiverged as found:
            self._keep_apart(chain, batch, found.head)
            raise

    def _append(self, connection: Any, chain: ChainId, batch: RecordBatch, claimed: int) -> ChainHead:
        sql = "SELECT record, digest, diverged_at, generation FROM workspaces WHERE id = ? AND tenant = ?"
        *found, generation = connection.execute(sql, (chain.workspace, chain.tenant)).fetchone()
        head = ChainHead(*found)
        if head.diverged_at:
            raise ChainDiverged(head)
        sql = "SELECT record, digest FROM records WHERE workspace = ? AND generation = ? AND record BETWEEN ? AND ?"
        rows = connection.execute(sql, (chain.workspace, generation, batch.first.number, batch.last.number))
        new = select_new(head, batch, dict(rows.fetchall()))
        if not new.records:
            return head
        place: int = connection.execute("SELECT coalesce(max(place), 0) + 1 FROM records").fetchone()[0]
        key = (chain.workspace, generation)
        for each in new.records:
            found = (each.number, each.seq, each.kind, each.session, each.is_committed, each.digest, each.line, place)
            connection.execute(f"INSERT INTO records VALUES ({', '.join('?' * 11)})", (*key, *found, each.listed))
            rows = [(*key, each.seq, change.path) for change in each.changes]
            connection.executemany("INSERT INTO changes VALUES (?, ?, ?, ?)", rows)
            rows = [(*key, call, each.seq) for call in each.takes_back]
            connection.executemany("INSERT OR IGNORE INTO reversals VALUES (?, ?, ?, ?)", rows)
        connection.execute(
            "UPDATE workspaces SET record = ?, digest = ?, claimed = ?, seen = julianday('now'),"
            " stored_bytes = stored_bytes + ? WHERE id = ?",
            (new.last.number, new.last.digest, max(claimed, new.last.number), new.size, chain.workspace),
        )
        return ChainHead(new.last.number, new.last.digest)

    def _keep_apart(self, chain: ChainId, batch: RecordBatch, head: ChainHead) -> None:
        with self._database.write_transaction(durable=True) as connection:
            connection.execute(
                "UPDATE workspaces SET diverged_at = ?, seen = julianday('now')"
                " WHERE id = ? AND tenant = ? AND diverged_at = 0",
                (head.diverged_at, chain.workspace, chain.tenant),
            )
            sql = (
                "SELECT workspaces.generation, count(line), coalesce(sum(length(line)), 0) FROM workspaces"
                " LEFT JOIN diverged ON workspace = workspaces.id AND diverged.generation = workspaces.generation"
                " WHERE workspaces.id = ?"
            )
            generation, count, size = connection.execute(sql, (chain.workspace,)).fetchone()
            for each in select_kept(batch, count, size):
                added = connection.execute(
                    "INSERT OR IGNORE INTO diverged (workspace, generation, digest, line) VALUES (?, ?, ?, ?)",
                    (chain.workspace, generation, each.digest, each.line),
                ).rowcount
                sql = "UPDATE workspaces SET stored_bytes = stored_bytes + ? WHERE id = ?"
                connection.execute(sql, (len(each.line) * added, chain.workspace))

    def restart(self, chain: ChainId) -> bool:
        with self._database.write_transaction(durable=True) as connection:
            restarted = connection.execute(
                "UPDATE workspaces SET generation = generation + 1, record = 0, digest = ?, diverged_at = 0"
                " WHERE id = ? AND tenant = ? AND diverged_at > 0",
                (START_DIGEST, chain.workspace, chain.tenant),
            )
            return restarted.rowcount > 0

    # --- reading

    def read_lines(self, chain: ChainId, *, after: int = 0, limit: int = 1000) -> Sequence[bytes]:
        return self._select_lines(chain, "records.record > ? ORDER BY records.record LIMIT ?", after, limit)

    def read_call(self, chain: ChainId, seq: int, *, after: int = 0) -> Sequence[bytes]:
        return self._select_lines(chain, "seq = ? AND records.record > ? ORDER BY records.record", seq, after)

    def _select_lines(self, chain: ChainId, where: str, *values: int) -> list[bytes]:
        sql = f"SELECT line FROM records {OF_GENERATION.format('records')} WHERE workspaces.id = ? AND tenant = ? AND "
        found: list[bytes] = []
        with self._database.read_transaction() as connection:
            size = 0
            for (line,) in connection.execute(sql + where, (chain.workspace, chain.tenant, *values)):
                found.append(line)
                size += len(line)
                if size >= MAX_READ_BYTES:
                    break
        return found

    def read_diverged(self, chain: ChainId) -> Sequence[bytes]:
        sql = f"SELECT line FROM diverged WHERE {IN_CHAIN} ORDER BY id"
        return [line for (line,) in self._select(sql, chain.workspace, chain.tenant)]

    def list_workspaces(self, tenant: int) -> Sequence[WorkspaceSummary]:
        sql = (
            "SELECT name, record, digest, diverged_at, claimed, (seen - 2440587.5) * 86400, stored_bytes"
            " FROM workspaces WHERE tenant = ? ORDER BY name"
        )
        return [
            WorkspaceSummary(name, ChainHead(*head), claimed, seen, size)
            for name, *head, claimed, seen, size in self._select(sql, tenant)
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
        where, values = "tenant = ? AND kind = 'call'", list[object]([tenant])
        if workspace is not None:
            where += " AND name = ?"
            values.append(workspace)
        if session is not None:
            where += " AND session = ?"
            values.append(session.encode("utf-8", "surrogatepass"))
        order = ("place", "records.record") if workspace is None else ("seq",)
        if before := parse_cursor(cursor, len(order)):
            where += f" AND ({', '.join(order)}) < ({', '.join('?' * len(order))})"
            values += before
        return self._read_page(
            f"SELECT workspace, records.generation, seq, name, {', '.join(order)}"
            f" FROM records {OF_GENERATION.format('records')}"
            f" WHERE {where} ORDER BY {', '.join(f'{each} DESC' for each in order)} LIMIT ?",
            values,
            last,
        )

    def find_path(
        self, tenant: int, path: str, *, workspace: str | None = None, last: int = 20, cursor: str = ""
    ) -> CallPage:
        key = path.rstrip("/").encode("utf-8", "surrogatepass")
        (before,) = parse_cursor(cursor, 1) or (MAX_NUMBER,)
        return self._read_page(
            "SELECT workspace, changes.generation, seq, name, max(changes.rowid) AS place"
            f" FROM changes {OF_GENERATION.format('changes')}"
            " WHERE tenant = ? AND (path = ? OR (path > ? AND path < ?)) AND name = coalesce(?, name)"
            " GROUP BY workspace, changes.generation, seq HAVING place < ? ORDER BY place DESC LIMIT ?",
            (tenant, key, key + b"/", key + b"0", workspace, before),
            last,
        )

    def _read_page(self, sql: str, values: Sequence[object], last: int) -> CallPage:
        """`sql` selects workspace, generation, seq and name of one call more, then what it orders them by."""
        lines = (
            "SELECT coalesce(listed, line) FROM records"
            " WHERE workspace = ?1 AND generation = ?2 AND seq = ?3 ORDER BY record"
        )
        found: list[HubEntry] = []
        size, place, older = 0, (), ""
        with self._database.read_transaction() as connection:
            for *key, name, place_of in (
                (*row[:4], row[4:]) for row in connection.execute(sql, (*values, last + 1)).fetchall()
            ):
                if len(found) == last or size > MAX_PAGE_BYTES:
                    older = format_cursor(*place)
                    break
                parts = [line for (line,) in connection.execute(lines, key)]
                undone = bool(connection.execute(f"SELECT {IS_UNDONE}", key).fetchone()[0])
                found.append(HubEntry(name, make_entry(parts, undone=undone)))
                size, place = size + sum(map(len, parts)), place_of
        return CallPage(found[::-1], older)

    # --- contents

    def select_present(self, chain: ChainId, hashes: Collection[str]) -> set[str]:
        sql = f"SELECT 1 FROM contents WHERE hash = ? AND {IN_CHAIN}"
        key = (chain.workspace, chain.tenant)
        return {each for each in hashes if self._database.fetch_row(sql, (bytes.fromhex(each), *key))}

    def find_content(self, chain: ChainId, hash: str) -> StoredContent | None:
        sql = f"SELECT upload, size FROM contents WHERE hash = ? AND {IN_CHAIN}"
        row = self._database.fetch_row(sql, (bytes.fromhex(hash), chain.workspace, chain.tenant))
        return StoredContent(*row) if row else None

    def check_room(self, chain: ChainId, size: int) -> None:
        """There are no quotas here."""

    def add_content(self, chain: ChainId, hash: str, content: StoredContent) -> bool:
        with self._database.write_transaction(durable=True) as connection:
            added = connection.execute(
                "INSERT OR IGNORE INTO contents (workspace, hash, size, upload)"
                " SELECT id, ?, ?, ? FROM workspaces WHERE id = ? AND tenant = ?",
                (bytes.fromhex(hash), content.size, content.upload, chain.workspace, chain.tenant),
            ).rowcount
            sql = "UPDATE workspaces SET stored_bytes = stored_bytes + ? WHERE id = ?"
            connection.execute(sql, (content.size * added, chain.workspace))
            return added > 0

    # --- tokens

    def authenticate(self, token: str) -> Access | None:
        row = self._database.fetch_row(
            "SELECT role, workspace, name FROM tokens LEFT JOIN workspaces ON workspaces.id = workspace"
            " WHERE hash = ? AND (expires IS NULL OR expires > julianday('now'))",
            (hash_token(token),),
        )
        return Access(LOCAL_TENANT, *row) if row else None

    def create_token(
        self, tenant: int, role: Role, workspace: str | None = None, days: float | None = None
    ) -> NewToken:
        chain = None if workspace is None else self.open_chain(tenant, workspace)
        token = generate_token()
        with self._database.write_transaction(durable=True) as connection:
            made = connection.execute(
                "INSERT INTO tokens (hash, workspace, role, expires) VALUES (?, ?, ?, julianday('now') + ?)",
                (hash_token(token), chain and chain.workspace, role, days),
            )
            return NewToken(made.lastrowid or 0, token)

    def revoke_token(self, tenant: int, number: int) -> bool:
        with self._database.write_transaction(durable=True) as connection:
            return connection.execute("DELETE FROM tokens WHERE id = ?", (number,)).rowcount > 0

    def _select(self, sql: str, *values: object) -> list[Any]:
        with self._database.read_transaction() as connection:
            return connection.execute(sql, values).fetchall()
