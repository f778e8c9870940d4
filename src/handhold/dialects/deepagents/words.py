"""The messages of the dialect `deepagents`, verbatim where its source has one. A refusal begins with `Error:`."""

from collections.abc import Iterator
from dataclasses import replace

from handhold.core import errors as e
from handhold.core.facts import Hit, Line
from handhold.core.results import (
    Edited,
    Globbed,
    Grepped,
    Listed,
    NotebookShown,
    PdfShown,
    Pictured,
    Ran,
    Result,
    Shown,
    Written,
)
from handhold.dialects import commands, media, notebooks
from handhold.dialects.hints import hinted
from handhold.dialects.plain import plain
from handhold.dialects.quoting import clipped, row, several
from handhold.dialects.searches import Found, Manner, miss, notes

NUMBER = "the number "  # as arguments tell one
EMPTY = "System reminder: File exists but has empty contents"
TOO_LARGE = """\
Tool result too large, the result of this tool call {tool_call_id}
was saved in the filesystem at: {file_path}

You can read the result using read_file with offset and limit parameters.

Here is a preview showing the head and tail of the result:
{content_sample}
"""

WAYS = notebooks.Ways(rest="Go on with offset={skip}.", by_cells=False)
LONGEST = 3600.0  # seconds that a command may take
MANNER = Manner(
    rest="",
    narrow="Try a more specific pattern or path.",
    unsorted="",
    ignored="Give a directory that is left out as path to look in it.",
    hidden="",
    itself="A file that is given as path is always searched.",
    regex="The pattern is taken literally, not as a regular expression.",
    literal="",
)
MANNERS = {
    Listed: MANNER,
    Globbed: replace(MANNER, late="Error: glob timed out after {seconds:.1f}s. Try a more specific pattern."),
    Grepped: MANNER,
}


# --- what was done


def said(result: Result) -> str:
    match result:
        case Shown(lines=()):
            return EMPTY
        case Shown():
            return hinted("\n".join(page(result)), rest(result))
        case Pictured() | PdfShown() | NotebookShown():
            return media.shown(result, WAYS, by_pages=True)
        case Written(path=path):
            return f"Updated file {clipped(path)}"
        case Edited(path=path):
            return f"Edited {clipped(path)}"
        case Ran():
            return ran(result)
        case Listed() | Globbed() | Grepped():
            return searched(result)
        case _:
            raise AssertionError(f"no tool of this dialect gives {type(result).__name__}")


def page(shown: Shown) -> Iterator[str]:
    for number, line in enumerate(shown.lines, shown.first):
        yield from numbered(number, line, shown.width)


def numbered(number: int, line: Line, width: int) -> Iterator[str]:
    """A line as `cat -n` shows it; what is over the width goes on below as 5.1, 5.2."""
    yield row(number, line.text[:width], mark="\t")
    for n, start in enumerate(range(width, len(line.text), width), 1):
        yield f"{f'{number}.{n}':>6}\t{line.text[start : start + width]}"
    if line.cut:
        yield f"[{line.cut} more characters of line {number} are not shown. Use a tool such as jq to reformat the file.]"


def rest(shown: Shown) -> Iterator[str]:
    if shown.more:
        yield f"[There is more: go on with offset={shown.first + len(shown.lines) - 1}.]"
    yield from notebooks.none(shown)


def ran(result: Ran, call_id: str = "") -> str:
    output = result.output
    if output.handle:
        sample = f"{output.head}\n... [{several(output.left_out, 'line')} truncated] ...\n{output.tail}"
        first, saved = TOO_LARGE.format(tool_call_id=call_id, file_path=output.handle, content_sample=sample).split(
            "\n", 1
        )
        text = f"{first.rstrip()}\n{saved}"  # without an id no blank is left behind
    else:
        text = "\n".join(commands.printed(output))
    return "\n".join([text, commands.status(result), *commands.warnings(result)]).lstrip("\n")


def searched(found: Found) -> str:
    told = notes(found, MANNERS[type(found)])
    if not found.search.shown:
        return hinted(miss(found), told)
    return hinted("\n".join(found_rows(found)), told)


def found_rows(found: Found) -> Iterator[str]:
    match found:
        case Listed(entries=entries):
            yield from (path + ("/" if kind == "directory" else "") for path, kind in entries)
        case Globbed(paths=paths):
            yield from paths
        case Grepped(mode="files_with_matches", files=files):
            yield from (path for path, _ in files)
        case Grepped(mode="count", files=files):
            yield from (f"{path}: {hit.count}" for path, hit in files)
        case Grepped(files=files):
            for path, hit in files:
                yield f"{path}:"
                yield from lines(hit)


def lines(hit: Hit) -> Iterator[str]:
    """Matching lines and those around them, with a mark where lines between are left out."""
    before = None
    for each in hit.rows:
        if before is not None and each.number > before + 1:
            yield "  ..."
        yield f"  {each.number}{':' if each.is_match else '-'} {each.text}"
        before = each.number


# --- what was refused


def refused(tool: str, error: e.ToolError) -> str:
    return f"Error: {because(tool, error)}"


def because(tool: str, error: e.ToolError) -> str:
    match error:
        case e.OutsideWorkspace(path=path):
            return f"Path escapes workspace: {clipped(path)}"
        case e.NoMatch(path=path) if tool == "edit_file":
            return f"Text not found in {clipped(path)}"
        case e.NotFound(path=path):
            return f"File '{clipped(path)}' not found"
        case e.BadArguments(tool="execute", argument="timeout", got=got) if too_long(got):
            return f"timeout {got.removeprefix(NUMBER)}s exceeds maximum allowed ({LONGEST:.0f}s)."
        case e.Denied(of_command=True) | e.NotApproved(of_command=True):
            return f"Dangerous command blocked. {plain(error)}"
        case _:
            return plain(error)


def too_long(got: str) -> bool:
    """Whether what was given for a time is a number, and over the longest."""
    number = got.removeprefix(NUMBER)
    return number != got and float(number) > LONGEST
