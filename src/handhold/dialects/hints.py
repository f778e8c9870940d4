"""Notes beyond a source's message: what changed, the nearest lines, the next offset.

One bounded block after a blank line, the same in every dialect.
"""

from collections.abc import Iterable, Iterator

from handhold.core.errors import (
    Ambiguous,
    HunkAmbiguous,
    HunkMismatch,
    NoMatch,
    NotFound,
    OverlappingMatches,
    PartlyRead,
    Region,
    Stale,
    ToolError,
)
from handhold.core.results import EditResult, NotebookResult, PatchResult, Result, TextResult, WriteResult
from handhold.core.text.encoding import REPLACEMENT_CHAR
from handhold.core.text.lines import split_lines
from handhold.dialects.formatting import format_list, format_ranges, format_row, format_span, truncate

OFFSET_CONTINUATION = "Continue with offset={next}."
MAX_NOTES_CHARS = 6000  # characters of one block
MAX_REGION_CHARS = 800  # of the lines nearest to a text that was not found
MAX_REGION_LINE_CHARS = 160
MAX_DIFFERENCE_BLOCK_CHARS = 500
MAX_DIFFERENCE_QUOTE_CHARS = 60
ENCODING_REASONS = {
    "mark": "from its byte order mark",
    "likelihood": "guessed from its bytes",
    "settings": "from the settings",
    ".editorconfig": "from .editorconfig",
    "content": "detected from its bytes",
}
NO_MATCH_REASONS = {
    "whitespace": "Only whitespace differs from these lines",
    "stale": "Changed or misquoted: most of the quoted lines are in the file, but not all. The nearest lines are",
    "absent": "Not in the file as quoted. The nearest lines are",
}


def append_notes(text: str, notes: Iterable[str]) -> str:
    """The message, followed by the notes on it."""
    block = "\n".join(notes)
    if len(block) > MAX_NOTES_CHARS:
        block = f"{block[:MAX_NOTES_CHARS]}\n[{len(block) - MAX_NOTES_CHARS} more characters are not shown.]"
    return "\n\n".join(part for part in (text, block) if part)


# --- results


def format_result_notes(result: Result, continuation: str = OFFSET_CONTINUATION) -> Iterator[str]:
    """`continuation` says how to request the next lines: {next} is the first of them, {skip} the number of lines before."""
    match result:
        case TextResult():
            yield from _format_page_notes(result, continuation)
        case NotebookResult():
            yield from _format_change_notes(result)
        case EditResult():
            yield from _format_edit_notes(result)
        case PatchResult():
            yield from _format_patch_notes(result)
        case WriteResult(created=True, encoding=encoding, encoding_source=read_by) if encoding != "utf-8":
            yield f"[The encoding of the new file is {encoding} ({ENCODING_REASONS[read_by]}).]"
        case WriteResult(encoding=encoding) if encoding != "utf-8":
            yield f"[The file's encoding, {encoding}, was kept.]"
        case _:
            return


def _format_page_notes(page: TextResult, continuation: str) -> Iterator[str]:
    if page.has_more:
        following = page.first + len(page.lines)
        yield f"[{_format_line_range(page)} {continuation.format(next=following, skip=following - 1)}".rstrip() + "]"
    if page.encoding != "utf-8":
        yield f"[The encoding of the file is {page.encoding} ({ENCODING_REASONS[page.encoding_source]}). Edits keep it.]"
    if page.rejected_encoding:
        yield f"[It is declared as {page.rejected_encoding}, but its bytes do not fit that.]"
    if page.has_undecodable_bytes:
        yield f"[Some bytes are not valid {page.encoding} and are shown as {REPLACEMENT_CHAR}. Edits elsewhere keep them.]"
    yield from _format_change_notes(page)


def _format_change_notes(page: TextResult | NotebookResult) -> Iterator[str]:
    if page.is_stale and not page.diff_since_read:
        yield "[The file has changed since you last read it.]"
    elif page.is_stale:
        yield "[The file has changed since you last read it:]"
        yield page.diff_since_read.rstrip("\n")


def _format_line_range(page: TextResult) -> str:
    last = page.first + len(page.lines) - 1
    of = f" of {page.total}" if page.total is not None else ""
    left = f" {page.omitted_lines} more requested lines were left out." if page.omitted_lines else ""
    return f"{format_span('Line', page.first, last)}{of}.{left}"


def _format_edit_notes(edited: EditResult) -> Iterator[str]:
    if edited.created and edited.encoding != "utf-8":
        yield f"[The encoding of the new file is {edited.encoding} ({ENCODING_REASONS[edited.encoding_source]}).]"
    loose = [(n, step.matched_by) for n, step in enumerate(edited.steps, 1) if step.matched_by not in ("exact", "line")]
    for n, strategy in loose[:5]:
        which = f"Edit {n}" if len(edited.steps) > 1 else "The quoted text"
        yield f"[{which} matched except for {strategy}.]"
    if len(loose) > 5:
        yield f"[{len(loose) - 5} more edits did not match exactly.]"


def _format_patch_notes(patched: PatchResult) -> Iterator[str]:
    loose = [
        (f"Hunk {n} of {truncate(file.path)}", strategy)
        for file in patched.files
        for n, strategy in enumerate(file.matched_by, 1)
        if strategy != "exact"
    ]
    for which, strategy in loose[:5]:
        yield f"[{which} matched except for {strategy}.]"
    if len(loose) > 5:
        yield f"[{len(loose) - 5} more hunks did not match exactly.]"


# --- errors


def format_error_notes(error: ToolError, separator: str = "→") -> Iterator[str]:
    """`separator` is what the dialect shows between the number of a line and its text."""
    match error:
        case NotFound(near=near) if near:
            yield f"[Did you mean {'one of ' if len(near) > 1 else ''}{format_list(near, max_items=5)}?]"
        case PartlyRead(seen=seen) if seen:
            yield f"[Lines read so far: {format_ranges(seen)}.]"
        case Stale():
            yield from _format_stale_notes(error)
        case NoMatch(old=old) if old:
            yield from _format_no_match_notes(error, separator)
        case HunkMismatch(old=old, scope=scope, nearest=nearest) if old or scope:
            yield from _format_hunk_mismatch_notes(scope or old, nearest, separator)
        case HunkAmbiguous(matched_by=strategy) if strategy != "exact":
            yield f"[The places are the same except for {strategy}.]"
        case Ambiguous(lines=lines, matched_by=strategy):
            loosely = "" if strategy == "exact" else f", which match except for {strategy}"
            yield f"[Ambiguous: it starts on lines {format_list(lines)}{loosely}.]"
        case OverlappingMatches(lines=lines):
            yield f"[It starts on lines {format_list(lines)}.]"
        case _:
            return


def _format_stale_notes(stale: Stale) -> Iterator[str]:
    by = f" by the session {truncate(stale.writer)}" if stale.writer else ""
    if not stale.diff:
        yield f"[It was changed{by}. The version that you read is no longer kept.]"
        return
    yield f"[Changed{by} since you last read it:]"
    yield stale.diff.rstrip("\n")
    if stale.complete:
        yield "[That is the whole change, and the file now counts as read. Adapt your change to it and call again.]"
    else:
        yield "[More has changed than is shown here. Read the file again.]"


def _format_no_match_notes(error: NoMatch, separator: str) -> Iterator[str]:
    if error.again:
        where = f" from line {error.nearest.first}" if error.nearest else ""
        yield f"[The same call failed just before and will fail again. Read the file again{where} and quote what is there.]"
    if error.elsewhere:
        path, line = error.elsewhere
        yield f"[The quoted lines are in {truncate(path)}, from line {line}.]"
    if error.nearest is None:
        yield "[Not in the file: none of the quoted lines is there.]"
        return
    yield f"[{NO_MATCH_REASONS[error.kind]}:]"
    yield from _format_region(error.nearest, separator)
    differing = (
        f"[Line {each.number} has {_quote_text(each.there)} where you quoted {_quote_text(each.quoted)}.]"
        for each in error.differs
    )
    yield from _limit_chars(differing, MAX_DIFFERENCE_BLOCK_CHARS)


def _quote_text(text: str | None) -> str:
    return "nothing" if text is None else repr(truncate(text, MAX_DIFFERENCE_QUOTE_CHARS))


def _format_region(region: Region, separator: str) -> Iterator[str]:
    rows = (
        format_row(number, truncate(text, MAX_REGION_LINE_CHARS), separator)
        for number, text in enumerate(region.lines, region.first)
    )
    yield from _limit_chars(rows, MAX_REGION_CHARS)


def _limit_chars(rows: Iterable[str], remaining: int) -> Iterator[str]:
    for text in rows:
        remaining -= len(text) + 1
        if remaining < 0:
            return
        yield text


def _format_hunk_mismatch_notes(old: str, nearest: Region | None, separator: str) -> Iterator[str]:
    if nearest is None:
        yield "[Not in the file: none of the quoted lines is there.]"
        return
    if _remove_whitespace(split_lines(old)) in _remove_whitespace(nearest.lines):
        yield "[Only whitespace differs from these lines:]"
    else:
        yield "[Not in the file as quoted. The nearest lines are:]"
    yield from _format_region(nearest, separator)


def _remove_whitespace(lines: Iterable[str]) -> str:
    return "".join("".join(lines).split())
