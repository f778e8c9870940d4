"""Find the text that a model quotes in a file.

Strategies are tried from strict to lenient; each only if all stricter ones found nothing. The result is all places that
the strategy finds: the caller uses a single one and rejects several as ambiguous. Before an approximate match is
accepted, the quote is tried with systematic mistakes reverted (`quote_repair`).
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import AnyStr

from handhold.core.choices import Matching
from handhold.core.text import typo_match
from handhold.core.text.lines import find_line_number, normalize_newlines
from handhold.core.text.match_location import MatchLocation, TextSpan
from handhold.core.text.quote_repair import Quote, iter_repaired_quotes
from handhold.core.text.text_index import (
    MAX_OVERLAPPING_MATCHES,
    JoinedLines,
    LineKey,
    TextIndex,
    count_blank_edges,
    is_blank,
    split_quote,
    to_bare_bytes,
    to_plain_text,
)

__all__ = ["STRATEGIES", "QuoteMatch", "MatchLocation", "MatchStrategy", "TextSpan", "find", "find_in_index"]


ELLIPSIS_LINE = re.compile(r"\s*(?:(?://|#|--|/\*|<!--|;|%)\s*)?(?:\.\.\.|…)(?:.*(?:\.\.\.|…))?\s*(?:\*/|-->)?\s*")
MAX_OMITTED_LINES = 200  # lines that `...` may stand for


@dataclass(frozen=True)
class QuoteMatch:
    """All places found by the strictest strategy that finds any, and the texts as they were understood."""

    strategy: str
    locations: tuple[MatchLocation, ...]
    quote: Quote

    @property
    def is_exact(self) -> bool:
        return self.strategy == STRATEGIES[0].name

    @property
    def spans(self) -> tuple[TextSpan, ...]:
        return tuple(place.span for place in self.locations)

    @property
    def has_overlaps(self) -> bool:
        return any(later.start < sooner.end for sooner, later in zip(self.spans, self.spans[1:], strict=False))


@dataclass(frozen=True)
class MatchStrategy:
    name: str  # what the file may differ in from the quoted text
    find: Callable[[Quote, TextIndex], tuple[MatchLocation, ...]]
    level: Matching


# --- literal text


def match_literal(quote: Quote, index: TextIndex) -> tuple[MatchLocation, ...]:
    """Every place of the old text, including overlapping ones; CRLF equals LF."""
    return _find_literal(quote.old, index.normalized, index)


def match_lone_cr(quote: Quote, index: TextIndex) -> tuple[MatchLocation, ...]:
    """Like literal, but a lone CR is a line ending, too."""
    if "\r" not in index.normalized and "\r" not in quote.old:
        return ()
    found = _find_literal(quote.old.replace("\r", "\n"), index.normalized.replace("\r", "\n"), index)
    return tuple(replace(place, lone_cr=True) for place in found)


def match_typography(quote: Quote, index: TextIndex) -> tuple[MatchLocation, ...]:
    """Like literal, but typographic characters equal plain ones, and undecodable bytes equal U+FFFD."""
    if index.text.isascii() and quote.old.isascii():
        return ()
    return _find_literal(to_plain_text(quote.old), index.plain, index)


def _find_literal(old: str, text: str, index: TextIndex) -> tuple[MatchLocation, ...]:
    """Where `old` is in `text`, which differs from the index's text only in single characters and CRLF."""
    hits = list(_find_occurrences(old, text))
    if not hits:
        return ()
    carriage = [at for at, _ in _find_occurrences("\r\n", index.text)]
    moved = [at - n for n, at in enumerate(carriage)]  # positions after each CRLF became one character
    lines = tuple((n, n + 1) for n in range(old.count("\n") + 1))
    return tuple(
        MatchLocation(TextSpan(start + bisect_left(moved, start), end + bisect_left(moved, end)), lines)
        for start, end in hits
    )


def _find_occurrences(old: AnyStr, text: AnyStr) -> Iterator[tuple[int, int]]:
    """Including overlapping ones, until there are enough to reject the edit."""
    at, last, overlapping = text.find(old), -len(old), 0
    while at != -1 and overlapping <= MAX_OVERLAPPING_MATCHES:
        yield at, at + len(old)
        overlapping += at - last < len(old)
        last, at = at, text.find(old, at + 1)


# --- equal lines


def by_line(key: LineKey, *, trim_blank_edges: bool = False) -> Callable[[Quote, TextIndex], tuple[MatchLocation, ...]]:
    """Match whole lines that are equal under `key`; with `trim_blank_edges`, ignore blank lines around them."""

    def find_blocks(quote: Quote, index: TextIndex) -> tuple[MatchLocation, ...]:
        if not index.contains(quote.old):
            return ()
        old_lines, ended = split_quote(quote.old)
        above, below = count_blank_edges(old_lines) if trim_blank_edges else (0, 0)
        if trim_blank_edges and not above + below:
            return ()
        wanted = old_lines[above : len(old_lines) - below]
        return tuple(
            MatchLocation.from_block(index, first, len(wanted), (above, below), ended=ended)
            for first in index.find_runs(wanted, key)
        )

    return find_blocks


RSTRIP_KEY, RSTRIP_PLAIN_KEY = LineKey(str.rstrip), LineKey(str.rstrip, ignore_typography=True)
STRIP_KEY, STRIP_PLAIN_KEY = LineKey(str.strip), LineKey(str.strip, ignore_typography=True)


# --- equal except for whitespace


def match_ignoring_whitespace(quote: Quote, index: TextIndex) -> tuple[MatchLocation, ...]:
    """Match whole lines with the same characters, however they are spaced or wrapped."""
    if not index.contains(quote.old):
        return ()
    old_lines, ended = split_quote(quote.old)
    parts = [to_bare_bytes(line) for line in old_lines]
    pattern = b"".join(parts)
    joined = index.joined_lines
    found: list[MatchLocation] = []
    for start, end in _find_occurrences(pattern, joined.text):
        if joined.is_line_boundary(start) and joined.is_line_boundary(end):
            first, past = joined.find_line(start), joined.find_line(end - 1) + 1
            lines = tuple(_map_lines(parts, joined, start, (first, past)))
            found.append(MatchLocation.from_lines(index, first, past, lines, ended=ended))
    return tuple(found)


def _map_lines(parts: list[bytes], joined: JoinedLines, at: int, block: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """For each quoted line, the lines with its characters; for a blank one, a blank line there, if there is one."""
    first, end = block
    past = 0
    for part in parts:
        if part:
            start, past = joined.find_line(at) - first, joined.find_line(at + len(part) - 1) + 1 - first
            yield start, past
        elif past and first + past < end and first + past < joined.find_line(at):
            yield past, past + 1
            past += 1
        else:
            yield past, past
        at += len(part)


# --- equal except for what models cannot see

TABLE_RULE = re.compile(r"\s*\|?[\s|:]*-[-\s|:]*")
PRIVATE_USE = re.compile("[\ue000-\uf8ff\U000f0000-\U0010fffd]")


def match_invisible(quote: Quote, index: TextIndex) -> tuple[MatchLocation, ...]:
    """Whole lines that are equal but for the length of a table's rules and characters without a common meaning."""
    old_lines, ended = split_quote(quote.old)
    texts = index.text + quote.old
    has_private_use = not texts.isascii() and PRIVATE_USE.search(texts)
    if not has_private_use and not any(map(TABLE_RULE.fullmatch, old_lines)):
        return ()
    starts = index.find_runs(old_lines, INVISIBLE_KEY)
    return tuple(MatchLocation.from_block(index, first, len(old_lines), (0, 0), ended=ended) for first in starts)


def _drop_invisible(line: str) -> str:
    line = PRIVATE_USE.sub("", line).strip()
    return re.sub("-{2,}", "--", line) if TABLE_RULE.fullmatch(line) else line


INVISIBLE_KEY = LineKey(_drop_invisible, ignore_typography=True)


# --- equal except for omitted lines


def match_with_omissions(quote: Quote, index: TextIndex) -> tuple[MatchLocation, ...]:
    """`...` on its own line stands for some lines; the parts around it must each match one place, in order."""
    old_lines, ended = split_quote(quote.old)
    dots = [at for at, line in enumerate(old_lines) if ELLIPSIS_LINE.fullmatch(line)]
    if not dots or dots[0] == 0 or dots[-1] == len(old_lines) - 1:
        return ()
    rows: list[tuple[int, int]] = []
    for above, below in zip([-1, *dots], [*dots, len(old_lines)], strict=True):
        start = _find_unique(old_lines[above + 1 : below], index)
        if start is None:
            return ()
        if rows:
            if not 0 <= start - rows[-1][1] <= MAX_OMITTED_LINES:
                return ()
            rows.append((rows[-1][1], start))
        rows += ((start + n, start + n + 1) for n in range(below - above - 1))
    first, past = rows[0][0], rows[-1][1]
    lines = tuple((a - first, b - first) for a, b in rows)
    return (MatchLocation.from_lines(index, first, past, lines, ended=ended),)


def _find_unique(part: list[str], index: TextIndex) -> int | None:
    """Where these lines are, if the strictest key that finds any finds one place."""
    if all(map(is_blank, part)):
        return None
    for key in (RSTRIP_PLAIN_KEY, STRIP_PLAIN_KEY):
        if starts := index.find_runs(part, key):
            return starts[0] if len(starts) == 1 else None
    return None


STRATEGIES = (
    MatchStrategy("exact", match_literal, "exact"),
    MatchStrategy("line endings", match_lone_cr, "safe"),
    MatchStrategy("punctuation", match_typography, "safe"),
    MatchStrategy("trailing space", by_line(RSTRIP_KEY), "safe"),
    MatchStrategy("trailing space and punctuation", by_line(RSTRIP_PLAIN_KEY), "safe"),
    MatchStrategy("indentation", by_line(STRIP_KEY), "safe"),
    MatchStrategy("indentation and punctuation", by_line(STRIP_PLAIN_KEY), "safe"),
    MatchStrategy("blank lines around it", by_line(STRIP_PLAIN_KEY, trim_blank_edges=True), "safe"),
    MatchStrategy("spacing and wrapping", match_ignoring_whitespace, "safe"),
    MatchStrategy("table rules and icons", match_invisible, "safe"),
    MatchStrategy("lines left out", match_with_omissions, "safe"),
)
FUZZY_STRATEGIES = (
    MatchStrategy("a typo in one line", typo_match.match_typo, "safe"),
    MatchStrategy("one context line", typo_match.match_outdated, "bold"),
)
"""Approximate strategies: tried when no repaired quote was found."""

MATCHING_LEVELS: dict[Matching, int] = {"exact": 0, "safe": 1, "bold": 2}


def find(old: str, text: str, matching: Matching, *, new: str = "") -> QuoteMatch | None:
    """Find `old` in `text` by the strictest strategy that finds it.

    Blank text is never found, because it is everywhere. An approximate match can only be judged with the `new` text.
    """
    return find_in_index(old, TextIndex(text), matching, new=new)


def find_in_index(old: str, index: TextIndex, matching: Matching, *, new: str = "") -> QuoteMatch | None:
    """Like `find`, on an indexed text."""
    if is_blank(old):
        return None
    candidates = (
        [Quote(normalize_newlines(old), normalize_newlines(new))]
        if matching == "exact"
        else list(iter_repaired_quotes(old, new))
    )
    for strategies in (STRATEGIES, FUZZY_STRATEGIES):
        for quote in candidates:
            for strategy in strategies:
                if MATCHING_LEVELS[strategy.level] <= MATCHING_LEVELS[matching] and (
                    locations := _find_locations(strategy, quote, index)
                ):
                    return QuoteMatch(_describe_match(quote, strategy), locations, quote)
    return None


def _find_locations(strategy: MatchStrategy, quote: Quote, index: TextIndex) -> tuple[MatchLocation, ...]:
    """Numbered lines must match whole lines; a single one must be at the line with that number."""
    locations = strategy.find(quote, index)
    if quote.first_line_number is None:
        return locations
    whole = [place for place in locations if place.covers_whole_lines(index.text)]
    if "\n" in quote.old.strip():
        return tuple(whole)
    return tuple(place for place in whole if find_line_number(index.text, place.span.start) == quote.first_line_number)


def _describe_match(quote: Quote, strategy: MatchStrategy) -> str:
    return ", ".join((*quote.repaired, strategy.name) if strategy.name != "exact" else quote.repaired) or strategy.name
