"""Journal entries from the records that a hub keeps."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from handhold.core.listed_records import FILE_COUNT, MAX_LISTED_PATHS
from handhold.core.ports.journal import Call, JournalEntry, Outcome
from handhold.core.shipped_records import MICROSECONDS_PER_SECOND
from handhold.core.shipped_text import decode_text, read_text, read_texts


def make_entry(lines: Sequence[bytes], *, undone: bool) -> JournalEntry:
    """The journal entry of a call from its verified records, or from their short forms."""
    return _make_entry(_parse(lines), undone=undone)


def find_entry(lines: Sequence[bytes], *, undone: bool) -> tuple[JournalEntry, str] | None:
    """The same, with the hash of its reply, empty if there is none. None if retention took the start of the call."""
    found = _parse(lines)
    if "call" not in found:
        return None
    reply = found["outcome"]["body"].get("reply") if "outcome" in found else None
    return _make_entry(found, undone=undone), reply if isinstance(reply, str) else ""


def _parse(lines: Sequence[bytes]) -> dict[str, dict[str, Any]]:
    """The records of a call by their kind."""
    return {each["kind"]: each for each in (cast(dict[str, Any], json.loads(line)) for line in lines)}


def _make_entry(found: Mapping[str, dict[str, Any]], *, undone: bool) -> JournalEntry:
    call = found["call"]
    intent: dict[str, Any] = found["intent"]["body"] if "intent" in found else {"files": [], "takes_back": []}
    ended: dict[str, Any] | None = found["outcome"]["body"] if "outcome" in found else None
    decision: dict[str, Any] = intent.get("decision") or (ended and ended["decision"]) or {}
    reasons = read_texts(decision)
    outcome = None
    if ended is not None:
        code = ended["code"]
        outcome = Outcome(
            decode_text(read_text(ended["status"])),
            None if code is None else decode_text(read_text(code)),
            ended["time_us"] / 1000,
            None,
        )
    return JournalEntry(
        seq=call["seq"],
        at=call["at"] / MICROSECONDS_PER_SECOND,
        call=Call(**read_texts(call["body"])),
        decision=reasons.get("verdict", ""),
        rule=reasons.get("rule", ""),
        approver=reasons.get("by", ""),
        outcome=outcome,
        paths=tuple(decode_text(read_text(each["path"])) for each in intent["files"][:MAX_LISTED_PATHS]),
        changed=intent.get(FILE_COUNT, len(intent["files"])),
        takes_back=tuple(intent["takes_back"]),
        undone=undone,
        kept=True,
    )
