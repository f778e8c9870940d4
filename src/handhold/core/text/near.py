"""Rungs for text that is not there, but nearly: one line differs, and it is not the one to be changed.

Every line that the edit touches must stand there, every other line too, and no second place may come near.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from heapq import nlargest

from handhold.core.text.places import Place
from handhold.core.text.repair import Quote
from handhold.core.text.sheet import Sheet, bare, blank_edges, indent, lines_of, plain, positions, squeezed
from handhold.core.text.splice import aligned

LOOKED_AT = 12  # places that are compared
PROBES = 4  # lines that are looked for first
COMPARED = 8  # lines of a place that are compared letter by letter
LONG = 1000  # characters of a line that is too long for that
COMMON = 200  # a line that stands more often than this says nothing about a place
MARGIN_SLIP = 0.25  # how much less alike the second-best place must be: one line that has nothing in common is 1
MARGIN_OUTDATED = 0.75
TELLING = 12  # characters of the lines to be changed that make a place recognizable
FEW_LINES, MANY_LINES = 4, 7  # that must be quoted where the lines to be changed are telling, and where not
WORD = re.compile(r"[^\W\d_]+")
NAME = re.compile(r"\w+")
SMALL_WORDS = frozenset(
    ("an", "as", "at", "be", "by", "do", "fn", "if", "in", "is", "it", "no", "of", "on", "or", "to")
)
"""Words that are no names, however short: a slip in them does not make them another name."""


@dataclass(frozen=True)
class Candidate:
    """A place where all lines but one stand."""

    first: int
    odd: int  # the quoted line that differs
    there: str  # what stands in its place
    lead: float  # by how much it is more alike than any other place


class Nearly:
    """A quote against a sheet, blank edges aside."""

    def __init__(self, quote: Quote, sheet: Sheet) -> None:
        self.sheet = sheet
        lines, self.ended = lines_of(quote.old)
        self.above, self.below = blank_edges(lines)
        self.olds = lines[self.above : len(lines) - self.below]
        self.news = lines_of(quote.new)[0]
        self.wanted = [bare(line) for line in self.olds]
        self.solid = [at for at, line in enumerate(self.wanted) if line]

    def candidate(self) -> Candidate | None:
        if len(self.solid) < 2 or self._hopeless():
            return None
        where = positions(self.wanted, self.sheet.bare_lines)
        missing = [at for at in self.solid if not where[self.wanted[at]]]
        if len(missing) != 1:  # a line that stands elsewhere is no slip, and not outdated
            return None
        (odd,) = missing
        starts = [first for first, _ in self._votes(where).most_common(LOOKED_AT)]
        ranked = sorted(((self._likeness(first), first) for first in starts), reverse=True)
        if not ranked:
            return None
        best, first = ranked[0]
        differ = [at for at in range(len(self.wanted)) if self._there(first + at) != self.wanted[at]]
        if differ != [odd] or not self._there(first + odd):
            return None
        second = ranked[1][0] if len(ranked) > 1 else 0.0
        return Candidate(first, odd, self.sheet.lines[first + odd], best - second)

    def _hopeless(self) -> bool:
        """Whether two of the longest lines are nowhere: quickly found, and the end of most searches."""
        longest = nlargest(PROBES, (self.wanted[at] for at in self.solid), key=len)
        return sum(line not in self.sheet.bare for line in longest) > 1

    def _votes(self, where: Mapping[bytes, Sequence[int]]) -> Counter[int]:
        """Where the lines say that the text starts; lines that are everywhere are not asked."""
        votes: Counter[int] = Counter()
        for at in self.solid:
            places = where[self.wanted[at]]
            if len(places) <= COMMON:
                votes.update(place - at for place in places if place - at >= 0)
        return votes

    def _there(self, at: int) -> bytes:
        lines = self.sheet.bare_lines
        return lines[at] if at < len(lines) else b""

    def _likeness(self, first: int) -> float:
        """How many lines are the same, those in part that are so in part; where many differ, half is assumed."""
        differ = [at for at in self.solid if self._there(first + at) != self.wanted[at]]
        same = len(self.solid) - len(differ)
        if len(differ) > COMPARED:
            return same + len(differ) / 2
        return same + sum(alike(self._there(first + at), self.wanted[at]) for at in differ)

    def kept(self, found: Candidate) -> bool:
        """Whether the odd line stands in the new text as it was quoted."""
        return self.wanted[found.odd] in map(bare, self.news)

    def changes(self, found: Candidate) -> list[tuple[range, range]]:
        """The runs of lines that the edit takes away, each with what it puts there.

        Where the new text has the odd line as the file has it, that line is no change.
        """
        olds = [plain(line).rstrip() for line in self.olds]
        if not self.kept(found):
            olds[found.odd] = indent(olds[found.odd]) + plain(found.there).strip()
        above, below = blank_edges(self.news)
        news = [plain(line).rstrip() for line in self.news[above : len(self.news) - below]]
        return [(range(a, b), range(c, d)) for kind, a, b, c, d in aligned(olds, news) if kind != "equal"]

    def place(self, found: Candidate) -> Place:
        edges = (self.above, self.below)
        return Place.of_block(self.sheet, found.first, len(self.olds), edges, ended=self.ended)


def alike(one: bytes, other: bytes) -> float:
    longest = max(len(one), len(other))
    if longest > LONG:
        return min(len(one), len(other)) / longest  # at most
    return SequenceMatcher(None, one, other, autojunk=False).ratio()


def slip(quote: Quote, sheet: Sheet) -> tuple[Place, ...]:
    """One line that is not to be changed has a typing slip: a letter too many, too few, wrong or swapped."""
    nearly = Nearly(quote, sheet)
    found = nearly.candidate()
    if found is None or found.lead < MARGIN_SLIP or not slipped(found.there, nearly.olds[found.odd]):
        return ()
    if any(re.search(rf"\b{name}\b", sheet.text) for name in _only_in(nearly.olds[found.odd], found.there)):
        return ()  # the file knows that name: it is another one, not a slip
    changes = nearly.changes(found)
    if not changes or any(found.odd in gone for gone, _ in changes):
        return ()
    if not nearly.kept(found) and not _pending(changes, found.odd):
        return ()
    return (nearly.place(found),)


def _pending(changes: list[tuple[range, range]], odd: int) -> bool:
    """Whether the edit is still to be made, though one of the lines is already as it wants it.

    Lines that are to go are still there, or what is to come does not touch that line.
    """
    return any(gone for gone, _ in changes) or not any(gone.start in (odd, odd + 1) for gone, _ in changes)


def outdated(quote: Quote, sheet: Sheet) -> tuple[Place, ...]:
    """One line that is not to be changed is another one now, among enough that are the same."""
    nearly = Nearly(quote, sheet)
    found = nearly.candidate()
    if found is None or found.lead < MARGIN_OUTDATED or not nearly.kept(found):
        return ()
    changes = nearly.changes(found)
    touched = [at for gone, _ in changes for at in gone]
    if not changes or found.odd in touched:
        return ()
    telling = sum(len(nearly.wanted[at]) for at in touched) >= TELLING
    return (nearly.place(found),) if len(nearly.solid) >= (FEW_LINES if telling else MANY_LINES) else ()


def slipped(there: str, quoted: str) -> bool:
    """Whether two lines differ by one letter added, dropped or exchanged, or by two neighbours swapped.

    A digit or a sign that differs is no slip, nor is a letter of a word that has one or two.
    """
    there, quoted = squeezed(there), squeezed(quoted)
    if max(len(there), len(quoted)) > LONG:
        return False
    head = _common(there, quoted)
    tail = _common(there[head:][::-1], quoted[head:][::-1])
    one, other = there[head : len(there) - tail], quoted[head : len(quoted) - tail]
    swapped = len(one) == len(other) == 2 and one == other[::-1]
    if not (one + other).isalpha() or (max(len(one), len(other)) > 1 and not swapped):
        return False
    return any(len(word) > 2 or word in SMALL_WORDS for word in _words_at(there, head, len(there) - tail))


def _only_in(one: str, other: str) -> set[str]:
    return set(NAME.findall(one)) - set(NAME.findall(other))


def _words_at(line: str, start: int, end: int) -> Iterator[str]:
    return (found[0] for found in WORD.finditer(line) if found.start() <= end and found.end() >= start)


def _common(one: str, other: str) -> int:
    count = 0
    for mine, yours in zip(one, other, strict=False):
        if mine != yours:
            break
        count += 1
    return count
