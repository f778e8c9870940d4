"""The journal's hash chain: every record contains the hash of the previous one.

So records cannot be altered, dropped, inserted or reordered without invalidating all later hashes. Whoever can write
here could recompute all of them, but then a head that was noted elsewhere no longer occurs in the chain.

The hash covers the encoding of a record (`records`), which is not stored: it is computed again from the rows.
"""

import sqlite3
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from itertools import chain

from handhold.backends.state.database import UNREADABLE_ERRORS
from handhold.backends.state.records import JournalRecord, encode_record
from handhold.backends.state.rows import DETAIL_TABLES, RECORD_TABLES, encode_details, encode_row, read_record
from handhold.core.errors import StateDamaged
from handhold.core.ports.journal import JournalVerification
from handhold.progress import report

START_HASH = bytes(32)  # the predecessor of the first record
RECORD_LABELS = {
    "calls": "the beginning of call #{}",
    "intents": "the intent of call #{}",
    "outcomes": "the outcome of call #{}",
    "finished": "the end of call #{}",
}
SELECT_ALL_RECORDS = (
    " UNION ALL ".join(f"SELECT record, '{table}' AS held_in, seq, digest FROM {table}" for table in RECORD_TABLES)
    + " ORDER BY record"
)


class JournalChain:
    """Appends records. The head is cached."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._head = (0, START_HASH)

    def append(self, connection: sqlite3.Connection, record: JournalRecord) -> None:
        """Write a record in the current transaction."""
        if not self._advance_head(connection, record):  # another process wrote, or ours was rolled back
            self._head = self._read_head(connection)
            self._advance_head(connection, record)
        table, row = encode_row(record)
        connection.execute(_insert_sql(table, len(row) + 2), (*row, *self._head))
        for table, rows in encode_details(record):
            for first in rows:
                connection.executemany(_insert_sql(table, len(first)), chain([first], rows))

    def _advance_head(self, connection: sqlite3.Connection, record: JournalRecord) -> bool:
        """Advance the head to this record, if it is where we last saw it."""
        last, previous = self._head
        digest = sha256(encode_record(record, last + 1, previous)).digest()
        sql = "UPDATE head SET record = ?, digest = ? WHERE record = ? AND digest = ?"
        if connection.execute(sql, (last + 1, digest, *self._head)).rowcount != 1:
            return False
        self._head = (last + 1, digest)
        return True

    def _read_head(self, connection: sqlite3.Connection) -> tuple[int, bytes]:
        match connection.execute("SELECT record, digest FROM head").fetchall():
            case [(int(last), bytes(digest))]:
                return last, digest
            case _:
                raise StateDamaged(self._path, "the head of the journal's chain is missing")


@cache
def _insert_sql(table: str, columns: int) -> str:
    return f"INSERT INTO {table} VALUES ({', '.join('?' * columns)})"


def verify_chain(connection: sqlite3.Connection, known_head: str) -> JournalVerification:
    with _accept_any_text(connection):
        return ChainVerifier(connection, known_head.lower()).verify()


class ChainVerifier:
    """Verifies the chain, to its end or to the first problem."""

    def __init__(self, connection: sqlite3.Connection, known_head: str) -> None:
        self._connection = connection
        self._known_head = known_head
        self._known_head_at = 0 if known_head == START_HASH.hex() else None
        self._count = 0
        self._last = START_HASH

    def verify(self) -> JournalVerification:
        problem, at = next(self._find_problems(), (None, None))
        return JournalVerification(self._count, self._last.hex(), problem, at, self._known_head_at)

    def _find_problems(self) -> Iterator[tuple[str, int | None]]:
        yield from self._check_records()
        yield from self._check_head()
        yield from self._check_details()

    def _check_records(self) -> Iterator[tuple[str, int]]:
        for record, table, seq, digest in self._connection.execute(SELECT_ALL_RECORDS):
            if record != self._count + 1:
                yield f"record {self._count + 1} is missing", self._count + 1
            if self._compute_digest(table, seq) != digest:
                yield f"record {record}, {RECORD_LABELS[table].format(seq)}, was changed after it was written", record
            self._count, self._last = record, digest
            report("records checked", record, 0)
            if digest.hex() == self._known_head:
                self._known_head_at = record

    def _compute_digest(self, table: str, seq: int) -> bytes | None:
        """The hash of the presumed next record; None if its rows are invalid."""
        try:
            record = read_record(self._connection, table, seq)
            return sha256(encode_record(record, self._count + 1, self._last)).digest()
        except UNREADABLE_ERRORS:
            return None

    def _check_head(self) -> Iterator[tuple[str, int | None]]:
        heads = self._connection.execute("SELECT record, digest FROM head").fetchall()
        if heads == [(self._count, self._last)]:
            return
        match heads:
            case [(int(claimed), _)] if claimed > self._count:
                yield f"record {self._count + 1} is missing, and so is everything after it", self._count + 1
            case _:
                yield f"the chain ends with record {self._count}, but its head does not match it", None

    def _check_details(self) -> Iterator[tuple[str, None]]:
        for table in DETAIL_TABLES:
            rows = self._connection.execute(f"SELECT seq FROM {table} WHERE seq NOT IN (SELECT seq FROM intents)")
            for (seq,) in rows:
                yield f"{table} has a row of call #{seq} that no record mentions", None


def _decode_any(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


@contextmanager
def _accept_any_text(connection: sqlite3.Connection) -> Generator[None]:
    """Read invalid text too, as a value that differs from the original."""
    usual = connection.text_factory
    connection.text_factory = _decode_any
    try:
        yield
    finally:
        connection.text_factory = usual
