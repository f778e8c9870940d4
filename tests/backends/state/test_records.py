"""C-91: a record of the journal has one encoding, which another program can read and verify."""

import sqlite3
from contextlib import closing
from dataclasses import fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from handhold.backends.state.records import (
    CallRecord,
    FinishRecord,
    IntentRecord,
    JournalRecord,
    OutcomeRecord,
    encode_record,
)
from handhold.backends.state.sqlite import SqliteStore
from handhold.core.plans import (
    Content,
    ContentRef,
    Directory,
    DirectoryMetadata,
    FileChange,
    InlineContent,
    StagedContent,
)
from handhold.core.ports.journal import Call, CallDecision
from tests.backends.state.journal_reader import NotAsSpecifiedError, Reader, verify
from tests.backends.state.test_hash_chain import STEPS, journalled
from tests.scale import examples
from tests.suites.store_suite import begun, call, change, done, success

TEXT = st.text(st.characters(exclude_categories=()), max_size=12)  # lone surrogates too
PATHS = TEXT | st.binary(max_size=12).map(lambda name: name.decode("utf-8", "surrogateescape"))
NUMBERS = st.integers(0, 2**64)
MODES = st.integers(0, 0o7777)
HASHES = st.binary(min_size=32, max_size=32).map(bytes.hex)
VERDICTS: st.SearchStrategy[Any] = st.sampled_from(["allowed", "approved", "refused"])
DECISIONS = st.builds(CallDecision, VERDICTS, TEXT, TEXT)
KINDS: st.SearchStrategy[Any] = st.sampled_from(["file", "link", "tree", "other"])
SHELVED = st.builds(
    StagedContent, TEXT, KINDS, TEXT, NUMBERS, MODES, st.tuples(NUMBERS, NUMBERS), st.integers(-(2**63), 2**63), NUMBERS
)
ATTRIBUTES = st.lists(st.tuples(PATHS, st.binary(max_size=4)), max_size=3).map(tuple)
CONTENTS = (
    st.none()
    | st.builds(ContentRef, HASHES, NUMBERS)
    | st.just(Directory())
    | st.builds(DirectoryMetadata, MODES, st.none() | st.tuples(NUMBERS, NUMBERS), st.none() | ATTRIBUTES)
    | SHELVED
)
CHANGES = st.builds(FileChange, PATHS, CONTENTS, CONTENTS, st.none() | MODES)
RECORDS = (
    st.builds(CallRecord, NUMBERS, NUMBERS, st.builds(Call, TEXT, TEXT, TEXT, TEXT, TEXT, TEXT))
    | st.builds(
        IntentRecord,
        NUMBERS,
        NUMBERS,
        TEXT,
        DECISIONS,
        st.lists(CHANGES, max_size=4).map(tuple),
        st.lists(NUMBERS, max_size=3).map(tuple),
    )
    | st.builds(
        OutcomeRecord, NUMBERS, NUMBERS, TEXT, st.none() | TEXT, NUMBERS, st.none() | HASHES, st.none() | DECISIONS
    )
    | st.builds(FinishRecord, NUMBERS, NUMBERS)
)
PREVIOUS = st.binary(min_size=32, max_size=32)


def decode(line: bytes) -> tuple[JournalRecord, int, bytes]:
    """With the reader that implements only the specification."""
    record = Reader(line).record()
    assert record["version"] == 1
    number, previous, seq, at = record["record"], bytes.fromhex(record["previous"]), record["seq"], record["at"]
    found = record["body"]
    if found.get("decision"):
        found["decision"] = CallDecision(**found["decision"])
    match record["kind"]:
        case "call":
            return CallRecord(seq, at, Call(**found)), number, previous
        case "intent":
            files = tuple(decoded_change(each) for each in found.pop("files"))
            return (
                IntentRecord(seq, at, files=files, takes_back=tuple(found.pop("takes_back")), **found),
                number,
                previous,
            )
        case "outcome":
            return OutcomeRecord(seq, at, **found), number, previous
        case _:
            return FinishRecord(seq, at), number, previous


def decoded_change(found: dict[str, Any]) -> FileChange:
    return FileChange(found["path"], decoded_content(found["before"]), decoded_content(found["after"]), found["mode"])


def decoded_content(found: dict[str, Any] | None) -> Content | None:
    if found is None:
        return None
    match found.pop("kind"):
        case "file":
            return ContentRef(**found)
        case "directory":
            return Directory(**found)
        case "folder":
            owner, named = found["owner"], found["attributes"]
            attributes = None if named is None else tuple((name, bytes.fromhex(value)) for name, value in named)
            return DirectoryMetadata(found["mode"], owner and tuple(owner), attributes)
        case _:
            inode = int(found.pop("device")), int(found.pop("inode"))
            mtime_ns, entry_count = int(found.pop("mtime_ns")), found.pop("entries")
            return StagedContent(
                kind=found.pop("thing"), inode=inode, mtime_ns=mtime_ns, entry_count=entry_count, **found
            )


@given(RECORDS, NUMBERS, PREVIOUS)
def test_c91_a_record_of_any_content_always_comes_back_from_its_encoding(
    record: JournalRecord, number: int, previous: bytes
):
    line = encode_record(record, number, previous)
    assert b"\n" not in line
    assert decode(line) == (record, number, previous)


@given(RECORDS, RECORDS, NUMBERS, PREVIOUS)
def test_c91_two_records_never_have_one_encoding(
    one: JournalRecord, other: JournalRecord, number: int, previous: bytes
):
    assert (encode_record(one, number, previous) == encode_record(other, number, previous)) == (one == other)


@given(RECORDS, NUMBERS, PREVIOUS, st.data())
def test_c91_any_field_that_is_changed_always_changes_the_hash(
    record: JournalRecord, number: int, previous: bytes, data: st.DataObject
):
    other = altered(record, data)
    assume(other != record)
    assert (
        sha256(encode_record(record, number, previous)).digest()
        != sha256(encode_record(other, number, previous)).digest()
    )
    assert (
        sha256(encode_record(record, number, previous)).digest()
        != sha256(encode_record(record, number + 1, previous)).digest()
    )
    assert encode_record(record, number, previous) != encode_record(
        record, number, previous[:-1] + bytes([previous[-1] ^ 1])
    )


def altered(value: Any, data: st.DataObject) -> Any:
    """The same record with one value changed."""
    match value:
        case str():
            return data.draw(st.sampled_from([value + "\ud800", value[1:], value.swapcase(), f"{value}\0"]))
        case bytes():
            return value + b"\0"
        case int():
            return value + 1
        case tuple():
            if not value:
                return value
            place = data.draw(st.integers(0, len(value) - 1))
            return (*value[:place], altered(value[place], data), *value[place + 1 :])
        case None:
            return value
        case InlineContent() | Directory() | ContentRef():
            return DirectoryMetadata(0)
        case _:
            kept = [each.name for each in fields(value) if each.name not in ("owner", "allocated")]
            name = data.draw(st.sampled_from(kept))
            return replace(value, **{name: altered(getattr(value, name), data)})


def test_c91_a_record_is_encoded_to_the_byte_as_the_decision_says():
    """The example for authors of other verifiers."""
    path = b"/ws/\xff".decode("utf-8", "surrogateescape")
    record = IntentRecord(
        7, 1_700_000_000_000_001, "x7", CallDecision("allowed", 'mode "edit"\n', "zoë"), (FileChange(path, None, InlineContent(b"new\n"), 0o644),), (3,)
    )  # fmt: skip
    assert encode_record(record, 12, bytes(32)) == (
        b'{"at":1700000000000001,"body":{"decision":{"by":"zo\xc3\xab","rule":"mode \\"edit\\"\\n","verdict":"allowed"},'
        b'"files":[{"after":{"hash":"7aa7a5359173d05b63cfd682e3c38487f3cb4f7f1d60659fe59fab1505977d4c","kind":"file","size":4},'
        b'"before":null,"mode":420,"path":{"bytes":"2f77732fedb3bf"}}],"takes_back":[3],"transaction":"x7"},"kind":"intent",'
        b'"previous":"0000000000000000000000000000000000000000000000000000000000000000","record":12,"seq":7,"version":1}'
    )


def test_c91_texts_that_look_alike_in_other_encodings_do_not_here():
    """Two surrogates differ from the character that they would form, and from its bytes."""
    texts = ["\U00010000", "\ud800\udc00", "\udced\udca0\udc80", '{"bytes":"00"}', "\\ud800"]
    lines = {encode_record(CallRecord(1, 1, Call(text, "", "", "", "", "")), 1, bytes(32)) for text in texts}
    assert len(lines) == len(texts)


@given(st.lists(st.sampled_from(STEPS), max_size=6), TEXT, PATHS)
@settings(max_examples=examples(25))
def test_c91_another_program_always_finds_the_same_chain(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], session: str, path: str
):
    folder = tmp_path_factory.mktemp("any")
    with closing(SqliteStore(folder)) as store:
        journalled(store, steps)
        done(store, change(path, None, b"new"), asked=call(session=session))
        store.begin(Call("s", "t", "c", "Write", '{"content":"' + "x" * 5000 + '"}', "claude"))
        told = store.verify()
    assert told.problem is None
    assert verify(folder / "state.db") == (told.count, told.head)


@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE calls SET tool = x'00' WHERE seq = 1",
        "UPDATE changes SET path = x'2f' WHERE seq = 2",
        "UPDATE outcomes SET at = at + 1 WHERE seq = 1",
        "DELETE FROM finished",
        "DELETE FROM outcomes WHERE seq = 1",
        "UPDATE head SET record = record + 1",
    ],
)
def test_c91_another_program_finds_what_was_altered(tmp_path: Path, tampering: str):
    with closing(SqliteStore(tmp_path)) as store:
        store.record_outcome(store.begin(call("Read")), success("page"), durable=False)
        seq = begun(store, change())
        store.record_outcome(seq, success(), durable=True)
        store.mark_cleaned_up(seq)
    verify(tmp_path / "state.db")
    with closing(sqlite3.connect(tmp_path / "state.db")) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(tampering)
        connection.commit()
    with pytest.raises(NotAsSpecifiedError):
        verify(tmp_path / "state.db")
