"""Which parts of a text an edit kept, so that a diff need not compare the rest of a large file."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

FIRST_CHUNK, LARGEST_CHUNK = 64, 1 << 20  # characters compared at once


class KeptSpan(NamedTuple):
    """Equal parts of two texts: where they start in the old and in the new one, and how long they are."""

    before: int
    after: int
    length: int


class Gap(NamedTuple):
    """What differs between two kept parts: a span of the old text, and one of the new text."""

    before: int
    before_end: int
    after: int
    after_end: int


def combine(first: Sequence[KeptSpan], second: Sequence[KeptSpan]) -> Iterator[KeptSpan]:
    """What two edits kept of the text before both, in order."""
    i = j = 0
    while i < len(first) and j < len(second):
        a, b = first[i], second[j]
        start = max(a.after, b.before)
        a_end, b_end = a.after + a.length, b.before + b.length
        if start < min(a_end, b_end):
            yield KeptSpan(a.before + start - a.after, b.after + start - b.before, min(a_end, b_end) - start)
        if a_end <= b_end:
            i += 1
        else:
            j += 1


def common_edges(before: str, after: str) -> tuple[KeptSpan, KeptSpan]:
    """The longest common start of two texts, and the longest common end of the rest."""
    shorter = min(len(before), len(after))
    head = count_common(before, 0, after, 0, shorter)
    tail = count_common_end(before, after, shorter - head)
    return KeptSpan(0, 0, head), KeptSpan(len(before) - tail, len(after) - tail, tail)


def iter_gaps(before: str, after: str, kept: Iterable[KeptSpan]) -> Iterator[Gap]:
    """What differs between the kept parts, as late in the text as possible.

    An added line that equals its neighbours could be any of them: shown is the last one, as a comparison would.
    """
    gap = Gap(0, 0, 0, 0)
    for span in (*kept, KeptSpan(len(before), len(after), 0)):
        gap = gap._replace(before_end=span.before, after_end=span.after)
        is_last = span.before == len(before)
        shorter = min(gap.before_end - gap.before, gap.after_end - gap.after)
        same = count_common(before, gap.before, after, gap.after, shorter + span.length)
        beyond = max(0, same - shorter)  # so far both ends move
        gap = Gap(gap.before + same, gap.before_end + beyond, gap.after + same, gap.after_end + beyond)
        if beyond < span.length or is_last:
            if gap.before < gap.before_end or gap.after < gap.after_end:
                yield gap
            gap = Gap(span.before + span.length, 0, span.after + span.length, 0)


def count_common(a: str, i: int, b: str, j: int, limit: int) -> int:
    """How many characters are equal from these positions on."""
    count, chunk = 0, FIRST_CHUNK
    while count < limit and chunk:
        size = min(chunk, limit - count)
        if a[i + count : i + count + size] == b[j + count : j + count + size]:
            count += size
            chunk = min(2 * chunk, LARGEST_CHUNK)
        else:
            limit = count + size - 1  # somewhere in here they differ
            chunk = size // 2
    return count


def count_common_end(a: str, b: str, limit: int) -> int:
    """How many characters at the end are equal."""
    count, chunk = 0, FIRST_CHUNK
    while count < limit and chunk:
        size = min(chunk, limit - count)
        if a[len(a) - count - size : len(a) - count] == b[len(b) - count - size : len(b) - count]:
            count += size
            chunk = min(2 * chunk, LARGEST_CHUNK)
        else:
            limit = count + size - 1
            chunk = size // 2
    return count
