"""A page of a text file, with line numbers, as much as fits in a reply."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from handhold.core.errors import PageTooLong, PastEnd, TooLarge
from handhold.core.facts import FileHead, Page, PageLine
from handhold.core.plans import Answer
from handhold.core.policy.guarded_view import GuardedView
from handhold.core.requests import PageLimits, Read
from handhold.core.results import TextResult, UnchangedResult

LINE_NUMBER_CHARS = 6  # minimum width of a line number

CUT_NOTE_CHARS = 64  # the longest note about a truncated line


def plan_text(request: Read, head: FileHead, files: GuardedView) -> Answer:
    limits, size = request.limits, head.identity.size
    asked_for_all = request.offset is None and request.limit is None
    if asked_for_all and limits.max_full_read_bytes is not None and size > limits.max_full_read_bytes:
        raise TooLarge(request.path, size, limits.max_full_read_bytes)
    offset = request.offset or 1
    most = min(limits.lines, request.limit or limits.lines)
    width = limits.line_chars * (most if limits.split_long_lines else 1)
    try:
        page = files.page(request.path, offset, most, width, head.snapshot)
    except PastEnd as error:
        if limits.has_final_line and offset == error.lines + 1:
            return plan_final_line(request, error, head, files)
        raise
    if limits.split_long_lines:
        parts = tuple(split_long_lines(page.lines, limits.line_chars, most, limits.chars))
        page = replace(page, lines=parts, has_more=page.has_more or len(parts) < len(page.lines))
    lines = fit_page(page, limits, request.path)
    seen = (
        page
        if lines == page.lines
        else replace(page, lines=lines, has_more=page.has_more or len(lines) < len(page.lines))
    )
    if request.if_changed and files.has_shown(seen):
        return Answer(UnchangedResult(request.path, seen.first, seen.first + len(lines) - 1, seen.has_more, seen.total))
    changed, diff = files.compare_page(page)
    return Answer(
        TextResult(
            path=request.path,
            first=page.first,
            lines=lines,
            omitted_lines=count_omitted_lines(request, seen, files),
            has_more=seen.has_more,
            total=page.total,
            encoding=page.encoding,
            encoding_source=page.encoding_source,
            rejected_encoding=page.rejected_encoding,
            has_undecodable_bytes=page.has_undecodable_bytes,
            diff_since_read=diff,
            is_stale=changed,
            ends_with_newline=not seen.has_more and ends_with_newline(page, lines),
            split_width=limits.line_chars if limits.split_long_lines else 0,
            mtime_ns=page.identity.mtime_ns,
        ),
        (seen,),
    )


def plan_final_line(request: Read, past_end: PastEnd, head: FileHead, files: GuardedView) -> Answer:
    """The empty line after the last line break; raise `past_end` if the file does not end with one."""
    last = files.page(request.path, past_end.lines, 1, request.limits.line_chars, head.snapshot)
    if not ends_with_newline(last, last.lines):
        raise past_end
    return Answer(
        TextResult(
            path=request.path,
            first=past_end.offset,
            lines=(),
            omitted_lines=0,
            has_more=False,
            total=last.total,
            encoding=last.encoding,
            has_undecodable_bytes=last.has_undecodable_bytes,
            mtime_ns=last.identity.mtime_ns,
        )
    )


def ends_with_newline(page: Page, lines: Sequence[PageLine]) -> bool:
    if page.snapshot is None or not lines or lines[-1].omitted_chars:
        return False
    return page.snapshot.data[-4:].decode(page.encoding, "ignore").endswith(("\n", "\r"))


def split_long_lines(lines: Sequence[PageLine], width: int, most: int, chars: int) -> Iterator[PageLine]:
    """The lines that fit if long ones are split into parts: the first line may be cut, the others are kept whole."""
    room = most
    for n, line in enumerate(lines):
        parts = max(1, -(-len(line.text) // width))
        if n and (parts > room or line.omitted_chars):
            return
        kept = line.text[: min(room, max(1, chars // (width + LINE_NUMBER_CHARS + CUT_NOTE_CHARS))) * width]
        yield PageLine(kept, line.omitted_chars + len(line.text) - len(kept))
        room -= parts
        if room <= 0:
            return


def fit_page(page: Page, limits: PageLimits, path: str) -> tuple[PageLine, ...]:
    """The lines that fit on one page."""
    if limits.refuse_long:
        chars = sum(len(line.text) for line in page.lines)
        if chars > limits.chars:
            raise PageTooLong(path, chars, limits.chars)
        return page.lines
    if limits.cut_unit != "line":
        return tuple(fit_chars(page, limits))
    return fit_lines(page.lines, page.first, limits.chars)


def fit_chars(page: Page, limits: PageLimits) -> Iterator[PageLine]:
    """As many lines as fit, and the beginning of the next, for dialects that cut text anywhere."""
    room, bare = limits.chars, limits.cut_unit == "byte"
    for number, line in enumerate(page.lines, page.first):
        prefix_chars = 0 if bare else max(LINE_NUMBER_CHARS, len(str(number))) + 1
        size = prefix_chars + len(line.text.encode("utf-8", "surrogatepass") if bare else line.text)
        if size > room:
            kept = truncate_bytes(line.text, room) if bare else line.text[: max(0, room - prefix_chars)]
            yield PageLine(kept, line.omitted_chars + len(line.text) - len(kept))
            return
        yield line
        room -= size + 1


def truncate_bytes(text: str, size: int) -> str:
    """The complete characters in the first `size` bytes of a text."""
    return text.encode("utf-8", "surrogatepass")[: max(0, size)].decode("utf-8", "ignore")


def fit_lines(lines: tuple[PageLine, ...], first: int, room: int) -> tuple[PageLine, ...]:
    """As many lines as fit, at least one: an empty page would never advance."""
    for n, line in enumerate(lines):
        room -= count_line_chars(first + n, line)
        if room < 0 and n:
            return lines[:n]
    return lines


def count_line_chars(number: int, line: PageLine) -> int:
    """The characters that a line takes in a reply: number, separator, text and newline."""
    return max(LINE_NUMBER_CHARS, len(str(number))) + len(line.text) + 2 + (CUT_NOTE_CHARS if line.omitted_chars else 0)


def count_omitted_lines(request: Read, page: Page, files: GuardedView) -> int | None:
    """How many lines of the requested range are not shown; None if the end was not searched."""
    if not page.has_more:
        return 0
    if request.limit is not None and request.limit <= len(page.lines):
        return 0
    total = page.total
    if total is None and not request.limits.count_rest:
        return None
    total = files.count(request.path) if total is None else total
    end = total if request.limit is None else min(total, page.first + request.limit - 1)
    return end - (page.first + len(page.lines) - 1)
