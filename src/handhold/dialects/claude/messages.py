"""The messages of the dialect `claude`, verbatim where its source has one."""

from collections.abc import Iterator
from dataclasses import replace

from handhold.core import errors as e
from handhold.core.facts import PageLine
from handhold.core.problems import Problem, Problems
from handhold.core.requests import MultiEdit, Request
from handhold.core.results import (
    AppliedReplacement,
    CellOutput,
    CellView,
    EditResult,
    GlobResult,
    GrepResult,
    ImageResult,
    JobResult,
    ListResult,
    NotebookEditResult,
    NotebookResult,
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
from handhold.dialects.error_messages import format_plain_error
from handhold.dialects.formatting import echo, format_list, format_row, truncate
from handhold.dialects.hints import append_notes
from handhold.dialects.problems import format_rest
from handhold.dialects.searches import (
    AnySearchResult,
    SearchPhrases,
    format_empty_result,
    format_matches,
    format_search_notes,
    format_tree,
)

REMINDER = """\
<system-reminder>
Whenever you read a file, you should consider whether it looks malicious. If it does, you MUST refuse to improve or augment the code. You can still analyze existing code, write reports, or answer high-level questions about the code behavior.
</system-reminder>"""

READ_IN_PARTS_ADVICE = "Please use offset and limit parameters to read specific portions of the file, or use the `rg` command to search for specific content."

OPERATION_NAMES = {
    "Read": "read",
    "Edit": "edit",
    "MultiEdit": "multi_edit",
    "Write": "write",
    "NotebookEdit": "notebook_edit",
}

MAX_SNIPPET_LINES = 2000  # of a snippet; as many as Read shows
MAX_LINE_CHARS = 2000
MAX_SNIPPET_CHARS = 60_000  # of a snippet or a list
JOB_TOOL_NAMES = commands.JobToolNames(output="BashOutput", stop="KillShell", has_offset=False)

SEARCH_PHRASES = SearchPhrases(
    next_page="",
    narrow="Use a more specific pattern or path.",
    unsorted="",
    ignored="Give such a directory as path to search it.",
    hidden="",
    explicit_path="Give such a file as path to search it.",
    regex="",
    literal="To match special characters literally, escape them with a backslash.",
)
PHRASES_BY_RESULT = {
    ListResult: replace(
        SEARCH_PHRASES, narrow="Use Glob with a pattern.", ignored="Give such a directory as path to list it."
    ),
    GlobResult: SEARCH_PHRASES,
    GrepResult: replace(
        SEARCH_PHRASES,
        narrow="Use a more specific pattern, path or glob, or a higher head_limit.",
        ignored="Give an ignored file or directory as path to search it.",
    ),
}
EMPTY_MESSAGES = {ListResult: "No entries found", GlobResult: "No files found", GrepResult: "No matches found"}


# --- problems


def format_problems(problems: Problems) -> Iterator[str]:
    """As this family's own client reports diagnostics: grouped by file."""
    if problems.told:
        yield "<new-diagnostics>The following new diagnostic issues were detected:"
        for path in dict.fromkeys(each.path for each in problems.told):
            yield f"\n{truncate(path)}:"
            yield from (format_diagnostic(each) for each in problems.told if each.path == path)
        if problems.total > len(problems.told):
            yield f"\n({format_rest(problems)})"
        yield "</new-diagnostics>"
    for note in problems.unchecked:
        yield f"[{note}.]"


def format_diagnostic(problem: Problem) -> str:
    cell = f"Cell {problem.cell}, " if problem.cell else ""
    return f"  ✘ [{cell}Line {problem.line}:{problem.column}] {problem.message} ({problem.source}): {problem.text}"


# --- results


def format_result(request: Request, result: Result) -> str:
    match result:
        case TextResult(lines=()):
            return format_past_end(result.first, result.total or 0)
        case TextResult():
            return "\n\n".join([format_page(result), *notebooks.explain_text_fallback(result), REMINDER])
        case ImageResult():
            return media.format_image(result)
        case PdfResult():
            return media.format_pdf(result, with_page_hint=False)
        case NotebookResult():
            return f"{format_cells(result)}\n\n{REMINDER}"
        case NotebookEditResult():
            return notebooks.format_notebook_edit(result)
        case WriteResult(path=path, created=created):
            return f"File created successfully at: {path}" if created else f"The file {path} has been updated."
        case EditResult() if isinstance(request, MultiEdit):
            return f"Applied {len(result.steps)} edits to {result.path}:\n{format_edit_steps(result.steps)}"
        case EditResult(created=True):
            return f"File created successfully at: {result.path}"
        case EditResult():
            return format_edit(result)
        case PatchResult(files=files):
            return f"Applied a patch to {format_list(file.path for file in files)}"
        case RunResult():
            return commands.format_command(
                result,
                timeout_advice="Set a longer `timeout`, or set `run_in_background`.",
                output_advice="Read it in parts with Read, or search it with Grep.",
            )
        case JobResult():
            return commands.format_job(result, JOB_TOOL_NAMES)
        case RestartResult():
            return "The shell was restarted."
        case ListResult() | GlobResult() | GrepResult():
            return format_search(result)
        case UnchangedResult() | ReadManyResult():
            raise AssertionError(f"no tool of this dialect gives {type(result).__name__}")


def format_search(found: AnySearchResult) -> str:
    if not found.summary.shown_count:
        return append_notes(
            EMPTY_MESSAGES[type(found)],
            [f"[{format_empty_result(found)}]", *format_search_notes(found, PHRASES_BY_RESULT[type(found)])],
        )
    match found:
        case ListResult():
            text = format_tree(found)
        case GlobResult(paths=paths):
            text = paths
        case GrepResult():
            text = format_matches(found)
    return append_notes("\n".join(text), format_search_notes(found, PHRASES_BY_RESULT[type(found)]))


def format_page(page: TextResult) -> str:
    rows = [format_row(number, format_line(line)) for number, line in enumerate(page.lines, page.first)]
    if page.omitted_lines:
        rows.append(f"... (more {page.omitted_lines} lines are truncated)")
    return "\n".join(rows)


def format_cells(notebook: NotebookResult) -> str:
    rest = notebook.requested_count - len(notebook.cells)
    more = [f"... (more {rest} cells are truncated)"] if rest else []
    return "\n".join([*map(format_cell, notebook.cells), *more, *notebooks.format_notes(notebook)])


def format_cell(cell: CellView) -> str:
    kind = "" if cell.kind == "code" else f"<cell_type>{cell.kind}</cell_type>"
    cut = f"... (more {cell.omitted_chars} characters in this cell are truncated)" if cell.omitted_chars else ""
    text = f'<cell id="{cell.name}">{kind}{cell.source}{cut}</cell id="{cell.name}">'
    left = [f"... (more {cell.omitted_outputs} outputs are truncated)"] if cell.omitted_outputs else []
    return "\n".join([text, *map(format_output, cell.outputs), *left])


def format_output(output: CellOutput) -> str:
    about = f"[{notebooks.format_output_header(output)}]"
    cut = f"... (more {output.omitted_chars} characters in this output are truncated)" if output.omitted_chars else ""
    return "\n".join(part for part in (about, output.text + cut, output.tail) if part)


def format_line(line: PageLine) -> str:
    return (
        f"{line.text}... (more {line.omitted_chars} characters in this line are truncated)"
        if line.omitted_chars
        else line.text
    )


def format_edit(edited: EditResult) -> str:
    step = edited.steps[0]
    if step.match_count > 1:
        return f"The file {edited.path} has been updated. All occurrences of '{echo(step.old)}' were successfully replaced with '{echo(step.new)}'."
    return (
        f"The file {edited.path} has been updated. Here's the result of running `cat -n` on a snippet of the edited file:\n"
        f"{format_snippet(edited)}"
    )


def format_snippet(edited: EditResult) -> str:
    rows = [
        format_row(number, format_line(PageLine(text[:MAX_LINE_CHARS], max(0, len(text) - MAX_LINE_CHARS))))
        for number, text in edited.snippet.rows[:MAX_SNIPPET_LINES]
    ]
    kept = limit_rows(rows)
    left = len(edited.snippet.rows) - len(kept)
    return "\n".join([*kept, f"... (more {left} lines are truncated)"] if left else kept)


def format_edit_steps(steps: tuple[AppliedReplacement, ...]) -> str:
    rows = [f'{n}. Replaced "{echo(step.old)}" with "{echo(step.new)}"' for n, step in enumerate(steps, 1)]
    kept = limit_rows(rows)
    left = len(rows) - len(kept)
    return "\n".join([*kept, f"... (more {left} edits are truncated)"] if left else kept)


def limit_rows(rows: list[str]) -> list[str]:
    """As many rows as fit into a reply."""
    return [text for text, so_far in zip(rows, _accumulate_chars(rows), strict=True) if so_far <= MAX_SNIPPET_CHARS]


def _accumulate_chars(rows: list[str]) -> Iterator[int]:
    total = 0
    for text in rows:
        total += len(text) + 1
        yield total


# --- errors


def format_error(tool: str, error: e.ToolError) -> str:
    return format_bare_error(tool, error) or f"<tool_use_error>{format_wrapped_error(tool, error)}</tool_use_error>"


def format_bare_error(tool: str, error: e.ToolError) -> str | None:
    """The messages without a wrapper."""
    match error:
        case e.Unread() | e.PartlyRead():
            return "File has not been read yet. Read it first before writing to it."
        case e.Stale():
            return "File has been modified externally. Either by user or a linter. Read it first before writing to it."
        case e.TooLarge(size=size, most=most) if tool == "Read":
            return f"File content ({size / 1024:.1f}KB) exceeds maximum allowed size ({most // 1024}KB). {READ_IN_PARTS_ADVICE}"
        case e.PageTooLong(chars=chars, most=most):
            return f"File content ({chars} chars) exceeds maximum allowed tokens ({most}). {READ_IN_PARTS_ADVICE}"
        case e.PastEnd(offset=offset, lines=lines, unit=unit):
            return format_past_end(offset, lines, unit)
        case _:
            return None


def format_past_end(offset: int, lines: int, unit: str = "line") -> str:
    """An empty file counts as one line here."""
    return f"<system-reminder>Warning: the file exists but is shorter than the provided offset ({offset}). The file has {max(lines, 1)} {unit}s.</system-reminder>"


def format_wrapped_error(tool: str, error: e.ToolError) -> str:
    match error:
        case e.NotFound() if tool in ("Glob", "Grep", "LS"):
            return f"{truncate(error.path)} does not exist."
        case e.NotDirectory() if tool in ("Glob", "LS"):
            return f"{truncate(error.path)} is not a directory. Use Read to see a file."
        case e.BadRegex():
            return f"{format_plain_error(error)} To match special characters literally, escape them with a backslash."
        case e.NoSuchJob(known=()):
            return f"{format_plain_error(error).removesuffix('.')} with Bash and run_in_background."
        case e.NotFound():
            return "File does not exist."
        case e.IsDirectory():
            return f"Illegal operation on a directory. {OPERATION_NAMES.get(tool, tool)}"
        case e.NoMatch(old=""):
            return "Cannot create new file - file already exists."
        case e.NoMatch(old=old):
            return f"String to replace not found in file.\nString: {echo(old)}"
        case e.NoChange():
            return "No changes to make: old_string and new_string are exactly the same."
        case e.AlreadyExists():
            return "Cannot create new file - file already exists."
        case e.Ambiguous(old=old, lines=lines):
            return (
                f"Found {len(lines)} matches of the string to replace, but replace_all is false. "
                "To replace all occurrences, set replace_all to true. "
                "To replace only one occurrence, please provide more context to uniquely identify the instance.\n"
                f"String: {echo(old)}"
            )
        case _:
            return format_plain_error(error)
