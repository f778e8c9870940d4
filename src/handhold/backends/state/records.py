"""Journal records, and the canonical encoding that the hash chain covers.

A record is a line of canonical JSON with a version. docs/decisions/0022-journal-records.md specifies it to the byte, so
that programs in any language can verify a chain. It is independent of the database tables.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any

from handhold.backends.state.text_codec import to_bytes, to_text
from handhold.core.plans import Content, ContentRef, Directory, DirectoryMetadata, FileChange, StagedContent
from handhold.core.ports.journal import Call, CallDecision

RECORD_VERSION = 1
MICROSECONDS_PER_SECOND = 1_000_000


@dataclass(frozen=True)
class CallRecord:
    """A call was received. `at` is in microseconds since 1970, here and below."""

    seq: int
    at: int
    call: Call


@dataclass(frozen=True)
class IntentRecord:
    """What a call is about to do, and why it is allowed."""

    seq: int
    at: int
    transaction: str
    decision: CallDecision
    files: tuple[FileChange, ...]
    takes_back: tuple[int, ...]


@dataclass(frozen=True)
class OutcomeRecord:
    """How a call ended. `decision` is set for a call without an intent; `reply` is a hash."""

    seq: int
    at: int
    status: str
    code: str | None
    time_us: int
    reply: str | None
    decision: CallDecision | None


@dataclass(frozen=True)
class FinishRecord:
    """A call's transaction has been cleaned up."""

    seq: int
    at: int


JournalRecord = CallRecord | IntentRecord | OutcomeRecord | FinishRecord

Quote = Callable[[str], str]


def encode_record(record: JournalRecord, number: int, previous: bytes) -> bytes:
    """Encode the record that follows the one with the hash `previous`. Members are written in a fixed order."""
    try:
        return _format_line(record, number, previous, encode_basestring).encode()
    except UnicodeEncodeError:
        return _format_line(record, number, previous, _quote_any).encode()


def _quote_any(text: str) -> str:
    """Text that is not valid Unicode is represented by its bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return f'{{"bytes":"{to_bytes(text).hex()}"}}'
    return encode_basestring(text)


def _format_line(record: JournalRecord, number: int, previous: bytes, quote: Quote) -> str:
    kind, body = _format_body(record, quote)
    return (
        f'{{"at":{record.at},"body":{body},"kind":"{kind}","previous":"{previous.hex()}",'
        f'"record":{number},"seq":{record.seq},"version":{RECORD_VERSION}}}'
    )


def _format_body(record: JournalRecord, quote: Quote) -> tuple[str, str]:
    match record:
        case CallRecord(call=call):
            return "call", (
                f'{{"arguments":{quote(call.arguments)},"call_id":{quote(call.call_id)},"dialect":{quote(call.dialect)},'
                f'"session":{quote(call.session)},"tool":{quote(call.tool)},"turn":{quote(call.turn)}}}'
            )
        case IntentRecord():
            return "intent", (
                f'{{"decision":{_format_decision(record.decision, quote)},'
                f'"files":[{",".join([_format_change(each, quote) for each in record.files])}],'
                f'"takes_back":[{",".join(map(str, record.takes_back))}],"transaction":{quote(record.transaction)}}}'
            )
        case OutcomeRecord():
            return "outcome", (
                f'{{"code":{_quote_or_null(record.code, quote)},"decision":{_format_decision(record.decision, quote)},'
                f'"reply":{_quote_or_null(record.reply, quote)},"status":{quote(record.status)},'
                f'"time_us":{record.time_us}}}'
            )
        case FinishRecord():
            return "finish", "{}"


def _quote_or_null(text: str | None, quote: Quote) -> str:
    return "null" if text is None else quote(text)


def _format_decision(decision: CallDecision | None, quote: Quote) -> str:
    if decision is None:
        return "null"
    return f'{{"by":{quote(decision.by)},"rule":{quote(decision.rule)},"verdict":{quote(decision.verdict)}}}'


def _format_change(change: FileChange, quote: Quote) -> str:
    mode = "null" if change.mode is None else change.mode
    before, after = _format_content(change.before, quote), _format_content(change.after, quote)
    return f'{{"after":{after},"before":{before},"mode":{mode},"path":{quote(change.path)}}}'


def _format_content(content: Content | None, quote: Quote) -> str:
    match content:
        case None:
            return "null"
        case Directory():
            return '{"kind":"directory"}'
        case DirectoryMetadata(mode=mode, owner=owner, xattrs=attributes):
            named = (
                "null"
                if attributes is None
                else f"[{','.join([_format_attribute(*each, quote) for each in attributes])}]"
            )
            ids = "null" if owner is None else f"[{owner[0]},{owner[1]}]"
            return f'{{"attributes":{named},"kind":"folder","mode":{mode},"owner":{ids}}}'
        case StagedContent(inode=(device, inode)):
            # Inode numbers are strings, since many JSON parsers round large numbers.
            return (
                f'{{"device":"{device}","entries":{content.entry_count},"hash":{quote(content.hash)},"inode":"{inode}",'
                f'"kind":"shelved","mode":{content.mode},"mtime_ns":"{content.mtime_ns}","size":{content.size},'
                f'"slot":{quote(content.slot)},"thing":{quote(content.kind)}}}'
            )
        case _:
            return f'{{"hash":{quote(content.hash)},"kind":"file","size":{content.size}}}'


def _format_attribute(name: str, value: bytes, quote: Quote) -> str:
    return f'[{quote(name)},"{value.hex()}"]'


# --- reading


def parse_changes(files: Sequence[Mapping[str, Any]]) -> tuple[FileChange, ...]:
    """The file changes of an intent, from its decoded JSON."""
    sides = [(_parse_content(change["before"]), _parse_content(change["after"])) for change in files]
    return tuple(
        FileChange(_parse_text(change["path"]), *contents, change["mode"])
        for change, contents in zip(files, sides, strict=True)
    )


def _parse_text(text: str | Mapping[str, str]) -> str:
    return text if isinstance(text, str) else to_text(bytes.fromhex(text["bytes"]))


def _parse_content(content: Mapping[str, Any] | None) -> Content | None:
    match content:
        case None:
            return None
        case {"kind": "directory"}:
            return Directory()
        case {"kind": "folder", "mode": mode, "owner": owner, "attributes": attributes}:
            named = None if attributes is None else tuple((_parse_text(k), bytes.fromhex(v)) for k, v in attributes)
            return DirectoryMetadata(mode, (owner[0], owner[1]) if owner else None, named)
        case {"kind": "shelved"}:
            inode = (int(content["device"]), int(content["inode"]))
            kind, mtime_ns = content["thing"], int(content["mtime_ns"])
            slot, hash = _parse_text(content["slot"]), _parse_text(content["hash"])
            return StagedContent(
                slot, kind, hash, content["size"], content["mode"], inode, mtime_ns, content["entries"]
            )
        case _:
            return ContentRef(_parse_text(content["hash"]), content["size"])
