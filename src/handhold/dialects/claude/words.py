"""The messages of the dialect `claude`, verbatim where its source has one."""

from collections.abc import Iterator
from dataclasses import replace

from handhold.core import errors as e
from handhold.core.facts import Line
from handhold.core.requests import MultiEdit, Request
from handhold.core.results import (
    CellOutput,
    Edited,
    Globbed,
    Grepped,
    JobShown,
    Listed,
    NotebookEdited,
    NotebookShown,
    Patched,
    PdfShown,
    Pictured,
    Ran,
    Restarted,
    Result,
    Shown,
    ShownCell,
    ShownMany,
    Step,
    Unchanged,
    Written,
)
from handhold.dialects import commands, media, notebooks
from handhold.dialects.hints import hinted
from handhold.dialects.plain import plain
from handhold.dialects.quoting import clipped, echo, listed, row
from handhold.dialects.searches import Found, Manner, miss, notes, rows, tree

REMINDER = """\
<system-reminder>
Whenever you read a file, you should consider whether it looks malicious. If it does, you MUST refuse to improve or augment the code. You can still analyze existing code, write reports, or answer high-level questions about the code behavior.
</system-reminder>"""

INSTEAD = "Please use offset and limit parameters to read specific portions of the file, or use the `rg` command to search for specific content."

VERBS = {"Read": "read", "Edit": "edit", "MultiEdit": "multi_edit", "Write": "write", "NotebookEdit": "notebook_edit"}

MOST_ROWS = 2000  # of a snippet; as many as Read shows
LINE_CHARS = 2000
MOST_CHARS = 60_000  # of a snippet or a list
JOBS = commands.Names(output="BashOutput", stop="KillShell", offset=False)

MANNER = Manner(
    rest="",
    narrow="Use a more specific pattern or path.",
    unsorted="",
    ignored="Give a directory that is left out as path to look in it.",
    hidden="",
    itself="A file that is given as path is always searched.",
    regex="",
    literal="Special characters that are meant literally need a backslash.",
)
MANNERS = {
    Listed: replace(MANNER, narrow="Use Glob with a pattern."),
    Globbed: MANNER,
    Grepped: replace(
        MANNER,
        narrow="Use a more specific pattern, path or glob, or a higher head_limit.",
        ignored="Give a file, or a directory that is itself left out, as path to search it anyway.",
    ),
}
MISSES = {Listed: "No entries found", Globbed: "No files found", Grepped: "No matches found"}


# --- what was done


def said(request: Request, result: Result) -> str:
    match result:
        case Shown(lines=()):
            return past_end(result.first, result.total or 0)
        case Shown():
            return "\n\n".join([page(result), *notebooks.none(result), REMINDER])
        case Pictured():
            return media.pictured(result)
        case PdfShown():
            return media.pdf(result, by_pages=False)
        case NotebookShown():
            return f"{cells(result)}\n\n{REMINDER}"
        case NotebookEdited():
            return notebooks.edited(result)
        case Written(path=path, created=created):
            return f"File created successfully at: {path}" if created else f"The file {path} has been updated."
        case Edited() if isinstance(request, MultiEdit):
            return f"Applied {len(result.steps)} edits to {result.path}:\n{applied(result.steps)}"
        case Edited(created=True):
            return f"File created successfully at: {result.path}"
        case Edited():
            return updated(result)
        case Patched(files=files):
            return f"Applied a patch to {listed(file.path for file in files)}"
        case Ran():
            return commands.ran(result)
        case JobShown():
            return commands.job(result, JOBS)
        case Restarted():
            return "The shell was restarted."
        case Listed() | Globbed() | Grepped():
            return searched(result)
        case Unchanged() | ShownMany():
            raise AssertionError(f"no tool of this dialect gives {type(result).__name__}")


def searched(found: Found) -> str:
    if not found.search.shown:
        return hinted(MISSES[type(found)], [f"[{miss(found)}]", *notes(found, MANNERS[type(found)])])
    match found:
        case Listed():
            text = tree(found)
        case Globbed(paths=paths):
            text = paths
        case Grepped():
            text = rows(found)
    return hinted("\n".join(text), notes(found, MANNERS[type(found)]))


def page(shown: Shown) -> str:
    rows = [row(number, whole_or_cut(line)) for number, line in enumerate(shown.lines, shown.first)]
    if shown.rest:
        rows.append(f"... (more {shown.rest} lines are truncated)")
    return "\n".join(rows)


def cells(shown: NotebookShown) -> str:
    rest = shown.wanted - len(shown.cells)
    more = [f"... (more {rest} cells are truncated)"] if rest else []
    return "\n".join([*map(cell, shown.cells), *more, *notebooks.notes(shown)])


def cell(shown: ShownCell) -> str:
    kind = "" if shown.kind == "code" else f"<cell_type>{shown.kind}</cell_type>"
    cut = f"... (more {shown.cut} characters in this cell are truncated)" if shown.cut else ""
    text = f'<cell id="{shown.name}">{kind}{shown.source}{cut}</cell id="{shown.name}">'
    left = [f"... (more {shown.outputs_left} outputs are truncated)"] if shown.outputs_left else []
    return "\n".join([text, *map(output, shown.outputs), *left])


def output(put: CellOutput) -> str:
    about = f"[{notebooks.headed(put)}]"
    cut = f"... (more {put.cut} characters in this output are truncated)" if put.cut else ""
    return "\n".join(part for part in (about, put.text + cut, put.tail) if part)


def whole_or_cut(line: Line) -> str:
    return f"{line.text}... (more {line.cut} characters in this line are truncated)" if line.cut else line.text


def updated(edited: Edited) -> str:
    step = edited.steps[0]
    if step.places > 1:
        return f"The file {edited.path} has been updated. All occurrences of '{echo(step.old)}' were successfully replaced with '{echo(step.new)}'."
    return (
        f"The file {edited.path} has been updated. Here's the result of running `cat -n` on a snippet of the edited file:\n"
        f"{snippet(edited)}"
    )


def snippet(edited: Edited) -> str:
    rows = [
        row(number, whole_or_cut(Line(text[:LINE_CHARS], max(0, len(text) - LINE_CHARS))))
        for number, text in edited.snippet.rows[:MOST_ROWS]
    ]
    kept = fitting(rows)
    left = len(edited.snippet.rows) - len(kept)
    return "\n".join([*kept, f"... (more {left} lines are truncated)"] if left else kept)


def applied(steps: tuple[Step, ...]) -> str:
    rows = [f'{n}. Replaced "{echo(step.old)}" with "{echo(step.new)}"' for n, step in enumerate(steps, 1)]
    kept = fitting(rows)
    left = len(rows) - len(kept)
    return "\n".join([*kept, f"... (more {left} edits are truncated)"] if left else kept)


def fitting(rows: list[str]) -> list[str]:
    """As many rows as a reply may hold."""
    return [text for text, so_far in zip(rows, _sums(rows), strict=True) if so_far <= MOST_CHARS]


def _sums(rows: list[str]) -> Iterator[int]:
    total = 0
    for text in rows:
        total += len(text) + 1
        yield total


# --- what was refused


def refused(tool: str, error: e.ToolError) -> str:
    return bare(tool, error) or f"<tool_use_error>{wrapped(tool, error)}</tool_use_error>"


def bare(tool: str, error: e.ToolError) -> str | None:
    """The messages that stand without a wrapping."""
    match error:
        case e.Unread() | e.PartlyRead():
            return "File has not been read yet. Read it first before writing to it."
        case e.Stale():
            return "File has been modified externally. Either by user or a linter. Read it first before writing to it."
        case e.TooLarge(size=size, most=most) if tool == "Read":
            return f"File content ({size / 1024:.1f}KB) exceeds maximum allowed size ({most // 1024}KB). {INSTEAD}"
        case e.PageTooLong(chars=chars, most=most):
            return f"File content ({chars} chars) exceeds maximum allowed tokens ({most}). {INSTEAD}"
        case e.PastEnd(offset=offset, lines=lines, unit=unit):
            return past_end(offset, lines, unit)
        case _:
            return None


def past_end(offset: int, lines: int, unit: str = "line") -> str:
    """An empty file counts as one line here."""
    return f"<system-reminder>Warning: the file exists but is shorter than the provided offset ({offset}). The file has {max(lines, 1)} {unit}s.</system-reminder>"


def wrapped(tool: str, error: e.ToolError) -> str:
    match error:
        case e.NotFound() if tool in ("Glob", "Grep", "LS"):
            return f"{clipped(error.path)} does not exist."
        case e.NotDirectory() if tool in ("Glob", "LS"):
            return f"{clipped(error.path)} is not a directory. Use Read to see a file."
        case e.BadRegex():
            return f"{plain(error)} Special characters that are meant literally need a backslash."
        case e.NotFound():
            return "File does not exist."
        case e.IsDirectory():
            return f"Illegal operation on a directory. {VERBS.get(tool, tool)}"
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
            return plain(error)
