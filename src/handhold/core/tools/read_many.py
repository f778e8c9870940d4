"""ReadMany: several files in one reply, whose room they share.

Small files are shown whole. What they leave is shared by the larger ones in equal parts, so that none of them pushes
another out. A file that cannot be shown is told in its place and spoils nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from handhold.core.errors import IsDirectory, PathError, ReadAlone
from handhold.core.facts import Page
from handhold.core.plans import Answer, Search
from handhold.core.policy.guard import GuardedView
from handhold.core.requests import Read, ReadMany
from handhold.core.results import Shown, ShownMany
from handhold.core.tools import read

HEADING = 600  # characters of a reply that a file takes beside its lines: its name, and how to go on or why not
LEAST = 100  # characters of a line, however many files there are

Told = tuple[Shown, Page] | PathError


def plan(request: ReadMany, files: GuardedView) -> Answer:
    room = request.chars - HEADING * len(request.reads)
    width = max(LEAST, room // len(request.reads) - read.NUMBER - read.CUT - 2)  # so that a line fits into any part
    told = [one(narrowed(each, room, width), files) for each in request.reads]
    parts = iter(shared([size(*each) for each in told if isinstance(each, tuple)], room))
    told = [cut(*each, next(parts)) if isinstance(each, tuple) else each for each in told]
    shown = tuple(each[0] if isinstance(each, tuple) else each for each in told)
    return Answer(ShownMany(shown), tuple(each[1] for each in told if isinstance(each, tuple)))


def narrowed(request: Read, room: int, width: int) -> Read:
    limits = request.limits
    return replace(request, limits=replace(limits, chars=room, line_chars=min(limits.line_chars, width)))


def one(request: Read, files: GuardedView) -> Told:
    try:
        match read.plan(request, files):
            case Answer(Shown() as shown, (page,)):
                return shown, page
            case Search():
                return IsDirectory(request.path)
            case _:
                return ReadAlone(request.path)
    except PathError as error:
        return error


def size(shown: Shown, page: Page) -> int:
    return sum(read.cost(number, line) for number, line in enumerate(shown.lines, page.first))


def shared(sizes: Sequence[int], room: int) -> Iterator[int]:
    """How much of the room each gets: all that it needs, or as much as every other that needs more."""
    left, parts = room, dict[int, int]()
    for rank, at in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        parts[at] = min(sizes[at], left // (len(sizes) - rank))
        left -= parts[at]
    return (parts[at] for at in range(len(sizes)))


def cut(shown: Shown, page: Page, room: int) -> tuple[Shown, Page]:
    """The same page, ended where its room does."""
    lines = read.fitting(shown.lines, shown.first, room)
    gone = len(shown.lines) - len(lines)
    if not gone:
        return shown, page
    rest = shown.rest + gone if shown.rest is not None else None
    return replace(shown, lines=lines, rest=rest, more=True), replace(page, lines=lines, more=True)
