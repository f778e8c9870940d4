"""The chain of the journal: every record is hashed together with the hash of the record before it.

What was written can then not be altered, dropped, added to or put in another order without all later hashes being
wrong. Whoever could write here could make all of them anew; but not so that the head which somebody noted elsewhere
stands among them.

Hashed are the rows as they are stored, and each record holds its own number and hash: there is no second copy.
"""

import sqlite3
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from itertools import chain
from typing import Any

from handhold.core.errors import StateDamaged
from handhold.core.ports import Verified
from handhold.watching import came

Row = tuple[object, ...]
Details = Iterable[tuple[str, Iterable[Row]]]  # rows by table, in the order of their key

START = bytes(32)  # what the first record comes after

# What is a record: a row of these tables. Its last two columns are its number and its hash.
RECORDS = {
    "calls": "the beginning of call #{}",
    "intents": "what call #{} set out to do",
    "outcomes": "the outcome of call #{}",
    "finished": "the end of call #{}",
}
# What else belongs to a record: the rows of these tables that are about the same call.
DETAILS: Mapping[str, Sequence[str]] = {"intents": ("changes", "things", "taken")}
KEYS = {"changes": "seq, n", "things": "seq, n, side", "taken": "seq, n"}  # else it is the call alone


class Link:
    """The hash of a record in the making.

    A row is spelled in ASCII, on one line, its numbers, bytes, texts and NULLs each in their own way: no two records
    are spelled the same.
    """

    def __init__(self, previous: bytes, table: str, row: Row) -> None:
        self._hash = sha256(previous + f"{table} {row!a}\n".encode())

    def with_rows(self, table: str, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows as they come, hashed on the way."""
        self._hash.update(f"{table}\n".encode())
        for row in rows:
            self._hash.update(f"{row!a}\n".encode())
            yield row

    def digest(self) -> bytes:
        return self._hash.digest()


def link(previous: bytes, table: str, row: Row, details: Details = ()) -> bytes:
    made = Link(previous, table, row)
    for name, rows in details:
        for _ in made.with_rows(name, rows):
            pass
    return made.digest()


class Chain:
    """Where the next record is put. A head that is remembered need not be asked for again."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._head = (0, START)

    def append(self, connection: sqlite3.Connection, table: str, row: Row) -> None:
        """Write a record, in the transaction that is under way."""
        last, previous = self._head
        digest = link(previous, table, (*row, last + 1))
        if not _moved(connection, self._head, (last + 1, digest)):  # somebody else was here, or ours came to nothing
            last, previous = head = self._found(connection)
            digest = link(previous, table, (*row, last + 1))
            _moved(connection, head, (last + 1, digest))
        connection.execute(_insertion(table, len(row) + 2), (*row, last + 1, digest))
        self._head = (last + 1, digest)

    def append_with(self, connection: sqlite3.Connection, table: str, row: Row, details: Details) -> None:
        """The same with what belongs to it: written as it is hashed, since it may be long."""
        last, previous = head = self._found(connection)
        made = Link(previous, table, (*row, last + 1))
        for name, rows in details:
            hashed = made.with_rows(name, rows)
            first = next(hashed, None)
            if first is not None:
                connection.executemany(_insertion(name, len(first)), chain([first], hashed))
        connection.execute(_insertion(table, len(row) + 2), (*row, last + 1, made.digest()))
        _moved(connection, head, (last + 1, made.digest()))
        self._head = (last + 1, made.digest())

    def _found(self, connection: sqlite3.Connection) -> tuple[int, bytes]:
        match connection.execute("SELECT record, digest FROM head").fetchall():
            case [(int(last), bytes(digest))]:
                return last, digest
            case _:
                raise StateDamaged(self._path, "the head of the journal's chain is gone")


def _moved(connection: sqlite3.Connection, head: tuple[int, bytes], to: tuple[int, bytes]) -> bool:
    sql = "UPDATE head SET record = ?, digest = ? WHERE record = ? AND digest = ?"
    return connection.execute(sql, (*to, *head)).rowcount == 1


@cache
def _insertion(table: str, columns: int) -> str:
    return f"INSERT INTO {table} VALUES ({', '.join('?' * columns)})"


def verified(connection: sqlite3.Connection, noted: str) -> Verified:
    with _any_text(connection):
        return Look(connection, noted.lower()).found()


class Look:
    """One walk along the chain, to its end or to the first trouble."""

    def __init__(self, connection: sqlite3.Connection, noted: str) -> None:
        self._connection = connection
        self._noted = noted
        self._noted_at = 0 if noted == START.hex() else None
        self._count = 0
        self._last = START

    def found(self) -> Verified:
        problem, at = next(self._troubles(), (None, None))
        return Verified(self._count, self._last.hex(), problem, at, self._noted_at)

    def _troubles(self) -> Iterator[tuple[str, int | None]]:
        yield from self._in_records()
        yield from self._at_the_end()
        yield from self._beside()

    def _in_records(self) -> Iterator[tuple[str, int]]:
        every = " UNION ALL ".join(f"SELECT record, '{table}' AS held_in, seq FROM {table}" for table in RECORDS)
        for record, table, seq in self._connection.execute(f"{every} ORDER BY record"):
            if record != self._count + 1:
                yield f"record {self._count + 1} is gone", self._count + 1
            *row, digest = self._row(table, seq)
            if link(self._last, table, tuple(row), self._details(table, seq)) != digest:
                yield f"record {record}, {RECORDS[table].format(seq)}, is not as it was written", record
            self._count, self._last = record, digest
            came("records looked at", record, 0)
            if digest.hex() == self._noted:
                self._noted_at = record

    def _at_the_end(self) -> Iterator[tuple[str, int | None]]:
        heads = self._connection.execute("SELECT record, digest FROM head").fetchall()
        if heads == [(self._count, self._last)]:
            return
        match heads:
            case [(int(said), _)] if said > self._count:
                yield f"record {self._count + 1} is gone, with all that came after it", self._count + 1
            case _:
                yield f"the chain ends with record {self._count}, and its head says something else", None

    def _beside(self) -> Iterator[tuple[str, None]]:
        for table, details in DETAILS.items():
            for each in details:
                sql = f"SELECT seq FROM {each} WHERE seq NOT IN (SELECT seq FROM {table})"
                for (seq,) in self._connection.execute(sql):
                    yield f"{each} has a row of call #{seq} that no record speaks of", None

    def _row(self, table: str, seq: int) -> tuple[Any, ...]:
        return self._connection.execute(f"SELECT * FROM {table} WHERE seq = ?", (seq,)).fetchone()

    def _details(self, table: str, seq: int) -> Details:
        return ((each, self._about(each, seq)) for each in DETAILS.get(table, ()))

    def _about(self, table: str, seq: int) -> Iterator[Row]:
        return self._connection.execute(f"SELECT * FROM {table} WHERE seq = ? ORDER BY {KEYS[table]}", (seq,))


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


@contextmanager
def _any_text(connection: sqlite3.Connection) -> Generator[None]:
    """Text that somebody spoiled is read too, as something else than it was."""
    usual = connection.text_factory
    connection.text_factory = _decoded
    try:
        yield
    finally:
        connection.text_factory = usual
