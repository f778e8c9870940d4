"""Read records of sessions, in the database."""

import json
from collections.abc import Collection, Iterable
from functools import lru_cache

from handhold.backends.state.contents import split_batches
from handhold.backends.state.database import Database
from handhold.backends.state.text_codec import to_bytes, to_text
from handhold.core.facts import FileIdentity
from handhold.core.ports.read_records import ReadRecord, SeenPage


class SqliteReadRecords:
    """What one session has seen."""

    def __init__(self, database: Database, session: str) -> None:
        self._database = database
        self._session = to_bytes(session)

    def get(self, path: str, identity: FileIdentity | None) -> ReadRecord | None:
        sql = "SELECT path, body FROM marks WHERE session = ? AND path = ?"
        row = self._database.fetch_row(sql, (self._session, to_bytes(path)))
        if row is None and identity:
            sql = "SELECT path, body FROM marks WHERE session = ? AND file = ? ORDER BY id DESC LIMIT 1"
            row = self._database.fetch_row(sql, (self._session, _file_key(identity)))
        return _decode_record(*row) if row else None

    def put(self, record: ReadRecord) -> None:
        with self._database.write_transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO marks (session, path, file, body) VALUES (?, ?, ?, ?)",
                (self._session, to_bytes(record.path), _file_key(record.identity), _encode_body(record)),
            )

    def drop(self, path: str) -> None:
        with self._database.write_transaction() as connection:
            connection.execute("DELETE FROM marks WHERE session = ? AND path = ?", (self._session, to_bytes(path)))

    def paths_within(self, changed: Iterable[str]) -> Collection[str]:
        """Two ranges of the index for each: the path itself, and what begins with it and a slash."""
        found: set[bytes] = set()
        with self._database.read_transaction() as connection:
            for batch in split_batches(map(to_bytes, changed)):
                ranges = [end for path in batch for end in ((path, path), (path + b"/", path + b"/\xff"))]
                sql = (
                    f"WITH ranges (first, last) AS (VALUES {','.join(['(?, ?)'] * len(ranges))})"
                    " SELECT path FROM ranges CROSS JOIN marks WHERE session = ? AND path BETWEEN first AND last"
                )
                values = [end for each in ranges for end in each]
                found.update(path for (path,) in connection.execute(sql, (*values, self._session)))
        return [to_text(path) for path in found]


def _file_key(identity: FileIdentity) -> str:
    # Some file systems use the highest bit of inode numbers, and SQLite's integers are signed.
    return f"{identity.device}:{identity.inode}"


def _encode_body(record: ReadRecord) -> bytes:
    identity = record.identity
    return json.dumps(
        {
            "identity": [identity.device, identity.inode, identity.size, identity.mtime_ns, identity.ctime_ns],
            "hash": record.hash,
            "lines": record.lines,
            "whole": record.is_complete,
            "pages": [[seen.start, seen.end, seen.hash] for seen in record.pages],
        },
        separators=(",", ":"),
    ).encode()


@lru_cache(maxsize=16)  # one call looks the same record up two or three times
def _decode_record(path: bytes, body: bytes) -> ReadRecord:
    facts = json.loads(body)
    return ReadRecord(
        path=to_text(path),
        identity=FileIdentity(*facts["identity"]),
        hash=facts["hash"],
        lines=tuple((first, last) for first, last in facts["lines"]),
        is_complete=facts["whole"],
        pages=tuple(SeenPage(*seen) for seen in facts["pages"]),
    )
