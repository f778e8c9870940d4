"""One SQLite file, shared by several processes and threads, and never repaired silently.

There is one connection, behind a lock. SQLite serializes writers anyway, all transactions here are short, and
connections of ended threads would have to be found and closed. It belongs to the pool of descriptors, which may close
it between two transactions, and does so before a fork: a child must neither use nor close its parent's connection.
"""

import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any
from weakref import finalize

from handhold.backends.descriptor_pool import Pooled, find_exhaustion, to_exhausted_error
from handhold.backends.state.lock import hold_file_lock
from handhold.backends.state.state_errors import translate_state_errors
from handhold.core.errors import Busy, NoSpace, PermissionDenied, StateDamaged, SystemFailure, ToolError
from handhold.logs import log_swallowed, suppress_and_log

BUSY_TIMEOUT_SECONDS = 30.0  # to wait for another process's transaction
WAL_LIMIT_BYTES = 16 * 1024 * 1024  # of the log that stay on disk after a large transaction
CACHE_KIB = 16_000  # without it, a change set of fifty thousand files would rewrite its indexes over and over
PAGE_BYTES = 4096
DESCRIPTORS = 3  # of a connection: the database, its log, and the index of that
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
        self._schema, self._version, self._migrations = schema, version, migrations or {}
        self._lock = threading.RLock()
        self._full_sync = False  # whether commits are flushed to disk
        self._is_writing = False
        self._writer_lock = str(path.with_name(WRITER_LOCK_FILE))
        self.on_commit: Callable[[], None] | None = None  # called after each write transaction
        self._file_id: tuple[int, int] | None = None  # device and inode, once it was open
        self._pooled = Pooled(
            str(path), self._open_file, _close_connection, descriptors=DESCRIPTORS, survives_fork=False
        )
        self.connection: AbstractContextManager[sqlite3.Connection] = self._pooled  # open inside
        if path == IN_MEMORY:
            connection = self._connect()
            _build_memory_template(schema, version).backup(connection)
            self._prepare(connection)
            finalize(self, connection.close)
            self.connection = nullcontext(connection)
        else:
            with self.connection:
                pass

    @contextmanager
    def read_transaction(self) -> Generator[sqlite3.Connection]:
        """One consistent view for any number of queries."""
        with self._lock, self._translate_errors(), self.connection as connection:
            if not self._is_writing:
                connection.execute("BEGIN")
            try:
                yield connection
            except UNREADABLE_ERRORS as error:
                because = f"a row of it cannot be read ({error}); `handhold log --verify` names the record"
                raise StateDamaged(str(self.path), because) from error
            finally:
                if connection.in_transaction and not self._is_writing:
                    connection.execute("COMMIT")

    def fetch_row(self, sql: str, values: Sequence[object] = ()) -> Any:
        """The first row, or None. A single query is consistent without a transaction."""
        with self._lock, self.connection as connection:
            try:
                return next(iter(connection.execute(sql, values).fetchall()), None)
            except sqlite3.DatabaseError as error:
                raise self._to_tool_error(error) or error from error

    @contextmanager
    def write_transaction(self, *, durable: bool = False) -> Generator[sqlite3.Connection]:
        """Commit everything inside, or nothing. Unless `durable`, it survives a killed process, but no power cut.

        A transaction inside another one is part of it. Processes queue up for it: SQLite would let them poll.
        """
        with self._lock, self.connection as connection:
            if self._is_writing:
                assert self._full_sync or not durable
                yield connection
                return
            try:
                with self._write(connection, durable=durable):
                    self._is_writing = True
                    try:
                        yield connection
                    finally:
                        self._is_writing = False
            except sqlite3.DatabaseError as error:
                raise self._to_tool_error(error) or error from error
        if self.on_commit:
            self.on_commit()

    @contextmanager
    def _write(self, connection: sqlite3.Connection, *, durable: bool) -> Generator[None]:
        with self._wait_for_writers():
            self._set_synchronous(connection, durable)
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def sync_log(self) -> None:
        """Flush the log to disk, so that every committed transaction survives a power cut. Delays no transaction."""
        with translate_state_errors(self.path):
            try:
                log = os.open(f"{self.path}-wal", os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                log_swallowed()
                return  # everything is in the database, which is synced before the log is removed
            try:
                os.fsync(log)
            finally:
                os.close(log)

    def empty_log(self) -> None:
        """Move everything from the log into the database, so that no deleted content is left there."""
        with self._lock, self._translate_errors(), self.connection as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @property
    def is_writing(self) -> bool:
        """Whether this thread is in a write transaction."""
        with self._lock:
            return self._is_writing

    def _wait_for_writers(self) -> AbstractContextManager[None]:
        if self.path == IN_MEMORY:
            return nullcontext()
        return hold_file_lock(self._writer_lock, BUSY_TIMEOUT_SECONDS)

    def is_current(self) -> bool:
        """Whether its file is still at its path."""
        return self.path == IN_MEMORY or self._file_id == _read_file_id(self.path)

    def close(self) -> None:
        """A later use opens it again."""
        self._pooled.close()

    def _set_synchronous(self, connection: sqlite3.Connection, full: bool) -> None:  # noqa: FBT001 - it is the setting's value
        if full != self._full_sync:
            connection.execute(f"PRAGMA synchronous={'FULL' if full else 'NORMAL'}")
            self._full_sync = full

    # --- opening

    def _open_file(self) -> sqlite3.Connection:
        """The connection. Once it was open, only to the same file, and nothing is created."""
        self._check_not_truncated()
        if self._file_id is None:
            self._create_private_file()
        elif not self.is_current():
            raise SystemFailure(str(self.path), "another file is there now, or none")
        try:
            connection = self._connect()
            try:
                if self._file_id is None and self._is_new(connection):
                    self._create_schema(connection)
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
        except sqlite3.DatabaseError as error:
            if exhausted := find_exhaustion(DESCRIPTORS):
                raise exhausted from error
            raise self._to_tool_error(error) or error from error
        self._file_id = _read_file_id(self.path)
        return connection

    def _connect(self) -> sqlite3.Connection:
        self._full_sync = False
        return sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False)

    def _create_schema(self, connection: sqlite3.Connection) -> None:
        connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
        _enable_wal(connection)
        with self._write(connection, durable=True):
            if self._is_new(connection):  # another process may have been faster
                _create_schema(connection, self._schema, self._version)

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

    def _prepare(self, connection: sqlite3.Connection) -> None:
        if _fetch_value(connection, "PRAGMA application_id") != APPLICATION_ID:
            raise StateDamaged(str(self.path), "it is a database of another program")
        if _fetch_value(connection, "PRAGMA user_version") in self._migrations:
            self._migrate(connection)
        if (found := _fetch_value(connection, "PRAGMA user_version")) != self._version:
            because = f"it has version {found}; this Handhold supports version {self._version}"
            raise StateDamaged(str(self.path), because)
        connection.execute("PRAGMA synchronous=NORMAL")
        self._full_sync = False
        connection.execute(f"PRAGMA journal_size_limit={WAL_LIMIT_BYTES}")
        connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
        # Without this, a REPLACE would bypass the triggers that keep the journal append-only.
        connection.execute("PRAGMA recursive_triggers=ON")

    def _migrate(self, connection: sqlite3.Connection) -> None:
        with self._write(connection, durable=True):  # another process may do the same: then this waits
            while (found := _fetch_value(connection, "PRAGMA user_version")) in self._migrations:
                for statement in self._migrations[found]:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version={found + 1}")

    def _is_new(self, connection: sqlite3.Connection) -> bool:
        return not _fetch_value(connection, "PRAGMA user_version") and not _fetch_value(
            connection, "SELECT count(*) FROM sqlite_master"
        )

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
        if code in _SYSTEM_CODES and (exhausted := find_exhaustion(DESCRIPTORS)):
            return to_exhausted_error(exhausted, path)
        return SystemFailure(path, because) if code in _SYSTEM_CODES else None


def _enable_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL. SQLite does not wait if two processes do that at once, so we retry."""
    until = time.monotonic() + BUSY_TIMEOUT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if _primary_code(error) not in _BUSY_CODES or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return


def _close_connection(connection: sqlite3.Connection) -> None:
    with suppress_and_log(sqlite3.Error):  # every transaction has ended
        connection.close()


def _fetch_value(connection: sqlite3.Connection, sql: str) -> int:
    return connection.execute(sql).fetchone()[0]


def _read_file_id(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        log_swallowed()
        return None
    return found.st_dev, found.st_ino


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
