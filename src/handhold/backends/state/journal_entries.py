"""Journal entries read from the database: all of a session, or what is left of a damaged journal."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from handhold.backends.state.contents import split_batches
from handhold.backends.state.database import UNREADABLE_ERRORS, check_types
from handhold.backends.state.records import MICROSECONDS_PER_SECOND
from handhold.backends.state.rows import read_call, read_takes_back
from handhold.backends.state.text_codec import to_bytes, to_text
from handhold.backends.state.undo_state import COMMITTED_STATUSES_SQL
from handhold.core.ports.journal import JournalEntry, Outcome

MAX_LISTED_PATHS = 100

SELECT_ENTRIES = """
    SELECT calls.seq, calls.at, calls.session, calls.turn, call_id, tool, dialect, arguments, packed,
           coalesce(intents.decision, outcomes.decision), coalesce(intents.rule, outcomes.rule),
           coalesce(intents.approver, outcomes.approver),
           files, outcomes.status, code, time_us, reply, lacking.contents, undone, redone_by
    FROM calls LEFT JOIN intents USING (seq) LEFT JOIN outcomes USING (seq) LEFT JOIN lacking USING (seq)
         LEFT JOIN committed USING (seq)
"""

# Of several calls with one id: the last that succeeded, otherwise the last.
SELECT_CALL_BY_ID = f"""
    SELECT calls.seq FROM calls INDEXED BY calls_id LEFT JOIN outcomes USING (seq)
    WHERE call_id = ? AND turn = ? AND session = ?
    ORDER BY coalesce(status IN {COMMITTED_STATUSES_SQL}, 0) DESC, calls.seq DESC LIMIT 1
"""

_NULLABLE_INT, _NULLABLE_BLOB, _NULLABLE_TEXT = int | None, bytes | None, str | None
ENTRY_TYPES = (
    int,
    int,
    *(bytes,) * 6,
    int,
    *(_NULLABLE_BLOB,) * 3,
    _NULLABLE_INT,
    _NULLABLE_TEXT,
    _NULLABLE_TEXT,
    _NULLABLE_INT,
    _NULLABLE_BLOB,
    *(_NULLABLE_INT,) * 3,
)
MAX_TIME_US = 253_402_300_800 * MICROSECONDS_PER_SECOND  # the end of the year 9999


def select_last(connection: sqlite3.Connection, *, session: str | None, last: int | None) -> list[Any]:
    """The rows of the last calls, oldest first."""
    of_session, parameters = ("", ()) if session is None else ("WHERE calls.session = ?", (to_bytes(session),))
    sql = f"{SELECT_ENTRIES} {of_session} ORDER BY calls.seq DESC LIMIT ?"
    return connection.execute(sql, (*parameters, -1 if last is None else last)).fetchall()[::-1]


def read_entries(connection: sqlite3.Connection, calls: Sequence[int]) -> list[JournalEntry]:
    """The entries of these calls, in this order."""
    found: dict[int, JournalEntry] = {}
    for batch in split_batches(calls):
        rows = connection.execute(f"{SELECT_ENTRIES} WHERE calls.seq IN ({','.join('?' * len(batch))})", batch)
        found |= {entry.seq: entry for entry in decode_entries(connection, rows.fetchall())}
    return [found[seq] for seq in calls]


def decode_entries(
    connection: sqlite3.Connection,
    rows: Sequence[Any],
    *,
    read_reply: Callable[[bytes], str | None] | None = None,
) -> Iterator[JournalEntry]:
    """The entries of rows that `SELECT_ENTRIES` returned. Without `read_reply` they have no replies."""
    for row in check_types(rows, *ENTRY_TYPES):
        seq, at, *call, decision, rule, approver, files = row[:13]
        status, code, time_us, reply, lacking, undone, redone_by = row[13:]
        if not 0 <= at < MAX_TIME_US:
            raise ValueError("a time is out of range")
        reply_text = read_reply(reply) if status is not None and reply and read_reply else None
        yield JournalEntry(
            seq=seq,
            at=at / MICROSECONDS_PER_SECOND,
            call=read_call(*call),
            decision=to_text(decision or b""),
            rule=to_text(rule or b""),
            approver=to_text(approver or b""),
            outcome=None if status is None else Outcome(status, code, time_us / 1000, reply_text),
            paths=_read_paths(connection, seq) if files else (),
            changed=files or 0,
            takes_back=read_takes_back(connection, seq) if files is not None else (),
            undone=bool(undone),
            kept=not lacking,
            redone_by=redone_by or 0,
        )


def salvage_entries(
    connection: sqlite3.Connection, *, session: str | None, last: int | None
) -> tuple[Sequence[JournalEntry], Mapping[int, str]]:
    """The entries of a damaged journal that can be read, and the reason for each that cannot, by number."""
    found: list[JournalEntry] = []
    damaged: dict[int, str] = {}
    rows = select_last(connection, session=session, last=last)
    for row in rows:
        try:
            found += decode_entries(connection, [row])
        except UNREADABLE_ERRORS as error:
            damaged[row[0]] = str(error)
    return found, damaged


def _read_paths(connection: sqlite3.Connection, seq: int) -> tuple[str, ...]:
    sql = "SELECT path FROM changes WHERE seq = ? ORDER BY n LIMIT ?"
    return tuple(to_text(path) for (path,) in connection.execute(sql, (seq, MAX_LISTED_PATHS)))
