"""Windows: what is known of calls that others make, from the scan before such a call to the scan after it.

Windows that overlap are one group: which of them changed a file cannot be told. The entries that a group left are
undone together.
"""

import json
import sqlite3
from collections.abc import Collection
from dataclasses import dataclass

from handhold.backends.state.contents import split_batches
from handhold.backends.state.database import Database
from handhold.backends.state.text_codec import to_bytes, to_text
from handhold.core.ports.recording import Window

SCHEMA = (
    """CREATE TABLE windows (
        id INTEGER PRIMARY KEY, root BLOB NOT NULL, session BLOB NOT NULL, turn BLOB NOT NULL, call_id BLOB NOT NULL,
        tool BLOB NOT NULL, input BLOB NOT NULL,
        paths BLOB,             -- those that the call names, if it can change no others
        together INTEGER NOT NULL,  -- the group
        is_open INTEGER NOT NULL, is_partial INTEGER NOT NULL, process INTEGER NOT NULL
    )""",
    "CREATE TABLE window_turns (session BLOB PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE INDEX windows_open ON windows (root) WHERE is_open",
    "CREATE INDEX windows_call ON windows (call_id, session)",
    # Entries of changes that others made; without a group, nobody's call was under way.
    "CREATE TABLE adopted (seq INTEGER PRIMARY KEY, together INTEGER)",
    "CREATE INDEX adopted_together ON adopted (together) WHERE together IS NOT NULL",
)
AGENTS_SCHEMA = ("CREATE TABLE window_agents (id INTEGER PRIMARY KEY, agent BLOB NOT NULL)",)  # of sub-agents' windows
COLUMNS = "id, together, session, call_id, tool, turn, input, COALESCE(agent, x''), paths, process, is_partial"
WITH_AGENTS = "windows LEFT JOIN window_agents USING (id)"


@dataclass(frozen=True)
class OpenWindow:
    id: int
    together: int
    window: Window
    is_partial: bool  # the first scan was not done when it began


class SqliteWindows:
    """The windows of one root."""

    def __init__(self, database: Database, root: bytes) -> None:
        self._database = database
        self._root = root

    def open(self, window: Window, *, is_partial: bool) -> None:
        with self._database.write_transaction() as connection:
            others = self.list_open()
            paths = None if window.paths is None else to_bytes(json.dumps(window.paths))
            names = (window.session, window.turn, window.call_id, window.tool, window.input)
            cursor = connection.execute(
                "INSERT INTO windows (root, session, turn, call_id, tool, input, paths, together, is_open, is_partial,"
                " process) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?)",
                (self._root, *map(to_bytes, names), paths, 0, is_partial, window.process),
            )
            if window.agent:
                row = (cursor.lastrowid, to_bytes(window.agent))
                connection.execute("INSERT INTO window_agents VALUES (?, ?)", row)
            together = others[0].together if others else cursor.lastrowid
            connection.execute("UPDATE windows SET together = ? WHERE id = ?", (together, cursor.lastrowid))

    def list_open(self) -> list[OpenWindow]:
        """Oldest first."""
        with self._database.read_transaction() as connection:
            rows = connection.execute(
                f"SELECT {COLUMNS} FROM {WITH_AGENTS} WHERE root = ? AND is_open ORDER BY id", (self._root,)
            ).fetchall()
        return [_decode(*row[:8], paths=row[8], process=row[9], is_partial=row[10]) for row in rows]

    def find_newest(self, session_prefix: str) -> OpenWindow | None:
        """The newest window that has ended, of sessions whose names begin so."""
        first, last = to_bytes(session_prefix), to_bytes(session_prefix) + b"\xff"
        with self._database.read_transaction() as connection:
            row = connection.execute(
                f"SELECT {COLUMNS} FROM {WITH_AGENTS}"
                " WHERE root = ? AND NOT is_open AND session > ? AND session < ? ORDER BY id DESC LIMIT 1",
                (self._root, first, last),
            ).fetchone()
        return _decode(*row[:8], paths=row[8], process=row[9], is_partial=row[10]) if row else None

    def begin_turn(self, session: str) -> None:
        """Later windows of this session belong to a new turn, unless they name one."""
        sql = "INSERT INTO window_turns VALUES (?, 1) ON CONFLICT DO UPDATE SET number = number + 1"
        with self._database.write_transaction() as connection:
            connection.execute(sql, (to_bytes(session),))

    def read_turn(self, session: str) -> str:
        row = self._database.fetch_row("SELECT number FROM window_turns WHERE session = ?", (to_bytes(session),))
        return f"turn-{row[0]}" if row else ""

    def close(self, ids: Collection[int]) -> None:
        if not ids:
            return
        with self._database.write_transaction() as connection:
            connection.executemany("UPDATE windows SET is_open = 0 WHERE id = ?", ((number,) for number in ids))


def _decode(
    number: int, together: int, *names: bytes, paths: bytes | None, process: int, is_partial: int
) -> OpenWindow:
    session, call_id, tool, turn, given, agent = map(to_text, names)
    named = None if paths is None else tuple(json.loads(to_text(paths)))
    window = Window(session, call_id, tool, turn, given, named, process, agent)
    return OpenWindow(number, together, window, bool(is_partial))


def select_together(connection: sqlite3.Connection, calls: Collection[int]) -> list[tuple[int, int]]:
    """The entries of the groups of these that are in effect: their places in the order of time, and numbers."""
    found: set[tuple[int, int]] = set()
    for batch in split_batches(calls):
        found |= {
            *connection.execute(
                "SELECT place, seq FROM adopted JOIN committed USING (seq) WHERE NOT undone AND kind = 'change'"
                " AND together IN (SELECT together FROM adopted WHERE together IS NOT NULL"
                f" AND seq IN ({','.join('?' * len(batch))}))",
                batch,
            )
        }
    return sorted(found)
