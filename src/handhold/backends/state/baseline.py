"""The baseline in the database: what each entry of a recorded root was when it was last scanned, and where a copy of
its content is.

Paths are bytes relative to the root; the root itself is the empty path. A folder has a row of its own once it was
listed. Its digest covers the whole listing, so that an unchanged folder is recognized without reading its entries.
"""

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from handhold.backends.state.database import Database

SCHEMA = (
    "CREATE TABLE baseline_roots (id INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE, is_scanned INTEGER NOT NULL)",
    """CREATE TABLE baseline_folders (
        id INTEGER PRIMARY KEY, root INTEGER NOT NULL, path BLOB NOT NULL,
        digest BLOB,  -- of its listing; NULL if its entries must be compared one by one, empty if only some are known
        UNIQUE (root, path)
    )""",
    """CREATE TABLE baseline_entries (
        folder INTEGER NOT NULL, name BLOB NOT NULL, status BLOB NOT NULL, size INTEGER NOT NULL,
        rank INTEGER NOT NULL,       -- lower ones are copied first
        is_linked INTEGER NOT NULL,  -- it has other names
        is_young INTEGER NOT NULL,   -- it could have changed afterwards without looking different
        target BLOB,                 -- of a link
        copy BLOB,                   -- the name of the copy of its content
        held INTEGER NOT NULL,       -- bytes that the copy takes
        why TEXT,                    -- there is no copy; NULL if none was tried, empty if none is needed
        PRIMARY KEY (folder, name)
    ) WITHOUT ROWID""",
    "CREATE INDEX baseline_due ON baseline_entries (rank, size) WHERE copy IS NULL AND why IS NULL",
    "CREATE INDEX baseline_why ON baseline_entries (why) WHERE why <> ''",
    "CREATE INDEX baseline_linked ON baseline_entries (status) WHERE is_linked",
)

PREFERRED = -1  # a rank
SELECT_BELOW = "SELECT id FROM baseline_folders WHERE root = ? AND (path = ? OR (path > ? AND path < ?))"


class BaselineEntry(NamedTuple):
    """One entry at the last scan."""

    name: bytes
    status: bytes  # packed; empty: there was nothing under this name
    size: int = 0
    rank: int = 0
    is_linked: bool = False
    is_young: bool = False
    target: bytes | None = None
    copy: bytes | None = None
    held: int = 0
    why: str | None = ""

    @property
    def is_kept(self) -> bool:
        """Whether it could be restored: its content is here, or it has none."""
        return self.copy is not None or self.why == ""


ABSENT = b""  # as a status: there was nothing

COLUMNS = ", ".join(BaselineEntry._fields)


PARTIAL = b""  # instead of a digest: only some entries of the folder are known


class FolderRecord(NamedTuple):
    id: int
    digest: bytes | None

    @property
    def is_listed(self) -> bool:
        return self.digest != PARTIAL


class DueCopy(NamedTuple):
    """A file whose content is to be copied."""

    folder_id: int
    folder: bytes
    name: bytes
    status: bytes
    size: int
    is_linked: bool


class CopyResult(NamedTuple):
    """What became of it: the name of the copy, or why there is none."""

    due: DueCopy
    copy: bytes | None
    held: int
    why: str | None


@dataclass
class BaselineUpdate:
    """How the baseline follows the disk. Removals come first, of an entry and of all below it."""

    removed: list[tuple[bytes, bytes]] = field(default_factory=list[tuple[bytes, bytes]])  # folder and name
    listed: list[tuple[bytes, bytes | None]] = field(default_factory=list[tuple[bytes, bytes | None]])  # and digest
    entries: list[tuple[bytes, BaselineEntry]] = field(default_factory=list[tuple[bytes, BaselineEntry]])

    def __bool__(self) -> bool:
        return bool(self.removed or self.listed or self.entries)


class SqliteBaseline:
    """The baseline of one root."""

    def __init__(self, database: Database, root: bytes) -> None:
        self._database = database
        self._root = root
        self._id: int | None = None

    @property
    def exists(self) -> bool:
        return self._find_id() is not None

    @property
    def is_scanned(self) -> bool:
        """Whether every folder was listed once."""
        row = self._database.fetch_row("SELECT is_scanned FROM baseline_roots WHERE path = ?", (self._root,))
        return bool(row and row[0])

    def create(self) -> None:
        with self._database.write_transaction() as connection:
            connection.execute("INSERT OR IGNORE INTO baseline_roots (path, is_scanned) VALUES (?, 0)", (self._root,))

    def mark_scanned(self) -> None:
        with self._database.write_transaction() as connection:
            connection.execute("UPDATE baseline_roots SET is_scanned = 1 WHERE path = ?", (self._root,))

    def forget(self, path: bytes = b"") -> list[bytes]:
        """Remove what is known at and below a path; returns the names of its copies."""
        with self._database.write_transaction() as connection:
            root = self._find_id()
            if root is None:
                return []
            if path:
                folder, _, name = path.rpartition(b"/")
                copies = self._remove(connection, root, folder, name)
                connection.execute(
                    "UPDATE baseline_folders SET digest = NULL WHERE root = ? AND path = ?", (root, folder)
                )
                return copies
            copies = self._remove_below(connection, root, b"")
            connection.execute("DELETE FROM baseline_roots WHERE id = ?", (root,))
            self._id = None
            return copies

    # --- reading

    def folders(self) -> dict[bytes, FolderRecord]:
        with self._database.read_transaction() as connection:
            sql = "SELECT path, id, digest FROM baseline_folders WHERE root = ?"
            return {path: FolderRecord(*found) for path, *found in connection.execute(sql, (self._find_id(),))}

    def find_folder(self, path: bytes) -> FolderRecord | None:
        sql = "SELECT id, digest FROM baseline_folders WHERE root = ? AND path = ?"
        row = self._database.fetch_row(sql, (self._find_id(), path))
        return FolderRecord(*row) if row else None

    def entries(self, folder: int) -> dict[bytes, BaselineEntry]:
        with self._database.read_transaction() as connection:
            rows = connection.execute(f"SELECT {COLUMNS} FROM baseline_entries WHERE folder = ?", (folder,))
            return {row[0]: BaselineEntry(*row) for row in rows}

    def due(self, limit: int) -> list[DueCopy]:
        """The files to copy next."""
        with self._database.read_transaction() as connection:
            rows = connection.execute(
                "SELECT folder, path, name, status, size, is_linked FROM baseline_entries INDEXED BY baseline_due"
                " JOIN baseline_folders ON baseline_folders.id = folder"
                " WHERE copy IS NULL AND why IS NULL AND root = ? ORDER BY rank, size LIMIT ?",
                (self._find_id(), limit),
            )
            return [DueCopy(*row) for row in rows]

    def find_linked_copy(self, status: bytes) -> bytes | None:
        """The copy of another name of the same file."""
        sql = "SELECT copy FROM baseline_entries WHERE is_linked AND status = ? AND copy IS NOT NULL LIMIT 1"
        row = self._database.fetch_row(sql, (status,))
        return row[0] if row else None

    def held_bytes(self) -> int:
        sql = (
            "SELECT coalesce(sum(held), 0) FROM baseline_entries"
            " WHERE folder IN (SELECT id FROM baseline_folders WHERE root = ?)"
        )
        return self._database.fetch_row(sql, (self._find_id(),))[0]

    def known_copies(self, copies: Collection[bytes]) -> set[bytes]:
        """Those of these copies that an entry refers to."""
        with self._database.read_transaction() as connection:
            rows = connection.execute("SELECT copy FROM baseline_entries WHERE copy IS NOT NULL")
            return {copy for (copy,) in rows}.intersection(copies)

    # --- writing

    def update(self, update: BaselineUpdate) -> list[bytes]:
        """Apply it, within the transaction of the caller if there is one; returns copies that nothing refers to."""
        with self._database.write_transaction() as connection:
            root = self._find_id()
            if root is None:
                return []
            unused: list[bytes] = []
            for folder, name in update.removed:
                unused += self._remove(connection, root, folder, name)
            connection.executemany(
                "INSERT INTO baseline_folders (root, path, digest) VALUES (?1, ?2, ?3)"
                " ON CONFLICT DO UPDATE SET digest = ?3",
                ((root, path, digest) for path, digest in update.listed),
            )
            replaced = {entry.copy for _, entry in update.entries}
            connection.executemany(
                f"INSERT OR REPLACE INTO baseline_entries (folder, {COLUMNS})"
                f" SELECT id, {', '.join('?' * len(BaselineEntry._fields))} FROM baseline_folders"
                " WHERE root = ? AND path = ?",
                ((*entry, root, folder) for folder, entry in update.entries),
            )
            return [copy for copy in unused if copy not in replaced]

    def add_listed(self, folder: bytes, digest: bytes | None, entries: Sequence[BaselineEntry]) -> None:
        """A folder that is listed for the first time. What is known of it already stays as it is."""
        with self._database.write_transaction():
            record = self.find_folder(folder)
            if record is None or not record.is_listed:
                known = self.entries(record.id) if record else {}
                new = [(folder, entry) for entry in entries if entry.name not in known]
                self.update(BaselineUpdate([], [(folder, None if known else digest)], new))

    def add_named(self, folder: bytes, entry: BaselineEntry) -> None:
        """One entry of a folder that was not listed yet. What is known already stays as it is."""
        with self._database.write_transaction():
            record = self.find_folder(folder)
            if record is None:
                self.update(BaselineUpdate([], [(folder, PARTIAL)], [(folder, entry)]))
            elif not record.is_listed and entry.name not in self.entries(record.id):
                self.update(BaselineUpdate([], [], [(folder, entry)]))

    def record_copies(self, results: Iterable[CopyResult]) -> list[bytes]:
        """Returns copies that came too late: their entries have changed since."""
        late: list[bytes] = []
        with self._database.write_transaction() as connection:
            for due, copy, held, why in results:
                changed = connection.execute(
                    "UPDATE baseline_entries SET copy = ?, held = ?, why = ?"
                    " WHERE folder = ? AND name = ? AND status = ? AND copy IS NULL",
                    (copy, held, why, due.folder_id, due.name, due.status),
                ).rowcount
                if copy is not None and not changed:
                    late.append(copy)
        return late

    def prefer(self, paths: Iterable[bytes]) -> None:
        """Copy these files before all others."""
        with self._database.write_transaction() as connection:
            connection.executemany(
                "UPDATE baseline_entries SET rank = ? WHERE copy IS NULL AND name = ? AND folder ="
                " (SELECT id FROM baseline_folders WHERE root = ? AND path = ?)",
                (
                    (PREFERRED, name, self._find_id(), folder)
                    for folder, _, name in (path.rpartition(b"/") for path in paths)
                ),
            )

    def retry(self, reason: str) -> None:
        """Try again to copy what could not be copied for this reason."""
        if self._database.fetch_row("SELECT 1 FROM baseline_entries WHERE why = ? AND why <> '' LIMIT 1", (reason,)):
            with self._database.write_transaction() as connection:
                connection.execute("UPDATE baseline_entries SET why = NULL WHERE why = ? AND why <> ''", (reason,))

    def _remove(self, connection: sqlite3.Connection, root: int, folder: bytes, name: bytes) -> list[bytes]:
        sql = "folder = (SELECT id FROM baseline_folders WHERE root = ? AND path = ?) AND name = ?"
        rows = connection.execute(f"SELECT copy FROM baseline_entries WHERE {sql}", (root, folder, name)).fetchall()
        connection.execute(f"DELETE FROM baseline_entries WHERE {sql}", (root, folder, name))
        copies = [copy for (copy,) in rows if copy is not None]
        return copies + self._remove_below(connection, root, join_path(folder, name))

    def _remove_below(self, connection: sqlite3.Connection, root: int, path: bytes) -> list[bytes]:
        """The folder at this path and all below it."""
        bounds = (root, *_bounds(path))
        sql = f"SELECT copy FROM baseline_entries WHERE copy IS NOT NULL AND folder IN ({SELECT_BELOW})"
        copies = [copy for (copy,) in connection.execute(sql, bounds).fetchall()]
        connection.execute(f"DELETE FROM baseline_entries WHERE folder IN ({SELECT_BELOW})", bounds)
        connection.execute(f"DELETE FROM baseline_folders WHERE id IN ({SELECT_BELOW})", bounds)
        return copies

    def _find_id(self) -> int | None:
        if self._id is None:
            row = self._database.fetch_row("SELECT id FROM baseline_roots WHERE path = ?", (self._root,))
            self._id = row[0] if row else None
        return self._id


def join_path(folder: bytes, name: bytes) -> bytes:
    return folder + b"/" + name if folder else name


def list_parents(path: bytes) -> Iterator[bytes]:
    """The folders above a path, except the root."""
    while path := path.rpartition(b"/")[0]:
        yield path


def _bounds(path: bytes) -> tuple[bytes, bytes, bytes]:
    """The path, and between what those below it sort."""
    return (path, path + b"/", path + b"0") if path else (b"", b"", b"\xff" * 8)
