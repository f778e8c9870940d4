"""An independent program that verifies a journal, written only from docs/decisions/0022-journal-records.md.

It imports nothing from Handhold. `verify` re-encodes every record of a database; `Reader` reads an encoded record.
"""

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

DIGITS = "0123456789"
SHORT = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}
MEMBERS = {"version", "record", "previous", "seq", "at", "kind", "body"}
OF_BODY = {
    "call": {"session", "turn", "call_id", "tool", "dialect", "arguments"},
    "intent": {"transaction", "decision", "files", "takes_back"},
    "outcome": {"status", "code", "time_us", "reply", "decision"},
    "finish": set[str](),
}


class NotAsSpecifiedError(Exception):
    pass


def expect(met: bool, what: str) -> None:
    if not met:
        raise NotAsSpecifiedError(what)


# --- the chain of a database


def verify(database: Path) -> tuple[int, str]:
    """The number of records, and the head. Raises NotAsSpecifiedError if they do not form a chain."""
    count, previous = 0, "0" * 64
    with closing(sqlite3.connect(database)) as connection:
        connection.row_factory = sqlite3.Row
        for record, digest in records(connection):
            count += 1
            expect(record["record"] == count, f"record {count} is missing")
            line = written({**record, "version": 1, "previous": previous}).encode()
            previous = hashlib.sha256(line).hexdigest()
            expect(previous == digest.hex(), f"record {count} has another hash")
        head = connection.execute("SELECT record, digest FROM head").fetchone()
    expect((head["record"], head["digest"].hex()) == (count, previous), "the head is another one")
    return count, previous


def records(connection: sqlite3.Connection) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Every record without `version` and `previous`, and its stored hash."""
    found: list[tuple[dict[str, Any], bytes]] = []
    for table, kind, fields in (
        ("calls", "call", call),
        ("intents", "intent", intent),
        ("outcomes", "outcome", outcome),
        ("finished", "finish", lambda row, _: {}),
    ):
        for row in connection.execute(f"SELECT * FROM {table}"):
            place = {"kind": kind, "record": row["record"], "seq": row["seq"], "at": row["at"]}
            found.append(({**place, "body": fields(row, connection)}, row["digest"]))
    return iter(sorted(found, key=lambda each: each[0]["record"]))


def call(row: sqlite3.Row, _: sqlite3.Connection) -> dict[str, Any]:
    arguments = zlib.decompress(row["arguments"]) if row["packed"] else row["arguments"]
    names = ("session", "turn", "call_id", "tool", "dialect")
    return {name: text(row[name]) for name in names} | {"arguments": text(arguments)}


def intent(row: sqlite3.Row, connection: sqlite3.Connection) -> dict[str, Any]:
    def rows(table: str) -> list[sqlite3.Row]:
        return connection.execute(f"SELECT * FROM {table} WHERE seq = ? ORDER BY n", (row["seq"],)).fetchall()

    things = {(each["n"], each["side"]): each for each in rows("things")}
    return {
        "transaction": text(row["transaction_id"]),
        "decision": decision(row),
        "files": [change(each, things) for each in rows("changes")],
        "takes_back": [each["call"] for each in rows("taken")],
    }


def outcome(row: sqlite3.Row, _: sqlite3.Connection) -> dict[str, Any]:
    return {
        "status": row["status"],
        "code": row["code"],
        "time_us": row["time_us"],
        "reply": row["reply"] and row["reply"].hex(),
        "decision": None if row["decision"] is None else decision(row),
    }


def decision(row: sqlite3.Row) -> dict[str, Any]:
    return {"verdict": text(row["decision"]), "rule": text(row["rule"]), "by": text(row["approver"])}


def change(row: sqlite3.Row, things: dict[tuple[int, str], sqlite3.Row]) -> dict[str, Any]:
    sides = {side: content(row, side, things.get((row["n"], side))) for side in ("before", "after")}
    return {"path": text(row["path"]), "mode": row["mode"], **sides}


def content(row: sqlite3.Row, side: str, thing: sqlite3.Row | None) -> dict[str, Any] | None:
    match row[f"{side}_kind"]:
        case None:
            return None
        case "file":
            return {"kind": "file", "hash": row[side].hex(), "size": row[f"{side}_size"]}
        case "directory":
            return {"kind": "directory"}
        case "folder":
            return {"kind": "folder", "mode": row[f"{side}_size"], **rights(row[side])}
        case kind:
            expect(kind == "shelved" and thing is not None, f"a content of kind {kind}")
            assert thing is not None
            device, inode = thing["inode"].split(":")
            return {
                "kind": "shelved",
                "thing": thing["kind"],
                "slot": text(thing["slot"]),
                "hash": thing["hash"],
                "size": thing["size"],
                "mode": thing["mode"],
                "device": device,
                "inode": inode,
                "mtime_ns": str(thing["mtime_ns"]),
                "entries": thing["entries"],
            }


def rights(data: bytes | None) -> dict[str, Any]:
    """A folder's owner and attributes as the database stores them, with attribute names in hex."""
    owner, attributes = json.loads(data or b"[null,null]")
    named = attributes and [[text(bytes.fromhex(name)), value] for name, value in attributes]
    return {"owner": owner, "attributes": named}


# --- writing


def text(data: bytes) -> str | dict[str, str]:
    """The database stores texts as the bytes that the specification names."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"bytes": data.hex()}


def written(value: Any) -> str:
    match value:
        case None:
            return "null"
        case int():
            return str(value)
        case str():
            return '"' + "".join(map(escaped, value)) + '"'
        case list():
            return "[" + ",".join(map(written, value)) + "]"
        case _:
            return "{" + ",".join(f"{written(name)}:{written(value[name])}" for name in sorted(value)) + "}"


def escaped(letter: str) -> str:
    for short, meant in SHORT.items():
        if letter == meant:
            return "\\" + short
    return f"\\u{ord(letter):04x}" if letter < " " else letter


# --- reading


class Reader:
    """Reads canonical JSON, and rejects everything else that JSON allows."""

    def __init__(self, line: bytes) -> None:
        self._text = line.decode("utf-8")
        self._at = 0

    def record(self) -> dict[str, Any]:
        record = self._value()
        expect(self._at == len(self._text), "something follows the record")
        expect(record.keys() == MEMBERS, "other members than specified")
        expect(record["body"].keys() == OF_BODY[record["kind"]], "other members of the body than specified")
        return record

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, expected: str) -> None:
        expect(self._text.startswith(expected, self._at), f"{expected!r} is wanted at {self._at}")
        self._at += len(expected)

    def _value(self) -> Any:
        match self._peek():
            case "{":
                return self._object()
            case "[":
                return self._array()
            case '"':
                return self._string()
            case "n":
                return self._take("null")
            case _:
                return self._integer()

    def _object(self) -> Any:
        found: dict[str, Any] = {}
        self._take("{")
        while self._peek() != "}":
            if found:
                self._take(",")
            name = self._string()
            expect(not found or name > max(found), "members are not sorted")
            self._take(":")
            found[name] = self._value()
        self._take("}")
        if found.keys() == {"bytes"}:
            return self._no_unicode(found["bytes"])
        return found

    def _no_unicode(self, digits: str) -> str:
        data = bytes.fromhex(digits)
        found = data.decode("utf-8", "surrogatepass")
        expect(any("\ud800" <= letter <= "\udfff" for letter in found), "Unicode that is spelled in bytes")
        expect(data.hex() == digits, "hex that is not in lower case")
        return found

    def _array(self) -> list[Any]:
        found: list[Any] = []
        self._take("[")
        while self._peek() != "]":
            if found:
                self._take(",")
            found.append(self._value())
        self._take("]")
        return found

    def _integer(self) -> int:
        start = self._at
        while self._peek() and self._peek() in DIGITS:
            self._at += 1
        digits = self._text[start : self._at]
        expect(bool(digits) and str(int(digits)) == digits, f"no integer at {start}")
        return int(digits)

    def _string(self) -> str:
        found: list[str] = []
        self._take('"')
        while (letter := self._peek()) != '"':
            expect(letter >= " ", "a control character, or the end, in a text")
            self._at += 1
            found.append(self._escape() if letter == "\\" else letter)
        self._take('"')
        return "".join(found)

    def _escape(self) -> str:
        letter = self._peek()
        self._at += 1
        if letter in SHORT:
            return SHORT[letter]
        expect(letter == "u", "an unknown escape")
        code = self._text[self._at : self._at + 4]
        self._at += 4
        character = chr(int(code, 16))
        expect(character < " " and character not in SHORT.values() and code == code.lower(), "a needless escape")
        return character
