"""The messages of the dialect `anthropic`, in our own words: the vendor publishes arguments, and leaves replies open."""

from collections.abc import Iterator

from handhold.core import errors as e
from handhold.core.requests import Insert, Request
from handhold.core.results import (
    Edited,
    Listed,
    NotebookShown,
    PdfShown,
    Pictured,
    Ran,
    Restarted,
    Result,
    Shown,
    Written,
)
from handhold.dialects import commands, media, notebooks
from handhold.dialects.hints import hinted
from handhold.dialects.plain import plain
from handhold.dialects.quoting import clipped, row, several
from handhold.dialects.searches import Manner, miss, notes, tree

MOST_ROWS = 40  # of a snippet
WAYS = notebooks.Ways("Go on with view_range=[{next}, -1].", inside="", by_cells=False)
MANNER = Manner(
    rest="",
    narrow="View a folder in it, or list it with bash.",
    unsorted="",
    ignored="View a folder that is left out to see what is in it.",
    hidden="List it with bash to see what is hidden.",
    itself="",
    regex="",
    literal="",
)


def said(request: Request, result: Result) -> str:
    match result:
        case Shown(lines=()):
            return f"[{clipped(result.path)} is empty.]"
        case Shown():
            return "\n".join([*page(result), *notebooks.none(result)])
        case Pictured() | PdfShown() | NotebookShown():
            return media.shown(result, WAYS)
        case Listed():
            return hinted("\n".join(tree(result)) if result.search.shown else miss(result), notes(result, MANNER))
        case Written(created=created):
            return f"File created successfully at: {result.path}" if created else f"File overwritten: {result.path}"
        case Edited():
            what = "The text was inserted" if isinstance(request, Insert) else "The text was replaced"
            return "\n".join([f"{what} in {clipped(result.path)}. The lines around it are now:", *snippet(result)])
        case Ran():
            return commands.ran(result)
        case Restarted():
            return "The shell was restarted."
        case _:
            raise AssertionError(f"no tool of this dialect gives {type(result).__name__}")


def page(shown: Shown) -> Iterator[str]:
    for number, line in enumerate(shown.lines, shown.first):
        yield row(number, f"{line.text}... ({line.cut} more characters)" if line.cut else line.text, mark="\t")


def snippet(edited: Edited) -> Iterator[str]:
    rows = edited.snippet.rows
    yield from (row(number, clipped(text), mark="\t") for number, text in rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        yield f"[{several(len(rows) - MOST_ROWS, 'more line')} around the change not shown.]"


def refused(error: e.ToolError, *, hints: bool) -> str:
    match error:
        case e.NoMatch(old=old) if old:
            return f"old_str does not stand in {clipped(error.path)}, so nothing was replaced. Quote it as it stands in the file, without line numbers."
        case e.Ambiguous(lines=lines):
            return f"old_str stands in {clipped(error.path)} {len(lines)} times, so nothing was replaced. Quote more of the lines around the place you mean."
        case e.Stale(complete=True) if hints:
            return f"{clipped(error.path)} has changed since you last saw it, so nothing was written."
        case e.PastEnd(offset=offset, lines=lines):
            return f"{clipped(error.path)} has {several(lines, 'line')}; {offset} is past its end."
        case _:
            return plain(error)
