"""The messages of the dialect `gemini`: as the vendor documents its replies, and else in plain words."""

from collections.abc import Iterator
from dataclasses import replace

from handhold.core import errors as e
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
from handhold.dialects.quoting import clipped, several
from handhold.dialects.searches import Found, Manner, miss, notes, whole_or_cut

WAYS = notebooks.Ways("Go on with offset={skip}.", "; search_file_content finds lines in it", by_cells=False)
MANNER = Manner(
    rest="",
    narrow="Use a more specific pattern or dir_path.",
    unsorted="",
    ignored="respect_git_ignore=false includes what ignore files leave out.",
    hidden="",
    itself="A file that is given as dir_path is always searched.",
    regex="",
    literal="Special characters that are meant literally need a backslash.",
)
MANNERS = {
    Listed: MANNER,
    Globbed: MANNER,
    Grepped: replace(MANNER, ignored="Give a file, or a directory that is itself left out, as dir_path."),
}


def any_case(pattern: str) -> str:
    """A glob that takes no notice of case: every letter in both."""
    out, inside = "", False
    for char in pattern:
        inside = (char == "[" or inside) and char != "]"
        other = char.swapcase()
        out += f"[{char}{other}]" if not inside and len(other) == 1 and other != char else char
    return out


def said(result: Result) -> str:
    match result:
        case Shown(lines=()):
            return f"[{clipped(result.path)} is empty.]"
        case Shown():
            return "\n".join([*page(result), *notebooks.none(result)])
        case Pictured() | PdfShown() | NotebookShown():
            return media.shown(result, WAYS)
        case Written(path=path, created=True):
            return f"Successfully created and wrote to new file: {path}"
        case Written(path=path):
            return f"Successfully overwrote file: {path}"
        case Edited(path=path, created=True):
            return f"Created new file: {path} with provided content."
        case Edited(path=path, steps=steps):
            return f"Successfully modified file: {path} ({steps[0].places} replacements)."
        case Ran():
            return commands.ran(result)
        case Listed() | Globbed() | Grepped():
            return hinted("\n".join(found(result)), notes(result, MANNERS[type(result)]))
        case _:
            raise AssertionError(f"no tool of this dialect gives {type(result).__name__}")


def page(shown: Shown) -> Iterator[str]:
    """Bare lines: this family counts them itself, and is told which they are where they are not all."""
    if shown.more or shown.first > 1:
        last = shown.first + len(shown.lines) - 1
        of = f" of {shown.total} total lines" if shown.total is not None else ""
        yield f"[File content truncated: showing lines {shown.first}-{last}{of}.]"
    for line in shown.lines:
        yield f"{line.text}... ({line.cut} more characters)" if line.cut else line.text


def found(result: Found) -> Iterator[str]:
    if not result.search.shown:
        yield miss(result)
        return
    where = clipped(result.search.path)
    match result:
        case Listed(entries=entries):
            yield f"Directory listing for {where}:"
            yield from (f"[DIR] {name(path)}" if kind == "directory" else name(path) for path, kind in entries)
        case Globbed(paths=paths, pattern=pattern):
            yield f'Found {len(paths)} file(s) matching "{clipped(pattern)}" within {where}, sorted by modification time (newest first):'
            yield from paths
        case Grepped(pattern=pattern, files=files):
            among = f' (filter: "{clipped(result.glob)}")' if result.glob else ""
            yield f'Found {several(result.search.shown, "match").replace("matchs", "matches")} for pattern "{clipped(pattern)}" in path "{where}"{among}:'
            for path, hit in files:
                yield "---"
                yield f"File: {path}"
                yield from (f"L{each.number}: {whole_or_cut(each)}" for each in hit.rows)
            yield "---"


def name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def refused(error: e.ToolError, *, hints: bool) -> str:
    match error:
        case e.NoMatch(old=old) if old:
            return f"Failed to edit, 0 occurrences found for old_string in {clipped(error.path)}. Nothing was changed. Quote it exactly as it stands in the file."
        case e.Ambiguous(lines=lines):
            return f"Failed to edit, expected 1 occurrences but found {len(lines)} for old_string in {clipped(error.path)}. Nothing was changed. Quote more of the lines around it, or say expected_replacements."
        case e.UnexpectedCount(wanted=wanted, lines=lines):
            return f"Failed to edit, expected {wanted} occurrences but found {len(lines)} for old_string in {clipped(error.path)}. Nothing was changed."
        case e.BinaryFile():
            return f"Cannot display content of binary file: {clipped(error.path)}"
        case e.Stale(complete=True) if hints:
            return f"{clipped(error.path)} has changed since you last saw it, so nothing was written."
        case _:
            return plain(error)
