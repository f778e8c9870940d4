"""Which calls changed something, and which of them are undone: derived from the journal, so that nobody has to read it
from the beginning.

A trigger adds a row when a call with an intent succeeds. An undo marks what it took back as undone; a redo marks the
undo, and moves what it put into effect again to its own place in the order of time: that of outcomes, for a call that
began earlier may change something later.
"""

import json
import sqlite3
from collections.abc import Collection

from handhold.backends.state.contents import split_batches
from handhold.backends.state.text_codec import to_bytes
from handhold.backends.state.windows import select_together

COMMITTED_STATUSES = ("success", "partial")  # outcomes after which a call's changes are in effect
COMMITTED_STATUSES_SQL = "(" + ",".join(f"'{status}'" for status in COMMITTED_STATUSES) + ")"  # the same, in SQL
MAX_DIGITS = 18  # of a number that surely fits into SQLite's integers

_APPLY_OUTCOME = """BEGIN
    INSERT INTO committed SELECT seq, session, turn,
        CASE WHEN tool IN (CAST('undo' AS BLOB), CAST('redo' AS BLOB)) THEN CAST(tool AS TEXT)
             WHEN files THEN 'change' ELSE 'nothing' END, 0, (SELECT record FROM outcomes WHERE seq = NEW.seq), 0
        FROM calls JOIN intents USING (seq) WHERE seq = NEW.seq;
    UPDATE committed SET undone = 1 WHERE seq IN (SELECT call FROM taken WHERE seq = NEW.seq AND call < NEW.seq);
    UPDATE committed
        SET undone = 0, place = (SELECT record FROM outcomes WHERE seq = NEW.seq), redone_by = NEW.seq
        WHERE seq IN (SELECT back.call FROM taken AS again JOIN taken AS back ON back.seq = again.call
                      WHERE again.seq = NEW.seq)
          AND NOT EXISTS (SELECT 1 FROM taken JOIN committed AS taker USING (seq)
                          WHERE taken.call = committed.seq AND NOT taker.undone);
END"""

SCHEMA = (
    """CREATE TABLE committed (
        seq INTEGER PRIMARY KEY, session BLOB NOT NULL, turn BLOB NOT NULL,
        kind TEXT NOT NULL,     -- change, undo, redo; nothing: an intent without files
        undone INTEGER NOT NULL,
        place INTEGER NOT NULL,    -- in the order of time: the record of its outcome, or of its last redo's
        redone_by INTEGER NOT NULL -- its last redo, or 0
    )""",
    "CREATE INDEX committed_last ON committed (session, kind, undone, place)",
    "CREATE INDEX committed_turn ON committed (session, turn)",
    "CREATE INDEX committed_redone ON committed (redone_by) WHERE redone_by",
    f"""CREATE TRIGGER outcomes_commit AFTER INSERT ON outcomes
        WHEN NEW.status IN {COMMITTED_STATUSES_SQL} {_APPLY_OUTCOME}""",
)
# For a journal without this table: what the trigger would have done, in the same order.
FILL = (
    "DELETE FROM committed",
    "CREATE TABLE replayed (seq INTEGER PRIMARY KEY)",
    f"CREATE TRIGGER replayed_commit AFTER INSERT ON replayed {_APPLY_OUTCOME}",
    f"INSERT INTO replayed SELECT seq FROM outcomes WHERE status IN {COMMITTED_STATUSES_SQL} ORDER BY seq",
    "DROP TABLE replayed",
)


def select_changes(
    connection: sqlite3.Connection,
    session: str,
    *,
    undone: bool | None,
    call: str | int | tuple[int, ...],
    turn: str,
    last: int | None,
) -> list[int]:
    """The calls that changed files, in the order of time. `call` is an id or a number, `7` or `"#7"`, or numbers.

    What others changed while the same calls ran is undone together, so it comes along.
    """
    index, where, values = "INDEXED BY committed_last", "", list[object]()
    if turn:
        index, where = "INDEXED BY committed_turn", " AND turn = ?"
        values.append(to_bytes(turn))
    if isinstance(call, tuple):
        index, where = "NOT INDEXED", f"{where} AND seq IN (SELECT value FROM json_each(?))"
        values.append(json.dumps(call))
    elif call != "":
        index = "NOT INDEXED"  # by its number
        # A call of others has changed what was recorded for any window of its group.
        where += (
            " AND seq IN (SELECT seq FROM calls WHERE call_id = ? UNION ALL SELECT ? UNION ALL SELECT adopted.seq"
            " FROM windows JOIN adopted USING (together) WHERE call_id = ? AND windows.session = committed.session)"
        )
        name = to_bytes(call) if isinstance(call, str) else None
        values += (name, _parse_number(call), name)
    found: list[tuple[int, int]] = []
    for state in (False, True) if undone is None else (undone,):
        sql = (
            f"SELECT place, seq FROM committed {index} WHERE session = ? AND kind = 'change' AND undone = ?{where}"
            " ORDER BY place DESC, seq DESC LIMIT ?"
        )
        found += connection.execute(sql, (to_bytes(session), state, *values, -1 if last is None else last))
    chosen = sorted(found)[-last if last else 0 :]
    if undone is False:
        chosen = sorted({*chosen, *select_together(connection, [seq for _, seq in chosen])})
    return [seq for _, seq in chosen]


def add_foreign(connection: sqlite3.Connection, chosen: list[int], call: str | int | tuple[int, ...]) -> list[int]:
    """The same with what others changed since, outside every call; also a single such change, by its number."""
    named = call if isinstance(call, tuple) else (_parse_number(call),)
    first = chosen or [number for number in named if number]
    rows = connection.execute(
        "SELECT place, seq FROM committed WHERE kind = 'change' AND NOT undone AND"
        f" (seq IN ({','.join('?' * len(chosen))}) OR (seq IN (SELECT seq FROM adopted WHERE together IS NULL)"
        f" AND place >= (SELECT min(place) FROM committed WHERE seq IN ({','.join('?' * len(first))}))))",
        (*chosen, *first),
    )
    return [seq for _, seq in sorted(rows)]


def select_undos(
    connection: sqlite3.Connection, session: str, *, of: Collection[int] | None, since: int, last: int | None
) -> list[int]:
    """The undos in effect, oldest first: all, or those of one of these calls."""
    sql = "SELECT seq FROM committed WHERE session = ? AND kind = 'undo' AND NOT undone AND seq > ?"
    values = (to_bytes(session), since)
    if of is None:
        rows = connection.execute(f"{sql} ORDER BY place DESC LIMIT ?", (*values, -1 if last is None else last))
        return sorted(seq for (seq,) in rows)
    found = {
        seq
        for batch in split_batches(of)
        for (seq,) in connection.execute(
            f"{sql} AND seq IN (SELECT seq FROM taken WHERE call IN ({','.join('?' * len(batch))}))", (*values, *batch)
        )
    }
    return sorted(found)[-last if last else 0 :]


def select_reversals(connection: sqlite3.Connection, calls: Collection[int]) -> list[int]:
    """The undos of any of these calls, and the redos of these undos, oldest first."""
    undos, redos = set[int](), set[int]()
    for found, kind, of in ((undos, "undo", calls), (redos, "redo", undos)):
        for batch in split_batches(of):
            found.update(
                seq
                for (seq,) in connection.execute(
                    "SELECT seq FROM committed WHERE kind = ? AND seq IN"
                    f" (SELECT seq FROM taken WHERE call IN ({','.join('?' * len(batch))}))",
                    (kind, *batch),
                )
            )
    return sorted(undos | redos)


def _parse_number(call: str | int) -> int | None:
    if isinstance(call, int):
        return call if 0 < call < 10**MAX_DIGITS else None
    digits = call.removeprefix("#")
    is_number = digits.isdecimal() and len(digits) <= MAX_DIGITS and call == f"#{int(digits)}"
    return int(digits) if is_number else None
