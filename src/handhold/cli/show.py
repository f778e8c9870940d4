"""`handhold show`: all that is recorded of one call: what was asked, how it ended, and what it changed."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Unpack

import click

from handhold.cli import candidates
from handhold.cli.diff import colour_diff
from handhold.cli.diffstat import format_stats, parse_stats
from handhold.cli.log import read_diff
from handhold.cli.options import ToolboxOptions, add_history_options, open_toolbox, print_json
from handhold.cli.selection import find_entry
from handhold.cli.state import open_store
from handhold.cli.terminal import colour_text, is_stdout_terminal, print_lines
from handhold.core.entry_summary import describe_decision, describe_end, find_command, parse_arguments, read_exit
from handhold.core.ports.journal import JournalEntry
from handhold.core.text.display_text import escape_invisible, iter_visible_lines, to_single_line


@dataclass(frozen=True, kw_only=True)
class ShownCallJSON(JournalEntry):
    diff: str
    exit: str  # how a command ended that did not succeed, such as "exit 1"; only if its reply is kept


JSON_OUTPUT = {"": ShownCallJSON}


@click.command()
@click.argument("name", metavar="CALL", shell_complete=candidates.complete_call_id)
@add_history_options
def show(name: str, as_json: bool, **options: Unpack[ToolboxOptions]) -> int:  # noqa: FBT001
    """Show one call: what it was asked to do, how it ended, its reply if that is kept, and what it changed.

    CALL is a number as in the log, or an id.
    """
    with open_store(options["root"], options["state"]) as store:
        entry = find_entry(store, options, name)
    with open_toolbox({**options, "session": entry.call.session}, for_history=True) as box:
        diff = read_diff(entry, box) or ""
    if as_json:
        print_json(ShownCallJSON(**vars(entry), diff=diff, exit=read_exit(entry)))
    else:
        print_lines(format_call(entry, diff))
    return 0


def format_call(entry: JournalEntry, diff: str) -> Iterator[str]:
    call = entry.call
    ending = describe_end(entry) or "success"
    yield colour_text(f"Call {entry.seq}: {to_single_line(call.tool)}, {to_single_line(ending)}", "bold")
    rows = {
        "time": f"{datetime.fromtimestamp(entry.at):%Y-%m-%d %H:%M:%S}",
        "session": call.session,
        "turn": call.turn,
        "id": call.call_id,
        "decision": describe_decision(entry),
    }
    yield from (f"{label:9} {to_single_line(text)}" for label, text in rows.items() if text)
    arguments = parse_arguments(entry)
    yield ""
    text = find_command(arguments) or json.dumps(arguments, indent=2, ensure_ascii=False)
    yield from (f"    {line}" for line in iter_visible_lines(text))
    if reply := read_reply(entry):
        yield ""
        yield from iter_visible_lines(reply)
    if diff:
        yield ""
        yield from format_stats(parse_stats(diff))
        yield from colour_diff(diff) if is_stdout_terminal() else map(escape_invisible, diff.splitlines())


def read_reply(entry: JournalEntry) -> str:
    """The text that the caller got; empty if it is not kept."""
    try:
        text = json.loads(entry.outcome.reply or "{}").get("text", "") if entry.outcome else ""
    except (ValueError, AttributeError):
        return ""
    return text if isinstance(text, str) else ""
