"""`handhold log`: the journal as a timeline of calls: what was run or edited, how it ended, and what it changed."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime, timedelta
from time import time
from typing import TYPE_CHECKING, Unpack

import click

from handhold.cli import journal_verification
from handhold.cli.diff import colour_diff
from handhold.cli.diffstat import (
    colour_counts,
    format_counts,
    format_stats,
    parse_stats,
    select_project_files,
    sum_stats,
)
from handhold.cli.options import (
    EXIT_REFUSED,
    LATEST_SESSION,
    ToolboxOptions,
    add_history_options,
    add_hub_reading_options,
    open_toolbox,
    print_json,
)
from handhold.cli.progress import show_progress
from handhold.cli.selection import find_session
from handhold.cli.state import open_store
from handhold.cli.terminal import (
    colour_text,
    get_columns,
    is_stdout_terminal,
    measure_width,
    pad,
    print_lines,
    truncate,
    truncate_path,
)
from handhold.core.entry_summary import (
    PREVIEW_ENDING,
    describe_decision,
    describe_end,
    find_command,
    find_target,
    is_preview,
    parse_arguments,
    read_exit,
)
from handhold.core.errors import StateDamaged, ToolError
from handhold.core.ports.journal import JournalEntry
from handhold.core.text.display_text import escape_invisible, to_single_line
from handhold.progress import track
from handhold.run_picture import draw_run

if TYPE_CHECKING:
    from handhold.toolbox import Toolbox

# At most for the first two columns, at least for the others.
MAX_NAME_COLUMNS, MAX_TOOL_COLUMNS, MIN_TARGET_COLUMNS, MIN_DECISION_COLUMNS = 20, 16, 16, 24
MAX_MARKS = 20_000  # calls in a picture
DEFAULT_SHOWN_CALLS = 20
INDENT = "  "  # of a call below the heading of its day
ENDING_COLOURS = {"undone": "yellow", PREVIEW_ENDING: "yellow", "unfinished": "yellow", "interrupted": "yellow"}
DECISION_COLOURS = {"approved": "cyan", "refused": "red", "allowed": "dim"}


@click.command()
@click.option(
    "--last", type=click.IntRange(1), help="Number of calls to show. Default: 20; with --atif and --jsonl, all."
)
@click.option("--everyone", is_flag=True, help="Show the calls of all sessions on this workspace.")
@click.option("--stat", "detail", flag_value="stat", help="Also show the number of changed lines in each file.")
@click.option("-p", "--patch", "detail", flag_value="patch", help="Also show each call's changes as a diff.")
@click.option(
    "--verify",
    is_flag=True,
    help="Verify that the journal was not altered, and print its head: the hash of its last record.",
)
@click.option(
    "--head", "noted", default="", help="With --verify: also check that the journal contains this earlier head."
)
@click.option("--svg", is_flag=True, help="Print a picture of the session's whole run, as SVG.")
@click.option("--atif", "form", flag_value="atif", help="Print a trajectory in the format ATIF, which Harbor reads.")
@click.option("--jsonl", "form", flag_value="jsonl", help="Print one JSON object per call.")
@click.option("--path", help="With --hub: only calls that changed this path, or something below it.")
@add_hub_reading_options
@add_history_options
def log(
    last: int | None,
    everyone: bool,  # noqa: FBT001
    detail: str | None,
    verify: bool,  # noqa: FBT001
    noted: str,
    svg: bool,  # noqa: FBT001
    form: str | None,
    path: str | None,
    hub: str | None,
    workspace: str | None,
    as_json: bool,  # noqa: FBT001
    **options: Unpack[ToolboxOptions],
) -> int:
    """Show the journal, oldest call first: time, number, tool, what was run or edited, changed lines, and how it ended.

    `handhold show`, `diff`, `undo` and `redo` take the numbers. Calls marked "preview only" changed nothing. Lines of
    git's internal files are not counted.
    """
    if noted and not re.fullmatch("[0-9a-fA-F]{64}", noted):
        raise click.BadParameter("a head has 64 hexadecimal digits", param_hint="--head")
    if hub:
        return print_hub_log(hub, workspace, options["session"], path, last, as_json=as_json)
    if path or workspace:
        raise click.UsageError("--path and --workspace need --hub.")
    if verify or noted:
        with open_store(options["root"], options["state"]) as store, show_progress():
            verification = store.verify(noted.lower())
        return 0 if journal_verification.print_verification(verification, noted, as_json=as_json) else EXIT_REFUSED
    if svg:
        with open_store(options["root"], options["state"]) as store:
            session = find_session(store, options)
            click.echo(
                draw_run(session, store.records.list_marks(session, limit=MAX_MARKS), now=time(), standalone=True)
            )
        return 0
    if form:
        return print_trajectory(options, form, last, everyone=everyone)
    last = last or DEFAULT_SHOWN_CALLS
    damaged: Mapping[int, str] = {}
    problem = ""
    with open_store(options["root"], options["state"]) as store:
        options["session"] = find_session(store, options)
    with open_toolbox(options, for_history=True) as box, show_progress():
        try:
            entries = box.log(last=last, everyone=everyone)
        except StateDamaged as error:
            problem = error.because
            with open_store(options["root"], options["state"]) as store:
                entries, damaged = store.salvage_entries(session=None if everyone else options["session"], last=last)
        rows = [build_row(entry, box, everyone=everyone) for entry in track(entries, "calls read")]
        status = box.store.hub_status()
    print_rows(rows, everyone=everyone, detail=detail or "", as_json=as_json)
    if status and (status.lag or status.diverged_at):
        click.echo(escape_invisible(status.describe()), err=True)
    for line in format_damage(damaged, rows, problem):
        click.echo(line, err=True)
    return EXIT_REFUSED if problem or any(each.is_damaged for each in rows) else 0


def print_trajectory(options: ToolboxOptions, form: str, last: int | None, *, everyone: bool) -> int:
    from handhold.cli import trajectory

    with open_toolbox(options, for_history=True) as box:
        entries = trajectory.load_replies(box.log(last=last, everyone=everyone), box.store)
        session = box.session
    if form == "atif":
        if not entries:
            raise click.ClickException("There are no calls, and a trajectory has at least one.")
        print_json(trajectory.build_atif(entries, session))
    else:
        for line in trajectory.iter_jsonl(entries):
            click.echo(line)
    return 0


def print_hub_log(
    url: str, workspace: str | None, session: str, path: str | None, last: int | None, *, as_json: bool
) -> int:
    """The calls that a hub has, of all workspaces or one."""
    from handhold.cli.hub_reading import connect, list_calls, list_diverged

    with connect(url) as client:
        chosen = None if session == LATEST_SESSION else session
        found = list_calls(client, workspace=workspace, session=chosen, path=path, last=last or DEFAULT_SHOWN_CALLS)
        diverged = list_diverged(client, workspace)
    if as_json:
        print_json([{"workspace": name, **asdict(entry)} for name, entry in found])
    else:
        rows = [make_row(entry, f"{name}/{entry.call.session}/#{entry.seq}", (), None, None) for name, entry in found]
        print_rows(rows, everyone=True, detail="", as_json=False)
    for line in diverged:
        click.echo(escape_invisible(line), err=True)
    return 0


def print_rows(rows: Sequence["LogRow"], *, everyone: bool, detail: str, as_json: bool) -> None:
    if as_json:
        print_json([each.to_json() for each in rows])
        return
    lines = (
        format_timeline(rows, get_columns(), datetime.now().date())
        if is_stdout_terminal()
        else (each.format_plain() for each in rows)
    )
    if not rows and is_stdout_terminal():
        click.echo("No calls yet." if everyone else "No calls in this session. Use --everyone to see all sessions.")
    print_lines(add_details(lines, rows, detail) if detail else lines)


def add_details(lines: Iterator[str], rows: Sequence["LogRow"], detail: str) -> Iterator[str]:
    """The lines of the log, each call's followed by the files that it changed, or by its diff."""
    left = iter(rows)
    for line in lines:
        yield line
        if line.startswith(INDENT) or not is_stdout_terminal():
            row = next(left)
            text = row.diff
            if text:
                yield from (
                    (f"{' ' * 10}{each}" for each in format_stats(parse_stats(text)))
                    if detail == "stat"
                    else colour_diff(text)
                )


def format_damage(damaged: Mapping[int, str], rows: Sequence["LogRow"], problem: str) -> Iterator[str]:
    """Which entries of the journal cannot be read."""
    unreadable = {**damaged, **{each.entry.seq: "its changes cannot be read" for each in rows if each.is_damaged}}
    yield from (f"Entry #{seq} is damaged: {escape_invisible(why)}." for seq, why in sorted(unreadable.items()))
    if problem and not unreadable:
        yield f"The journal is damaged: {escape_invisible(problem)}."
    if problem or unreadable:
        yield "Run `handhold log --verify` to find the first altered record."


@dataclass(frozen=True, kw_only=True)
class LogEntryJSON(JournalEntry):
    added: int | None
    removed: int | None
    preview: bool
    exit: str  # how a command ended that did not succeed, such as "exit 1"; only if its reply is kept


JSON_OUTPUT = {"": list[LogEntryJSON], "--verify": journal_verification.VerificationJSON}


@dataclass(frozen=True)
class LogRow:
    """A call, as the columns of one line."""

    entry: JournalEntry
    at: datetime
    name: str
    tool: str
    target: str
    is_path: bool
    added: int | None  # None: the contents are no longer kept
    removed: int | None
    ending: str
    decision: str
    is_damaged: bool = False
    diff: str = ""

    @property
    def line_counts(self) -> str:
        return format_counts(self.added or 0, self.removed or 0)

    def to_json(self) -> "LogEntryJSON":
        return LogEntryJSON(
            **vars(self.entry),
            added=self.added,
            removed=self.removed,
            preview=is_preview(self.entry),
            exit=read_exit(self.entry),
        )

    def format_plain(self) -> str:
        decision = f"({self.decision})" if self.decision else ""
        ending = self.ending or "success"
        begin = f"{self.at:%Y-%m-%d %H:%M:%S}  {self.name:>5}  {self.tool:12}  {ending:14}  {self.line_counts:7}"
        return "  ".join([begin, *filter(None, (self.target, decision))]).rstrip()


def build_row(entry: JournalEntry, box: "Toolbox", *, everyone: bool) -> LogRow:
    if entry.outcome and find_command(parse_arguments(entry)):  # the reply says how the command ended
        entry = box.store.records.find_entry(entry.seq) or entry
    is_damaged, diff = False, None
    try:
        diff = read_diff(entry, box)
    except StateDamaged:
        is_damaged = True
    added, removed = (None, None) if diff is None else sum_stats(select_project_files(parse_stats(diff)))
    name = f"{entry.call.session}/{entry.seq}" if everyone else str(entry.seq)
    row = make_row(entry, name, box.files.roots, added, removed, is_damaged=is_damaged)
    return replace(row, diff=diff or "")


def make_row(
    entry: JournalEntry,
    name: str,
    roots: Sequence[str],
    added: int | None,
    removed: int | None,
    *,
    is_damaged: bool = False,
) -> LogRow:
    target, is_path = find_target(entry, roots)
    ending = "damaged" if is_damaged else describe_end(entry)
    words = (name, entry.call.tool, target, ending, describe_decision(entry))
    name, tool, target, ending, decision = map(to_single_line, words)
    at = datetime.fromtimestamp(entry.at)
    return LogRow(entry, at, name, tool, target, is_path, added, removed, ending, decision, is_damaged)


def read_diff(entry: JournalEntry, box: "Toolbox") -> str | None:
    """What a call changed; None if the contents are no longer kept."""
    if not entry.kept:
        return None
    try:
        return box.diff(entry) if entry.changed else ""
    except StateDamaged:
        raise
    except ToolError:  # for example, its root is not open here
        return None


# --- at a terminal


def format_timeline(rows: Sequence[LogRow], room: int, today: date) -> Iterator[str]:
    """Aligned rows under a heading for each day, no wider than the terminal."""
    rows = [replace(each, ending="") if each.entry.decision == "refused" else each for each in rows]
    rows = [replace(each, decision="") if each.entry.decision == "allowed" else each for each in rows]
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
    is_dimmed = row.ending in ENDING_COLOURS or row.entry.undone
    cells = [
        colour_text(f"{row.at:%H:%M:%S}", "dim"),
        colour_text(" " * (name - measure_width(row.name)) + truncate(row.name, name), "bold"),
        pad(truncate(row.tool, tool), tool),
        colour_text(pad(target, target_width), "dim" if is_dimmed else ""),
        " " * (lines - measure_width(row.line_counts))
        + (colour_text(row.line_counts, "dim") if is_dimmed else colour_counts(row.line_counts)),
    ]
    if end:
        cells.append(
            colour_text(row.ending, "yellow" if is_dimmed else "red") + " " * (end - measure_width(row.ending))
        )
    if why:
        cells.append(colour_text(truncate(row.decision, why), DECISION_COLOURS.get(row.entry.decision, "")))
    return INDENT + "  ".join(cells)


def format_day(day: date, today: date) -> str:
    if day == today:
        return "Today"
    if day == today - timedelta(days=1):
        return "Yesterday"
    return escape_invisible(f"{day:%A}, {day.day} {day:%B}" + (f" {day.year}" if day.year != today.year else ""))
