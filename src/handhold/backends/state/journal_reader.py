"""The journal in pages, for people: sessions, turns and calls, found by indexes and derived tables.

A filter without an index of its own examines a bounded number of calls for each page.
"""

import sqlite3
from collections.abc import Sequence
from functools import partial
from typing import Any

from handhold.backends.process_identity import is_same_process
from handhold.backends.state.call_matcher import build_matcher
from handhold.backends.state.database import Database
from handhold.backends.state.journal_entries import SELECT_ENTRIES, decode_entries, read_entries
from handhold.backends.state.live_output import LiveOutput
from handhold.backends.state.records import MICROSECONDS_PER_SECOND
from handhold.backends.state.replies import KeptReplies
from handhold.backends.state.text_codec import to_bytes, to_text
from handhold.backends.state.undo_state import COMMITTED_STATUSES, COMMITTED_STATUSES_SQL
from handhold.core.ports.journal import JournalEntry
from handhold.core.ports.records import (
    CallFilter,
    CallMark,
    RecordPage,
    RecordVersion,
    RunningCall,
    SessionSummary,
    TurnSummary,
    parse_cursor,
)

MAX_EXAMINED = 2_000  # calls that are examined for one page
BATCH_CALLS = 200
ASKED_DECISIONS = ("approved", "refused")

INDEX_SCHEMA = (
    "CREATE INDEX changes_path ON changes (path)",
    "CREATE INDEX calls_tool ON calls (session, tool)",
    "CREATE INDEX intents_asked ON intents (decision) WHERE decision <> x'616c6c6f776564'",  # 'allowed'
    "CREATE INDEX outcomes_asked ON outcomes (decision) WHERE decision <> x'616c6c6f776564'",
)
SCHEMA = (
    # By session and by turn: what a list of them shows.
    """CREATE TABLE session_totals (
        session BLOB PRIMARY KEY, first_at INTEGER NOT NULL, last_seq INTEGER NOT NULL, last_at INTEGER NOT NULL,
        calls INTEGER NOT NULL, turns INTEGER NOT NULL, failed INTEGER NOT NULL, changes INTEGER NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX session_totals_last ON session_totals (last_seq)",
    """CREATE TABLE turn_totals (
        session BLOB NOT NULL, turn BLOB NOT NULL, first_at INTEGER NOT NULL, last_at INTEGER NOT NULL,
        calls INTEGER NOT NULL, PRIMARY KEY (session, turn)
    ) WITHOUT ROWID""",
    """CREATE TRIGGER calls_totals AFTER INSERT ON calls BEGIN
        INSERT OR IGNORE INTO session_totals VALUES (NEW.session, NEW.at, NEW.seq, NEW.at, 0, 0, 0, 0);
        UPDATE session_totals SET last_seq = NEW.seq, last_at = NEW.at, calls = calls + 1, turns = turns + NOT EXISTS
            (SELECT 1 FROM turn_totals WHERE session = NEW.session AND turn = NEW.turn) WHERE session = NEW.session;
        INSERT OR IGNORE INTO turn_totals VALUES (NEW.session, NEW.turn, NEW.at, NEW.at, 0);
        UPDATE turn_totals SET last_at = NEW.at, calls = calls + 1 WHERE session = NEW.session AND turn = NEW.turn;
    END""",
    f"""CREATE TRIGGER outcomes_totals AFTER INSERT ON outcomes BEGIN
        UPDATE session_totals SET failed = failed + (NEW.status NOT IN {COMMITTED_STATUSES_SQL}),
            changes = changes + (NEW.status IN {COMMITTED_STATUSES_SQL}
                                 AND EXISTS (SELECT 1 FROM intents WHERE seq = NEW.seq AND files))
            WHERE session = (SELECT session FROM calls WHERE seq = NEW.seq);
        DELETE FROM running WHERE seq = NEW.seq;
    END""",
    # Calls that have begun and not ended, with the process that carries them out.
    "CREATE TABLE running (seq INTEGER PRIMARY KEY, process TEXT NOT NULL)",
    *INDEX_SCHEMA,
)
# For a journal without these tables.
FILL = (
    f"""INSERT INTO session_totals
        SELECT session, min(calls.at), max(seq), max(calls.at), count(*), count(DISTINCT turn),
               sum(coalesce(status NOT IN {COMMITTED_STATUSES_SQL}, 0)),
               sum(coalesce(status IN {COMMITTED_STATUSES_SQL} AND files > 0, 0))
        FROM calls LEFT JOIN outcomes USING (seq) LEFT JOIN intents USING (seq) GROUP BY session""",
    "INSERT INTO turn_totals SELECT session, turn, min(at), max(at), count(*) FROM calls GROUP BY session, turn",
)

SELECT_SESSIONS = """
    SELECT session, first_at, last_seq, last_at, calls, turns, failed, changes,
           (SELECT count(*) FROM committed WHERE committed.session = session_totals.session
            AND kind = 'change' AND undone = 1)
    FROM session_totals
"""
SELECT_MARKS = """
    SELECT calls.seq, calls.at, time_us, tool, outcomes.status, coalesce(intents.decision, outcomes.decision),
           files, undone
    FROM calls LEFT JOIN intents USING (seq) LEFT JOIN outcomes USING (seq) LEFT JOIN committed USING (seq)
    WHERE calls.session = ? ORDER BY calls.seq DESC LIMIT ?
"""


class SqliteRecords:
    """Implements the port Records."""

    def __init__(self, database: Database, replies: KeptReplies, output: LiveOutput) -> None:
        self._database = database
        self._replies = replies
        self._output = output

    def version(self) -> RecordVersion:
        row = self._database.fetch_row(
            "SELECT (SELECT record FROM head), (SELECT coalesce(max(n), 0) FROM asked),"
            " (SELECT count(*) FROM asked WHERE answer <> '')"
        )
        return RecordVersion(*row)

    # --- sessions and turns

    def list_sessions(self, *, cursor: str = "", limit: int) -> RecordPage[SessionSummary]:
        with self._database.read_transaction() as connection:
            rows = connection.execute(
                f"{SELECT_SESSIONS} WHERE last_seq < ? ORDER BY last_seq DESC LIMIT ?",
                (parse_cursor(cursor), limit + 1),
            ).fetchall()
        more = str(rows[limit - 1][2]) if len(rows) > limit else ""
        return RecordPage(tuple(map(_decode_session, rows[:limit])), more, len(rows))

    def count_sessions(self) -> int:
        return self._database.fetch_row("SELECT count(*) FROM session_totals")[0]

    def find_session(self, name: str) -> SessionSummary | None:
        row = self._database.fetch_row(f"{SELECT_SESSIONS} WHERE session = ?", (to_bytes(name),))
        return _decode_session(row) if row else None

    def list_turns(self, session: str, names: Sequence[str]) -> Sequence[TurnSummary]:
        sql = "SELECT first_at, last_at, calls FROM turn_totals WHERE session = ? AND turn = ?"
        with self._database.read_transaction() as connection:
            found = [(name, connection.execute(sql, (to_bytes(session), to_bytes(name))).fetchone()) for name in names]
        return [TurnSummary(session, name, _seconds(row[0]), _seconds(row[1]), row[2]) for name, row in found if row]

    # --- calls

    def list_calls(
        self, wanted: CallFilter, *, cursor: str = "", limit: int, with_replies: bool = False
    ) -> RecordPage[JournalEntry]:
        matches = build_matcher(wanted)
        batch_calls = limit + 1 if wanted == CallFilter(session=wanted.session) else BATCH_CALLS
        found: list[JournalEntry] = []
        examined = last = 0
        with self._database.read_transaction() as connection:
            read_reply = partial(self._replies.read, connection) if wanted.text or with_replies else None
            candidates = _select_candidates(connection, wanted, parse_cursor(cursor))
            while examined < MAX_EXAMINED:
                batch = [seq for (seq,) in candidates.fetchmany(min(batch_calls, MAX_EXAMINED - examined))]
                if not batch:
                    break
                rows = connection.execute(
                    f"{SELECT_ENTRIES} WHERE calls.seq IN ({','.join('?' * len(batch))}) ORDER BY calls.seq DESC", batch
                )
                for entry in decode_entries(connection, rows.fetchall(), read_reply=read_reply):
                    if len(found) == limit:
                        return RecordPage(tuple(found), str(last), examined)
                    examined, last = examined + 1, entry.seq
                    if matches(entry):
                        found.append(entry)
            has_more = candidates.fetchone() is not None
        return RecordPage(tuple(found), str(last) if has_more else "", examined)

    def find_neighbours(self, seq: int) -> tuple[int, int]:
        sql = "SELECT {}(seq) FROM calls WHERE session = (SELECT session FROM calls WHERE seq = ?1) AND seq {} ?1"
        with self._database.read_transaction() as connection:
            before, after = (
                connection.execute(sql.format(*parts), (seq,)).fetchone()[0] for parts in (("max", "<"), ("min", ">"))
            )
        return before or 0, after or 0

    def find_entry(self, seq: int) -> JournalEntry | None:
        with self._database.read_transaction() as connection:
            rows = connection.execute(f"{SELECT_ENTRIES} WHERE calls.seq = ?", (seq,)).fetchall()
            return next(decode_entries(connection, rows, read_reply=partial(self._replies.read, connection)), None)

    def list_path_changes(self, path: str, *, cursor: str = "", limit: int) -> RecordPage[JournalEntry]:
        with self._database.read_transaction() as connection:
            rows = connection.execute(
                "SELECT DISTINCT seq FROM changes INDEXED BY changes_path WHERE path = ? AND seq < ?"
                " ORDER BY seq DESC LIMIT ?",
                (to_bytes(path), parse_cursor(cursor), limit + 1),
            ).fetchall()
            chosen = [seq for (seq,) in rows[:limit]]
            more = str(chosen[-1]) if len(rows) > limit else ""
            return RecordPage(tuple(read_entries(connection, chosen)), more, len(rows))

    def list_tools(self, session: str) -> Sequence[str]:
        """One step through the index for each tool, however many calls there are."""
        found: list[str] = []
        last: bytes | None = b""
        with self._database.read_transaction() as connection:
            while True:
                sql = "SELECT min(tool) FROM calls INDEXED BY calls_tool WHERE session = ? AND tool > ?"
                (last,) = connection.execute(sql, (to_bytes(session), last)).fetchone()
                if last is None:
                    return found
                found.append(to_text(last))

    def list_marks(self, session: str, *, limit: int) -> Sequence[CallMark]:
        with self._database.read_transaction() as connection:
            rows = connection.execute(SELECT_MARKS, (to_bytes(session), limit)).fetchall()
        return [_decode_mark(*row) for row in reversed(rows)]

    def list_running(self) -> Sequence[RunningCall]:
        with self._database.read_transaction() as connection:
            rows = connection.execute("SELECT seq, process FROM running ORDER BY seq DESC LIMIT 1000").fetchall()
            alive = {seq: process for seq, process in rows if is_same_process(process)}
            return [
                RunningCall(entry, int(alive[entry.seq].partition(":")[0]))
                for entry in read_entries(connection, sorted(alive))
            ]

    def read_output(self, seq: int, offset: int = 0) -> tuple[bytes, int] | None:
        return self._output.read(seq, offset)

    def measure_output(self, seq: int) -> int:
        return self._output.measure(seq)


def _select_candidates(connection: sqlite3.Connection, wanted: CallFilter, before: int) -> sqlite3.Cursor:
    """The calls to examine, newest first: by the most selective index there is."""
    session = to_bytes(wanted.session)
    if wanted.decision in ASKED_DECISIONS:
        sql = (
            "SELECT seq FROM intents INDEXED BY intents_asked WHERE decision = ?1 AND decision <> x'616c6c6f776564'"
            " AND seq < ?2 UNION SELECT seq FROM outcomes INDEXED BY outcomes_asked WHERE decision = ?1"
            " AND decision <> x'616c6c6f776564' AND seq < ?2 ORDER BY seq DESC LIMIT ?3"
        )
        return connection.execute(sql, (to_bytes(wanted.decision), before, MAX_EXAMINED + 1))
    if wanted.session and wanted.tool:
        sql = "SELECT seq FROM calls INDEXED BY calls_tool WHERE session = ? AND tool = ? AND seq < ?"
        values: tuple[Any, ...] = (session, to_bytes(wanted.tool), before)
    elif wanted.session:
        sql, values = "SELECT seq FROM calls INDEXED BY calls_session WHERE session = ? AND seq < ?", (session, before)
    else:
        sql, values = "SELECT seq FROM calls WHERE seq < ?", (before,)
    return connection.execute(f"{sql} ORDER BY seq DESC LIMIT ?", (*values, MAX_EXAMINED + 1))


def _decode_session(row: Sequence[Any]) -> SessionSummary:
    name, first_at, _, last_at, calls, turns, failed, changes, undone = row
    return SessionSummary(to_text(name), _seconds(first_at), _seconds(last_at), calls, turns, failed, changes, undone)


def _decode_mark(
    seq: int,
    at: int,
    time_us: int | None,
    tool: bytes,
    status: str | None,
    decision: bytes | None,
    files: int,
    undone: int,
) -> CallMark:
    return CallMark(
        seq,
        _seconds(at),
        None if time_us is None else _seconds(time_us),
        to_text(tool),
        failed=status is not None and status not in COMMITTED_STATUSES,
        asked=to_text(decision or b"") == "approved",
        changed=bool(files),
        undone=bool(undone),
    )


def _seconds(microseconds: int) -> float:
    return microseconds / MICROSECONDS_PER_SECOND
