"""Journal records as they are shipped to a hub: the lines of decision 22, verified as a chain.

The hash of a record covers the exact bytes of its line, so a hub keeps the line as it came. The fields that it searches
by are read from the line, and nothing is taken from the sender's word.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from handhold.core.listed_records import FILE_COUNT, shorten_record
from handhold.core.shipped_text import read_text, read_texts

RECORD_VERSION = 1
START_DIGEST = bytes(32)  # the predecessor of the first record
MAX_BATCH_RECORDS = 1_000
# An uplink sends 1 MiB at once, or one record: that of a command that changed 100,000 files has 54 MiB.
MAX_BATCH_BYTES = 64 * 1024 * 1024
MAX_PARSED_BYTES = 17 * MAX_BATCH_BYTES  # as objects, by `estimate_memory`; those 54 MiB really take 250 to 420
MAX_CONTENT_BYTES = 64 * 1024 * 1024  # larger ones are not shipped
VALUE_BYTES = 100  # of an object in memory, beyond its text
MAX_NUMBER = 2**63 - 1
MICROSECONDS_PER_SECOND = 1_000_000
MAX_TIME_US = 253_402_300_800 * MICROSECONDS_PER_SECOND  # the end of the year 9999
COMMITTED_STATUSES = ("success", "partial")
CALL_MEMBERS = {"session", "turn", "call_id", "tool", "dialect", "arguments"}
VERDICTS = ("allowed", "approved", "refused")
KINDS = ("call", "intent", "outcome", "finish")


class BadBatch(ValueError):
    """Not a chain of records. The message says what is wrong with which line."""


@dataclass(frozen=True)
class ShippedChange:
    """A file that an intent names; the hashes are empty if there is no content by hash."""

    path: bytes
    before: str
    after: str


@dataclass(frozen=True)
class ShippedRecord:
    """A line of the journal and what a hub searches by. Texts are bytes: they may contain invalid Unicode."""

    number: int
    previous: bytes
    digest: bytes
    line: bytes
    seq: int
    at: int  # microseconds since 1970, by the sandbox's clock
    kind: str
    session: bytes = b""  # of a call
    turn: bytes = b""
    tool: bytes = b""
    verdict: str = ""  # of an intent or an outcome
    time_us: int = 0  # of an outcome
    is_committed: bool = False  # of an outcome: whether the call's changes are in effect
    changes: tuple[ShippedChange, ...] = ()
    takes_back: tuple[int, ...] = ()
    listed: bytes | None = None  # the short form of a long line


@dataclass(frozen=True)
class RecordBatch:
    """Consecutive records: each one names the hash of the one before."""

    records: tuple[ShippedRecord, ...]

    @property
    def first(self) -> ShippedRecord:
        return self.records[0]

    @property
    def last(self) -> ShippedRecord:
        return self.records[-1]

    @property
    def size(self) -> int:
        return sum(len(record.line) for record in self.records)

    def after(self, number: int) -> "RecordBatch":
        """What follows the record with this number."""
        return RecordBatch(self.records[max(0, number - self.first.number + 1) :])


def parse_batch(body: bytes) -> RecordBatch:
    """The records of a body of lines. BadBatch if they are no chain."""
    if estimate_memory(body) > MAX_PARSED_BYTES:
        raise BadBatch("it has more values than a record of its size can have")
    lines = body.removesuffix(b"\n").split(b"\n")
    if len(lines) > MAX_BATCH_RECORDS:
        raise BadBatch(f"{len(lines)} records; at most {MAX_BATCH_RECORDS} are accepted at once")
    records: list[ShippedRecord] = []
    for place, line in enumerate(lines, 1):
        try:
            record = parse_record(line)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
            raise BadBatch(f"line {place} is not a journal record ({type(error).__name__})") from error
        if records and (record.number, record.previous) != (records[-1].number + 1, records[-1].digest):
            raise BadBatch(f"line {place} does not follow the line before it")
        records.append(record)
    return RecordBatch(tuple(records))


def estimate_memory(body: bytes) -> int:
    """The most that parsing takes: text as text and as values, in four bytes a character if one is not ASCII."""
    return (2 if body.isascii() else 8) * len(body) + VALUE_BYTES * sum(map(body.count, (b"[", b"{", b",", b":")))


def parse_record(line: bytes) -> ShippedRecord:
    found: dict[str, Any] = json.loads(line.decode("utf-8"))
    if found["version"] != RECORD_VERSION or found["kind"] not in KINDS:
        raise ValueError("an unknown version or kind")
    number, previous = _read_number(found["record"]), bytes.fromhex(found["previous"])
    if not number or len(previous) != len(START_DIGEST) or (number == 1 and previous != START_DIGEST):
        raise ValueError("a wrong number or predecessor")
    if _read_number(found["at"]) >= MAX_TIME_US:
        raise ValueError("a time is out of range")
    kind, body = str(found["kind"]), found["body"]
    _check_body(kind, body)
    is_call, intent, outcome = (kind == each for each in ("call", "intent", "outcome"))
    decision: Mapping[str, Any] = (body["decision"] if intent or outcome else None) or {}
    verdict = decision.get("verdict", "")
    return ShippedRecord(
        number,
        previous,
        sha256(line).digest(),
        line,
        _read_number(found["seq"]),
        _read_number(found["at"]),
        kind,
        session=read_text(body["session"]) if is_call else b"",
        turn=read_text(body["turn"]) if is_call else b"",
        tool=read_text(body["tool"]) if is_call else b"",
        verdict=verdict if verdict in VERDICTS else "",
        time_us=body["time_us"] if outcome else 0,
        is_committed=outcome and body["status"] in COMMITTED_STATUSES,
        changes=tuple(_read_change(each) for each in body["files"]) if intent else (),
        takes_back=tuple(_read_number(each) for each in body["takes_back"]) if intent else (),
        listed=shorten_record(found, line),
    )


def _check_body(kind: str, body: Mapping[str, Any]) -> None:
    """Raise an error if the body lacks what an entry is made of: whoever reads it later must not fail."""
    match kind:
        case "call":
            if set(body) != CALL_MEMBERS:
                raise ValueError("wrong members")
            read_texts(body)
        case "intent":
            read_texts(body["decision"])
            if FILE_COUNT in body:
                raise ValueError("a member that only the short form has")
        case "outcome":
            _read_number(body["time_us"])
            read_text(body["status"])
            read_text("" if body["code"] is None else body["code"])
            read_texts(body["decision"] or {})
        case _:
            pass


def _read_number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_NUMBER:
        raise ValueError("not a number")
    return value


def _read_change(change: Mapping[str, Any]) -> ShippedChange:
    return ShippedChange(read_text(change["path"]), _read_hash(change["before"]), _read_hash(change["after"]))


def _read_hash(content: Mapping[str, Any] | None) -> str:
    """The hash of a file's content; empty for a folder, a tree, a link, or a file that was too large to read."""
    if content is None:
        return ""
    is_file = content["kind"] == "file" or (content["kind"] == "shelved" and content["thing"] == "file")
    found = content.get("hash") if is_file else None
    return found if isinstance(found, str) and is_hash(found) else ""


def is_hash(text: str) -> bool:
    return len(text) == 64 and not set(text) - set("0123456789abcdef")
