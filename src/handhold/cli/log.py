"""What was done, as a timeline: when, by which tool, on what, how it ended, what it changed, and why it was let."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Unpack

import click

from handhold.cli import journal_verification
from handhold.cli.diffstat import colour_counts, format_counts, parse_stats, sum_stats
from handhold.cli.options import EXIT_REFUSED, ToolboxOptions, add_toolbox_options, open_toolbox, print_json
from handhold.cli.progress import show_progress
from handhold.cli.state import open_store
from handhold.cli.terminal import (
    colour_text,
    get_columns,
    is_stdout_terminal,
    measure_width,
    pad,
    truncate,
    truncate_path,
)
from handhold.core.change_diff import shorten_path
from handhold.core.errors import ToolError
from handhold.core.history import format_call_id
from handhold.core.ports.journal import JournalEntry
from handhold.core.text.display_text import escape_invisible, to_single_line
from handhold.progress import track

if TYPE_CHECKING:
    from handhold.toolbox import Toolbox

TARGET_ARGUMENTS = ("command", "cmd", "file_path", "path", "filePath", "dir_path", "pattern", "query", "url")
MAX_NAME_COLUMNS, MAX_TOOL_COLUMNS, MIN_TARGET_COLUMNS, MIN_DECISION_COLUMNS = (
    14,
    16,
    16,
    24,
)  # columns: at most for the first two, at least for the others
ENDING_COLOURS = {"taken back": "yellow", "unfinished": "yellow", "interrupted": "yellow"}
DECISION_COLOURS = {"approved": "cyan", "refused": "red", "allowed": "dim"}


@click.command()
@click.option("--last", type=click.IntRange(1), default=20, show_default=True, help="How many calls.")
@click.option("--everyone", is_flag=True, help="The calls of all sessions on this workspace.")
@click.option("--verify", is_flag=True, help="Prove that the journal is as it was written, and print its head.")
@click.option("--head", "noted", default="", help="With --verify: whether this head, noted before, is in the chain.")
@add_toolbox_options
def log(last: int, everyone: bool, verify: bool, noted: str, as_json: bool, **options: Unpack[ToolboxOptions]) -> int:  # noqa: FBT001
    """Show what was done, oldest first: when, which call, on what, lines added and removed, and why it was let."""
    if noted and not re.fullmatch("[0-9a-fA-F]{64}", noted):
        raise click.BadParameter("a head has 64 letters and digits", param_hint="--head")
    if verify or noted:
        with open_store(options["root"], options["state"]) as store, show_progress():
            verification = store.verify(noted.lower())
        return 0 if journal_verification.print_verification(verification, noted, as_json=as_json) else EXIT_REFUSED
    with open_toolbox(options) as box, show_progress():
        entries = track(box.log(last=last, everyone=everyone), "calls looked at")
        rows = [build_row(entry, box, everyone=everyone) for entry in entries]
    if as_json:
        print_json([{**asdict(each.entry), "added": each.added, "removed": each.removed} for each in rows])
    elif is_stdout_terminal():
        for line in format_timeline(rows, get_columns(), datetime.now().date()):
            click.echo(line)
        if not rows:
            click.echo(
                "Nothing was done here yet." if everyone else "Nothing was done in this session; see --everyone."
            )
    else:
        for each in rows:
            click.echo(each.format_plain())
    return 0


@dataclass(frozen=True)
class LogRow:
    """A call, in words that fit on one line."""

    entry: JournalEntry
    at: datetime
    name: str
    tool: str
    target: str
    is_path: bool
    added: int | None  # None: nobody can tell any more
    removed: int | None
    ending: str
    decision: str

    @property
    def line_counts(self) -> str:
        return format_counts(self.added or 0, self.removed or 0)

    def format_plain(self) -> str:
        decision = f"({self.decision})" if self.decision else ""
        ending = self.ending or "success"
        begin = f"{self.at:%Y-%m-%d %H:%M:%S}  {self.name:12}  {self.tool:12}  {ending:14}  {self.line_counts:7}"
        return "  ".join([begin, *filter(None, (self.target, decision))]).rstrip()


def build_row(entry: JournalEntry, box: "Toolbox", *, everyone: bool) -> LogRow:
    added, removed = count_lines(entry, box)
    subject, is_path = find_target(entry, box.files.roots)
    name = f"{entry.call.session}/{format_call_id(entry)}" if everyone else format_call_id(entry)
    words = (
        to_single_line(each)
        for each in (name, entry.call.tool, subject, describe_ending(entry), describe_decision(entry))
    )
    name, tool, subject, end, why = words
    return LogRow(entry, datetime.fromtimestamp(entry.at), name, tool, subject, is_path, added, removed, end, why)


def count_lines(entry: JournalEntry, box: "Toolbox") -> tuple[int, int] | tuple[None, None]:
    """Added and removed."""
    if not entry.kept:
        return None, None
    try:
        return sum_stats(parse_stats(box.diff(entry))) if entry.changed else (0, 0)
    except ToolError:  # of a root, say, that is not open here
        return None, None


def describe_ending(entry: JournalEntry) -> str:
    """Nothing, where all went well."""
    if entry.outcome is None:
        return "unfinished"
    if entry.undone:
        return "taken back"
    if entry.changed and not entry.kept:
        return f"{entry.outcome.status} (no undo)"
    return entry.outcome.code or ("" if entry.outcome.status == "success" else entry.outcome.status)


def describe_decision(entry: JournalEntry) -> str:
    by, rule = f" by {entry.approver}" if entry.approver else "", f": {entry.rule}" if entry.rule else ""
    return f"{entry.decision}{by}{rule}"


def find_target(entry: JournalEntry, roots: Sequence[str]) -> tuple[str, bool]:
    """What it was about, and whether that is a path: the command, or what it changed, or what it asked for."""
    call_arguments = parse_arguments(entry)
    if entry.takes_back:
        calls = call_arguments.get("calls", [])
        return ", ".join(map(str, calls)), False
    if entry.paths and not {"command", "cmd"} & call_arguments.keys():
        leaves = [path for path in entry.paths if not any(other.startswith(f"{path}/") for other in entry.paths)]
        more = len(leaves) - 1 + entry.changed - len(entry.paths)
        return shorten_path(leaves[0], roots) + (f" and {more:,} more" if more > 0 else ""), True
    name = next((name for name in TARGET_ARGUMENTS if isinstance(call_arguments.get(name), str)), None)
    if name is None:
        return "", False
    is_path = name not in ("command", "cmd", "query", "url")
    return shorten_path(call_arguments[name], roots) if is_path else call_arguments[name], is_path


def parse_arguments(entry: JournalEntry) -> dict[str, Any]:
    try:
        found = json.loads(entry.call.arguments)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]


# --- at a terminal


def format_timeline(rows: Sequence[LogRow], room: int, today: date) -> Iterator[str]:
    """Under a heading for each day, in columns that fill the terminal and no more."""
    rows = [replace(each, ending="") if each.entry.decision == "refused" else each for each in rows]
    cells = [(each.name, each.tool, each.line_counts, each.ending, each.decision) for each in rows]
    widths = [max(map(measure_width, column)) for column in zip(*cells, strict=True)]
    if not widths:
        return
    name, tool, lines, end, why = map(min, widths, (MAX_NAME_COLUMNS, MAX_TOOL_COLUMNS, 99, 99, 99))
    used = 2 + 8 + 2 + name + 2 + tool + 2 + 2 + lines + (2 + end if end else 0)
    left = room - used - 2
    target_width = min(
        max(measure_width(each.target) for each in rows), max(MIN_TARGET_COLUMNS, left - min(why, MIN_DECISION_COLUMNS))
    )
    why = max(0, min(why, left - target_width))
    day: date | None = None
    for each in rows:
        if each.at.date() != day:
            yield from ([""] if day else [])
            day = each.at.date()
            yield colour_text(format_day(day, today), "bold")
        yield format_row(each, (name, tool, target_width, lines, end, why)).rstrip()


def format_row(row: LogRow, widths: tuple[int, ...]) -> str:
    name, tool, target_width, lines, end, why = widths
    target = truncate_path(row.target, target_width) if row.is_path else truncate(row.target, target_width)
    is_dimmed = row.ending in ENDING_COLOURS
    cells = [
        colour_text(f"{row.at:%H:%M:%S}", "dim"),
        colour_text(pad(truncate(row.name, name), name), "dim"),
        pad(truncate(row.tool, tool), tool),
        colour_text(pad(target, target_width), "dim" if is_dimmed else ""),
        " " * (lines - measure_width(row.line_counts))
        + (colour_text(row.line_counts, "dim") if is_dimmed else colour_counts(row.line_counts)),
    ]
    if end:
        cells.append(
            colour_text(row.ending, ENDING_COLOURS.get(row.ending, "red")) + " " * (end - measure_width(row.ending))
        )
    if why:
        cells.append(colour_text(truncate(row.decision, why), DECISION_COLOURS.get(row.entry.decision, "")))
    return "  " + "  ".join(cells)


def format_day(day: date, today: date) -> str:
    if day == today:
        return "Today"
    if day == today - timedelta(days=1):
        return "Yesterday"
    return escape_invisible(f"{day:%A}, {day.day} {day:%B}" + (f" {day.year}" if day.year != today.year else ""))
