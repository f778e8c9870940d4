"""The messages of the dialect `handhold`. An edit echoes little: the model knows what it wrote."""

from collections.abc import Iterator
from dataclasses import replace

from handhold.core import errors as e
from handhold.core.requests import Read, Request
from handhold.core.results import (
    Edited,
    Globbed,
    Grepped,
    JobShown,
    Listed,
    NotebookEdited,
    NotebookShown,
    Patched,
    PatchedFile,
    PdfShown,
    Pictured,
    Ran,
    Restarted,
    Result,
    Shown,
    ShownMany,
    Unchanged,
    Written,
)
from handhold.dialects import commands, media, notebooks
from handhold.dialects.hints import hinted, notes_about, notes_on
from handhold.dialects.plain import plain
from handhold.dialects.quoting import clipped, row, several
from handhold.dialects.searches import Found, Manner, miss, notes, rows, tree

MOST_ROWS = 40  # of a snippet
MOST_FILES = 150  # of a patch
MOST_NAME, MOST_TOLD = 120, 400  # characters of what stands above and below the lines of one of several files
AS_ONE = "[Go on with read_file where a file was cut.]"
ENDING = len(AS_ONE) + 2
JOBS = commands.Names(output="bash_output", stop="bash_stop", offset=True)

MANNER = Manner(
    rest='Go on with cursor="{cursor}".',
    narrow="Narrow it with path or pattern.",
    unsorted='Or take sort="none", which can be paged through to the end.',
    ignored="ignored=true includes what ignore files leave out.",
    hidden="hidden=true includes what is hidden.",
    itself="A file whose own path is given is always searched.",
    regex="It was taken as it stands, and looks like a regular expression: set regex=true if it is one.",
    literal="It was taken as a regular expression, and looks like plain text: leave regex out if it is that.",
)
MANNERS = {
    Listed: replace(
        MANNER, narrow="List a folder in it, or with a smaller depth.", ignored="ignored=true includes heavy folders."
    ),
    Globbed: MANNER,
    Grepped: replace(MANNER, narrow="Narrow it with path, glob or pattern."),
}
READ_FOLDER = replace(
    MANNERS[Listed],
    rest='Go on with list_files and cursor="{cursor}".',
    ignored="list_files with ignored=true includes heavy folders.",
    hidden="list_files with hidden=true includes what is hidden.",
)

# --- what was done


def said(request: Request, result: Result) -> str:
    match result:
        case Listed() if isinstance(request, Read):
            return hinted("\n".join(found(result)), notes(result, READ_FOLDER))
        case Unchanged(first=first, last=last):
            of = f" of {result.total}" if result.total is not None else ""
            return f"[{clipped(result.path)} is unchanged since you read it (lines {first}-{last}{of}).]"
        case Pictured() | PdfShown() | NotebookShown():
            return media.shown(result, notebooks.HERE, by_pages=True)
        case NotebookEdited():
            return notebooks.edited(result)
        case ShownMany(files=files):
            cut = [AS_ONE] if any(isinstance(file, Shown) and file.more for file in files) else []
            return "\n\n".join([*map(told, files), *cut])
        case Shown(lines=()):
            return f"[{clipped(result.path)} is empty.]"
        case Shown():
            return "\n".join([*page(result), *notebooks.none(result)])
        case Written(created=created):
            done = "Created" if created else "Wrote"
            return f"{done} {clipped(result.path)}: {several(result.lines, 'line')}, {several(result.size, 'byte')}."
        case Edited(created=True):
            then = f" and made {several(len(result.steps) - 1, 'edit')} in it" if len(result.steps) > 1 else ""
            return f"Created {clipped(result.path)}{then}."
        case Edited():
            return "\n".join([f"Edited {clipped(result.path)}: {places(result)}.", *snippet(result)])
        case Patched(files=files):
            return "\n".join([f"Patched {several(len(files), 'file')}:", *patched(files)])
        case Ran():
            return commands.ran(result)
        case JobShown():
            return commands.job(result, JOBS)
        case Restarted():
            return "The shell was restarted."
        case Listed() | Globbed() | Grepped():
            return hinted("\n".join(found(result)), notes(result, MANNERS[type(result)]))


def told(file: Shown | e.PathError) -> str:
    """One of several files, under its name."""
    name = f"=== {clipped(file.path, MOST_NAME)}"
    if isinstance(file, e.PathError):
        message, about = refused("read_file", file, hints=True), notes_about(file)
        return f"{name}\n{clipped(' '.join([message, *about]), MOST_TOLD)}"
    # How a file changed, only a reply of its own has room for.
    about = clipped("\n".join(notes_on(replace(file, changed=""))), MOST_TOLD)
    return "\n".join([name, *(page(file) if file.lines else ["[It is empty.]"]), *([about] if about else [])])


def patched(files: tuple[PatchedFile, ...]) -> Iterator[str]:
    for file in files[:MOST_FILES]:
        moved = f"{clipped(file.source)} -> " if file.source else ""
        counts = [f"{sign}{count:,}" for sign, count in (("+", file.added), ("-", file.removed)) if count]
        change = f" ({' '.join(counts)})" if counts else ""
        yield f"{file.verb} {moved}{clipped(file.path)}{change}"
    if len(files) > MOST_FILES:
        yield f"[{several(len(files) - MOST_FILES, 'more file')} not listed.]"


def found(result: Found) -> Iterator[str]:
    if not result.search.shown:
        yield miss(result)
        return
    match result:
        case Listed():
            yield from tree(result)
        case Globbed(paths=paths):
            yield from paths
        case Grepped():
            yield from rows(result)


def page(shown: Shown) -> Iterator[str]:
    for number, line in enumerate(shown.lines, shown.first):
        yield row(number, f"{line.text}... ({line.cut} more characters)" if line.cut else line.text)


def places(edited: Edited) -> str:
    count = several(sum(step.places for step in edited.steps), "place")
    return count if len(edited.steps) == 1 else f"{several(len(edited.steps), 'edit')}, {count}"


def snippet(edited: Edited) -> Iterator[str]:
    rows = edited.snippet.rows
    before = rows[0][0] if rows else 0
    for number, text in rows[:MOST_ROWS]:
        if number > before + 1:
            yield "   ..."
        yield row(number, clipped(text))
        before = number
    if len(rows) > MOST_ROWS:
        yield f"[{several(len(rows) - MOST_ROWS, 'more line')} around the changes not shown.]"


# --- what was refused


def refused(tool: str, error: e.ToolError, *, hints: bool) -> str:
    match error:
        case e.AlreadyExists() if tool == "apply_patch":
            return f"{clipped(error.path)} already exists, so nothing was changed. Update it, delete it first in the same patch, or choose another path."
        case e.NotFound():
            return f"{clipped(error.path)} does not exist. Check the path."
        case e.NotDirectory() if tool in ("list_files", "glob"):
            return f"{clipped(error.path)} is not a folder. Give the folder that it is in, or read it with read_file."
        case e.BadRegex():
            return f"{plain(error)} If it is plain text, leave regex out."
        case e.PastEnd(lines=0):
            return f"[{clipped(error.path)} is empty.]"
        case e.PastEnd(lines=lines):
            return f"{clipped(error.path)} has {several(lines, error.unit)}; offset={error.offset} is past its end."
        case e.AlreadyExists():
            return f"{clipped(error.path)} already exists, and an empty old_string only makes new files. Read it and quote what should be replaced."
        case e.Stale(complete=True) if hints:
            return f"{clipped(error.path)} has changed since you last saw it, so nothing was written."
        case e.NoChange():
            return "old_string and new_string are the same, so there is nothing to change."
        case e.NoMatch(old=old) if old:
            return f"old_string is not in {clipped(error.path)}, so nothing was changed. Quote it as it stands in the file, without line numbers."
        case e.Ambiguous(lines=lines):
            return f"old_string is in {clipped(error.path)} {len(lines)} times, so nothing was changed. Quote more lines around the place you mean, or set replace_all to change all of them."
        case _:
            return plain(error)
