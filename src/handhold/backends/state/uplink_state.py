"""How far the journal has been shipped to a hub, and the records that come next.

What is not acknowledged keeps its contents and slots: `contents` and `slot_ledger` do not drop them.
"""

import heapq
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from operator import itemgetter

from handhold.backends.state.contents import BoundedContents
from handhold.backends.state.database import UNREADABLE_ERRORS, Database
from handhold.backends.state.records import MICROSECONDS_PER_SECOND, JournalRecord, encode_record
from handhold.backends.state.rows import RECORD_TABLES, read_record
from handhold.core.errors import HubBacklogFull, StateDamaged
from handhold.core.plans import ContentRef, FileChange, InlineContent, StagedContent
from handhold.core.ports.hub_link import HubStatus
from handhold.core.shipped_records import MAX_CONTENT_BYTES, START_DIGEST, is_hash

SCHEMA = (
    # One row once a hub was named.
    """CREATE TABLE uplink (
        hub TEXT NOT NULL,
        record INTEGER NOT NULL, digest BLOB NOT NULL,  -- the last one that the hub acknowledged
        unsent_bytes INTEGER NOT NULL,                  -- of contents that later records name
        reached INTEGER NOT NULL, problem TEXT NOT NULL, diverged_at INTEGER NOT NULL
    )""",
    # Contents of hidden files, or with a secret of one, when they were recorded: never shipped, under any name.
    "CREATE TABLE withheld (hash BLOB PRIMARY KEY) WITHOUT ROWID",
)
# Only where a hub is used: nobody else looks for records by their numbers.
RECORD_INDEXES = tuple(f"CREATE INDEX IF NOT EXISTS {table}_record ON {table} (record)" for table in RECORD_TABLES)
# As `select_shippable` selects them.
SUM_CONTENTS = f"""
    SELECT coalesce(sum(
        iif(before_kind IN ('file', 'shelved') AND before NOT NULL AND before_size <= {MAX_CONTENT_BYTES},
            before_size, 0)
        + iif(after_kind IN ('file', 'shelved') AND after NOT NULL AND after_size <= {MAX_CONTENT_BYTES},
            after_size, 0)
    ), 0)
    FROM intents JOIN changes USING (seq) WHERE record > ? AND record <= ?
"""


@dataclass(frozen=True)
class UnsentRecord:
    number: int
    digest: bytes
    line: bytes
    record: JournalRecord


class UplinkState:
    """Thread-safe. It has a connection of its own, so that reading many records never delays a call."""

    def __init__(self, database: Database, sync: Callable[[], None]) -> None:
        self._database = database
        self.sync = sync  # makes everything durable that was committed

    def attach(self, hub: str) -> int:
        """Name the hub, and return the last record. Another hub than before starts from the first record."""
        with self._database.write_transaction() as connection:
            for statement in RECORD_INDEXES:
                connection.execute(statement)
            row = connection.execute("SELECT hub FROM uplink").fetchone()
            if row != (hub,):
                connection.execute("DELETE FROM uplink")
                connection.execute("INSERT INTO uplink VALUES (?, 0, ?, 0, 0, '', 0)", (hub, START_DIGEST))
                self._count_unsent(connection)
            return connection.execute("SELECT record FROM head").fetchone()[0]

    def read_status(self) -> HubStatus | None:
        with self._database.read_transaction() as connection:
            return read_status(connection)

    def read_batch(self, max_records: int, max_bytes: int, after: int | None = None) -> list[UnsentRecord]:
        """The next records after the acknowledged one, or after another; one, however large, if there is any."""
        with self._database.read_transaction() as connection:
            if after is None:
                last, previous = connection.execute("SELECT record, digest FROM uplink").fetchone()
            else:
                last, previous = after, _find_digest(connection, after) or b""
            found: list[UnsentRecord] = []
            size = 0
            for number, table, seq, digest in self._select_records(connection, last, max_records):
                each = self._read_record(connection, number, table, seq, digest, previous)
                size += len(each.line)
                if (found and size > max_bytes) or number != last + 1:
                    break
                found.append(each)
                last, previous = number, digest
            return found

    def _select_records(
        self, connection: sqlite3.Connection, after: int, limit: int
    ) -> Iterator[tuple[int, str, int, bytes]]:
        parts = [
            connection.execute(
                f"SELECT record, '{table}', seq, digest FROM {table} WHERE record > ? ORDER BY record LIMIT ?",
                (after, limit),
            )
            for table in RECORD_TABLES
        ]
        return islice(heapq.merge(*parts, key=itemgetter(0)), limit)

    def _read_record(
        self, connection: sqlite3.Connection, number: int, table: str, seq: int, digest: bytes, previous: bytes
    ) -> UnsentRecord:
        try:
            record = read_record(connection, table, seq)
            line = encode_record(record, number, previous)
        except UNREADABLE_ERRORS:
            line, record = b"", None
        if record is None or sha256(line).digest() != digest:
            raise StateDamaged(str(self._database.path), f"record {number} was changed after it was written")
        return UnsentRecord(number, digest, line, record)

    def find_digest(self, number: int) -> bytes | None:
        """The hash of a record; None if there is none with this number."""
        with self._database.read_transaction() as connection:
            return _find_digest(connection, number)

    def move_to(self, number: int) -> None:
        """The hub's last record is this one of ours: forward after an acknowledgement, back after a restore there."""
        digest = self.find_digest(number)
        with self._database.write_transaction() as connection:
            (before,) = connection.execute("SELECT record FROM uplink").fetchone()
            sql = "UPDATE uplink SET record = ?, digest = ?, reached = ?, problem = '', diverged_at = 0"
            connection.execute(sql, (number, digest, _now()))
            if number > before:
                sent = connection.execute(SUM_CONTENTS, (before, number)).fetchone()[0]
                connection.execute("UPDATE uplink SET unsent_bytes = max(0, unsent_bytes - ?)", (sent,))
            else:
                self._count_unsent(connection)

    def _count_unsent(self, connection: sqlite3.Connection) -> None:
        (after,) = connection.execute("SELECT record FROM uplink").fetchone()
        total = connection.execute(SUM_CONTENTS, (after, 2**62)).fetchone()[0]
        connection.execute("UPDATE uplink SET unsent_bytes = ?", (total,))

    def note_problem(self, problem: str, *, diverged_at: int = 0) -> None:
        with self._database.write_transaction() as connection:
            connection.execute("UPDATE uplink SET problem = ?, diverged_at = ?", (problem, diverged_at))

    def note_reached(self) -> None:
        with self._database.write_transaction() as connection:
            connection.execute("UPDATE uplink SET problem = '', reached = ?", (_now(),))

    def withhold(self, hashes: Collection[str]) -> None:
        if hashes:
            with self._database.write_transaction() as connection:
                withhold(connection, hashes)

    def select_withheld(self, hashes: Collection[str]) -> set[str]:
        sql = "SELECT 1 FROM withheld WHERE hash = ?"
        with self._database.read_transaction() as connection:
            return {each for each in hashes if connection.execute(sql, (bytes.fromhex(each),)).fetchone()}

    def read_reply(self, hash: str) -> tuple[bytes, bool] | None:
        """A kept reply as it is stored, and whether it is compressed; None if it was dropped."""
        sql = "SELECT data, packed FROM replies WHERE hash = ?"
        return self._database.fetch_row(sql, (bytes.fromhex(hash),))

    def close(self) -> None:
        self._database.close()


def _find_digest(connection: sqlite3.Connection, number: int) -> bytes | None:
    if not number:
        return START_DIGEST
    union = " UNION ALL ".join(f"SELECT digest FROM {table} WHERE record = ?1" for table in RECORD_TABLES)
    row = connection.execute(union, (number,)).fetchone()
    return row[0] if row else None


def read_status(connection: sqlite3.Connection) -> HubStatus | None:
    """None if no hub was ever named."""
    row = connection.execute(
        "SELECT hub, head.record, uplink.record, unsent_bytes, reached, problem, diverged_at FROM uplink, head"
    ).fetchone()
    if row is None:
        return None
    hub, head, acknowledged, unsent, reached, problem, diverged_at = row
    return HubStatus(hub, head, acknowledged, unsent, reached / MICROSECONDS_PER_SECOND, problem, diverged_at)


def select_shippable(files: Iterable[FileChange]) -> Iterator[tuple[InlineContent | ContentRef | StagedContent, str]]:
    """Files that have a hash and are not too large, with their paths. Folders, links and trees are not shipped."""
    for change in files:
        for each in (change.before, change.after):
            match each:
                case InlineContent() | ContentRef() | StagedContent(kind="file") if (
                    each.size <= MAX_CONTENT_BYTES and is_hash(each.hash)
                ):
                    yield each, change.path
                case _:
                    pass


def add_unsent(connection: sqlite3.Connection, files: Sequence[FileChange], kept: BoundedContents) -> None:
    """Count the contents of a new intent, if a hub was named.

    What it lacks may take half of the space for undo, and one change more. HubBacklogFull if that is reached already.
    """
    status = read_status(connection)
    if status is None:
        return
    limit = kept.read_bound(kept.sum_held(connection)) // 2
    if status.unsent_bytes > limit:
        raise HubBacklogFull(status.hub, status.describe(), status.unsent_bytes, limit)
    size = sum(each.size for each, _ in select_shippable(files))
    connection.execute("UPDATE uplink SET unsent_bytes = unsent_bytes + ?", (size,))


def detach(connection: sqlite3.Connection) -> None:
    """Give up the hub: nothing is kept for it any more."""
    connection.execute("DELETE FROM uplink")


def withhold(connection: sqlite3.Connection, hashes: Collection[str]) -> None:
    rows = [(bytes.fromhex(each),) for each in hashes]
    connection.executemany("INSERT OR IGNORE INTO withheld VALUES (?)", rows)


def _now() -> int:
    return time.time_ns() // 1000
