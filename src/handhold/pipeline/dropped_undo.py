"""Reports in a reply which earlier calls can no longer be undone, for lack of room."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from handhold.core.history import format_call_id
from handhold.core.ports.journal import JournalEntry
from handhold.core.text.display_text import format_id, to_single_line

MAX_NAMED_CALLS = 5  # in the text
MAX_LISTED_CALLS = 50  # in the facts; there may be thousands
MAX_NAMED_PATHS = 3  # of a call


def describe(
    calls: Sequence[JournalEntry], session: str, visible_paths: Callable[[Sequence[str]], list[str]]
) -> list[Any]:
    """The facts of the first calls; for another session's, only number and tool."""
    return [
        {"seq": each.seq, "tool": each.call.tool}
        | (
            {
                "call": format_call_id(each),
                "paths": visible_paths(each.paths)[:MAX_NAMED_PATHS],
                "changed": each.changed,
            }
            if each.call.session == session
            else {}
        )
        for each in calls[:MAX_LISTED_CALLS]
    ]


def explain(listed: Sequence[Mapping[str, Any]], count: int) -> str:
    named = [_format_call(each) for each in listed[:MAX_NAMED_CALLS]]
    more = f" and {count - MAX_NAMED_CALLS} more" if count > MAX_NAMED_CALLS else ""
    calls = "1 earlier call" if count == 1 else f"{count} earlier calls"
    return (
        f"[The space for undo is full. The next changes will drop the undo data of {calls}: {'; '.join(named)}{more}."
        " Until then each can still be undone. A larger undo_bytes in the settings keeps more.]"
    )


def _format_call(call: Mapping[str, Any]) -> str:
    if "call" not in call:
        return f"#{call['seq']} ({to_single_line(call['tool'])}, of another session)"
    paths = ", ".join(call["paths"])
    more = f" and {call['changed'] - len(call['paths'])} more" if call["changed"] > len(call["paths"]) else ""
    return f"{format_id(call['call'])} ({to_single_line(call['tool'])}: {paths}{more})"
