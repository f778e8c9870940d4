"""The store on SQLite: one file a workspace, shared by every process that works there.

What the journal says is appended and never altered: triggers see to that, and a chain of hashes shows it. What can
be told from it (which transactions are pending, which calls lack a content for taking them back) is kept beside it,
so that a journal of a hundred thousand calls answers as fast as an empty one.
"""

import sqlite3
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, Self

from handhold.core.errors import StateDamaged
from handhold.core.plans import Bytes, Content, FileChange, Stored, digest
from handhold.core.ports import Asked, Broken, Call, Consent, Decision, Entry, Outcome, Verified
from handhold.world.state import chain
from handhold.world.state.approvals import SqliteApprovals
from handhold.world.state.bound import DiskShare
from handhold.world.state.chain import Chain
from handhold.world.state.contents import FOR_REDO, FOR_UNDO, Bound, BoundedContents, pack, unpack
from handhold.world.state.database import IN_MEMORY, Database, checked, told
from handhold.world.state.folder import private
from handhold.world.state.lock import Lines, locked
from handhold.world.state.marks import SqliteMarks
from handhold.world.state.records import (
    MICROSECONDS,
    CallRecord,
    FinishRecord,
    IntentRecord,
    OutcomeRecord,
)
from handhold.world.state.room import UndoRoom
from handhold.world.state.rows import read_call, read_files, read_takes_back
from handhold.world.state.schema import SCHEMA, VERSION
from handhold.world.state.slots import SlotLedger, commands_of
from handhold.world.state.taken import DONE, STANDING, taken_back
from handhold.world.state.text import to_bytes, to_text

DATABASE = "state.db"
LOCK = "lock"
BYTES_IN_MEMORY = 2 * 1024**3  # kept for undo by a store that has no disk
REPLIES = 64 * 1024 * 1024  # bytes of replies kept for calls that come again; apart, so that they never cost an undo
PATHS_LISTED = 100

ENTRIES = """
    SELECT calls.seq, calls.at, session, turn, call_id, tool, dialect, arguments, packed,
           coalesce(intents.decision, outcomes.decision), coalesce(intents.rule, outcomes.rule),
           coalesce(intents.approver, outcomes.approver),
           files, outcomes.status, code, time_us, reply, lacking.contents
    FROM calls LEFT JOIN intents USING (seq) LEFT JOIN outcomes USING (seq) LEFT JOIN lacking USING (seq)
"""

_NUMBER, _DATA, _NAME = int | None, bytes | None, str | None
ENTRY_TYPES = (int, int, *(bytes,) * 6, int, *(_DATA,) * 3, _NUMBER, _NAME, _NAME, _NUMBER, _DATA, _NUMBER)
LATEST = 253_402_300_800 * MICROSECONDS  # the end of the year 9999

# Of the calls with one id: the last that succeeded, else the last.
RECALLED = f"""
    SELECT calls.seq FROM calls INDEXED BY calls_id LEFT JOIN outcomes USING (seq)
    WHERE call_id = ? AND turn = ? AND session = ?
    ORDER BY coalesce(status IN {STANDING}, 0) DESC, calls.seq DESC LIMIT 1
"""


class SqliteStore:
    """`bound` is what may be kept for undo, in bytes; None: a share of what is free on the disk.

    Without a folder all of it is in memory, and goes with this object.
    """

    def __init__(self, folder: Path | None, *, bound: Bound | None = None, replies: int = REPLIES) -> None:
        if folder is None:
            self._alone = partial(Lines().turn, IN_MEMORY)
            self._database = Database(IN_MEMORY, SCHEMA, VERSION)
            self._contents = BoundedContents(self._database, None, bound or BYTES_IN_MEMORY)
        else:
            with told(folder):
                private(folder)
            self._alone = partial(locked, folder / LOCK)
            self._database = Database(folder / DATABASE, SCHEMA, VERSION)
            self._contents = BoundedContents(self._database, folder / "contents", bound or DiskShare(folder))
        self._slots = SlotLedger()
        self._room = UndoRoom(self._contents, self._slots)
        self._chain = Chain(str(self._database.path))
        self._approvals = SqliteApprovals(self._database)
        self._replies = replies

    @classmethod
    def in_memory(cls, *, bound: Bound | None = None) -> Self:
        """One that leaves nothing behind: for tests and dry runs."""
        return cls(None, bound=bound)

    def alone(self, *, wait: bool = True) -> AbstractContextManager[None]:
        return self._alone(wait=wait)

    def close(self) -> None:
        self._database.close()

    # --- contents

    def keep(self, datas: Iterable[bytes]) -> None:
        self._contents.keep(datas)

    def get(self, hash: str) -> bytes | None:
        return self._contents.get(hash)

    def has(self, hash: str) -> bool:
        return self._contents.has(hash)

    def held(self) -> tuple[int, int]:
        """How many bytes of contents are kept, and how many contents had to go so far."""
        return self._contents.held()

    def slots(self) -> Collection[str]:
        with self._database.reading() as connection:
            return frozenset(to_text(command) for (command,) in connection.execute("SELECT command FROM slots"))

    def gone(self) -> Collection[str]:
        return self._slots.gone()

    # --- journal

    def begin(self, call: Call) -> int:
        with self._database.writing() as connection:
            return self._begin(connection, call)

    def _begin(self, connection: sqlite3.Connection, call: Call) -> int:
        (last,) = connection.execute("SELECT max(seq) FROM calls").fetchone()
        seq: int = (last or 0) + 1
        self._chain.append(connection, CallRecord(seq, _now(), call))
        return seq

    def record(self, call: Call, outcome: Outcome, *, decision: Decision | None = None) -> None:
        with self._database.writing() as connection:
            self._settle(connection, self._begin(connection, call), outcome, decision)

    def intend(
        self,
        seq: int,
        transaction: str,
        files: Sequence[FileChange],
        *,
        decision: Decision,
        takes_back: Sequence[int] = (),
    ) -> Sequence[Entry]:
        record = IntentRecord(seq, _now(), transaction, decision, tuple(files), tuple(takes_back))
        old, new = ([side for side in sides if isinstance(side, Bytes | Stored)] for sides in _sides(files))
        self._contents.announce((*new, *old))
        with self._database.writing(durable=True) as connection:
            self._chain.append(connection, record)
            self._contents.store(connection, new, FOR_REDO)
            absent = self._contents.store(connection, old, FOR_REDO if self._is_undo(connection, seq) else FOR_UNDO)
            connection.execute("INSERT INTO lacking VALUES (?, ?)", (seq, len(absent)))
            self._slots.use(connection, seq, commands_of(files))
            connection.execute("INSERT INTO pending VALUES (?, 0)", (seq,))
            # Undo and redo may take several steps, and none of them takes away what a later one needs.
            make_room = self._contents.drop_seen if takes_back else self._room.make
            dropped = make_room(connection)
            given_up = () if takes_back else self._entries_of(connection, self._room.choose(connection))
        self._contents.let_go(dropped)
        return given_up

    def settle(
        self,
        seq: int,
        outcome: Outcome,
        *,
        durable: bool,
        decision: Decision | None = None,
        given_up: Sequence[int] = (),
    ) -> None:
        with self._database.writing(durable=durable) as connection:
            self._settle(connection, seq, outcome, decision)
            if outcome.status in DONE:
                connection.execute("UPDATE pending SET settled = 1 WHERE seq = ?", (seq,))
                self._room.give_up(connection, given_up)
            else:  # what was begun has been taken back
                connection.execute("DELETE FROM pending WHERE seq = ?", (seq,))
                self._slots.discard(connection, seq)

    def _settle(self, connection: sqlite3.Connection, seq: int, outcome: Outcome, decision: Decision | None) -> None:
        reply = None if outcome.reply is None else self._keep_reply(connection, to_bytes(outcome.reply))
        ended = (outcome.status, outcome.code, round(outcome.time_ms * 1000), reply, decision)
        self._chain.append(connection, OutcomeRecord(seq, _now(), *ended))

    def finish(self, seq: int) -> None:
        with self._database.writing() as connection:
            if not connection.execute("SELECT 1 FROM finished WHERE seq = ?", (seq,)).fetchone():
                self._chain.append(connection, FinishRecord(seq, _now()))
            connection.execute("DELETE FROM pending WHERE seq = ?", (seq,))

    def verify(self, noted: str = "") -> Verified:
        with self._database.reading() as connection:
            return chain.verified(connection, noted)

    def broken(self) -> Sequence[Broken]:
        if self._database.row("SELECT 1 FROM pending LIMIT 1") is None:
            return ()  # as nearly always, and asked before every call
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT seq, transaction_id, settled FROM pending JOIN intents USING (seq) ORDER BY seq"
            ).fetchall()
            return [
                Broken(seq, to_text(name), read_files(connection, seq), bool(settled)) for seq, name, settled in rows
            ]

    def recall(self, session: str, turn: str, call_id: str) -> Entry | None:
        with self._database.reading() as connection:
            rows = connection.execute(
                f"{ENTRIES} WHERE calls.seq = ({RECALLED})", (to_bytes(call_id), to_bytes(turn), to_bytes(session))
            ).fetchall()
            return next(self._entries(connection, rows, replies=True), None)

    def entries(self, *, session: str | None = None, last: int | None = None) -> Sequence[Entry]:
        """Oldest first, without the replies: `recall` gives those."""
        of_session = "" if session is None else "WHERE session = ?"
        parameters = () if session is None else (to_bytes(session),)
        with self._database.reading() as connection:
            sql = f"{ENTRIES} {of_session} ORDER BY calls.seq DESC LIMIT ?"
            rows = connection.execute(sql, (*parameters, -1 if last is None else last)).fetchall()
            return list(self._entries(connection, rows[::-1], replies=False))

    def files(self, seq: int) -> tuple[FileChange, ...]:
        with self._database.reading() as connection:
            return read_files(connection, seq)

    def writer(self, path: str, hash: str) -> str:
        with self._database.reading() as connection:
            row = connection.execute(
                "SELECT session FROM changes INDEXED BY changes_after JOIN calls USING (seq) JOIN outcomes USING (seq)"
                f" WHERE after = ? AND path = ? AND status IN {STANDING} ORDER BY changes.seq DESC LIMIT 1",
                (bytes.fromhex(hash), to_bytes(path)),
            ).fetchone()
        return to_text(row[0]) if row else ""

    # --- approvals

    def ask(self, asked: Asked) -> Asked | None:
        return self._approvals.ask(asked)

    def waiting(self, session: str | None = None) -> Sequence[Asked]:
        return self._approvals.waiting(session)

    def asked(self, which: str) -> Asked:
        return self._approvals.asked(which)

    def answer(self, which: str, answer: Consent, *, by: str) -> Asked:
        return self._approvals.answer(which, answer, by=by)

    def spend(self, hash: str, session: str) -> Asked | None:
        return self._approvals.spend(hash, session)

    def allow(self, session: str, key: str, *, by: str) -> None:
        self._approvals.allow(session, key, by=by)

    def allowed(self, session: str) -> Mapping[str, str]:
        return self._approvals.allowed(session)

    # --- marks

    def marks(self, session: str) -> "SqliteMarks":
        return SqliteMarks(self._database, session)

    # --- rows

    def _entries_of(self, connection: sqlite3.Connection, calls: Sequence[int]) -> Sequence[Entry]:
        sql = f"{ENTRIES} WHERE calls.seq IN ({','.join('?' * len(calls))}) ORDER BY calls.seq"
        return (
            list(self._entries(connection, connection.execute(sql, calls).fetchall(), replies=False)) if calls else ()
        )

    def _is_undo(self, connection: sqlite3.Connection, seq: int) -> bool:
        (tool,) = connection.execute("SELECT tool FROM calls WHERE seq = ?", (seq,)).fetchone()
        return to_text(tool) == "undo"

    def _entries(self, connection: sqlite3.Connection, rows: Sequence[Any], *, replies: bool) -> Iterator[Entry]:
        takers = self._takers(connection, min((row[0] for row in rows), default=0))
        for row in checked(rows, *ENTRY_TYPES):
            seq, at, *call, decision, rule, approver, files = row[:13]
            *end, lacking = row[13:]
            if not 0 <= at < LATEST:
                raise ValueError("a time is out of range")
            yield Entry(
                seq=seq,
                at=at / MICROSECONDS,
                call=read_call(*call),
                decision=to_text(decision or b""),
                rule=to_text(rule or b""),
                approver=to_text(approver or b""),
                outcome=self._outcome(connection, *end, replies=replies),
                paths=self._paths(connection, seq) if files else (),
                changed=files or 0,
                takes_back=read_takes_back(connection, seq) if files is not None else (),
                undone=taken_back(seq, takers),
                kept=not lacking,
            )

    def _outcome(
        self,
        connection: sqlite3.Connection,
        status: str | None,
        code: str | None,
        time_us: int,
        reply: bytes | None,
        *,
        replies: bool,
    ) -> Outcome | None:
        if status is None:
            return None
        said = self._reply(connection, reply) if replies and reply else None
        return Outcome(status, code, time_us / 1000, said)

    def _takers(self, connection: sqlite3.Connection, first: int) -> Mapping[int, Sequence[int]]:
        """What took back the calls from `first` on; takers are later than what they take, so these are all."""
        takers: defaultdict[int, list[int]] = defaultdict(list)
        rows = connection.execute(
            f"SELECT call, seq FROM taken JOIN outcomes USING (seq) WHERE call >= ? AND status IN {STANDING}", (first,)
        )
        for call, seq in checked(rows, int, int):
            takers[call].append(seq)
        return takers

    def _paths(self, connection: sqlite3.Connection, seq: int) -> tuple[str, ...]:
        sql = "SELECT path FROM changes WHERE seq = ? ORDER BY n LIMIT ?"
        return tuple(to_text(path) for (path,) in connection.execute(sql, (seq, PATHS_LISTED)))

    def _keep_reply(self, connection: sqlite3.Connection, reply: bytes) -> str:
        """By its hash."""
        hash = digest(reply)
        data, packed = pack(reply)
        sql = "INSERT OR IGNORE INTO replies (hash, packed, data) VALUES (?, ?, ?)"
        came = connection.execute(sql, (bytes.fromhex(hash), packed, data)).rowcount
        connection.execute("UPDATE replies_held SET bytes = bytes + ?", (len(data) * came,))
        over: int = connection.execute("SELECT bytes FROM replies_held").fetchone()[0] - self._replies
        while over > 0:
            oldest, size = connection.execute("SELECT id, length(data) FROM replies ORDER BY id LIMIT 1").fetchone()
            connection.execute("DELETE FROM replies WHERE id = ?", (oldest,))
            connection.execute("UPDATE replies_held SET bytes = bytes - ?", (size,))
            over -= size
        return hash

    def _reply(self, connection: sqlite3.Connection, key: bytes) -> str | None:
        row = connection.execute("SELECT packed, data FROM replies WHERE hash = ?", (key,)).fetchone()
        if row is None:
            return None
        reply = unpack(row[1], packed=row[0])
        if digest(reply) != key.hex():
            raise StateDamaged(str(self._database.path), f"the reply {key.hex()} is damaged")
        return to_text(reply)


def _sides(files: Iterable[FileChange]) -> tuple[list[Content | None], list[Content | None]]:
    """Everything before, and everything after."""
    return [each.before for each in files], [each.after for each in files]


def _now() -> int:
    return time.time_ns() // 1000
