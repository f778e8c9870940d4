"""Read: a page of a text file, with line numbers."""

from dataclasses import replace

from handhold.core.errors import PageTooLong, TooLarge
from handhold.core.facts import Line, Page
from handhold.core.plans import Answer
from handhold.core.policy.guard import GuardedView
from handhold.core.requests import Limits, Read
from handhold.core.results import Shown

NUMBER_WIDTH = 8  # characters that a line costs beside its text: number, separator, newline


def plan(request: Read, files: GuardedView) -> Answer:
    limits = request.limits
    look = files.file(request.path)
    asked_for_all = request.offset is None and request.limit is None
    if asked_for_all and limits.whole_bytes is not None and look.identity.size > limits.whole_bytes:
        raise TooLarge(request.path, look.identity.size, limits.whole_bytes)
    offset = request.offset or 1
    most = min(limits.lines, request.limit or limits.lines)
    page = files.page(request.path, offset, most, limits.line_chars)
    lines = within(page, limits, request.path)
    changed, diff = files.changed_since(page)
    seen = replace(page, lines=lines, more=page.more or len(lines) < len(page.lines))
    return Answer(
        Shown(
            path=request.path,
            first=page.first,
            lines=lines,
            rest=left_out(request, seen, files),
            more=seen.more,
            total=page.total,
            encoding=page.encoding,
            replaced=page.replaced,
            changed=diff,
            stale=changed,
        ),
        seen,
    )


def within(page: Page, limits: Limits, path: str) -> tuple[Line, ...]:
    """The lines that one page may hold, by characters."""
    if limits.refuse_long:
        chars = sum(len(line.text) for line in page.lines)
        if chars > limits.chars:
            raise PageTooLong(path, chars, limits.chars)
        return page.lines
    room = limits.chars
    for n, line in enumerate(page.lines):
        room -= len(line.text) + NUMBER_WIDTH
        if room < 0 and n:
            return page.lines[:n]
    return page.lines


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
