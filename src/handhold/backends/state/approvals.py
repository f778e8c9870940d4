"""Pending questions and unused answers, by the hash of what was asked.

Asking and answering may happen in different processes, and two processes may try to use one answer. Each step is a
transaction, so only the first of them succeeds.
"""

import json
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from handhold.backends.state import approval_rules as rules
from handhold.backends.state.contents import pack, unpack
from handhold.backends.state.database import Database
from handhold.backends.state.review_presence import ReviewPresence
from handhold.backends.state.text_codec import to_bytes, to_text
from handhold.core.ports.approvals import Consent, ConsentName, Effect, PendingApproval

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
SELECT_QUESTIONS = "SELECT session, hash, at, packed, body, answer, approver, answered, spent FROM asked"
WHERE_KEY = "WHERE session = ? AND hash = ?"
SELECT_STATE = f"SELECT answer, spent, answered, at FROM asked {WHERE_KEY}"
COUNT_PENDING = "SELECT count(*), coalesce(sum(length(body)), 0) FROM asked WHERE answer = ''"
DELETE_UNANSWERED = "DELETE FROM asked WHERE answer = '' AND abs(? - at) > ?"
# Of the closed ones with an answer, the newest stay.
DELETE_CLOSED = """
    DELETE FROM asked WHERE n IN (
        SELECT n FROM asked WHERE answer != '' AND (spent OR abs(? - answered) > ?) ORDER BY n DESC LIMIT -1 OFFSET ?
    )
"""


class SqliteApprovalStore:
    def __init__(self, database: Database, state: Path | None) -> None:
        self._database = database
        self.review_presence = ReviewPresence(state)

    def is_reviewed(self) -> bool:
        return self.review_presence.is_open()

    def enqueue(self, approval: PendingApproval) -> PendingApproval | None:
        session, _ = key = (to_bytes(approval.session), to_bytes(approval.hash))
        question = replace(approval, id=rules.new_id())
        body, packed = pack(_encode_body(question))
        now = time.time()
        with self._database.write_transaction() as connection:
            row = connection.execute(SELECT_STATE, key).fetchone()
            if row and not rules.is_closed(*row, now=now):
                return replace(approval, id=self._get(connection, key).id)
            connection.execute(f"DELETE FROM asked {WHERE_KEY}", key)
            connection.execute(DELETE_UNANSWERED, (now, rules.PENDING_TTL_SECONDS))
            connection.execute(DELETE_CLOSED, (now, rules.ANSWER_TTL_SECONDS, rules.MAX_CLOSED_KEPT))
            of_session = connection.execute(f"{COUNT_PENDING} AND session = ?", (session,)).fetchone()
            if not rules.has_room(of_session, connection.execute(COUNT_PENDING).fetchone(), len(body)):
                return None
            connection.execute(
                "INSERT INTO asked (session, hash, at, packed, body, answer, approver, answered, spent)"
                " VALUES (?, ?, ?, ?, ?, '', x'', 0, 0)",
                (*key, approval.at, packed, body),
            )
        return question

    def list_pending(self, session: str | None = None) -> Sequence[PendingApproval]:
        with self._database.read_transaction() as connection:
            every = self._list_all(connection)
        return [each for each in every if not each.answer and session in (None, each.session)]

    def get_pending(self, which: str) -> PendingApproval:
        with self._database.read_transaction() as connection:
            return rules.find_pending(which, self._list_all(connection))

    def answer(self, which: str, answer: Consent | ConsentName, *, by: str, word: str = "") -> PendingApproval:
        consent = rules.parse_answer(answer)
        with self._database.write_transaction(durable=True) as connection:
            pending = replace(rules.find_pending(which, self._list_all(connection)), word=word)
            body, packed = pack(_encode_body(pending))
            connection.execute(
                f"UPDATE asked SET answer = ?, approver = ?, answered = ?, packed = ?, body = ? {WHERE_KEY}",
                (
                    *(consent.value, to_bytes(by), time.time(), packed, body),
                    *(to_bytes(pending.session), to_bytes(pending.hash)),
                ),
            )
        return replace(pending, answer=consent, by=by)

    def is_answered(self, hash: str, session: str) -> bool:
        row = self._database.fetch_row(SELECT_STATE, (to_bytes(session), to_bytes(hash)))
        return row is None or bool(row[0])

    def list_answered(self, limit: int) -> Sequence[PendingApproval]:
        with self._database.read_transaction() as connection:
            rows = connection.execute(f"{SELECT_QUESTIONS} WHERE answer <> '' ORDER BY answered DESC LIMIT ?", (limit,))
            return [_decode_row(*row) for row in rows]

    def consume_approval(self, hash: str, session: str) -> PendingApproval | None:
        key = (to_bytes(session), to_bytes(hash))
        with self._database.write_transaction(durable=True) as connection:
            row = connection.execute(SELECT_STATE, key).fetchone()
            if row is None or not row[0] or rules.is_closed(*row, now=time.time()):
                return None
            connection.execute(f"UPDATE asked SET spent = 1 {WHERE_KEY}", key)
            return self._get(connection, key)

    def grant(self, session: str, key: str, *, by: str) -> None:
        with self._database.write_transaction(durable=True) as connection:
            connection.execute(
                "INSERT OR REPLACE INTO granted VALUES (?, ?, ?, ?)",
                (to_bytes(session), to_bytes(key), to_bytes(by), time.time()),
            )

    def list_grants(self, session: str) -> Mapping[str, str]:
        with self._database.read_transaction() as connection:
            rows = connection.execute(
                "SELECT key, approver FROM granted WHERE session = ? AND abs(? - at) < ?",
                (to_bytes(session), time.time(), rules.ANSWER_TTL_SECONDS),
            )
            return {to_text(key): to_text(approver) for key, approver in rows}

    def _list_all(self, connection: sqlite3.Connection) -> list[PendingApproval]:
        """Oldest first."""
        return [_decode_row(*row) for row in connection.execute(f"{SELECT_QUESTIONS} ORDER BY n")]

    def _get(self, connection: sqlite3.Connection, key: tuple[bytes, bytes]) -> PendingApproval:
        return _decode_row(*connection.execute(f"{SELECT_QUESTIONS} {WHERE_KEY}", key).fetchone())


def _encode_body(pending: PendingApproval) -> bytes:
    """The fields that are only displayed, in one column."""
    return json.dumps(
        {
            "id": pending.id,
            "tool": pending.tool,
            "because": pending.because,
            "command": pending.command,
            "diff": pending.diff,
            "uncut": pending.uncut,
            "allows": pending.allows,
            "patterns": pending.patterns,
            "rule": pending.rule,
            "seq": pending.seq,
            "confined_by": pending.confined_by,
            "shares_loopback": pending.shares_loopback,
            "effects": [asdict(each) for each in pending.effects],
            "effect_count": pending.effect_count,
            "word": pending.word,
        }
    ).encode()


def _decode_row(
    session: bytes,
    hash: bytes,
    at: float,
    packed: int,
    body: bytes,
    answer: Any,
    approver: bytes,
    answered: float,
    spent: int,
) -> PendingApproval:
    facts = json.loads(unpack(body, packed=bool(packed)))
    return PendingApproval(
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
        answered=answered,
        spent=bool(spent),
        # Questions of an earlier version have none of these.
        rule=facts.get("rule", ""),
        seq=facts.get("seq", 0),
        confined_by=facts.get("confined_by", ""),
        shares_loopback=facts.get("shares_loopback", True),
        effects=tuple(Effect(**each) for each in facts.get("effects", ())),
        effect_count=facts.get("effect_count", 0),
        word=facts.get("word", ""),
    )
