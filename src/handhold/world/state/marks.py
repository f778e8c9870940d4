"""What sessions have seen of files, in the database."""

import json
from collections.abc import Collection
from functools import lru_cache

from handhold.core.facts import Identity
from handhold.core.ports import Mark, Seen
from handhold.world.state.database import Database
from handhold.world.state.text import to_bytes, to_text


class SqliteMarks:
    """What one session has seen."""

    def __init__(self, database: Database, session: str) -> None:
        self._database = database
        self._session = to_bytes(session)

    def get(self, path: str, identity: Identity | None) -> Mark | None:
        sql = "SELECT path, body FROM marks WHERE session = ? AND path = ?"
        row = self._database.row(sql, (self._session, to_bytes(path)))
        if row is None and identity:
            sql = "SELECT path, body FROM marks WHERE session = ? AND file = ? ORDER BY id DESC LIMIT 1"
            row = self._database.row(sql, (self._session, _file(identity)))
        return _mark(*row) if row else None

    def put(self, mark: Mark) -> None:
        with self._database.writing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO marks (session, path, file, body) VALUES (?, ?, ?, ?)",
                (self._session, to_bytes(mark.path), _file(mark.identity), _body(mark)),
            )

    def drop(self, path: str) -> None:
        with self._database.writing() as connection:
            connection.execute("DELETE FROM marks WHERE session = ? AND path = ?", (self._session, to_bytes(path)))

    def paths(self) -> Collection[str]:
        with self._database.reading() as connection:
            rows = connection.execute("SELECT path FROM marks WHERE session = ?", (self._session,))
            return [to_text(path) for (path,) in rows]


def _file(identity: Identity) -> str:
    # Some file systems use the highest bit of an inode number, and SQLite's integers are signed.
    return f"{identity.device}:{identity.inode}"


def _body(mark: Mark) -> bytes:
    identity = mark.identity
    return json.dumps(
        {
            "identity": [identity.device, identity.inode, identity.size, identity.mtime_ns, identity.ctime_ns],
            "hash": mark.hash,
            "lines": mark.lines,
            "whole": mark.whole,
            "pages": [[seen.start, seen.end, seen.hash] for seen in mark.pages],
        },
        separators=(",", ":"),
    ).encode()


@lru_cache(maxsize=16)  # one call asks twice or three times for the same
def _mark(path: bytes, body: bytes) -> Mark:
    facts = json.loads(body)
    return Mark(
        path=to_text(path),
        identity=Identity(*facts["identity"]),
        hash=facts["hash"],
        lines=tuple((first, last) for first, last in facts["lines"]),
        whole=facts["whole"],
        pages=tuple(Seen(*seen) for seen in facts["pages"]),
    )
