"""Contents by hash: each stored once, compressed if that helps, up to a bound.

Small ones are in the database, large ones in files next to it. A file is written before its row and removed after its
row, while no other process writes, so a row never refers to an incomplete file. Files that a killed process left
without a row are listed in `doomed`, and swept when the store is opened next.
"""

import os
import sqlite3
import sys
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count, islice
from pathlib import Path
from typing import TypeVar

from handhold.backends.state.database import Database
from handhold.backends.state.space_totals import (
    DROP_PORTION,
    MAX_EXCESS_SHARE,
    DiskOverhead,
    Excess,
    Victim,
    take_until_freed,
)
from handhold.backends.state.state_errors import translate_state_errors
from handhold.backends.state.state_folder import ensure_private_folder
from handhold.core.errors import StateDamaged
from handhold.core.plans import ContentRef, InlineContent, digest

MAX_INLINE_BYTES = 256 * 1024  # larger contents become files
BATCH_SIZE = 500
MIN_PACK_BYTES = 512  # below this, compression is not worth its time
NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC

T = TypeVar("T")
ByteBound = int | Callable[[int], int]  # how many bytes may be kept; may depend on how many are

SEEN, FOR_REDO, FOR_UNDO = range(3)  # what a content is kept for
SCHEMA = (
    """CREATE TABLE contents (
        hash BLOB PRIMARY KEY,
        size INTEGER NOT NULL,
        stored INTEGER NOT NULL,    -- bytes that it takes here
        packed INTEGER NOT NULL,    -- 1: by zlib
        blob INTEGER,               -- NULL: in a file
        intended INTEGER NOT NULL,  -- SEEN, FOR_REDO or FOR_UNDO, the highest that it came for
        used INTEGER NOT NULL       -- rises from one writing to the next
    ) WITHOUT ROWID""",
    "CREATE INDEX contents_going ON contents (intended, used)",
    # A separate table, so that recording a use does not rewrite the data.
    "CREATE TABLE blobs (id INTEGER PRIMARY KEY, data BLOB NOT NULL)",
    "CREATE TABLE doomed (hash BLOB PRIMARY KEY) WITHOUT ROWID",
    """CREATE TABLE held (
        bytes INTEGER NOT NULL, dropped INTEGER NOT NULL, clock INTEGER NOT NULL, in_slots INTEGER NOT NULL
    )""",
    "INSERT INTO held VALUES (0, 0, 0, 0)",
)
# An intent without an outcome still needs its contents, and so does one that a hub has not acknowledged.
SELECT_DROPPABLE = """
    SELECT hash, stored, blob FROM contents AS kept
    WHERE NOT EXISTS (SELECT 1 FROM changes INDEXED BY changes_before
                      WHERE before = kept.hash AND seq IN (SELECT seq FROM pending WHERE NOT settled))
      AND NOT EXISTS (SELECT 1 FROM changes INDEXED BY changes_after
                      WHERE after = kept.hash AND seq IN (SELECT seq FROM pending WHERE NOT settled))
      AND NOT EXISTS (SELECT 1 FROM uplink CROSS JOIN changes INDEXED BY changes_before
                      JOIN intents ON intents.seq = changes.seq AND intents.record > uplink.record
                      WHERE before = kept.hash)
      AND NOT EXISTS (SELECT 1 FROM uplink CROSS JOIN changes INDEXED BY changes_after
                      JOIN intents ON intents.seq = changes.seq AND intents.record > uplink.record
                      WHERE after = kept.hash)
      AND intended = ?
    ORDER BY used
"""


class BoundedContents:
    """Without a folder, large contents are in the database, too."""

    def __init__(self, database: Database, folder: Path | None, bound: ByteBound, overhead: DiskOverhead) -> None:
        self._database = database
        self.overhead = overhead
        self._folder = ensure_private_folder(folder) if folder else Path()
        self._inline = MAX_INLINE_BYTES if folder else sys.maxsize
        self._bound = bound
        self._has_dropped_files = False
        self._touched: set[bytes] = set()  # read since the last write: a read must not wait for a writer
        self._sweep()

    def keep(self, datas: Iterable[bytes]) -> None:
        contents = [InlineContent(data) for data in datas]
        if contents:
            self.announce(contents)
            with self._database.write_transaction() as connection:
                self.store(connection, contents, SEEN)
                self.drop_seen(connection)
            self.remove_dropped_files()

    def get(self, hash: str) -> bytes | None:
        if (key := _hash_key(hash)) is None:
            return None
        with self._database.read_transaction() as connection:
            sql = "SELECT packed, data FROM contents LEFT JOIN blobs ON blobs.id = blob WHERE hash = ?"
            row = connection.execute(sql, (key,)).fetchone()
            if row is None:
                return None
            self._touched.add(key)  # here, where no other thread writes
        packed, data = row
        if data is None and (data := self._read_file(key)) is None:
            self._forget(key)
            return None
        return self._unpack_verified(hash, data, packed=packed)

    def has(self, hash: str) -> bool:
        if (key := _hash_key(hash)) is None:
            return False
        with self._database.read_transaction() as connection:
            sql = "SELECT 1 FROM contents WHERE hash = ?"
            return connection.execute(sql, (key,)).fetchone() is not None

    def read_usage(self) -> tuple[int, int]:
        """How many bytes are kept, and how many contents were dropped so far."""
        with self._database.read_transaction() as connection:
            return connection.execute("SELECT bytes, dropped FROM held").fetchone()

    # --- within a caller's transaction

    def announce(self, contents: Iterable[InlineContent | ContentRef]) -> None:
        """List the files that a transaction will write beforehand, so that they are found if it never completes."""
        large = [
            (bytes.fromhex(each.hash),)
            for each in contents
            if isinstance(each, InlineContent) and len(each.data) > self._inline
        ]
        if large:
            with self._database.write_transaction() as connection:
                connection.executemany(
                    "INSERT OR IGNORE INTO doomed SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM contents WHERE hash = ?1)",
                    large,
                )

    def store(
        self, connection: sqlite3.Connection, contents: Iterable[InlineContent | ContentRef], level: int
    ) -> set[str]:
        """Store inline contents, and return the hashes that are neither given nor stored."""
        connection.execute("UPDATE held SET clock = clock + 2")
        now: int = connection.execute("SELECT clock FROM held").fetchone()[0]
        touched, self._touched = self._touched, set()
        for batch in split_batches(touched):
            self._touch(connection, batch, now - 1, SEEN)
        absent: set[str] = set()
        for batch in split_batches(contents):
            wanted = {bytes.fromhex(each.hash): each for each in batch}
            wanted |= {bytes.fromhex(each.hash): each for each in batch if isinstance(each, InlineContent)}
            known = self._select_known(connection, wanted)
            self._touch(connection, known, now, level)
            new = {key: each for key, each in wanted.items() if isinstance(each, InlineContent) and key not in known}
            self._insert(connection, new, now, level)
            absent |= {each.hash for key, each in wanted.items() if isinstance(each, ContentRef) and key not in known}
            if absent:
                absent -= {each.hash for each in new.values()}
        return absent

    def sum_held(self, connection: sqlite3.Connection, where: str = "TRUE") -> int:
        """The bytes on disk of these rows of the totals."""
        content, slot, _ = self.overhead
        sql = f"""SELECT coalesce(sum(bytes + number * CASE kind WHEN 'contents' THEN {content} ELSE {slot} END), 0)
                  FROM totals WHERE {where}"""
        return connection.execute(sql).fetchone()[0]

    def measure_excess(self, connection: sqlite3.Connection, *, share: float = 1.0) -> Excess:
        """How far contents and slots exceed the bound, or this share of it, without what is dropped already."""
        dropped = self.sum_held(connection, "kind = 'dropped'")
        held = self.sum_held(connection) - dropped
        bound = self.read_bound(held + dropped)
        return Excess(held - int(bound * share), int(bound * MAX_EXCESS_SHARE))

    def read_bound(self, held: int) -> int:
        return self._bound if isinstance(self._bound, int) else self._bound(held)

    def iter_droppable(self, connection: sqlite3.Connection, level: int) -> Iterator[Victim]:
        """Contents of one level that may be dropped, oldest first."""
        return connection.execute(SELECT_DROPPABLE, (level,))

    def iter_aged(self, connection: sqlite3.Connection) -> Iterator[tuple[int, bytes, int]]:
        """The same of what undos need: when it was used, hash and bytes."""
        sql = SELECT_DROPPABLE.replace("hash, stored, blob", "used, hash, stored")
        return connection.execute(sql, (FOR_UNDO,))

    def drop_seen(self, connection: sqlite3.Connection) -> None:
        """Drop contents that were only seen until the rest is within the bound, or a portion of them."""
        over = self.measure_excess(connection)
        if over.bytes > 0:
            victims = take_until_freed(over, self.iter_droppable(connection, SEEN), self.overhead.content)
            self.delete(connection, victims)

    def remove_dropped_files(self) -> None:
        """After a transaction: remove the files of contents that were dropped."""
        if self._has_dropped_files and not self._database.is_writing:
            self._has_dropped_files = False
            self._sweep()

    # --- rows

    def _select_known(self, connection: sqlite3.Connection, keys: Collection[bytes]) -> set[bytes]:
        sql = f"SELECT hash FROM contents WHERE hash IN ({_placeholders(keys)})"
        return {key for (key,) in connection.execute(sql, (*keys,))}

    def _touch(self, connection: sqlite3.Connection, keys: Collection[bytes], now: int, level: int) -> None:
        """Record a use. A level is never lowered."""
        if keys:
            sql = f"UPDATE contents SET used = ?, intended = max(intended, ?) WHERE hash IN ({_placeholders(keys)})"
            connection.execute(sql, (now, level, *keys))

    def _insert(self, connection: sqlite3.Connection, new: Mapping[bytes, InlineContent], now: int, level: int) -> None:
        ids = count(connection.execute("SELECT coalesce(max(id), 0) + 1 FROM blobs").fetchone()[0])
        rows: list[tuple[object, ...]] = []
        sizes: list[int] = []
        files: list[bytes] = []

        def iter_blobs() -> Iterator[tuple[int, bytes]]:
            """The small ones, one at a time; the large ones are written to files on the way."""
            for key, content in new.items():
                data, packed = pack(content.data)
                size = len(content.data)
                sizes.append(len(data))
                if size > self._inline:
                    self._write_file(key, data)
                    files.append(key)
                    rows.append((key, size, len(data), packed, None, level, now))
                else:
                    rows.append((key, size, len(data), packed, blob := next(ids), level, now))
                    yield blob, data

        connection.executemany("INSERT INTO blobs VALUES (?, ?)", iter_blobs())
        connection.executemany("INSERT INTO contents VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        connection.execute("UPDATE held SET bytes = bytes + ?", (sum(sizes),))
        self._sync_folders({self._file_path(key).parent for key in files})
        connection.executemany("DELETE FROM doomed WHERE hash = ?", ((key,) for key in files))
        if connection.execute("SELECT 1 FROM lacking WHERE contents > 0").fetchone():
            self._adjust_lacking(connection, new, -1)

    def delete(self, connection: sqlite3.Connection, victims: Sequence[Victim]) -> None:
        connection.executemany("DELETE FROM contents WHERE hash = ?", ((key,) for key, _, _ in victims))
        connection.executemany(
            "DELETE FROM blobs WHERE id = ?", ((blob,) for _, _, blob in victims if blob is not None)
        )
        connection.executemany(
            "INSERT OR IGNORE INTO doomed VALUES (?)", ((key,) for key, _, blob in victims if blob is None)
        )
        self._has_dropped_files |= any(blob is None for _, _, blob in victims)
        freed = sum(stored for _, stored, _ in victims)
        connection.execute("UPDATE held SET bytes = bytes - ?, dropped = dropped + ?", (freed, len(victims)))
        self._adjust_lacking(connection, [key for key, _, _ in victims], +1)

    def _adjust_lacking(self, connection: sqlite3.Connection, keys: Iterable[bytes], change: int) -> None:
        """Update how many replaced contents each call lacks, so that `JournalEntry.kept` need not search for them."""
        connection.executemany(
            "UPDATE lacking SET contents = contents + ?"
            " WHERE seq IN (SELECT seq FROM changes WHERE before = ? AND before_kind = 'file')",
            ((change, key) for key in keys),
        )

    def _unpack_verified(self, hash: str, data: bytes, *, packed: bool) -> bytes:
        """Raise StateDamaged if the content does not match its hash: it would end up in a user's file."""
        try:
            whole = unpack(data, packed=packed)
        except zlib.error:
            whole = b""
        if digest(whole) != hash:
            raise StateDamaged(str(self._database.path), f"the content {hash} is damaged")
        return whole

    def _forget(self, key: bytes) -> None:
        """Somebody removed the file: drop its row, so that `JournalEntry.kept` stays correct."""
        with self._database.write_transaction() as connection:
            sql = "SELECT hash, stored, blob FROM contents WHERE hash = ? AND blob IS NULL"
            row = connection.execute(sql, (key,)).fetchone()
            if row and not self._file_path(key).exists():
                self.delete(connection, [row])

    # --- files

    def _file_path(self, key: bytes) -> Path:
        name = key.hex()
        return self._folder / name[:2] / name

    def _read_file(self, key: bytes) -> bytes | None:
        with translate_state_errors(self._file_path(key)):
            try:
                return self._file_path(key).read_bytes()
            except FileNotFoundError:
                return None

    def _write_file(self, key: bytes, data: bytes) -> None:
        """Write a file atomically: its name never refers to an incomplete one."""
        target = self._file_path(key)
        staged = target.with_name(target.name + ".new")
        with translate_state_errors(target):
            ensure_private_folder(target.parent)
            with os.fdopen(os.open(staged, NEW_FILE_FLAGS, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            staged.replace(target)

    def _sync_folders(self, folders: Collection[Path]) -> None:
        """A rename is durable once its folder is synced, and a new folder once its parent is."""
        for folder in (*folders, self._folder) if folders else ():
            with translate_state_errors(folder):
                descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)

    def _sweep(self) -> None:
        """Remove a portion of the files that no row refers to any more."""
        with self._database.read_transaction() as connection:
            if connection.execute("SELECT 1 FROM doomed LIMIT 1").fetchone() is None:
                return
        with self._database.write_transaction() as connection, translate_state_errors(self._folder):
            doomed = connection.execute("SELECT hash FROM doomed LIMIT ?", (DROP_PORTION + 1,)).fetchall()
            known = self._select_known(connection, [key for (key,) in doomed])
            for (key,) in doomed[:DROP_PORTION]:
                file = self._file_path(key)
                if key not in known:
                    file.unlink(missing_ok=True)
                    file.with_name(file.name + ".new").unlink(missing_ok=True)
            connection.executemany("DELETE FROM doomed WHERE hash = ?", doomed[:DROP_PORTION])
        self._has_dropped_files = len(doomed) > DROP_PORTION


def pack(data: bytes) -> tuple[bytes, bool]:
    """The shorter of the data and its compressed form, and whether it is compressed."""
    if len(data) < MIN_PACK_BYTES:
        return data, False
    packed = zlib.compress(data, 1)
    return (packed, True) if len(packed) < len(data) else (data, False)


def unpack(data: bytes, *, packed: bool) -> bytes:
    """Raise zlib.error for incomplete or trailing data."""
    if not packed:
        return data
    stream = zlib.decompressobj()
    whole = stream.decompress(data)
    if not stream.eof or stream.unused_data:
        raise zlib.error("it does not end where it should")
    return whole


def split_batches(items: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(items)
    while batch := list(islice(rest, BATCH_SIZE)):
        yield batch


def _placeholders(keys: Collection[bytes]) -> str:
    return ",".join("?" * len(keys))


def _hash_key(hash: str) -> bytes | None:
    """None if it is not a content hash: files that are too large or unreadable are known by size and mtime only."""
    try:
        return bytes.fromhex(hash)
    except ValueError:
        return None
