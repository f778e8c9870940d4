"""Strategies for text that is almost there: one line differs, and the edit does not change that line.

Every other line must match, including all lines that the edit changes, and no second place may be similar.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from heapq import nlargest

from handhold.core.text.match_location import MatchLocation
from handhold.core.text.quote_repair import Quote
from handhold.core.text.splice import align_lines
from handhold.core.text.text_index import (
    TextIndex,
    collapse_whitespace,
    count_blank_edges,
    find_positions,
    get_indent,
    split_quote,
    to_bare_bytes,
    to_plain_text,
)

MAX_COMPARED_LOCATIONS = 12
PROBE_LINES = 4  # lines that are searched first
MAX_COMPARED_LINES = 8  # lines of a place that are compared by characters
MAX_COMPARED_CHARS = 1000  # a longer line is not compared by characters
MAX_LINE_OCCURRENCES = 200  # a more frequent line says nothing about a place
TYPO_MARGIN = 0.25  # how much less similar the second-best place must be; a completely different line is 1
OUTDATED_MARGIN = 0.75
MIN_DISTINCTIVE_CHARS = 12  # of the changed lines, for a place to be recognizable
MIN_LINES_IF_DISTINCTIVE, MIN_LINES_OTHERWISE = (
    4,
    7,
)  # quoted lines required if the changed lines are distinctive, and if not
WORD = re.compile(r"[^\W\d_]+")
IDENTIFIER = re.compile(r"\w+")
MARKS, MAX_MARKS = frozenset("\"'`\\,;"), 2  # what models drop or add without noticing, and how many of them
SHORT_WORDS = frozenset(
    ("an", "as", "at", "be", "by", "do", "fn", "if", "in", "is", "it", "no", "of", "on", "or", "to")
)
"""Words that are too common to be names: a typo does not turn them into another name."""


@dataclass(frozen=True)
class FuzzyCandidate:
    """A place where all lines but one match."""

    first: int
    differing: int  # the quoted line that differs
    file_line: str  # the file's line in its place
    lead: float  # how much more similar it is than any other place


class FuzzyMatcher:
    """Matches a quote without its blank edges against an index."""

    def __init__(self, quote: Quote, index: TextIndex) -> None:
        self.index = index
        lines, self.ended = split_quote(quote.old)
        self.above, self.below = count_blank_edges(lines)
        self.old_lines = lines[self.above : len(lines) - self.below]
        self.new_lines = split_quote(quote.new)[0]
        self.bare_lines = [to_bare_bytes(line) for line in self.old_lines]
        self.nonblank = [at for at, line in enumerate(self.bare_lines) if line]

    def find_candidate(self) -> FuzzyCandidate | None:
        if len(self.nonblank) < 2 or self._is_hopeless():
            return None
        where = find_positions(self.bare_lines, self.index.bare_lines)
        missing = [at for at in self.nonblank if not where[self.bare_lines[at]]]
        if len(missing) != 1:  # a line that occurs elsewhere is neither a typo nor outdated
            return None
        (differing,) = missing
        starts = [first for first, _ in self._count_votes(where).most_common(MAX_COMPARED_LOCATIONS)]
        ranked = sorted(((self._score_similarity(first), first) for first in starts), reverse=True)
        if not ranked:
            return None
        best, first = ranked[0]
        differ = [at for at in range(len(self.bare_lines)) if self._get_bare_line(first + at) != self.bare_lines[at]]
        if differ != [differing] or not self._get_bare_line(first + differing):
            return None
        second = ranked[1][0] if len(ranked) > 1 else 0.0
        return FuzzyCandidate(first, differing, self.index.lines[first + differing], best - second)

    def _is_hopeless(self) -> bool:
        """Whether two of the longest lines do not occur at all: a quick check that ends most searches."""
        longest = nlargest(PROBE_LINES, (self.bare_lines[at] for at in self.nonblank), key=len)
        return sum(line not in self.index.bare for line in longest) > 1

    def _count_votes(self, where: Mapping[bytes, Sequence[int]]) -> Counter[int]:
        """Where the lines suggest that the text starts; lines that are too frequent do not vote."""
        votes: Counter[int] = Counter()
        for at in self.nonblank:
            places = where[self.bare_lines[at]]
            if len(places) <= MAX_LINE_OCCURRENCES:
                votes.update(place - at for place in places if place - at >= 0)
        return votes

    def _get_bare_line(self, at: int) -> bytes:
        lines = self.index.bare_lines
        return lines[at] if at < len(lines) else b""

    def _score_similarity(self, first: int) -> float:
        """The number of equal lines, plus the similarity of the others; if many differ, half is assumed."""
        differ = [at for at in self.nonblank if self._get_bare_line(first + at) != self.bare_lines[at]]
        same = len(self.nonblank) - len(differ)
        if len(differ) > MAX_COMPARED_LINES:
            return same + len(differ) / 2
        return same + sum(compute_similarity(self._get_bare_line(first + at), self.bare_lines[at]) for at in differ)

    def is_line_kept(self, found: FuzzyCandidate) -> bool:
        """Whether the new text has the differing line as it was quoted."""
        return self.bare_lines[found.differing] in map(to_bare_bytes, self.new_lines)

    def find_changes(self, found: FuzzyCandidate) -> list[tuple[range, range]]:
        """The runs of lines that the edit removes, each with its replacement.

        If the new text has the differing line as the file does, that line is unchanged.
        """
        before = [to_plain_text(line).rstrip() for line in self.old_lines]
        if not self.is_line_kept(found):
            before[found.differing] = get_indent(before[found.differing]) + to_plain_text(found.file_line).strip()
        above, below = count_blank_edges(self.new_lines)
        after = [to_plain_text(line).rstrip() for line in self.new_lines[above : len(self.new_lines) - below]]
        return [(range(a, b), range(c, d)) for kind, a, b, c, d in align_lines(before, after) if kind != "equal"]

    def to_location(self, found: FuzzyCandidate) -> MatchLocation:
        edges = (self.above, self.below)
        return MatchLocation.from_block(self.index, found.first, len(self.old_lines), edges, ended=self.ended)


def compute_similarity(one: bytes, other: bytes) -> float:
    longest = max(len(one), len(other))
    if longest > MAX_COMPARED_CHARS:
        return min(len(one), len(other)) / longest  # an upper bound
    return SequenceMatcher(None, one, other, autojunk=False).ratio()


def match_typo(quote: Quote, index: TextIndex) -> tuple[MatchLocation, ...]:
    """A line that the edit does not change has a typo: a letter added, missing, wrong or swapped, or marks lost."""
    matcher = FuzzyMatcher(quote, index)
    found = matcher.find_candidate()
    if found is None or found.lead < TYPO_MARGIN:
        return ()
    pair = found.file_line, matcher.old_lines[found.differing]
    # If the new text has the line as the file does, the marks may be what the edit was to change.
    if not is_typo(*pair) and not (matcher.is_line_kept(found) and has_lost_marks(*pair)):
        return ()
    if any(
        re.search(rf"\b{name}\b", index.text)
        for name in _find_names_only_in(matcher.old_lines[found.differing], found.file_line)
    ):
        return ()  # the file uses that name: it is another one, not a typo
    changes = matcher.find_changes(found)
    if not changes or any(found.differing in gone for gone, _ in changes):
        return ()
    if not matcher.is_line_kept(found) and not _is_pending(changes, found.differing):
        return ()
    return (matcher.to_location(found),)


def _is_pending(changes: list[tuple[range, range]], differing: int) -> bool:
    """Whether the edit is still to be made, although one line is already as it would leave it.

    Lines to remove are still there, or the added lines are not next to that line.
    """
    return any(gone for gone, _ in changes) or not any(gone.start in (differing, differing + 1) for gone, _ in changes)


def match_outdated(quote: Quote, index: TextIndex) -> tuple[MatchLocation, ...]:
    """A line that the edit does not change is different now, among enough lines that match."""
    matcher = FuzzyMatcher(quote, index)
    found = matcher.find_candidate()
    if found is None or found.lead < OUTDATED_MARGIN or not matcher.is_line_kept(found):
        return ()
    changes = matcher.find_changes(found)
    touched = [at for gone, _ in changes for at in gone]
    if not changes or found.differing in touched:
        return ()
    is_distinctive = sum(len(matcher.bare_lines[at]) for at in touched) >= MIN_DISTINCTIVE_CHARS
    return (
        (matcher.to_location(found),)
        if len(matcher.nonblank) >= (MIN_LINES_IF_DISTINCTIVE if is_distinctive else MIN_LINES_OTHERWISE)
        else ()
    )


def is_typo(file_line: str, quoted: str) -> bool:
    """Whether two lines differ by one letter added, dropped or replaced, or by two adjacent letters swapped.

    A different digit or symbol is not a typo, nor is a letter in a word of one or two letters.
    """
    file_line, quoted = collapse_whitespace(file_line), collapse_whitespace(quoted)
    if max(len(file_line), len(quoted)) > MAX_COMPARED_CHARS:
        return False
    head, tail = _count_common_edges(file_line, quoted)
    one, other = file_line[head : len(file_line) - tail], quoted[head : len(quoted) - tail]
    swapped = len(one) == len(other) == 2 and one == other[::-1]
    if not (one + other).isalpha() or (max(len(one), len(other)) > 1 and not swapped):
        return False
    return any(len(word) > 2 or word in SHORT_WORDS for word in _find_words_at(file_line, head, len(file_line) - tail))


def has_lost_marks(file_line: str, quoted: str) -> bool:
    """Whether two lines differ by quotation marks, backslashes, commas or semicolons that one of them lacks."""
    file_line, quoted = collapse_whitespace(file_line), collapse_whitespace(quoted)
    head, tail = _count_common_edges(file_line, quoted)
    one, other = file_line[head : len(file_line) - tail], quoted[head : len(quoted) - tail]
    return not (one and other) and len(one + other) <= MAX_MARKS and set(one + other) <= MARKS


def _count_common_edges(file_line: str, quoted: str) -> tuple[int, int]:
    head = _count_common_prefix(file_line, quoted)
    return head, _count_common_prefix(file_line[head:][::-1], quoted[head:][::-1])


def _find_names_only_in(one: str, other: str) -> set[str]:
    return set(IDENTIFIER.findall(one)) - set(IDENTIFIER.findall(other))


def _find_words_at(line: str, start: int, end: int) -> Iterator[str]:
    return (found[0] for found in WORD.finditer(line) if found.start() <= end and found.end() >= start)


def _count_common_prefix(one: str, other: str) -> int:
    count = 0
    for mine, yours in zip(one, other, strict=False):
        if mine != yours:
            break
        count += 1
    return count
