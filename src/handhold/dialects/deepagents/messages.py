"""The messages of the dialect `deepagents`, verbatim where its source has one. A refusal begins with `Error:`."""

from collections.abc import Iterator
from dataclasses import replace

from handhold.core import errors as e
from handhold.core.facts import PageLine, SearchHit
from handhold.core.results import (
    EditResult,
    GlobResult,
    GrepResult,
    ImageResult,
    ListResult,
    NotebookResult,
    PdfResult,
    Result,
    RunResult,
    TextResult,
    WriteResult,
)
from handhold.dialects import commands, media, notebooks
from handhold.dialects.error_messages import format_plain_error
from handhold.dialects.formatting import format_row, pluralize, truncate
from handhold.dialects.hints import append_notes
from handhold.dialects.searches import AnySearchResult, SearchPhrases, format_empty_result, format_search_notes

EMPTY_FILE_REMINDER = "System reminder: File exists but has empty contents"
LARGE_RESULT_TEMPLATE = """\
Tool result too large, the result of this tool call {tool_call_id}
was saved in the filesystem at: {file_path}

You can read the result using read_file with offset and limit parameters.

Here is a preview showing the head and tail of the result:
{content_sample}
"""

NOTEBOOK_PHRASES = notebooks.NotebookPhrases(continuation="Continue with offset={skip}.", can_edit_cells=False)
MAX_TIMEOUT_SECONDS = 3600.0  # for a command
SEARCH_PHRASES = SearchPhrases(
    next_page="",
    narrow="Try a more specific pattern or path.",
    unsorted="",
    ignored="Give such a directory as path to search it.",
    hidden="",
    explicit_path="Give such a file as path to search it.",
    regex="The pattern is searched literally, not as a regular expression.",
    literal="",
)
PHRASES_BY_RESULT = {
    ListResult: SEARCH_PHRASES,
    GlobResult: replace(
        SEARCH_PHRASES, timed_out="Error: glob timed out after {seconds:.1f}s. Try a more specific pattern."
    ),
    GrepResult: SEARCH_PHRASES,
}


# --- results


def format_result(result: Result) -> str:
    match result:
        case TextResult(lines=()):
            return EMPTY_FILE_REMINDER
        case TextResult():
            return append_notes("\n".join(format_page(result)), format_page_notes(result))
        case ImageResult() | PdfResult() | NotebookResult():
            return media.format_media(result, NOTEBOOK_PHRASES, with_page_hint=True)
        case WriteResult(path=path):
            return f"Updated file {truncate(path)}"
        case EditResult(path=path):
            return f"Edited {truncate(path)}"
        case RunResult():
            return format_command(result)
        case ListResult() | GlobResult() | GrepResult():
            return format_search(result)
        case _:
            raise AssertionError(f"no tool of this dialect gives {type(result).__name__}")


def format_page(page: TextResult) -> Iterator[str]:
    for number, line in enumerate(page.lines, page.first):
        yield from format_numbered_line(number, line, page.split_width)


def format_numbered_line(number: int, line: PageLine, width: int) -> Iterator[str]:
    """A line as `cat -n` shows it; a long line continues below as 5.1, 5.2."""
    yield format_row(number, line.text[:width], separator="\t")
    for n, start in enumerate(range(width, len(line.text), width), 1):
        yield f"{f'{number}.{n}':>6}\t{line.text[start : start + width]}"
    if line.omitted_chars:
        yield f"[{line.omitted_chars} more characters of line {number} are not shown. Use a tool such as jq to reformat the file.]"


def format_page_notes(page: TextResult) -> Iterator[str]:
    if page.has_more:
        yield f"[There is more. Continue with offset={page.first + len(page.lines) - 1}.]"
    yield from notebooks.explain_text_fallback(page)


def format_command(result: RunResult, call_id: str = "") -> str:
    output = result.output
    if output.handle:
        sample = f"{output.head}\n... [{pluralize(output.omitted_lines, 'line')} truncated] ...\n{output.tail}"
        first, saved = LARGE_RESULT_TEMPLATE.format(
            tool_call_id=call_id, file_path=output.handle, content_sample=sample
        ).split("\n", 1)
        text = f"{first.rstrip()}\n{saved}"  # without an id, no space is left at the end
    else:
        text = "\n".join(commands.format_output_text(output))
    return "\n".join([text, commands.format_status(result), *commands.format_warnings(result)]).lstrip("\n")


def format_search(found: AnySearchResult) -> str:
    search_notes = format_search_notes(found, PHRASES_BY_RESULT[type(found)])
    if not found.summary.shown_count:
        return append_notes(format_empty_result(found), search_notes)
    return append_notes("\n".join(format_search_rows(found)), search_notes)


def format_search_rows(found: AnySearchResult) -> Iterator[str]:
    match found:
        case ListResult(entries=entries):
            yield from (path + ("/" if kind == "directory" else "") for path, kind in entries)
        case GlobResult(paths=paths):
            yield from paths
        case GrepResult(mode="files_with_matches", files=files):
            yield from (path for path, _ in files)
        case GrepResult(mode="count", files=files):
            yield from (f"{path}: {hit.count}" for path, hit in files)
        case GrepResult(files=files):
            for path, hit in files:
                yield f"{path}:"
                yield from format_match_lines(hit)


def format_match_lines(hit: SearchHit) -> Iterator[str]:
    """Matching lines and the lines around them; gaps are marked."""
    before = None
    for each in hit.rows:
        if before is not None and each.number > before + 1:
            yield "  ..."
        yield f"  {each.number}{':' if each.is_match else '-'} {each.text}"
        before = each.number


# --- errors


def format_error(tool: str, error: e.ToolError) -> str:
    return f"Error: {format_error_reason(tool, error)}"


def format_error_reason(tool: str, error: e.ToolError) -> str:
    match error:
        case e.OutsideWorkspace(path=path):
            return f"Path escapes workspace: {truncate(path)}"
        case e.NoMatch(path=path) if tool == "edit_file":
            return f"Text not found in {truncate(path)}"
        case e.NotFound(path=path):
            return f"File '{truncate(path)}' not found"
        case e.PastEnd(path=path, offset=offset, lines=lines, unit=unit) if lines:
            return f"{truncate(path)} has {pluralize(lines, unit)}; offset={offset - 1} is past its end. Use an offset up to {lines - 1}, counted from 0."
        case e.BadArguments(tool="execute", argument="timeout", got=got) if is_over_max_timeout(got):
            return f"timeout {got}s exceeds maximum allowed ({MAX_TIMEOUT_SECONDS:.0f}s)."
        case e.Denied(of_command=True) | e.NotApproved(of_command=True):
            return f"Dangerous command blocked. {format_plain_error(error)}"
        case _:
            return format_plain_error(error)


def is_over_max_timeout(got: str) -> bool:
    """Whether the value is a number over the maximum."""
    try:
        return float(got) > MAX_TIMEOUT_SECONDS
    except ValueError:
        return False
