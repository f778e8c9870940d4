"""Replies that are kept for retried calls, by hash; the oldest are dropped."""

import sqlite3

from handhold.backends.state.contents import pack, unpack
from handhold.backends.state.text_codec import to_text
from handhold.core.errors import StateDamaged
from handhold.core.plans import digest

MAX_REPLY_BYTES = 64 * 1024 * 1024  # a limit of their own, so that they never cost an undo
SCHEMA = (
    """CREATE TABLE replies (
        id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, packed INTEGER NOT NULL, data BLOB NOT NULL
    )""",
    "CREATE TABLE replies_held (bytes INTEGER NOT NULL)",
    "INSERT INTO replies_held VALUES (0)",
)


class KeptReplies:
    def __init__(self, path: str, max_bytes: int) -> None:
        """`path` is that of the database, for errors."""
        self._path = path
        self._max_bytes = max_bytes

    def keep(self, connection: sqlite3.Connection, reply: bytes) -> str:
        """Store a reply; return its hash."""
        hash = digest(reply)
        data, packed = pack(reply)
        sql = "INSERT OR IGNORE INTO replies (hash, packed, data) VALUES (?, ?, ?)"
        inserted = connection.execute(sql, (bytes.fromhex(hash), packed, data)).rowcount
        connection.execute("UPDATE replies_held SET bytes = bytes + ?", (len(data) * inserted,))
        over: int = connection.execute("SELECT bytes FROM replies_held").fetchone()[0] - self._max_bytes
        while over > 0:
            oldest, size = connection.execute("SELECT id, length(data) FROM replies ORDER BY id LIMIT 1").fetchone()
            connection.execute("DELETE FROM replies WHERE id = ?", (oldest,))
            connection.execute("UPDATE replies_held SET bytes = bytes - ?", (size,))
            over -= size
        return hash

    def read(self, connection: sqlite3.Connection, key: bytes) -> str | None:
        row = connection.execute("SELECT packed, data FROM replies WHERE hash = ?", (key,)).fetchone()
        if row is None:
            return None
        reply = unpack(row[1], packed=row[0])
        if digest(reply) != key.hex():
            raise StateDamaged(self._path, f"the reply {key.hex()} is damaged")
        return to_text(reply)
