"""Convert journal records to rows of the tables, and back."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from handhold.backends.state.contents import pack, unpack
from handhold.backends.state.database import check_types
from handhold.backends.state.records import CallRecord, FinishRecord, IntentRecord, JournalRecord, OutcomeRecord
from handhold.backends.state.text_codec import to_bytes, to_text
from handhold.core.plans import Content, ContentRef, Directory, DirectoryMetadata, FileChange, StagedContent
from handhold.core.ports.journal import Call, CallDecision

SqlRow = tuple[Any, ...]

# Each row of these tables is a record; the last two columns are its number and its hash.
RECORD_TABLES = ("calls", "intents", "outcomes", "finished")
# Further rows of an intent, and the order in which they are written.
DETAIL_TABLES = {"changes": "n", "things": "n, side", "taken": "n"}

_NULLABLE_INT, _NULLABLE_BLOB, _NULLABLE_TEXT = int | None, bytes | None, str | None
CHANGE_TYPES = (int, bytes, _NULLABLE_INT, *(_NULLABLE_TEXT, _NULLABLE_BLOB, _NULLABLE_INT) * 2)
STAGED_TYPES = (int, str, bytes, str, str, int, int, str, int, int)


# --- writing


def encode_row(record: JournalRecord) -> tuple[str, SqlRow]:
    """The table and the row of a record, without number and hash."""
    seq, at = record.seq, record.at
    match record:
        case CallRecord(call=call):
            arguments, packed = pack(to_bytes(call.arguments))
            who = (call.session, call.turn, call.call_id, call.tool, call.dialect)
            return "calls", (seq, at, *map(to_bytes, who), arguments, int(packed))
        case IntentRecord():
            verdict, rule, by = _encode_decision(record.decision)
            return "intents", (seq, at, to_bytes(record.transaction), verdict, len(record.files), rule, by)
        case OutcomeRecord():
            reply = None if record.reply is None else bytes.fromhex(record.reply)
            decided = (None, None, None) if record.decision is None else _encode_decision(record.decision)
            return "outcomes", (seq, at, record.status, record.code, record.time_us, reply, *decided)
        case FinishRecord():
            return "finished", (seq, at)


def encode_details(record: JournalRecord) -> Iterator[tuple[str, Iterator[SqlRow]]]:
    """Further rows, by table and in order."""
    if isinstance(record, IntentRecord):
        seq, files = record.seq, record.files
        yield "changes", ((seq, n, *_encode_change(each)) for n, each in enumerate(files))
        yield "things", _encode_staged(seq, files)
        yield "taken", ((seq, *each) for each in enumerate(record.takes_back))


def _encode_decision(decision: CallDecision) -> tuple[bytes, bytes, bytes]:
    return to_bytes(decision.verdict), to_bytes(decision.rule), to_bytes(decision.by)


def _encode_change(change: FileChange) -> SqlRow:
    return (to_bytes(change.path), *_encode_content(change.before), *_encode_content(change.after), change.mode)


def _encode_content(content: Content | None) -> tuple[str | None, bytes | None, int | None]:
    match content:
        case None:
            return None, None, None
        case Directory():
            return "directory", None, None
        case DirectoryMetadata(mode=mode):
            return "folder", _encode_rights(content), mode
        case StagedContent(kind=kind):
            return "shelved", _hash_key(content.hash) if kind == "file" else None, content.size
        case _:
            return "file", bytes.fromhex(content.hash), content.size


def _encode_rights(folder: DirectoryMetadata) -> bytes | None:
    """The owner and attributes; None if neither changes."""
    if folder.owner is None and folder.xattrs is None:
        return None
    named = [(to_bytes(name).hex(), value.hex()) for name, value in folder.xattrs or ()]
    return json.dumps((folder.owner, None if folder.xattrs is None else named), separators=(",", ":")).encode()


def _hash_key(hash: str) -> bytes | None:
    """None for a file that was too large to read."""
    try:
        return bytes.fromhex(hash)
    except ValueError:
        return None


def _encode_staged(seq: int, files: Sequence[FileChange]) -> Iterator[SqlRow]:
    for n, each in enumerate(files):
        for side, content in (("after", each.after), ("before", each.before)):
            if isinstance(content, StagedContent):
                # Some file systems use the highest bit of inode numbers, and SQLite's integers are signed.
                inode = f"{content.inode[0]}:{content.inode[1]}"
                what = (
                    content.kind,
                    content.hash,
                    content.size,
                    content.mode,
                    inode,
                    content.mtime_ns,
                    content.entry_count,
                )
                yield seq, n, side, to_bytes(content.slot), *what


# --- reading


def read_record(connection: sqlite3.Connection, table: str, seq: int) -> JournalRecord:
    """Raise one of UNREADABLE_ERRORS if the rows are not exactly as written; some columns are redundant."""
    *row, _, _ = connection.execute(f"SELECT * FROM {table} WHERE seq = ?", (seq,)).fetchone()
    record = _decode_record(connection, table, row)
    if table != "calls" and encode_row(record) != (table, tuple(row)):  # arguments can be compressed in several ways
        raise ValueError(f"a row of {table} was changed after it was written")
    for each, rows in encode_details(record):
        stored = connection.execute(f"SELECT * FROM {each} WHERE seq = ? ORDER BY {DETAIL_TABLES[each]}", (seq,))
        if any(one != other for one, other in zip_longest(rows, stored)):
            raise ValueError(f"a row of {each} was changed after it was written")
    return record


def _decode_record(connection: sqlite3.Connection, table: str, row: Sequence[Any]) -> JournalRecord:
    seq, at, *rest = row
    match table:
        case "calls":
            return CallRecord(seq, at, read_call(*rest))
        case "intents":
            transaction, verdict, _, *why = rest
            decision = _decode_decision(verdict, *why)
            takes_back = read_takes_back(connection, seq)
            return IntentRecord(seq, at, to_text(transaction), decision, read_files(connection, seq), takes_back)
        case "outcomes":
            status, code, time_us, reply, verdict, *why = rest
            decision = None if verdict is None else _decode_decision(verdict, *why)
            return OutcomeRecord(seq, at, status, code, time_us, None if reply is None else reply.hex(), decision)
        case _:
            return FinishRecord(seq, at)


def read_call(
    session: bytes, turn: bytes, call_id: bytes, tool: bytes, dialect: bytes, arguments: bytes, packed: int
) -> Call:
    if packed not in (0, 1):
        raise ValueError("a flag is neither 0 nor 1")
    text = to_text(unpack(arguments, packed=bool(packed)))
    return Call(to_text(session), to_text(turn), to_text(call_id), to_text(tool), text, to_text(dialect))


def _decode_decision(verdict: Any, rule: bytes, by: bytes) -> CallDecision:
    return CallDecision(to_text(verdict), to_text(rule), to_text(by))  # pyright: ignore[reportArgumentType]


def read_takes_back(connection: sqlite3.Connection, seq: int) -> tuple[int, ...]:
    rows = connection.execute("SELECT call FROM taken WHERE seq = ? ORDER BY n", (seq,))
    return tuple(call for (call,) in check_types(rows, int))


def read_files(connection: sqlite3.Connection, seq: int) -> tuple[FileChange, ...]:
    sql = "SELECT n, side, slot, kind, hash, size, mode, inode, mtime_ns, entries FROM things WHERE seq = ?"
    staged = {
        (n, side): _decode_staged(*row) for n, side, *row in check_types(connection.execute(sql, (seq,)), *STAGED_TYPES)
    }
    sql = (
        "SELECT n, path, mode, before_kind, before, before_size, after_kind, after, after_size"
        " FROM changes WHERE seq = ? ORDER BY n"
    )
    return tuple(
        FileChange(
            to_text(path),
            staged.get((n, "before")) or _decode_content(*sides[:3]),
            staged.get((n, "after")) or _decode_content(*sides[3:]),
            _check_mode(mode),
        )
        for n, path, mode, *sides in check_types(connection.execute(sql, (seq,)), *CHANGE_TYPES)
    )


def _decode_content(kind: str | None, key: bytes | None, size: int | None) -> Content | None:
    if kind is None:
        return None
    if size is None:
        return Directory()
    if kind != "folder":
        return ContentRef((key or b"").hex(), size)
    return DirectoryMetadata(size, *_decode_rights(key)) if key else DirectoryMetadata(size)


def _decode_rights(rights: bytes) -> tuple[tuple[int, int] | None, tuple[tuple[str, bytes], ...] | None]:
    owner, named = json.loads(rights)
    attributes = tuple((to_text(bytes.fromhex(name)), bytes.fromhex(value)) for name, value in named or ())
    return (owner[0], owner[1]) if owner else None, None if named is None else attributes


def _decode_staged(
    slot: bytes, kind: Any, hash: str, size: int, mode: int, inode: str, mtime_ns: int, entries: int
) -> StagedContent:
    device, _, number = inode.partition(":")
    return StagedContent(to_text(slot), kind, hash, size, mode, (int(device), int(number)), mtime_ns, entries)


def _check_mode(mode: int | None) -> int | None:
    if mode is not None and not 0 <= mode <= 0o7777:
        raise ValueError("permission bits are out of range")
    return mode
