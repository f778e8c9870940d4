"""What a list shows of a record. Long ones have a short form for it, so that no page is large because one call is.

The record itself stays as it came; who wants all of it reads it by its number.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from handhold.core.shipped_text import read_text

MAX_LISTED_BYTES = 64 * 1024  # of a record; longer ones are shortened
MAX_ARGUMENT_BYTES = 16 * 1024
MAX_TEXT_BYTES = 1_000
MAX_LISTED_PATHS = 100
FILE_COUNT = "file_count"  # a member of the short form only


def shorten_record(record: Mapping[str, Any], line: bytes) -> bytes | None:
    """The short form of a record that was checked; None if its line is short enough."""
    if len(line) <= MAX_LISTED_BYTES:
        return None
    kind, body = record["kind"], cast(Mapping[str, Any], record["body"])
    short: dict[str, Any] = {}
    match kind:
        case "call":
            short = {name: _cut(value) for name, value in body.items()}
            arguments = read_text(body["arguments"])
            begin = arguments[:MAX_ARGUMENT_BYTES].decode("utf-8", "ignore")
            short["arguments"] = json.dumps({"shortened": begin, "bytes": len(arguments)})
        case "intent":
            files = cast(Sequence[Mapping[str, Any]], body["files"])
            short = {
                "decision": _shorten_decision(body["decision"]),
                "files": [{"path": _cut(each["path"])} for each in files[:MAX_LISTED_PATHS]],
                FILE_COUNT: len(files),
                "takes_back": body["takes_back"][:MAX_LISTED_PATHS],
            }
        case "outcome":
            reply, code = body.get("reply"), body["code"]
            short = {
                "status": _cut(body["status"]),
                "code": None if code is None else _cut(code),
                "time_us": body["time_us"],
                "decision": _shorten_decision(body["decision"] or {}),
                "reply": reply[:MAX_TEXT_BYTES] if isinstance(reply, str) else None,
            }
        case _:
            pass
    return json.dumps({"kind": kind, "seq": record["seq"], "at": record["at"], "body": short}).encode()


def _shorten_decision(decision: Mapping[str, Any]) -> dict[str, str]:
    return {name: _cut(decision[name]) for name in ("verdict", "rule", "by") if name in decision}


def _cut(text: object) -> str:
    return read_text(text)[:MAX_TEXT_BYTES].decode("utf-8", "ignore")
