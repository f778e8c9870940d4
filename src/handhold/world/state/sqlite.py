"""The store on SQLite: one file a workspace, shared by every process that works there.

What the journal says is appended and never altered: triggers see to that, and a chain of hashes shows it. What can
be told from it (which transactions are pending, which calls lack a content for taking them back) is kept beside it,
so that a journal of a hundred thousand calls answers as fast as an empty one.
"""

import json
import sqlite3
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from typing import Any

from handhold.core.errors import StateDamaged
from handhold.core.facts import Identity
from handhold.core.plans import Bytes, Content, Directory, FileChange, Folder, Shelved, Stored, digest
from handhold.core.ports import Asked, Broken, Call, Consent, Decision, Entry, Mark, Outcome, Seen, Verified
from handhold.world.state import chain
from handhold.world.state.approvals import SqliteApprovals
from handhold.world.state.bound import DiskShare
from handhold.world.state.chain import Chain
from handhold.world.state.contents import FOR_REDO, FOR_UNDO, Bound, BoundedContents, pack, unpack
from handhold.world.state.database import Database, checked, told
from handhold.world.state.folder import private
from handhold.world.state.lock import locked
from handhold.world.state.room import UndoRoom
from handhold.world.state.schema import SCHEMA, VERSION
from handhold.world.state.slots import SlotLedger, commands_of
from handhold.world.state.taken import DONE, STANDING, taken_back
from handhold.world.state.text import to_bytes, to_text

DATABASE = "state.db"
LOCK = "lock"
REPLIES = 64 * 1024 * 1024  # bytes of replies kept for calls that come again; apart, so that they never cost an undo
PATHS_LISTED = 100

ENTRIES = """
    SELECT calls.seq, calls.at, session, turn, call_id, tool, arguments, packed, dialect,
           coalesce(intents.decision, outcomes.decision), coalesce(intents.rule, outcomes.rule),
           coalesce(intents.approver, outcomes.approver),
           files, outcomes.status, code, time_ms, reply, lacking.contents
    FROM calls LEFT JOIN intents USING (seq) LEFT JOIN outcomes USING (seq) LEFT JOIN lacking USING (seq)
"""

_NUMBER, _DATA, _NAME = int | None, bytes | None, str | None
ENTRY_TYPES = (
    int,
    float,
    *(bytes,) * 5,
    int,
    bytes,
    *(_DATA,) * 3,
    _NUMBER,
    _NAME,
    _NAME,
    float | None,
    _DATA,
    _NUMBER,
)
CHANGE_TYPES = (int, bytes, _NUMBER, *(_NAME, _DATA, _NUMBER) * 2)
THING_TYPES = (int, str, bytes, str, str, int, int, str, int, int)
LATEST = 253_402_300_799  # seconds: the end of the year 9999

# Of the calls with one id: the last that succeeded, else the last.
RECALLED = f"""
    SELECT calls.seq FROM calls INDEXED BY calls_id LEFT JOIN outcomes USING (seq)
    WHERE call_id = ? AND turn = ? AND session = ?
    ORDER BY coalesce(status IN {STANDING}, 0) DESC, calls.seq DESC LIMIT 1
"""


class SqliteStore:
    """`bound` is what may be kept for undo, in bytes; None: a share of what is free on the disk."""

    def __init__(self, folder: Path, *, bound: Bound | None = None, replies: int = REPLIES) -> None:
        with told(folder):
            private(folder)
        self._lock = folder / LOCK
        self._database = Database(folder / DATABASE, SCHEMA, VERSION)
        self._contents = BoundedContents(self._database, folder / "contents", bound or DiskShare(folder))
        self._slots = SlotLedger()
        self._room = UndoRoom(self._contents, self._slots)
        self._chain = Chain(str(self._database.path))
        self._approvals = SqliteApprovals(self._database)
        self._replies = replies

    def alone(self, *, wait: bool = True) -> AbstractContextManager[None]:
        return locked(self._lock, wait=wait)

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
        arguments, packed = pack(to_bytes(call.arguments))
        who = (
            to_bytes(call.session),
            to_bytes(call.turn),
            to_bytes(call.call_id),
            to_bytes(call.tool),
            to_bytes(call.dialect),
        )
        (last,) = connection.execute("SELECT max(seq) FROM calls").fetchone()
        seq: int = (last or 0) + 1
        self._chain.append(connection, "calls", (seq, time.time(), *who, arguments, int(packed)))
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
        old, new = ([side for side in sides if isinstance(side, Bytes | Stored)] for sides in _sides(files))
        self._contents.announce((*new, *old))
        verdict, rule, approver = _decision_row(decision)
        with self._database.writing(durable=True) as connection:
            row = (seq, time.time(), to_bytes(transaction), verdict, len(files), rule, approver)
            self._chain.append_with(connection, "intents", row, _details(seq, files, takes_back))
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
        decided = (None, None, None) if decision is None else _decision_row(decision)
        reply = None if outcome.reply is None else self._keep_reply(connection, to_bytes(outcome.reply))
        took = float(outcome.time_ms) + 0.0  # there is no -0.0 in a database
        row = (seq, time.time(), outcome.status, outcome.code, took, reply, *decided)
        self._chain.append(connection, "outcomes", row)

    def finish(self, seq: int) -> None:
        with self._database.writing() as connection:
            if not connection.execute("SELECT 1 FROM finished WHERE seq = ?", (seq,)).fetchone():
                self._chain.append(connection, "finished", (seq, time.time()))
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
                Broken(seq, to_text(name), self._files(connection, seq), bool(settled)) for seq, name, settled in rows
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
            return self._files(connection, seq)

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
            seq, at, session, turn, call_id, tool, arguments, packed, dialect, *decided, files = row[:13]
            *end, lacking = row[13:]
            if not 0 <= at <= LATEST:
                raise ValueError("a time is out of range")
            decision, rule, approver = (to_text(each or b"") for each in decided)
            call = Call(
                session=to_text(session),
                turn=to_text(turn),
                call_id=to_text(call_id),
                tool=to_text(tool),
                arguments=to_text(unpack(arguments, packed=packed)),
                dialect=to_text(dialect),
            )
            yield Entry(
                seq=seq,
                at=at,
                call=call,
                decision=decision,
                rule=rule,
                approver=approver,
                outcome=self._outcome(connection, *end, replies=replies),
                paths=self._paths(connection, seq) if files else (),
                changed=files or 0,
                takes_back=self._takes_back(connection, seq) if files is not None else (),
                undone=taken_back(seq, takers),
                kept=not lacking,
            )

    def _outcome(
        self,
        connection: sqlite3.Connection,
        status: str | None,
        code: str | None,
        time_ms: float,
        reply: bytes | None,
        *,
        replies: bool,
    ) -> Outcome | None:
        if status is None:
            return None
        said = self._reply(connection, reply) if replies and reply else None
        return Outcome(status, code, time_ms, said)

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

    def _takes_back(self, connection: sqlite3.Connection, seq: int) -> tuple[int, ...]:
        rows = connection.execute("SELECT call FROM taken WHERE seq = ? ORDER BY n", (seq,))
        return tuple(call for (call,) in checked(rows, int))

    def _files(self, connection: sqlite3.Connection, seq: int) -> tuple[FileChange, ...]:
        sql = "SELECT n, side, slot, kind, hash, size, mode, inode, mtime_ns, entries FROM things WHERE seq = ?"
        things = {(n, side): _thing(*row) for n, side, *row in checked(connection.execute(sql, (seq,)), *THING_TYPES)}
        sql = (
            "SELECT n, path, mode, before_kind, before, before_size, after_kind, after, after_size"
            " FROM changes WHERE seq = ? ORDER BY n"
        )
        return tuple(
            FileChange(
                to_text(path),
                things.get((n, "before")) or _content(*sides[:3]),
                things.get((n, "after")) or _content(*sides[3:]),
                _mode(mode),
            )
            for n, path, mode, *sides in checked(connection.execute(sql, (seq,)), *CHANGE_TYPES)
        )

    def _keep_reply(self, connection: sqlite3.Connection, reply: bytes) -> bytes:
        key = bytes.fromhex(digest(reply))
        data, packed = pack(reply)
        sql = "INSERT OR IGNORE INTO replies (hash, packed, data) VALUES (?, ?, ?)"
        came = connection.execute(sql, (key, packed, data)).rowcount
        connection.execute("UPDATE replies_held SET bytes = bytes + ?", (len(data) * came,))
        over: int = connection.execute("SELECT bytes FROM replies_held").fetchone()[0] - self._replies
        while over > 0:
            oldest, size = connection.execute("SELECT id, length(data) FROM replies ORDER BY id LIMIT 1").fetchone()
            connection.execute("DELETE FROM replies WHERE id = ?", (oldest,))
            connection.execute("UPDATE replies_held SET bytes = bytes - ?", (size,))
            over -= size
        return key

    def _reply(self, connection: sqlite3.Connection, key: bytes) -> str | None:
        row = connection.execute("SELECT packed, data FROM replies WHERE hash = ?", (key,)).fetchone()
        if row is None:
            return None
        reply = unpack(row[1], packed=row[0])
        if digest(reply) != key.hex():
            raise StateDamaged(str(self._database.path), f"the reply {key.hex()} is damaged")
        return to_text(reply)


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


# --- values


def _sides(files: Iterable[FileChange]) -> tuple[list[Content | None], list[Content | None]]:
    """Everything before, and everything after."""
    return [each.before for each in files], [each.after for each in files]


def _decision_row(decision: Decision) -> tuple[bytes, bytes, bytes]:
    return to_bytes(decision.verdict), to_bytes(decision.rule), to_bytes(decision.by)


def _details(seq: int, files: Sequence[FileChange], takes_back: Sequence[int]) -> chain.Details:
    """What an intent is about, by table and in the order of its key."""
    return (
        ("changes", ((seq, n, *_change_row(each)) for n, each in enumerate(files))),
        (
            "things",
            (
                (seq, n, side, *_thing_row(thing))
                for n, each in enumerate(files)
                for side, thing in (("after", each.after), ("before", each.before))
                if isinstance(thing, Shelved)
            ),
        ),
        ("taken", ((seq, *each) for each in enumerate(takes_back))),
    )


def _change_row(change: FileChange) -> tuple[object, ...]:
    return (to_bytes(change.path), *_row(change.before), *_row(change.after), change.mode)


def _row(content: Content | None) -> tuple[str | None, bytes | None, int | None]:
    if content is None:
        return None, None, None
    match content:
        case Directory():
            return "directory", None, None
        case Folder(mode=mode):
            return "folder", _rights(content), mode
        case Shelved(kind=kind):
            return "shelved", _key(content.hash) if kind == "file" else None, content.size
        case _:
            return "file", bytes.fromhex(content.hash), content.size


def _key(hash: str) -> bytes | None:
    """None for a file that nobody read, because it was too large."""
    try:
        return bytes.fromhex(hash)
    except ValueError:
        return None


def _mode(mode: int | None) -> int | None:
    if mode is not None and not 0 <= mode <= 0o7777:
        raise ValueError("permission bits are out of range")
    return mode


def _content(kind: str | None, key: bytes | None, size: int | None) -> Content | None:
    if kind is None:
        return None
    if size is None:
        return Directory()
    if kind != "folder":
        return Stored((key or b"").hex(), size)
    return Folder(size, *_given(key)) if key else Folder(size)


def _given(rights: bytes) -> tuple[tuple[int, int] | None, tuple[tuple[str, bytes], ...] | None]:
    owner, named = json.loads(rights)
    attributes = tuple((to_text(bytes.fromhex(name)), bytes.fromhex(value)) for name, value in named or ())
    return (owner[0], owner[1]) if owner else None, None if named is None else attributes


def _rights(folder: Folder) -> bytes | None:
    """Its owner and its attributes; None if the change is about neither."""
    if folder.owner is None and folder.attributes is None:
        return None
    named = [(to_bytes(name).hex(), value.hex()) for name, value in folder.attributes or ()]
    return json.dumps((folder.owner, None if folder.attributes is None else named), separators=(",", ":")).encode()


def _thing_row(thing: Shelved) -> tuple[object, ...]:
    inode = f"{thing.inode[0]}:{thing.inode[1]}"  # as _file says
    slot = to_bytes(thing.slot)
    return slot, thing.kind, thing.hash, thing.size, thing.mode, inode, thing.mtime_ns, thing.entries


def _thing(slot: bytes, kind: Any, hash: str, size: int, mode: int, inode: str, mtime_ns: int, entries: int) -> Shelved:
    device, _, number = inode.partition(":")
    return Shelved(to_text(slot), kind, hash, size, mode, (int(device), int(number)), mtime_ns, entries)


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
