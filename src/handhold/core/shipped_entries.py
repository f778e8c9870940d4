"""Journal entries from the records that a hub keeps."""

import json
from collections.abc import Sequence
from typing import Any, cast

from handhold.core.ports.journal import Call, JournalEntry, Outcome
from handhold.core.shipped_records import MICROSECONDS_PER_SECOND, decode_text, read_text, read_texts

MAX_LISTED_PATHS = 100


def make_entry(lines: Sequence[bytes], *, undone: bool) -> JournalEntry:
    """The journal entry of a call from its verified records."""
    found = {each["kind"]: each for each in (cast(dict[str, Any], json.loads(line)) for line in lines)}
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
        changed=len(intent["files"]),
        takes_back=tuple(intent["takes_back"]),
        undone=undone,
        kept=True,
    )
