"""What a reply says of earlier calls whose undo will be dropped, since there is no room for all."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from handhold.core.history import name_of
from handhold.core.ports import Entry
from handhold.core.text.visible import format_id, on_one_line

MOST_NAMED = 5  # calls in the text; the facts name all of them
MOST_PATHS = 3  # of a call


def describe(calls: Sequence[Entry], session: str, visible_paths: Callable[[Sequence[str]], list[str]]) -> list[Any]:
    """One fact for each call. Of another session's, only the number and the tool."""
    return [
        {"seq": each.seq, "tool": each.call.tool}
        | (
            {"call": name_of(each), "paths": visible_paths(each.paths)[:MOST_PATHS], "changed": each.changed}
            if each.call.session == session
            else {}
        )
        for each in calls
    ]


def explain(given_up: Sequence[Mapping[str, Any]]) -> str:
    named = [_name(each) for each in given_up[:MOST_NAMED]]
    more = f" and {len(given_up) - MOST_NAMED} more" if len(given_up) > MOST_NAMED else ""
    calls = "1 earlier call" if len(given_up) == 1 else f"{len(given_up)} earlier calls"
    return (
        f"[The space for undo is used up. The next changes will drop the undo of {calls}: {'; '.join(named)}{more}."
        " Until then each can still be undone. The setting undo_bytes makes more space.]"
    )


def _name(call: Mapping[str, Any]) -> str:
    if "call" not in call:
        return f"#{call['seq']} ({on_one_line(call['tool'])}, of another session)"
    paths = ", ".join(call["paths"])
    more = f" and {call['changed'] - len(call['paths'])} more" if call["changed"] > len(call["paths"]) else ""
    return f"{format_id(call['call'])} ({on_one_line(call['tool'])}: {paths}{more})"
