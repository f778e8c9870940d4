"""What the engine knows beyond a source's message: what changed, the nearest place, the next offset.

One bounded block after a blank line, the same in every dialect.
"""

from collections.abc import Iterable, Iterator

from handhold.core.errors import (
    Ambiguous,
    HunkAmbiguous,
    HunkMismatch,
    NoMatch,
    NotFound,
    Overlapping,
    PartlyRead,
    Region,
    Stale,
    ToolError,
)
from handhold.core.results import Edited, NotebookShown, Patched, Result, Shown, Written
from handhold.core.text.encoding import REPLACEMENT
from handhold.core.text.lines import split
from handhold.dialects.quoting import clipped, listed, ranges, row

MOST_HINTED = 6000  # characters of one block
REGION_CHARS = 800  # of the lines nearest to a text that was not found
REGION_WIDTH = 160
DIFFERENCE_CHARS = 500
DIFFERENCE_WIDTH = 60
BECAUSE = {
    "mark": "by the mark at its start",
    "likelihood": "by likelihood",
    "settings": "as the settings say",
    ".editorconfig": "as .editorconfig says",
    "content": "by its bytes",
}
WHY = {
    "whitespace": "Whitespace: only blanks differ from these lines",
    "stale": "Stale or misquoted: most of it is there, but not all. The nearest lines are",
    "absent": "Absent as quoted. The nearest lines are",
}


def hinted(text: str, notes: Iterable[str]) -> str:
    """The message, and the notes on it."""
    block = "\n".join(notes)
    if len(block) > MOST_HINTED:
        block = f"{block[:MOST_HINTED]}\n[{len(block) - MOST_HINTED} more characters are not shown.]"
    return "\n\n".join(part for part in (text, block) if part)


# --- results


def notes_on(result: Result) -> Iterator[str]:
    match result:
        case Shown():
            yield from _on_page(result)
        case NotebookShown():
            yield from _on_change(result)
        case Edited():
            yield from _on_edit(result)
        case Patched():
            yield from _on_patch(result)
        case Written(created=True, encoding=encoding, read_by=read_by) if encoding != "utf-8":
            yield f"[The new file is stored as {encoding}, {BECAUSE[read_by]}.]"
        case Written(encoding=encoding) if encoding != "utf-8":
            yield f"[The file's encoding, {encoding}, was kept.]"
        case _:
            return


def _on_page(page: Shown) -> Iterator[str]:
    if page.more:
        yield f"[{_where(page)} Go on with offset={page.first + len(page.lines)}.]"
    if page.encoding != "utf-8":
        yield f"[The file is stored as {page.encoding}, {BECAUSE[page.read_by]}; edits keep that.]"
    if page.unlike:
        yield f"[It was declared to be {page.unlike}; its bytes say otherwise.]"
    if page.replaced:
        yield f"[Some bytes are no valid {page.encoding} and are shown as {REPLACEMENT}; edits elsewhere leave them as they are.]"
    yield from _on_change(page)


def _on_change(page: Shown | NotebookShown) -> Iterator[str]:
    if page.stale and not page.changed:
        yield "[The file has changed since you last saw it.]"
    elif page.stale:
        yield "[The file has changed since you last saw it:]"
        yield page.changed.rstrip("\n")


def _where(page: Shown) -> str:
    last = page.first + len(page.lines) - 1
    of = f" of {page.total}" if page.total is not None else ""
    left = f" {page.rest} more lines were asked for and left out." if page.rest else ""
    return f"These are lines {page.first}-{last}{of}.{left}"


def _on_edit(edited: Edited) -> Iterator[str]:
    if edited.created and edited.encoding != "utf-8":
        yield f"[The new file is stored as {edited.encoding}, {BECAUSE[edited.read_by]}.]"
    loose = [(n, step.matched_by) for n, step in enumerate(edited.steps, 1) if step.matched_by != "exact"]
    for n, rung in loose[:5]:
        which = f"Edit {n}" if len(edited.steps) > 1 else "The text"
        yield f"[{which} was not there exactly as quoted; it matched apart from {rung}.]"
    if len(loose) > 5:
        yield f"[So did {len(loose) - 5} more edits.]"


def _on_patch(patched: Patched) -> Iterator[str]:
    loose = [
        (f"Hunk {n} of {clipped(file.path)}", rung)
        for file in patched.files
        for n, rung in enumerate(file.matched_by, 1)
        if rung != "exact"
    ]
    for which, rung in loose[:5]:
        yield f"[{which} was not there exactly as quoted; it matched apart from {rung}.]"
    if len(loose) > 5:
        yield f"[So did {len(loose) - 5} more hunks.]"


# --- errors


def notes_about(error: ToolError) -> Iterator[str]:
    match error:
        case NotFound(near=near) if near:
            yield f"[There is {listed(near, most=5)}.]"
        case PartlyRead(seen=seen) if seen:
            yield f"[Lines read so far: {ranges(seen)}.]"
        case Stale():
            yield from _on_stale(error)
        case NoMatch(old=old) if old:
            yield from _on_no_match(error)
        case HunkMismatch(old=old, scope=scope, nearest=nearest) if old or scope:
            yield from _on_miss(scope or old, nearest)
        case HunkAmbiguous(matched_by=rung) if rung != "exact":
            yield f"[Ambiguous: the lines are the same apart from {rung}.]"
        case Ambiguous(lines=lines, matched_by=rung):
            loosely = "" if rung == "exact" else f", apart from {rung}"
            yield f"[Ambiguous: it starts on lines {listed(lines)}{loosely}.]"
        case Overlapping(lines=lines):
            yield f"[It starts on lines {listed(lines)}.]"
        case _:
            return


def _on_stale(stale: Stale) -> Iterator[str]:
    by = f" by the session {clipped(stale.writer)}" if stale.writer else ""
    if not stale.diff:
        yield f"[Stale: changed{by}; what it was before is no longer kept.]"
        return
    yield f"[Stale: changed{by} since you last saw it:]"
    yield stale.diff.rstrip("\n")
    if stale.complete:
        yield "[This is all that changed, and you have now seen it: fit your change to it and call again.]"
    else:
        yield "[More changed than is shown here.]"


def _on_no_match(miss: NoMatch) -> Iterator[str]:
    if miss.again:
        where = f" from line {miss.nearest.first}" if miss.nearest else ""
        yield f"[The same call failed before and will fail again: read the file anew{where} and quote what it says there.]"
    if miss.nearest is None:
        yield "[Absent: no line of it is in the file.]"
        return
    yield f"[{WHY[miss.kind]}:]"
    yield from _region(miss.nearest)
    differing = (
        f"[Line {each.number} has {_said(each.there)} where you quoted {_said(each.quoted)}.]" for each in miss.differs
    )
    yield from _while_there_is_room(differing, DIFFERENCE_CHARS)


def _said(text: str | None) -> str:
    return "nothing" if text is None else repr(clipped(text, DIFFERENCE_WIDTH))


def _region(region: Region) -> Iterator[str]:
    rows = (row(number, clipped(text, REGION_WIDTH)) for number, text in enumerate(region.lines, region.first))
    yield from _while_there_is_room(rows, REGION_CHARS)


def _while_there_is_room(rows: Iterable[str], room: int) -> Iterator[str]:
    for text in rows:
        room -= len(text) + 1
        if room < 0:
            return
        yield text


def _on_miss(old: str, nearest: Region | None) -> Iterator[str]:
    if nearest is None:
        yield "[Absent: no line of it is in the file.]"
        return
    if _squeezed(split(old)) in _squeezed(nearest.lines):
        yield "[Whitespace: only blanks differ from these lines:]"
    else:
        yield "[Absent as quoted. The nearest lines are:]"
    yield from _region(nearest)


def _squeezed(lines: Iterable[str]) -> str:
    return "".join("".join(lines).split())
