"""The tables of the state database.

The journal is append-only, enforced by triggers. Derived data is stored with it, so that a journal of a hundred
thousand calls answers as fast as an empty one. Other tables hold contents, approvals and read records.
"""

from collections.abc import Iterator

from handhold.backends.state import (
    approvals,
    baseline,
    client_sessions,
    contents,
    journal_reader,
    replies,
    slot_ledger,
    space_totals,
    undo_space,
    undo_state,
    uplink_state,
    windows,
)

SCHEMA_VERSION = 13

JOURNAL_TABLES = ("calls", "intents", "changes", "things", "taken", "outcomes", "finished")


def make_append_only(*tables: str) -> Iterator[str]:
    for table in tables:
        for verb in ("UPDATE", "DELETE"):
            yield f"""CREATE TRIGGER {table}_{verb.lower()} BEFORE {verb} ON {table} BEGIN
                SELECT RAISE(ABORT, 'the journal is append-only');
            END"""


SCHEMA = (
    # Times are in microseconds, as in the records.
    """CREATE TABLE calls (
        seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, session BLOB NOT NULL, turn BLOB NOT NULL, call_id BLOB NOT NULL,
        tool BLOB NOT NULL, dialect BLOB NOT NULL, arguments BLOB NOT NULL, packed INTEGER NOT NULL,
        record INTEGER NOT NULL, digest BLOB NOT NULL
    )""",
    "CREATE INDEX calls_session ON calls (session)",
    "CREATE INDEX calls_id ON calls (call_id, turn, session)",
    """CREATE TABLE intents (
        seq INTEGER PRIMARY KEY REFERENCES calls, at INTEGER NOT NULL, transaction_id BLOB NOT NULL,
        decision BLOB NOT NULL, files INTEGER NOT NULL, rule BLOB NOT NULL, approver BLOB NOT NULL,
        record INTEGER NOT NULL, digest BLOB NOT NULL
    )""",
    """CREATE TABLE changes (
        seq INTEGER NOT NULL, n INTEGER NOT NULL, path BLOB NOT NULL,
        before_kind TEXT, before BLOB, before_size INTEGER,
        after_kind TEXT, after BLOB, after_size INTEGER,
        mode INTEGER,
        PRIMARY KEY (seq, n)
    ) WITHOUT ROWID""",
    "CREATE INDEX changes_before ON changes (before) WHERE before IS NOT NULL",
    "CREATE INDEX changes_after ON changes (after) WHERE after IS NOT NULL",
    # Entries that are exchanged with their slots.
    """CREATE TABLE things (
        seq INTEGER NOT NULL, n INTEGER NOT NULL, side TEXT NOT NULL,
        slot BLOB NOT NULL, kind TEXT NOT NULL, hash TEXT NOT NULL, size INTEGER NOT NULL, mode INTEGER NOT NULL,
        inode TEXT NOT NULL, mtime_ns INTEGER NOT NULL, entries INTEGER NOT NULL,
        PRIMARY KEY (seq, n, side)
    ) WITHOUT ROWID""",
    "CREATE TABLE taken (seq INTEGER NOT NULL, n INTEGER NOT NULL, call INTEGER NOT NULL, PRIMARY KEY (seq, n))",
    "CREATE INDEX taken_call ON taken (call)",
    # The reply is referenced by hash. Without a decision, it is with the intent, or there was nothing to decide.
    """CREATE TABLE outcomes (
        seq INTEGER PRIMARY KEY REFERENCES calls, at INTEGER NOT NULL, status TEXT NOT NULL, code TEXT,
        time_us INTEGER NOT NULL, reply BLOB, decision BLOB, rule BLOB, approver BLOB,
        record INTEGER NOT NULL, digest BLOB NOT NULL
    )""",
    """CREATE TABLE finished (
        seq INTEGER PRIMARY KEY REFERENCES calls, at INTEGER NOT NULL, record INTEGER NOT NULL, digest BLOB NOT NULL
    )""",
    *make_append_only(*JOURNAL_TABLES),
    "CREATE TABLE head (record INTEGER NOT NULL, digest BLOB NOT NULL)",
    "INSERT INTO head VALUES (0, zeroblob(32))",
    # Data derived from the journal.
    "CREATE TABLE pending (seq INTEGER PRIMARY KEY, settled INTEGER NOT NULL)",
    "CREATE TABLE lacking (seq INTEGER PRIMARY KEY, contents INTEGER NOT NULL)",
    "CREATE INDEX lacking_some ON lacking (seq) WHERE contents > 0",
    *undo_state.SCHEMA,
    *contents.SCHEMA,
    *space_totals.TOTALS_SCHEMA,
    *slot_ledger.SCHEMA,
    *slot_ledger.TOTALS_SCHEMA,
    *undo_space.SCHEMA,
    *replies.SCHEMA,
    *approvals.SCHEMA,
    # Of several read records of a file, the newest has the highest id.
    """CREATE TABLE marks (
        id INTEGER PRIMARY KEY, session BLOB NOT NULL, path BLOB NOT NULL, file TEXT NOT NULL, body BLOB NOT NULL,
        UNIQUE (session, path)
    )""",
    "CREATE INDEX marks_file ON marks (session, file)",
    *baseline.SCHEMA,
    *windows.SCHEMA,
    *windows.AGENTS_SCHEMA,
    *client_sessions.SCHEMA,
    *journal_reader.SCHEMA,
    *uplink_state.SCHEMA,
)

# By version: the statements that lead to the next one.
MIGRATIONS = {
    7: (
        *undo_state.SCHEMA,
        *undo_state.FILL,
        *space_totals.TOTALS_SCHEMA,
        *slot_ledger.TOTALS_SCHEMA,
        *slot_ledger.FILL,
    ),
    8: (
        *baseline.SCHEMA,
        *windows.SCHEMA,
        "DROP TRIGGER outcomes_commit",
        "DROP TABLE committed",
        *undo_state.SCHEMA,
        *undo_state.FILL,
    ),
    9: client_sessions.SCHEMA,
    10: windows.AGENTS_SCHEMA,
    11: (*journal_reader.SCHEMA, *journal_reader.FILL),
    12: uplink_state.SCHEMA,
}
