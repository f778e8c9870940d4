"""ReadMany: several files in one reply, whose room they share.

Small files are shown whole. What they leave is shared by the larger ones in equal parts, so that none of them pushes
another out. A file that cannot be shown is told in its place and spoils nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from handhold.core.errors import IsDirectory, NeedsSeparateRead, PathError
from handhold.core.facts import Page
from handhold.core.plans import Answer, Search
from handhold.core.policy.guarded_view import GuardedView
from handhold.core.requests import Read, ReadMany
from handhold.core.results import ReadManyResult, TextResult
from handhold.core.tools import read, text_page

HEADING_CHARS = 600  # characters of a reply that a file takes beside its lines: its name, and how to go on or why not
MIN_LINE_CHARS = 100  # characters of a line, however many files there are

FileOutcome = tuple[TextResult, Page] | PathError


def plan(request: ReadMany, files: GuardedView) -> Answer:
    room = request.chars - HEADING_CHARS * len(request.reads)
    width = max(
        MIN_LINE_CHARS, room // len(request.reads) - text_page.LINE_NUMBER_CHARS - text_page.CUT_NOTE_CHARS - 2
    )  # so that a line fits into any part
    outcomes = [read_one(narrow_limits(each, room, width), files) for each in request.reads]
    parts = iter(allocate_chars([count_page_chars(*each) for each in outcomes if isinstance(each, tuple)], room))
    outcomes = [truncate_page(*each, next(parts)) if isinstance(each, tuple) else each for each in outcomes]
    shown = tuple(each[0] if isinstance(each, tuple) else each for each in outcomes)
    return Answer(ReadManyResult(shown), tuple(each[1] for each in outcomes if isinstance(each, tuple)))


def narrow_limits(request: Read, room: int, width: int) -> Read:
    limits = request.limits
    return replace(request, limits=replace(limits, chars=room, line_chars=min(limits.line_chars, width)))


def read_one(request: Read, files: GuardedView) -> FileOutcome:
    try:
        match read.plan(request, files):
            case Answer(TextResult() as shown, (page,)):
                return shown, page
            case Search():
                return IsDirectory(request.path)
            case _:
                return NeedsSeparateRead(request.path)
    except PathError as error:
        return error


def count_page_chars(shown: TextResult, page: Page) -> int:
    return sum(text_page.count_line_chars(number, line) for number, line in enumerate(shown.lines, page.first))


def allocate_chars(sizes: Sequence[int], room: int) -> Iterator[int]:
    """How much of the room each gets: all that it needs, or as much as every other that needs more."""
    left, parts = room, dict[int, int]()
    for rank, at in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        parts[at] = min(sizes[at], left // (len(sizes) - rank))
        left -= parts[at]
    return (parts[at] for at in range(len(sizes)))


def truncate_page(shown: TextResult, page: Page, room: int) -> tuple[TextResult, Page]:
    """The same page, ended where its room does."""
    lines = text_page.fit_lines(shown.lines, shown.first, room)
    gone = len(shown.lines) - len(lines)
    if not gone:
        return shown, page
    rest = shown.omitted_lines + gone if shown.omitted_lines is not None else None
    return replace(shown, lines=lines, omitted_lines=rest, has_more=True), replace(page, lines=lines, has_more=True)
