"""What was done, as a timeline: when, by which tool, on what, how it ended, what it changed, and why it was let."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Unpack

import click

from handhold.cli import proof
from handhold.cli.diffstat import in_colour, signs, stats, summed
from handhold.cli.progress import watched
from handhold.cli.screen import columns, fitted, fitted_path, looked_at, padded, painted, width
from handhold.cli.state import stored
from handhold.cli.where import REFUSED, Where, on_a_toolbox, opened, show
from handhold.core.errors import ToolError
from handhold.core.history import name_of, short
from handhold.core.ports import Entry
from handhold.core.text.visible import on_one_line, visible
from handhold.progress import counted

if TYPE_CHECKING:
    from handhold.toolbox import Toolbox

MEANT = ("command", "cmd", "file_path", "path", "filePath", "dir_path", "pattern", "query", "url")
NAME, TOOL, TARGET, DECIDED = 14, 16, 16, 24  # columns: at most for the first two, at least for the others
TICKS = {"taken back": "yellow", "unfinished": "yellow", "interrupted": "yellow"}
DECISIONS = {"approved": "cyan", "refused": "red", "allowed": "dim"}


@click.command()
@click.option("--last", type=click.IntRange(1), default=20, show_default=True, help="How many calls.")
@click.option("--everyone", is_flag=True, help="The calls of all sessions on this workspace.")
@click.option("--verify", is_flag=True, help="Prove that the journal is as it was written, and print its head.")
@click.option("--head", "noted", default="", help="With --verify: whether this head, noted before, is in the chain.")
@on_a_toolbox
def log(last: int, everyone: bool, verify: bool, noted: str, as_json: bool, **where: Unpack[Where]) -> int:  # noqa: FBT001
    """Show what was done, oldest first: when, which call, on what, lines added and removed, and why it was let."""
    if noted and not re.fullmatch("[0-9a-fA-F]{64}", noted):
        raise click.BadParameter("a head has 64 letters and digits", param_hint="--head")
    if verify or noted:
        with stored(where["root"], where["state"]) as store, watched():
            told = store.verify(noted.lower())
        return 0 if proof.show(told, noted, as_json=as_json) else REFUSED
    with opened(where) as box, watched():
        entries = counted(box.log(last=last, everyone=everyone), "calls looked at")
        rows = [row(entry, box, everyone=everyone) for entry in entries]
    if as_json:
        show([{**asdict(each.entry), "added": each.added, "removed": each.removed} for each in rows])
    elif looked_at():
        for line in timeline(rows, columns(), datetime.now().date()):
            click.echo(line)
        if not rows:
            click.echo(
                "Nothing was done here yet." if everyone else "Nothing was done in this session; see --everyone."
            )
    else:
        for each in rows:
            click.echo(each.in_full())
    return 0


@dataclass(frozen=True)
class Row:
    """A call, in words that fit on one line."""

    entry: Entry
    at: datetime
    name: str
    tool: str
    target: str
    is_path: bool
    added: int | None  # None: nobody can tell any more
    removed: int | None
    ending: str
    decided: str

    @property
    def lines(self) -> str:
        return signs(self.added or 0, self.removed or 0)

    def in_full(self) -> str:
        decided = f"({self.decided})" if self.decided else ""
        ending = self.ending or "success"
        begin = f"{self.at:%Y-%m-%d %H:%M:%S}  {self.name:12}  {self.tool:12}  {ending:14}  {self.lines:7}"
        return "  ".join([begin, *filter(None, (self.target, decided))]).rstrip()


def row(entry: Entry, box: "Toolbox", *, everyone: bool) -> Row:
    added, removed = lines_of(entry, box)
    said, is_path = target(entry, box.files.roots)
    name = f"{entry.call.session}/{name_of(entry)}" if everyone else name_of(entry)
    words = (on_one_line(each) for each in (name, entry.call.tool, said, ending(entry), decided(entry)))
    name, tool, said, end, why = words
    return Row(entry, datetime.fromtimestamp(entry.at), name, tool, said, is_path, added, removed, end, why)


def lines_of(entry: Entry, box: "Toolbox") -> tuple[int, int] | tuple[None, None]:
    """Added and removed."""
    if not entry.kept:
        return None, None
    try:
        return summed(stats(box.diff_of(entry))) if entry.changed else (0, 0)
    except ToolError:  # of a root, say, that is not open here
        return None, None


def ending(entry: Entry) -> str:
    """Nothing, where all went well."""
    if entry.outcome is None:
        return "unfinished"
    if entry.undone:
        return "taken back"
    if entry.changed and not entry.kept:
        return f"{entry.outcome.status} (no undo)"
    return entry.outcome.code or ("" if entry.outcome.status == "success" else entry.outcome.status)


def decided(entry: Entry) -> str:
    by, rule = f" by {entry.approver}" if entry.approver else "", f": {entry.rule}" if entry.rule else ""
    return f"{entry.decision}{by}{rule}"


def target(entry: Entry, roots: Sequence[str]) -> tuple[str, bool]:
    """What it was about, and whether that is a path: the command, or what it changed, or what it asked for."""
    asked = arguments(entry)
    if entry.takes_back:
        calls = asked.get("calls", [])
        return ", ".join(map(str, calls)), False
    if entry.paths and not {"command", "cmd"} & asked.keys():
        leaves = [path for path in entry.paths if not any(other.startswith(f"{path}/") for other in entry.paths)]
        more = len(leaves) - 1 + entry.changed - len(entry.paths)
        return short(leaves[0], roots) + (f" and {more:,} more" if more > 0 else ""), True
    name = next((name for name in MEANT if isinstance(asked.get(name), str)), None)
    if name is None:
        return "", False
    is_path = name not in ("command", "cmd", "query", "url")
    return short(asked[name], roots) if is_path else asked[name], is_path


def arguments(entry: Entry) -> dict[str, Any]:
    try:
        found = json.loads(entry.call.arguments)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]


# --- at a terminal


def timeline(rows: Sequence[Row], room: int, today: date) -> Iterator[str]:
    """Under a heading for each day, in columns that fill the terminal and no more."""
    rows = [replace(each, ending="") if each.entry.decision == "refused" else each for each in rows]
    cells = [(each.name, each.tool, each.lines, each.ending, each.decided) for each in rows]
    most = [max(map(width, column)) for column in zip(*cells, strict=True)]
    if not most:
        return
    name, tool, lines, end, why = map(min, most, (NAME, TOOL, 99, 99, 99))
    used = 2 + 8 + 2 + name + 2 + tool + 2 + 2 + lines + (2 + end if end else 0)
    left = room - used - 2
    wide = min(max(width(each.target) for each in rows), max(TARGET, left - min(why, DECIDED)))
    why = max(0, min(why, left - wide))
    day: date | None = None
    for each in rows:
        if each.at.date() != day:
            yield from ([""] if day else [])
            day = each.at.date()
            yield painted(day_name(day, today), "bold")
        yield drawn(each, (name, tool, wide, lines, end, why)).rstrip()


def drawn(row: Row, rooms: tuple[int, ...]) -> str:
    name, tool, wide, lines, end, why = rooms
    target = fitted_path(row.target, wide) if row.is_path else fitted(row.target, wide)
    gone = row.ending in TICKS
    cells = [
        painted(f"{row.at:%H:%M:%S}", "dim"),
        painted(padded(fitted(row.name, name), name), "dim"),
        padded(fitted(row.tool, tool), tool),
        painted(padded(target, wide), "dim" if gone else ""),
        " " * (lines - width(row.lines)) + (painted(row.lines, "dim") if gone else in_colour(row.lines)),
    ]
    if end:
        cells.append(painted(row.ending, TICKS.get(row.ending, "red")) + " " * (end - width(row.ending)))
    if why:
        cells.append(painted(fitted(row.decided, why), DECISIONS.get(row.entry.decision, "")))
    return "  " + "  ".join(cells)


def day_name(day: date, today: date) -> str:
    if day == today:
        return "Today"
    if day == today - timedelta(days=1):
        return "Yesterday"
    return visible(f"{day:%A}, {day.day} {day:%B}" + (f" {day.year}" if day.year != today.year else ""))
