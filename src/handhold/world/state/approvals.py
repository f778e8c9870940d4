"""Questions that wait for an answer, and answers that wait to be used: by the hash of what was asked.

Whoever asks and whoever answers may be two processes, and two may want to use one answer: each step is one transaction,
and of two only the first finds something to do.
"""

import json
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from handhold.core.ports import Asked, Consent
from handhold.world.state import asked as rules
from handhold.world.state.contents import pack, unpack
from handhold.world.state.database import Database
from handhold.world.state.text import to_bytes, to_text

SCHEMA = (
    """CREATE TABLE asked (
        n INTEGER PRIMARY KEY, hash BLOB NOT NULL, session BLOB NOT NULL, at REAL NOT NULL,
        packed INTEGER NOT NULL, body BLOB NOT NULL,
        answer TEXT NOT NULL, approver BLOB NOT NULL, answered REAL NOT NULL, spent INTEGER NOT NULL,
        UNIQUE (session, hash)
    )""",
    """CREATE TABLE granted (
        session BLOB NOT NULL, key BLOB NOT NULL, approver BLOB NOT NULL, at REAL NOT NULL,
        PRIMARY KEY (session, key)
    ) WITHOUT ROWID""",
)
ASKED = "SELECT session, hash, at, packed, body, answer, approver, spent FROM asked"
ONE = "WHERE session = ? AND hash = ?"
STATE = f"SELECT answer, spent, answered, at FROM asked {ONE}"
WAITING = "SELECT count(*), coalesce(sum(length(body)), 0) FROM asked WHERE answer = ''"
UNANSWERED = "DELETE FROM asked WHERE answer = '' AND abs(? - at) > ?"
# Of those that were answered and are over, the newest stay.
OVER = """
    DELETE FROM asked WHERE n IN (
        SELECT n FROM asked WHERE answer != '' AND (spent OR abs(? - answered) > ?) ORDER BY n DESC LIMIT -1 OFFSET ?
    )
"""


class SqliteApprovals:
    def __init__(self, database: Database) -> None:
        self._database = database

    def ask(self, asked: Asked) -> Asked | None:
        session, _ = key = (to_bytes(asked.session), to_bytes(asked.hash))
        question = replace(asked, id=rules.new_id())
        body, packed = pack(_body(question))
        now = time.time()
        with self._database.writing() as connection:
            row = connection.execute(STATE, key).fetchone()
            if row and not rules.is_over(*row, now=now):
                return replace(asked, id=self._one(connection, key).id)
            connection.execute(f"DELETE FROM asked {ONE}", key)
            connection.execute(UNANSWERED, (now, rules.UNANSWERED_FOR))
            connection.execute(OVER, (now, rules.GOOD_FOR, rules.MOST_OVER))
            of_session = connection.execute(f"{WAITING} AND session = ?", (session,)).fetchone()
            if not rules.has_room(of_session, connection.execute(WAITING).fetchone(), len(body)):
                return None
            connection.execute(
                "INSERT INTO asked (session, hash, at, packed, body, answer, approver, answered, spent)"
                " VALUES (?, ?, ?, ?, ?, '', x'', 0, 0)",
                (*key, asked.at, packed, body),
            )
        return question

    def waiting(self, session: str | None = None) -> Sequence[Asked]:
        with self._database.reading() as connection:
            every = self._all(connection)
        return [each for each in every if not each.answer and session in (None, each.session)]

    def asked(self, which: str) -> Asked:
        with self._database.reading() as connection:
            return rules.meant(which, self._all(connection))

    def answer(self, which: str, answer: Consent, *, by: str) -> Asked:
        rules.check_answer(answer)
        with self._database.writing(durable=True) as connection:
            asked = rules.meant(which, self._all(connection))
            connection.execute(
                f"UPDATE asked SET answer = ?, approver = ?, answered = ? {ONE}",
                (answer, to_bytes(by), time.time(), to_bytes(asked.session), to_bytes(asked.hash)),
            )
        return replace(asked, answer=answer, by=by)

    def spend(self, hash: str, session: str) -> Asked | None:
        key = (to_bytes(session), to_bytes(hash))
        with self._database.writing(durable=True) as connection:
            row = connection.execute(STATE, key).fetchone()
            if row is None or not row[0] or rules.is_over(*row, now=time.time()):
                return None
            connection.execute(f"UPDATE asked SET spent = 1 {ONE}", key)
            return self._one(connection, key)

    def allow(self, session: str, key: str, *, by: str) -> None:
        with self._database.writing(durable=True) as connection:
            connection.execute(
                "INSERT OR REPLACE INTO granted VALUES (?, ?, ?, ?)",
                (to_bytes(session), to_bytes(key), to_bytes(by), time.time()),
            )

    def allowed(self, session: str) -> Mapping[str, str]:
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT key, approver FROM granted WHERE session = ? AND abs(? - at) < ?",
                (to_bytes(session), time.time(), rules.GOOD_FOR),
            )
            return {to_text(key): to_text(approver) for key, approver in rows}

    def _all(self, connection: sqlite3.Connection) -> list[Asked]:
        """Oldest first."""
        return [_asked(*row) for row in connection.execute(f"{ASKED} ORDER BY n")]

    def _one(self, connection: sqlite3.Connection, key: tuple[bytes, bytes]) -> Asked:
        return _asked(*connection.execute(f"{ASKED} {ONE}", key).fetchone())


def _body(asked: Asked) -> bytes:
    """What is only shown, in one piece."""
    return json.dumps(
        {
            "id": asked.id,
            "tool": asked.tool,
            "because": asked.because,
            "command": asked.command,
            "diff": asked.diff,
            "uncut": asked.uncut,
            "allows": asked.allows,
            "patterns": asked.patterns,
        }
    ).encode()


def _asked(
    session: bytes, hash: bytes, at: float, packed: int, body: bytes, answer: Any, approver: bytes, spent: int
) -> Asked:
    facts = json.loads(unpack(body, packed=bool(packed)))
    return Asked(
        id=facts["id"],
        hash=to_text(hash),
        session=to_text(session),
        at=at,
        tool=facts["tool"],
        because=facts["because"],
        command=facts["command"],
        diff=facts["diff"],
        uncut=facts["uncut"],
        allows=tuple(facts["allows"]),
        patterns=tuple(facts["patterns"]),
        answer=answer,
        by=to_text(approver),
        spent=bool(spent),
    )
