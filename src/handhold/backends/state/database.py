"""One SQLite file, shared by several processes and threads, and never repaired silently.

There is one connection, behind a lock. SQLite serializes writers anyway, all transactions here are short, and
connections of ended threads would have to be found and closed.
"""

import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any
from weakref import finalize

from handhold.backends.state.lock import hold_file_lock
from handhold.backends.state.state_errors import translate_state_errors
from handhold.core.errors import Busy, NoSpace, PermissionDenied, StateDamaged, SystemFailure, ToolError

BUSY_TIMEOUT_SECONDS = 30.0  # to wait for another process's transaction
WAL_LIMIT_BYTES = 16 * 1024 * 1024  # of the log that stay on disk after a large transaction
CACHE_KIB = 16_000  # without it, a change set of fifty thousand files would rewrite its indexes over and over
PAGE_BYTES = 4096
WRITER_LOCK_FILE = "writer"
IN_MEMORY = Path(":memory:")
APPLICATION_ID = 0x48_48_4C_44  # "HHLD", in the file's header
# Raised when decoding values that we did not write: SQLite stores a value of any type in any column.
UNREADABLE_ERRORS = (ValueError, TypeError, AttributeError, OverflowError, zlib.error)

_BUSY_CODES = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_REFUSED_CODES = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH)
_SYSTEM_CODES = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_NOLFS)


class Database:
    """`schema` is the list of statements that creates a database of this `version`.

    An earlier version is opened if `migrations` lead from it to this one, each to the next; no other one is. An
    IN_MEMORY database lives as long as this object, closed or not.
    """

    def __init__(
        self, path: Path, schema: tuple[str, ...], version: int, migrations: Mapping[int, tuple[str, ...]] | None = None
    ) -> None:
        self.path = path
        self._migrations = migrations or {}
        self._lock = threading.RLock()
        self._full_sync = False  # whether commits are flushed to disk
        self._is_writing = False
        self._writer_lock = str(path.with_name(WRITER_LOCK_FILE))
        if path != IN_MEMORY:
            self._check_not_truncated()
            self._create_private_file()
        with self._translate_errors():
            self._connection = sqlite3.connect(
                path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
            )
        try:
            with self._translate_errors():
                self._prepare(schema, version)
        except BaseException:
            self._connection.close()
            raise

    @contextmanager
    def read_transaction(self) -> Generator[sqlite3.Connection]:
        """One consistent view for any number of queries."""
        with self._lock, self._translate_errors():
            if not self._is_writing:
                self._connection.execute("BEGIN")
            try:
                yield self._connection
            except UNREADABLE_ERRORS as error:
                because = f"a row of it cannot be read ({error}); `handhold log --verify` names the record"
                raise StateDamaged(str(self.path), because) from error
            finally:
                if self._connection.in_transaction and not self._is_writing:
                    self._connection.execute("COMMIT")

    def fetch_row(self, sql: str, values: Sequence[object] = ()) -> Any:
        """The first row, or None. A single query is consistent without a transaction."""
        with self._lock:
            try:
                return next(iter(self._connection.execute(sql, values).fetchall()), None)
            except sqlite3.DatabaseError as error:
                raise self._to_tool_error(error) or error from error

    @contextmanager
    def write_transaction(self, *, durable: bool = False) -> Generator[sqlite3.Connection]:
        """Commit everything inside, or nothing. Unless `durable`, it survives a killed process, but no power cut.

        A transaction inside another one is part of it. Processes queue up for it: SQLite would let them poll.
        """
        with self._lock:
            if self._is_writing:
                assert not durable
                yield self._connection
                return
            try:
                with self._wait_for_writers():
                    self._set_synchronous(durable)
                    self._connection.execute("BEGIN IMMEDIATE")
                    self._is_writing = True
                    try:
                        yield self._connection
                        self._connection.execute("COMMIT")
                    except BaseException:
                        if self._connection.in_transaction:
                            self._connection.execute("ROLLBACK")
                        raise
                    finally:
                        self._is_writing = False
            except sqlite3.DatabaseError as error:
                raise self._to_tool_error(error) or error from error

    @property
    def is_writing(self) -> bool:
        """Whether this thread is in a write transaction."""
        with self._lock:
            return self._is_writing

    def _wait_for_writers(self) -> AbstractContextManager[None]:
        if self.path == IN_MEMORY:
            return nullcontext()
        return hold_file_lock(self._writer_lock, BUSY_TIMEOUT_SECONDS)

    def close(self) -> None:
        with self._lock:
            if self.path != IN_MEMORY:
                self._connection.close()

    def _set_synchronous(self, full: bool) -> None:  # noqa: FBT001 - it is the setting's value
        if full != self._full_sync:
            self._connection.execute(f"PRAGMA synchronous={'FULL' if full else 'NORMAL'}")
            self._full_sync = full

    # --- opening

    def _check_not_truncated(self) -> None:
        """Detect what SQLite overlooks: it takes a file of one byte or none for a new one, discards the log next to it,
        and reads a truncated last page as if it ended in zeros. With a log, the file may still be being created."""
        log = self.path.with_name(self.path.name + "-wal")
        logged = log.exists() and log.stat().st_size
        size = self.path.stat().st_size if self.path.exists() else 0
        if size == 1 or (logged and not size) or (not logged and size % PAGE_BYTES):
            raise StateDamaged(str(self.path), "part of it is missing")

    def _create_private_file(self) -> None:
        # Only if it is new: closing a second descriptor of an open database would release SQLite's locks on it.
        with translate_state_errors(self.path):
            try:
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
            except FileExistsError:
                pass

    def _prepare(self, schema: tuple[str, ...], version: int) -> None:
        if self.path == IN_MEMORY:
            _build_memory_template(schema, version).backup(self._connection)
            finalize(self, self._connection.close)
        elif self._is_new():
            self._connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
            self._enable_wal()
            with self.write_transaction(durable=True) as connection:
                if self._is_new():  # another process may have been faster
                    _create_schema(connection, schema, version)
        if self._fetch_value("PRAGMA application_id") != APPLICATION_ID:
            raise StateDamaged(str(self.path), "it is a database of another program")
        if self._fetch_value("PRAGMA user_version") in self._migrations:
            self._migrate(version)
        if (found := self._fetch_value("PRAGMA user_version")) != version:
            raise StateDamaged(str(self.path), f"it has version {found}; this Handhold supports version {version}")
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self._full_sync = False
        self._connection.execute(f"PRAGMA journal_size_limit={WAL_LIMIT_BYTES}")
        self._connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
        # Without this, a REPLACE would bypass the triggers that keep the journal append-only.
        self._connection.execute("PRAGMA recursive_triggers=ON")

    def _migrate(self, version: int) -> None:
        with self.write_transaction(durable=True) as connection:  # another process may do the same: then this waits
            while (found := self._fetch_value("PRAGMA user_version")) in self._migrations and found < version:
                for statement in self._migrations[found]:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version={found + 1}")

    def _is_new(self) -> bool:
        return not self._fetch_value("PRAGMA user_version") and not self._fetch_value(
            "SELECT count(*) FROM sqlite_master"
        )

    def _enable_wal(self) -> None:
        """Switch to WAL. SQLite does not wait if two processes do that at once, so we retry."""
        until = time.monotonic() + BUSY_TIMEOUT_SECONDS
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode=WAL")
            except sqlite3.OperationalError as error:
                if _primary_code(error) not in _BUSY_CODES or time.monotonic() > until:
                    raise
                time.sleep(0.01)
            else:
                return

    def _fetch_value(self, sql: str) -> int:
        return self._connection.execute(sql).fetchone()[0]

    # --- errors

    @contextmanager
    def _translate_errors(self) -> Generator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            fact = self._to_tool_error(error)
            if fact is None:
                raise
            raise fact from error

    def _to_tool_error(self, error: sqlite3.DatabaseError) -> ToolError | None:
        """None for a bug of ours: a violated constraint, or wrong SQL."""
        path, code, because = str(self.path), _primary_code(error), str(error)
        if code in _BUSY_CODES:
            return Busy(path, BUSY_TIMEOUT_SECONDS)
        if code in _DAMAGED_CODES:
            return StateDamaged(path, because)
        if code == sqlite3.SQLITE_FULL:
            return NoSpace(path, because)
        if code in _REFUSED_CODES:
            return PermissionDenied(path, because)
        return SystemFailure(path, because) if code in _SYSTEM_CODES else None


def _create_schema(connection: sqlite3.Connection, schema: Iterable[str], version: int) -> None:
    for statement in schema:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={version}")


@cache
def _build_memory_template(schema: tuple[str, ...], version: int) -> sqlite3.Connection:
    """An empty database to copy, which takes an eighth of the time of creating one."""
    connection = sqlite3.connect(IN_MEMORY, isolation_level=None, check_same_thread=False)
    _create_schema(connection, schema, version)
    return connection


def check_types(rows: Iterable[Sequence[Any]], *types: Any) -> Iterator[Any]:
    """The same rows. Raise TypeError at the first value that does not have its column's type."""
    for row in rows:
        if not all(map(isinstance, row, types)):
            raise TypeError("a value has the wrong type")
        yield row


def _primary_code(error: sqlite3.Error) -> int | None:
    """The primary code: the low byte of the extended one. Errors of the Python module have none."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
