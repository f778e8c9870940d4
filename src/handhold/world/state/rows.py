"""The records of the journal as rows of its tables, and back."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from handhold.core.plans import Content, Directory, FileChange, Folder, Shelved, Stored
from handhold.core.ports import Call, Decision
from handhold.world.state.contents import pack, unpack
from handhold.world.state.database import checked
from handhold.world.state.records import CallRecord, FinishRecord, IntentRecord, JournalRecord, OutcomeRecord
from handhold.world.state.text import to_bytes, to_text

Row = tuple[Any, ...]

# A row of these is a record: its last two columns are its number and its hash.
RECORDS = ("calls", "intents", "outcomes", "finished")
# What else belongs to an intent, and in which order it is written.
DETAILS = {"changes": "n", "things": "n, side", "taken": "n"}

_NUMBER, _DATA, _NAME = int | None, bytes | None, str | None
CHANGE_TYPES = (int, bytes, _NUMBER, *(_NAME, _DATA, _NUMBER) * 2)
THING_TYPES = (int, str, bytes, str, str, int, int, str, int, int)


# --- writing


def row_of(record: JournalRecord) -> tuple[str, Row]:
    """The table and the row of a record, without number and hash."""
    seq, at = record.seq, record.at
    match record:
        case CallRecord(call=call):
            arguments, packed = pack(to_bytes(call.arguments))
            who = (call.session, call.turn, call.call_id, call.tool, call.dialect)
            return "calls", (seq, at, *map(to_bytes, who), arguments, int(packed))
        case IntentRecord():
            verdict, rule, by = _decision_row(record.decision)
            return "intents", (seq, at, to_bytes(record.transaction), verdict, len(record.files), rule, by)
        case OutcomeRecord():
            reply = None if record.reply is None else bytes.fromhex(record.reply)
            decided = (None, None, None) if record.decision is None else _decision_row(record.decision)
            return "outcomes", (seq, at, record.status, record.code, record.time_us, reply, *decided)
        case FinishRecord():
            return "finished", (seq, at)


def details_of(record: JournalRecord) -> Iterator[tuple[str, Iterator[Row]]]:
    """Its further rows, by table and in their order."""
    if isinstance(record, IntentRecord):
        seq, files = record.seq, record.files
        yield "changes", ((seq, n, *_change_row(each)) for n, each in enumerate(files))
        yield "things", _thing_rows(seq, files)
        yield "taken", ((seq, *each) for each in enumerate(record.takes_back))


def _decision_row(decision: Decision) -> tuple[bytes, bytes, bytes]:
    return to_bytes(decision.verdict), to_bytes(decision.rule), to_bytes(decision.by)


def _change_row(change: FileChange) -> Row:
    return (to_bytes(change.path), *_content_row(change.before), *_content_row(change.after), change.mode)


def _content_row(content: Content | None) -> tuple[str | None, bytes | None, int | None]:
    match content:
        case None:
            return None, None, None
        case Directory():
            return "directory", None, None
        case Folder(mode=mode):
            return "folder", _rights_row(content), mode
        case Shelved(kind=kind):
            return "shelved", _key(content.hash) if kind == "file" else None, content.size
        case _:
            return "file", bytes.fromhex(content.hash), content.size


def _rights_row(folder: Folder) -> bytes | None:
    """Its owner and its attributes; None if the change is about neither."""
    if folder.owner is None and folder.attributes is None:
        return None
    named = [(to_bytes(name).hex(), value.hex()) for name, value in folder.attributes or ()]
    return json.dumps((folder.owner, None if folder.attributes is None else named), separators=(",", ":")).encode()


def _key(hash: str) -> bytes | None:
    """None for a file that nobody read, because it was too large."""
    try:
        return bytes.fromhex(hash)
    except ValueError:
        return None


def _thing_rows(seq: int, files: Sequence[FileChange]) -> Iterator[Row]:
    for n, each in enumerate(files):
        for side, thing in (("after", each.after), ("before", each.before)):
            if isinstance(thing, Shelved):
                # Some file systems use the highest bit of an inode number, and SQLite's integers are signed.
                inode = f"{thing.inode[0]}:{thing.inode[1]}"
                what = (thing.kind, thing.hash, thing.size, thing.mode, inode, thing.mtime_ns, thing.entries)
                yield seq, n, side, to_bytes(thing.slot), *what


# --- reading


def read_record(connection: sqlite3.Connection, table: str, seq: int) -> JournalRecord:
    """One of UNREADABLE if its rows are not as a record is written: some columns only repeat what others say."""
    *row, _, _ = connection.execute(f"SELECT * FROM {table} WHERE seq = ?", (seq,)).fetchone()
    record = _record_from(connection, table, row)
    if table != "calls" and row_of(record) != (table, tuple(row)):  # arguments can be packed in several ways
        raise ValueError(f"a row of {table} is not as it was written")
    for each, rows in details_of(record):
        stored = connection.execute(f"SELECT * FROM {each} WHERE seq = ? ORDER BY {DETAILS[each]}", (seq,))
        if any(one != other for one, other in zip_longest(rows, stored)):
            raise ValueError(f"a row of {each} is not as it was written")
    return record


def _record_from(connection: sqlite3.Connection, table: str, row: Sequence[Any]) -> JournalRecord:
    seq, at, *rest = row
    match table:
        case "calls":
            return CallRecord(seq, at, read_call(*rest))
        case "intents":
            transaction, verdict, _, *why = rest
            decision = _decision_from(verdict, *why)
            takes_back = read_takes_back(connection, seq)
            return IntentRecord(seq, at, to_text(transaction), decision, read_files(connection, seq), takes_back)
        case "outcomes":
            status, code, time_us, reply, verdict, *why = rest
            decision = None if verdict is None else _decision_from(verdict, *why)
            return OutcomeRecord(seq, at, status, code, time_us, None if reply is None else reply.hex(), decision)
        case _:
            return FinishRecord(seq, at)


def read_call(
    session: bytes, turn: bytes, call_id: bytes, tool: bytes, dialect: bytes, arguments: bytes, packed: int
) -> Call:
    if packed not in (0, 1):
        raise ValueError("a flag is neither 0 nor 1")
    said = to_text(unpack(arguments, packed=bool(packed)))
    return Call(to_text(session), to_text(turn), to_text(call_id), to_text(tool), said, to_text(dialect))


def _decision_from(verdict: Any, rule: bytes, by: bytes) -> Decision:
    return Decision(to_text(verdict), to_text(rule), to_text(by))  # pyright: ignore[reportArgumentType]


def read_takes_back(connection: sqlite3.Connection, seq: int) -> tuple[int, ...]:
    rows = connection.execute("SELECT call FROM taken WHERE seq = ? ORDER BY n", (seq,))
    return tuple(call for (call,) in checked(rows, int))


def read_files(connection: sqlite3.Connection, seq: int) -> tuple[FileChange, ...]:
    sql = "SELECT n, side, slot, kind, hash, size, mode, inode, mtime_ns, entries FROM things WHERE seq = ?"
    things = {(n, side): _thing_from(*row) for n, side, *row in checked(connection.execute(sql, (seq,)), *THING_TYPES)}
    sql = (
        "SELECT n, path, mode, before_kind, before, before_size, after_kind, after, after_size"
        " FROM changes WHERE seq = ? ORDER BY n"
    )
    return tuple(
        FileChange(
            to_text(path),
            things.get((n, "before")) or _content_from(*sides[:3]),
            things.get((n, "after")) or _content_from(*sides[3:]),
            _mode(mode),
        )
        for n, path, mode, *sides in checked(connection.execute(sql, (seq,)), *CHANGE_TYPES)
    )


def _content_from(kind: str | None, key: bytes | None, size: int | None) -> Content | None:
    if kind is None:
        return None
    if size is None:
        return Directory()
    if kind != "folder":
        return Stored((key or b"").hex(), size)
    return Folder(size, *_rights_from(key)) if key else Folder(size)


def _rights_from(rights: bytes) -> tuple[tuple[int, int] | None, tuple[tuple[str, bytes], ...] | None]:
    owner, named = json.loads(rights)
    attributes = tuple((to_text(bytes.fromhex(name)), bytes.fromhex(value)) for name, value in named or ())
    return (owner[0], owner[1]) if owner else None, None if named is None else attributes


def _thing_from(
    slot: bytes, kind: Any, hash: str, size: int, mode: int, inode: str, mtime_ns: int, entries: int
) -> Shelved:
    device, _, number = inode.partition(":")
    return Shelved(to_text(slot), kind, hash, size, mode, (int(device), int(number)), mtime_ns, entries)


def _mode(mode: int | None) -> int | None:
    if mode is not None and not 0 <= mode <= 0o7777:
        raise ValueError("permission bits are out of range")
    return mode
