"""ReadMany: several files that share one reply.

Small files are shown whole. Larger ones share the rest equally, so that none crowds out another. A file that cannot be
shown gets its error in its place and does not affect the others.
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

HEADING_CHARS = 600  # what a file costs in addition to its lines: its name, and how to continue or the error
MIN_LINE_CHARS = 100  # of a line, however many files there are

FileOutcome = tuple[TextResult, Page] | PathError


def plan(request: ReadMany, files: GuardedView) -> Answer:
    room = request.chars - HEADING_CHARS * len(request.reads)
    width = max(
        MIN_LINE_CHARS, room // len(request.reads) - text_page.LINE_NUMBER_CHARS - text_page.CUT_NOTE_CHARS - 2
    )  # so that a line fits into any share
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
    """Each file's share of the room: all it needs, or an equal part of what is left."""
    left, parts = room, dict[int, int]()
    for rank, at in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        parts[at] = min(sizes[at], left // (len(sizes) - rank))
        left -= parts[at]
    return (parts[at] for at in range(len(sizes)))


def truncate_page(shown: TextResult, page: Page, room: int) -> tuple[TextResult, Page]:
    """The page cut to its room."""
    lines = text_page.fit_lines(shown.lines, shown.first, room)
    gone = len(shown.lines) - len(lines)
    if not gone:
        return shown, page
    rest = shown.omitted_lines + gone if shown.omitted_lines is not None else None
    return replace(shown, lines=lines, omitted_lines=rest, has_more=True), replace(page, lines=lines, has_more=True)
