"""Read: a page of a text file, with line numbers; of a folder, what is in it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from handhold.core.errors import IsDirectory, NotPaged, PageTooLong, TooLarge
from handhold.core.facts import Beginning, Line, Page
from handhold.core.plans import Answer, Convert, Search
from handhold.core.policy.guard import GuardedView
from handhold.core.requests import Limits, ListFiles, Read
from handhold.core.results import Shown, Unchanged
from handhold.core.text.kinds import PROBE, medium_of
from handhold.core.tools import convert, searching

NUMBER = 6  # characters that the number of a line takes, at least
CUT = 64  # characters that say how much of a line is missing, at most
LISTED = 200  # entries of a folder


def plan(request: Read, files: GuardedView) -> Answer | Search | Convert:
    try:
        look = files.file(request.path)
    except IsDirectory:
        if files.traits.lists_folders:
            return listing(request, files)
        raise
    begun = files.begun(request.path, look, PROBE)
    if medium := medium_of(begun.head, request.path):
        return convert.plan(request, medium, files)
    if request.pages:
        raise NotPaged(request.path)
    if request.path.lower().endswith(".ipynb"):
        from handhold.core.tools import notebook

        return notebook.shown(request, begun, files)
    return text(request, begun, files)


def listing(request: Read, files: GuardedView) -> Search:
    """As list shows it by its path alone, so that its cursor goes on from here; in some families deeper."""
    entries = min(request.limit or LISTED, LISTED)
    whole = ListFiles(path=request.path, depth=files.traits.folder_depth, limit=entries, chars=request.limits.chars)
    return searching.plan(whole, files)


def text(request: Read, begun: Beginning, files: GuardedView) -> Answer:
    limits, size = request.limits, begun.identity.size
    asked_for_all = request.offset is None and request.limit is None
    if asked_for_all and limits.whole_bytes is not None and size > limits.whole_bytes:
        raise TooLarge(request.path, size, limits.whole_bytes)
    offset = request.offset or 1
    most = min(limits.lines, request.limit or limits.lines)
    width = limits.line_chars * (most if limits.split else 1)
    page = files.page(request.path, offset, most, width, begun.whole)
    if limits.split:
        parts = tuple(parted(page.lines, limits.line_chars, most, limits.chars))
        page = replace(page, lines=parts, more=page.more or len(parts) < len(page.lines))
    lines = within(page, limits, request.path)
    seen = page if lines == page.lines else replace(page, lines=lines, more=page.more or len(lines) < len(page.lines))
    if request.if_changed and files.was_shown(seen):
        return Answer(Unchanged(request.path, seen.first, seen.first + len(lines) - 1, seen.more, seen.total))
    changed, diff = files.changed_since(page)
    return Answer(
        Shown(
            path=request.path,
            first=page.first,
            lines=lines,
            rest=left_out(request, seen, files),
            more=seen.more,
            total=page.total,
            encoding=page.encoding,
            read_by=page.read_by,
            unlike=page.unlike,
            replaced=page.replaced,
            changed=diff,
            stale=changed,
            newline_at_end=not seen.more and ends_with_newline(page, lines),
            width=limits.line_chars if limits.split else 0,
            mtime_ns=page.identity.mtime_ns,
        ),
        (seen,),
    )


def ends_with_newline(page: Page, lines: Sequence[Line]) -> bool:
    if page.whole is None or not lines or lines[-1].cut:
        return False
    return page.whole.data[-4:].decode(page.encoding, "ignore").endswith(("\n", "\r"))


def parted(lines: Sequence[Line], width: int, most: int, chars: int) -> Iterator[Line]:
    """The lines that fit if a long one goes on in parts: of the first, what fits; of the others, whole ones only."""
    room = most
    for n, line in enumerate(lines):
        parts = max(1, -(-len(line.text) // width))
        if n and (parts > room or line.cut):
            return
        kept = line.text[: min(room, max(1, chars // (width + NUMBER + CUT))) * width]
        yield Line(kept, line.cut + len(line.text) - len(kept))
        room -= parts
        if room <= 0:
            return


def within(page: Page, limits: Limits, path: str) -> tuple[Line, ...]:
    """The lines that one page may hold, by characters."""
    if limits.refuse_long:
        chars = sum(len(line.text) for line in page.lines)
        if chars > limits.chars:
            raise PageTooLong(path, chars, limits.chars)
        return page.lines
    if limits.ends != "line":
        return tuple(begun(page, limits))
    return fitting(page.lines, page.first, limits.chars)


def begun(page: Page, limits: Limits) -> Iterator[Line]:
    """As many lines as there is room for, and of the next what is left, for a family that cuts a text anywhere."""
    room, bare = limits.chars, limits.ends == "byte"
    for number, line in enumerate(page.lines, page.first):
        beside = 0 if bare else max(NUMBER, len(str(number))) + 1
        size = beside + len(line.text.encode("utf-8", "surrogatepass") if bare else line.text)
        if size > room:
            kept = beginning(line.text, room) if bare else line.text[: max(0, room - beside)]
            yield Line(kept, line.cut + len(line.text) - len(kept))
            return
        yield line
        room -= size + 1


def beginning(text: str, size: int) -> str:
    """The whole characters in the first bytes of a text."""
    return text.encode("utf-8", "surrogatepass")[: max(0, size)].decode("utf-8", "ignore")


def fitting(lines: tuple[Line, ...], first: int, room: int) -> tuple[Line, ...]:
    """As many of these lines as there is room for, and always one: a page without any would never end."""
    for n, line in enumerate(lines):
        room -= cost(first + n, line)
        if room < 0 and n:
            return lines[:n]
    return lines


def cost(number: int, line: Line) -> int:
    """The characters that a line takes of a reply: its number, a mark, its text, its end."""
    return max(NUMBER, len(str(number))) + len(line.text) + 2 + (CUT if line.cut else 0)


def left_out(request: Read, page: Page, files: GuardedView) -> int | None:
    """How many lines of the requested range are not shown; None if the end was not looked for."""
    if not page.more:
        return 0
    if request.limit is not None and request.limit <= len(page.lines):
        return 0
    total = page.total
    if total is None and not request.limits.count_rest:
        return None
    total = files.count(request.path) if total is None else total
    end = total if request.limit is None else min(total, page.first + request.limit - 1)
    return end - (page.first + len(page.lines) - 1)
