"""The messages of the dialect `gemini`: as the vendor documents its replies, otherwise in plain words."""

import re
from collections.abc import Iterator
from dataclasses import replace

from handhold.core import errors as e
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
from handhold.dialects.error_messages import format_plain_error, format_too_large
from handhold.dialects.formatting import pluralize, truncate
from handhold.dialects.hints import append_notes
from handhold.dialects.searches import (
    AnySearchResult,
    SearchPhrases,
    format_empty_result,
    format_match_row,
    format_search_notes,
)

NOTEBOOK_PHRASES = notebooks.NotebookPhrases(
    "Continue with offset={skip}, counted from 0.", "; use search_file_content to search it", can_edit_cells=False
)
SEARCH_PHRASES = SearchPhrases(
    next_page="",
    narrow="Use a more specific pattern or dir_path.",
    unsorted="",
    ignored="Set respect_git_ignore=false to include ignored files.",
    hidden="",
    explicit_path="Give such a file as dir_path to search it.",
    regex="",
    literal="To match special characters literally, escape them with a backslash.",
    counts_results=False,
)
PHRASES_BY_RESULT = {
    ListResult: SEARCH_PHRASES,
    GlobResult: SEARCH_PHRASES,
    GrepResult: replace(SEARCH_PHRASES, ignored="Give an ignored file or directory as dir_path to search it."),
}


def make_case_insensitive(pattern: str) -> str:
    """A glob that ignores case: it has every letter in both cases."""
    out, inside = "", False
    for char in pattern:
        inside = (char == "[" or inside) and char != "]"
        other = char.swapcase()
        out += f"[{char}{other}]" if not inside and len(other) == 1 and other != char else char
    return out


def restore_case(pattern: str) -> str:
    """The pattern that was made case-insensitive, as the model sent it."""
    return re.sub(r"\[(.)(.)\]", lambda found: found[1] if found[1].swapcase() == found[2] else found[0], pattern)


def format_result(result: Result) -> str:
    match result:
        case TextResult(lines=()):
            return f"[{truncate(result.path)} is empty.]"
        case TextResult():
            return "\n".join([*format_page(result), *notebooks.explain_text_fallback(result)])
        case ImageResult() | PdfResult() | NotebookResult():
            return media.format_media(result, NOTEBOOK_PHRASES)
        case WriteResult(path=path, created=True):
            return f"Successfully created and wrote to new file: {path}"
        case WriteResult(path=path):
            return f"Successfully overwrote file: {path}"
        case EditResult(path=path, created=True):
            return f"Created new file: {path} with provided content."
        case EditResult(path=path, steps=steps):
            return f"Successfully modified file: {path} ({steps[0].match_count} replacements)."
        case RunResult():
            return commands.format_command(
                result, output_advice="Read it in parts with read_file, or search it with search_file_content."
            )
        case ListResult() | GlobResult() | GrepResult():
            return append_notes(
                "\n".join(format_search(result)), format_search_notes(result, PHRASES_BY_RESULT[type(result)])
            )
        case _:
            raise AssertionError(f"no tool of this dialect gives {type(result).__name__}")


def format_page(page: TextResult) -> Iterator[str]:
    """Lines without numbers; a header says which lines they are where they are not all."""
    if page.has_more or page.first > 1:
        last = page.first + len(page.lines) - 1
        of = f" of {page.total} total lines" if page.total is not None else ""
        yield f"[File content truncated: showing lines {page.first}-{last}{of}.]"
    for line in page.lines:
        yield f"{line.text}... ({line.omitted_chars} more characters)" if line.omitted_chars else line.text


def format_search(result: AnySearchResult) -> Iterator[str]:
    if not result.summary.shown_count:
        yield format_empty_result(result)
        return
    where = truncate(result.summary.path)
    match result:
        case ListResult(entries=entries):
            yield f"Directory listing for {where}:"
            yield from (
                f"[DIR] {get_basename(path)}" if kind == "directory" else get_basename(path) for path, kind in entries
            )
        case GlobResult(paths=paths, pattern=pattern):
            yield f'Found {len(paths)} file(s) matching "{truncate(restore_case(pattern))}" within {where}, sorted by modification time (newest first):'
            yield from paths
        case GrepResult(pattern=pattern, files=files):
            among = f' (filter: "{truncate(result.glob)}")' if result.glob else ""
            yield f'Found {pluralize(result.summary.shown_count, "match").replace("matchs", "matches")} for pattern "{truncate(pattern)}" in path "{where}"{among}:'
            for path, hit in files:
                yield "---"
                yield f"File: {path}"
                yield from (f"L{each.number}: {format_match_row(each)}" for each in hit.rows)
            yield "---"


def get_basename(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def format_error(error: e.ToolError, *, hints: bool) -> str:
    match error:
        case e.NoMatch(old=old) if old:
            return f"Failed to edit, 0 occurrences found for old_string in {truncate(error.path)}. Nothing was changed. Quote it exactly as in the file, without line numbers."
        case e.Ambiguous(lines=lines):
            return f"Failed to edit, expected 1 occurrences but found {len(lines)} for old_string in {truncate(error.path)}. Nothing was changed. Quote more lines around the one you mean, or set expected_replacements."
        case e.UnexpectedCount(wanted=wanted, lines=lines):
            return f"Failed to edit, expected {wanted} occurrences but found {len(lines)} for old_string in {truncate(error.path)}. Nothing was changed. Set expected_replacements={len(lines)} to replace all of them, or quote more lines around those you mean."
        case e.NotFound():
            return f"{truncate(error.path)} does not exist. Find the path with glob or list_directory."
        case e.Unread():
            return f"{truncate(error.path)} has not been read yet. Read it with read_file before changing it."
        case e.PastEnd(offset=offset, lines=lines) if lines:
            return f"{truncate(error.path)} has {pluralize(lines, error.unit)}; offset={offset - 1} is past its end. Use an offset up to {lines - 1}, counted from 0."
        case e.TooLarge():
            return f"{format_too_large(error)} Read it in parts with read_file, or change it with run_shell_command."
        case e.BadRegex():
            return f"{format_plain_error(error)} To match special characters literally, escape them with a backslash."
        case e.BinaryFile():
            return f"Cannot display content of binary file: {truncate(error.path)}. Inspect it with run_shell_command."
        case e.Stale(complete=True) if hints:
            return f"{truncate(error.path)} has changed since you last read it, so nothing was written."
        case _:
            return format_plain_error(error)
