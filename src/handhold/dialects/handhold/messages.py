"""The messages of the dialect `handhold`. The reply to an edit is short: the model knows what it wrote."""

from collections.abc import Iterator
from dataclasses import replace

from handhold.core import errors as e
from handhold.core.problems import Problems
from handhold.core.requests import Read, Request
from handhold.core.results import (
    EditResult,
    GlobResult,
    GrepResult,
    ImageResult,
    JobResult,
    ListResult,
    NotebookEditResult,
    NotebookResult,
    PatchedFile,
    PatchResult,
    PdfResult,
    ReadManyResult,
    RestartResult,
    Result,
    RunResult,
    TextResult,
    UnchangedResult,
    WriteResult,
)
from handhold.dialects import commands, media, notebooks
from handhold.dialects.error_messages import format_plain_error, format_too_large
from handhold.dialects.formatting import format_row, format_span, pluralize, truncate
from handhold.dialects.hints import append_notes, format_error_notes, format_result_notes
from handhold.dialects.problems import describe_cause, format_problem, format_rest
from handhold.dialects.searches import (
    AnySearchResult,
    SearchPhrases,
    format_empty_result,
    format_matches,
    format_search_notes,
    format_tree,
)

MAX_SNIPPET_LINES = 40  # of a snippet
MAX_QUOTED_CHARS = 80  # of the text to replace that a refusal quotes
MAX_LISTED_FILES = 150  # of a patch
MAX_FILE_HEADER_CHARS, MAX_FILE_NOTES_CHARS = (
    120,
    400,
)  # characters above and below the lines of each file in read_files
CUT_FILES_NOTE = "[Continue with read_file where a file was truncated.]"
CUT_FILES_NOTE_CHARS = len(CUT_FILES_NOTE) + 2
JOB_TOOL_NAMES = commands.JobToolNames(output="bash_output", stop="bash_stop", has_offset=True)

SEARCH_PHRASES = SearchPhrases(
    next_page='Continue with cursor="{cursor}".',
    narrow="Narrow the search with path or pattern.",
    unsorted='Or set sort="none" to page through all results.',
    ignored="Set ignored=true to include ignored files.",
    hidden="Set hidden=true to include hidden files.",
    explicit_path="Give the path of such a file to search it.",
    regex="The pattern was searched literally, but looks like a regular expression. Set regex=true if it is one.",
    literal="The pattern was searched as a regular expression, but looks like plain text. Leave out regex if it is plain text.",
)
PHRASES_BY_RESULT = {
    ListResult: replace(
        SEARCH_PHRASES,
        narrow="List a subfolder, or use a smaller depth.",
        ignored="Set ignored=true to include heavy folders.",
    ),
    GlobResult: SEARCH_PHRASES,
    GrepResult: replace(SEARCH_PHRASES, narrow="Narrow the search with path, glob or pattern."),
}
READ_FOLDER_PHRASES = replace(
    PHRASES_BY_RESULT[ListResult],
    next_page='Continue with list_files and cursor="{cursor}".',
    ignored="Use list_files with ignored=true to include heavy folders.",
    hidden="Use list_files with hidden=true to include hidden files.",
)

# --- results


def format_result(request: Request, result: Result) -> str:
    match result:
        case ListResult() if isinstance(request, Read):
            return append_notes("\n".join(format_search(result)), format_search_notes(result, READ_FOLDER_PHRASES))
        case UnchangedResult(first=first, last=last):
            of = f" of {result.total}" if result.total is not None else ""
            return f"[{truncate(result.path)} is unchanged since you read it ({format_span('line', first, last)}{of}).]"
        case ImageResult() | PdfResult() | NotebookResult():
            return media.format_media(result, notebooks.DEFAULT_PHRASES, with_page_hint=True)
        case NotebookEditResult():
            return notebooks.format_notebook_edit(result)
        case ReadManyResult(files=files):
            cut = [CUT_FILES_NOTE] if any(isinstance(file, TextResult) and file.has_more for file in files) else []
            return "\n\n".join([*map(format_file, files), *cut])
        case TextResult(lines=()):
            return f"[{truncate(result.path)} is empty.]"
        case TextResult():
            return "\n".join([*format_page(result), *notebooks.explain_text_fallback(result)])
        case WriteResult(created=created):
            done = "Created" if created else "Wrote"
            return (
                f"{done} {truncate(result.path)}: {pluralize(result.lines, 'line')}, {pluralize(result.size, 'byte')}."
            )
        case EditResult(created=True):
            then = f" and made {pluralize(len(result.steps) - 1, 'edit')} in it" if len(result.steps) > 1 else ""
            return f"Created {truncate(result.path)}{then}."
        case EditResult():
            return "\n".join(
                [f"Edited {truncate(result.path)}: {format_edit_counts(result)}.", *format_snippet(result)]
            )
        case PatchResult(files=files):
            return "\n".join([f"Patched {pluralize(len(files), 'file')}:", *format_patched_files(files)])
        case RunResult():
            return commands.format_command(
                result,
                timeout_advice="Set a longer `timeout`, or set `background`.",
                output_advice="Read it in parts with read_file, or search it with grep.",
            )
        case JobResult():
            return commands.format_job(result, JOB_TOOL_NAMES)
        case RestartResult():
            return "The shell was restarted."
        case ListResult() | GlobResult() | GrepResult():
            return append_notes(
                "\n".join(format_search(result)), format_search_notes(result, PHRASES_BY_RESULT[type(result)])
            )


def format_file(file: TextResult | e.PathError) -> str:
    """One of several files, under its path."""
    name = f"=== {truncate(file.path, MAX_FILE_HEADER_CHARS)}"
    if isinstance(file, e.PathError):
        message, about = format_error("read_file", file, hints=True), format_error_notes(file)
        return f"{name}\n{truncate(' '.join([message, *about]), MAX_FILE_NOTES_CHARS)}"
    # There is no room for a diff here: a read of one file shows it.
    about = truncate("\n".join(format_result_notes(replace(file, diff_since_read=""))), MAX_FILE_NOTES_CHARS)
    return "\n".join(
        [name, *(format_page(file) if file.lines else ["[The file is empty.]"]), *([about] if about else [])]
    )


def format_patched_files(files: tuple[PatchedFile, ...]) -> Iterator[str]:
    for file in files[:MAX_LISTED_FILES]:
        moved = f"{truncate(file.source)} -> " if file.source else ""
        counts = [f"{sign}{count:,}" for sign, count in (("+", file.added), ("-", file.removed)) if count]
        change = f" ({' '.join(counts)})" if counts else ""
        yield f"{file.verb} {moved}{truncate(file.path)}{change}"
    if len(files) > MAX_LISTED_FILES:
        yield f"[{pluralize(len(files) - MAX_LISTED_FILES, 'more file')} not listed.]"


def format_search(result: AnySearchResult) -> Iterator[str]:
    if not result.summary.shown_count:
        yield format_empty_result(result)
        return
    match result:
        case ListResult():
            yield from format_tree(result)
        case GlobResult(paths=paths):
            yield from paths
        case GrepResult():
            yield from format_matches(result)


def format_page(page: TextResult) -> Iterator[str]:
    for number, line in enumerate(page.lines, page.first):
        yield format_row(
            number, f"{line.text}... ({line.omitted_chars} more characters)" if line.omitted_chars else line.text
        )


def format_edit_counts(edited: EditResult) -> str:
    count = pluralize(sum(step.match_count for step in edited.steps), "place")
    return count if len(edited.steps) == 1 else f"{pluralize(len(edited.steps), 'edit')}, {count}"


def format_snippet(edited: EditResult) -> Iterator[str]:
    rows = edited.snippet.rows
    before = rows[0][0] if rows else 0
    for number, text in rows[:MAX_SNIPPET_LINES]:
        if number > before + 1:
            yield "   ..."
        yield format_row(number, truncate(text))
        before = number
    if len(rows) > MAX_SNIPPET_LINES:
        yield f"[{pluralize(len(rows) - MAX_SNIPPET_LINES, 'more line')} around the changes are not shown.]"


def format_problems(problems: Problems) -> Iterator[str]:
    if problems.told:
        yield f"[{describe_cause(problems.told)}. Correct them with edit_file:]"
        yield from map(format_problem, problems.told)
        if problems.total > len(problems.told):
            yield f"[{format_rest(problems)}.]"
    yield from (f"[{note}.]" for note in problems.unchecked)


# --- errors


def name_old_string(tool: str, old: str) -> str:
    """Name the text to replace; quote its start where one call has several."""
    if tool != "multi_edit":
        return "old_string"
    first_line = old.strip().partition("\n")[0]
    return f'The old_string that starts with "{truncate(first_line, MAX_QUOTED_CHARS)}"'


def format_error(tool: str, error: e.ToolError, *, hints: bool) -> str:
    match error:
        case e.AlreadyExists() if tool == "apply_patch":
            return f"{truncate(error.path)} already exists, so nothing was changed. Use *** Update File, delete it first in the same patch, or choose another path."
        case e.NotFound():
            return f"{truncate(error.path)} does not exist. Find the path with glob or list_files."
        case e.Unread():
            return f"{truncate(error.path)} has not been read yet. Read it with read_file before changing it."
        case e.PartlyRead():
            return f"Only part of {truncate(error.path)} has been read (a truncated line counts as unread). Read the rest with read_file before overwriting it, or change the part you have read with edit_file."
        case e.NeedsSeparateRead():
            return f"{truncate(error.path)} is not plain text. Read it on its own with read_file."
        case e.IsDirectory():
            return f"{truncate(error.path)} is a folder. List it with list_files, or give the path of a file in it."
        case e.TooLarge():
            return f"{format_too_large(error)} Read it in parts with read_file, or change it with bash."
        case e.BinaryFile(size=size):
            return f"{truncate(error.path)} is a binary file ({size:,} bytes) and cannot be shown or edited as text. Inspect it with bash."
        case e.NoSuchJob(known=()):
            return f"{format_plain_error(error).removesuffix('.')} with bash and background=true."
        case e.NotNotebook():
            return f"{format_plain_error(error)} Change its text with edit_file instead."
        case e.NotDirectory() if tool in ("list_files", "glob"):
            return (
                f"{truncate(error.path)} is not a folder. Give the folder that contains it, or read it with read_file."
            )
        case e.BadRegex():
            return f"{format_plain_error(error)} If it is plain text, leave out regex."
        case e.PastEnd(lines=0):
            return f"[{truncate(error.path)} is empty.]"
        case e.PastEnd(lines=lines):
            return f"{truncate(error.path)} has {pluralize(lines, error.unit)}; offset={error.offset} is past its end. Use an offset up to {lines}."
        case e.AlreadyExists():
            return f"{truncate(error.path)} already exists, and an empty old_string only creates new files. Read it with read_file and quote the text to replace in old_string."
        case e.Stale(complete=True) if hints:
            return f"{truncate(error.path)} has changed since you last read it, so nothing was written."
        case e.NoChange():
            return "old_string and new_string are the same, so there is nothing to change."
        case e.NoMatch(old=old) if old:
            return f"{name_old_string(tool, old)} is not in {truncate(error.path)}, so nothing was changed. Quote it exactly as in the file, without line numbers."
        case e.Ambiguous(old=old, lines=lines):
            return f"{name_old_string(tool, old)} is in {truncate(error.path)} {len(lines)} times, so nothing was changed. Quote more lines around the one you mean, or set replace_all=true to change all of them."
        case _:
            return format_plain_error(error)
