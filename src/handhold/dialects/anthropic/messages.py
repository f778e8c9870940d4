"""The messages of the dialect `anthropic`, in our own words: the vendor prescribes arguments, but not replies."""

from collections.abc import Iterator

from handhold.core import errors as e
from handhold.core.requests import Insert, Request
from handhold.core.results import (
    EditResult,
    ImageResult,
    ListResult,
    NotebookResult,
    PdfResult,
    RestartResult,
    Result,
    RunResult,
    TextResult,
    WriteResult,
)
from handhold.dialects import commands, media, notebooks
from handhold.dialects.error_messages import format_plain_error, format_too_large
from handhold.dialects.formatting import format_row, pluralize, truncate
from handhold.dialects.hints import append_notes
from handhold.dialects.searches import SearchPhrases, format_empty_result, format_search_notes, format_tree

MAX_SNIPPET_LINES = 40  # of a snippet
NOTEBOOK_PHRASES = notebooks.NotebookPhrases(
    "Continue with view_range=[{next}, -1].", search_in_cell="", can_edit_cells=False
)
SEARCH_PHRASES = SearchPhrases(
    next_page="",
    narrow="View a subfolder, or list the folder with bash.",
    unsorted="",
    ignored="View such a folder itself to see its content.",
    hidden="Use bash to list hidden files.",
    explicit_path="",
    regex="",
    literal="",
)


def format_result(request: Request, result: Result) -> str:
    match result:
        case TextResult(lines=()):
            return f"[{truncate(result.path)} is empty.]"
        case TextResult():
            return "\n".join([*format_page(result), *notebooks.explain_text_fallback(result)])
        case ImageResult() | PdfResult() | NotebookResult():
            return media.format_media(result, NOTEBOOK_PHRASES)
        case ListResult():
            return append_notes(
                "\n".join(format_tree(result)) if result.summary.shown_count else format_empty_result(result),
                format_search_notes(result, SEARCH_PHRASES),
            )
        case WriteResult(created=created):
            return f"File created successfully at: {result.path}" if created else f"File overwritten: {result.path}"
        case EditResult():
            what = "The text was inserted" if isinstance(request, Insert) else "The text was replaced"
            return "\n".join(
                [f"{what} in {truncate(result.path)}. The lines around it are now:", *format_snippet(result)]
            )
        case RunResult():
            return commands.format_command(result, output_advice="View it in parts with view_range.")
        case RestartResult():
            return "The shell was restarted."
        case _:
            raise AssertionError(f"no tool of this dialect gives {type(result).__name__}")


def format_page(page: TextResult) -> Iterator[str]:
    for number, line in enumerate(page.lines, page.first):
        yield format_row(
            number,
            f"{line.text}... ({line.omitted_chars} more characters)" if line.omitted_chars else line.text,
            separator="\t",
        )


def format_snippet(edited: EditResult) -> Iterator[str]:
    rows = edited.snippet.rows
    yield from (format_row(number, truncate(text), separator="\t") for number, text in rows[:MAX_SNIPPET_LINES])
    if len(rows) > MAX_SNIPPET_LINES:
        yield f"[{pluralize(len(rows) - MAX_SNIPPET_LINES, 'more line')} around the change are not shown.]"


def format_error(error: e.ToolError, *, hints: bool) -> str:
    match error:
        case e.NoMatch(old=old) if old:
            return f"old_str is not in {truncate(error.path)}, so nothing was replaced. Quote it exactly as in the file, without line numbers."
        case e.Ambiguous(lines=lines):
            return f"old_str is in {truncate(error.path)} {len(lines)} times, so nothing was replaced. Quote more lines around the one you mean."
        case e.NotFound():
            return f"{truncate(error.path)} does not exist. View its folder to find the path."
        case e.Unread():
            return f'{truncate(error.path)} has not been viewed yet. View it with command="view" before changing it.'
        case e.Stale(complete=True) if hints:
            return f"{truncate(error.path)} has changed since you last read it, so nothing was written."
        case e.TooLarge():
            return f"{format_too_large(error)} View it in parts with view_range, or change it with bash."
        case e.BinaryFile(size=size):
            return f"{truncate(error.path)} is a binary file ({size:,} bytes) and cannot be shown or edited as text. Inspect it with bash."
        case e.PastEnd(lines=0):
            return f"{truncate(error.path)} is empty. Leave out view_range; to insert text, use insert_line=0."
        case e.PastEnd(offset=offset, lines=lines):
            return f"{truncate(error.path)} has {pluralize(lines, error.unit)}; {error.unit} {offset} is past its end. Use a {error.unit} up to {lines}."
        case _:
            return format_plain_error(error)
