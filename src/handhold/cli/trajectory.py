"""A journal as a trajectory: in the interchange format that Harbor reads (ATIF), or one plain JSON object per call."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, cast

from handhold.core.choices import FOREIGN
from handhold.core.ports.journal import Journal, JournalEntry
from handhold.version import VERSION

ATIF_VERSION = "ATIF-v1.6"  # what we use has been in it since; later versions add to it


def load_replies(entries: Sequence[JournalEntry], journal: Journal) -> list[JournalEntry]:
    """The same entries with the replies that are kept: those of calls with an id."""
    found = (journal.find_call(each.call.session, each.call.turn, each.call.call_id) for each in entries)
    pairs = zip(entries, found, strict=True)
    return [known if each.call.call_id and known and known.seq == each.seq else each for each, known in pairs]


def build_atif(entries: Sequence[JournalEntry], session: str) -> dict[str, Any]:
    """The calls of each turn are one step; calls without the name of a turn are steps of their own.

    The journal has no messages of the model and no token counts, so neither are there.
    """
    calls = [entry for entry in entries if entry.call.tool != FOREIGN]
    turns = [list(each) for _, each in groupby(calls, key=lambda entry: entry.call.turn or f"#{entry.seq}")]
    agent = {"name": "handhold", "version": VERSION, "extra": {"dialect": calls[-1].call.dialect if calls else ""}}
    return {
        "schema_version": ATIF_VERSION,
        "session_id": session,
        "agent": agent,
        "steps": [_build_step(number, turn) for number, turn in enumerate(turns, 1)],
        "final_metrics": {"total_steps": len(turns)},
    }


def _build_step(number: int, turn: Sequence[JournalEntry]) -> dict[str, Any]:
    return {
        "step_id": number,
        "timestamp": _format_time(turn[0]),
        "source": "agent",
        "message": "",
        "tool_calls": [
            {"tool_call_id": _name(entry), "function_name": entry.call.tool, "arguments": _parse_arguments(entry)}
            for entry in turn
        ],
        "observation": {"results": [{"source_call_id": _name(entry), "content": _get_text(entry)} for entry in turn]},
        "extra": {"turn": turn[0].call.turn, "calls": [_describe(entry) for entry in turn]},
    }


def iter_jsonl(entries: Sequence[JournalEntry]) -> Iterator[str]:
    for entry in entries:
        row = {
            "time": _format_time(entry),
            "session": entry.call.session,
            "turn": entry.call.turn,
            "call_id": entry.call.call_id,
            "tool": entry.call.tool,
            "arguments": _parse_arguments(entry),
            "text": _get_text(entry),
            **_describe(entry),
        }
        yield json.dumps(row)


def _describe(entry: JournalEntry) -> dict[str, Any]:
    outcome = entry.outcome
    return {
        "seq": entry.seq,
        "status": outcome.status if outcome else "unfinished",
        "code": outcome.code if outcome else None,
        "time_ms": outcome.time_ms if outcome else None,
        "decision": entry.decision or None,
        "rule": entry.rule or None,
        "changed": entry.changed,
        "undone": entry.undone,
    }


def _name(entry: JournalEntry) -> str:
    """Unique in the trajectory: a model may use an id again in another turn."""
    return f"{entry.call.call_id or 'call'}#{entry.seq}"


def _get_text(entry: JournalEntry) -> str | None:
    """The text of the reply; None if it was not kept, as for calls without an id."""
    kept = entry.outcome.reply if entry.outcome else None
    return json.loads(kept)["text"] if kept else None


def _parse_arguments(entry: JournalEntry) -> dict[str, Any]:
    value: Any = json.loads(entry.call.arguments)
    return cast(dict[str, Any], value) if isinstance(value, dict) else {"input": value}


def _format_time(entry: JournalEntry) -> str:
    return datetime.fromtimestamp(entry.at, UTC).isoformat()
