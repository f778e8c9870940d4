"""The ladder: where the text that a model quotes stands in a file.

A rung is tried only if all stricter ones found nothing. What is found is all the places of that rung: one
is an answer, more are a question, and the caller refuses. Before anything is taken for nearly right, the texts
are tried with a systematic mistake taken back (`repair`).
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import AnyStr

from handhold.core.choices import Matching
from handhold.core.text import near
from handhold.core.text.lines import number_at, unified
from handhold.core.text.places import Place, Span
from handhold.core.text.repair import Quote, quotes
from handhold.core.text.sheet import ENOUGH, Key, Sheet, Stream, bare, blank, blank_edges, lines_of, plain

__all__ = ["LADDER", "Found", "Place", "Rung", "Span", "find", "search"]


ELLIPSIS = re.compile(r"\s*(?:(?://|#|--|/\*|<!--|;|%)\s*)?(?:\.\.\.|…)(?:.*(?:\.\.\.|…))?\s*(?:\*/|-->)?\s*")
LEFT_OUT_MOST = 200  # lines that `...` may stand for


@dataclass(frozen=True)
class Found:
    """All the places of the strictest rung that has any, and the texts as they were understood."""

    rung: str
    places: tuple[Place, ...]
    quote: Quote

    @property
    def spans(self) -> tuple[Span, ...]:
        return tuple(place.span for place in self.places)

    @property
    def overlapping(self) -> bool:
        return any(later.start < sooner.end for sooner, later in zip(self.spans, self.spans[1:], strict=False))


@dataclass(frozen=True)
class Rung:
    name: str  # what the file differs in from the quoted text
    places: Callable[[Quote, Sheet], tuple[Place, ...]]
    level: Matching


# --- the same characters


def literal(quote: Quote, sheet: Sheet) -> tuple[Place, ...]:
    """Every place where the old text stands, overlapping ones too, CRLF and LF being the same."""
    return _literal(quote.old, sheet.unified, sheet)


def carriage_returns(quote: Quote, sheet: Sheet) -> tuple[Place, ...]:
    """As literal, with a lone CR being a line ending too."""
    if "\r" not in sheet.unified and "\r" not in quote.old:
        return ()
    found = _literal(quote.old.replace("\r", "\n"), sheet.unified.replace("\r", "\n"), sheet)
    return tuple(replace(place, lone_cr=True) for place in found)


def typography(quote: Quote, sheet: Sheet) -> tuple[Place, ...]:
    """As literal, with plain characters for typographic ones, and U+FFFD for what could not be decoded."""
    if sheet.text.isascii() and quote.old.isascii():
        return ()
    return _literal(plain(quote.old), sheet.plain, sheet)


def _literal(old: str, text: str, sheet: Sheet) -> tuple[Place, ...]:
    """Where `old` is in `text`, which is the sheet's but for single characters and CRLF."""
    hits = list(_occurrences(old, text))
    if not hits:
        return ()
    carriage = [at for at, _ in _occurrences("\r\n", sheet.text)]
    moved = [at - n for n, at in enumerate(carriage)]  # where each CRLF stands once it is one character
    lines = tuple((n, n + 1) for n in range(old.count("\n") + 1))
    return tuple(
        Place(Span(start + bisect_left(moved, start), end + bisect_left(moved, end)), lines) for start, end in hits
    )


def _occurrences(old: AnyStr, text: AnyStr) -> Iterator[tuple[int, int]]:
    """Overlapping ones too, until there are enough of them to refuse."""
    at, last, overlapping = text.find(old), -len(old), 0
    while at != -1 and overlapping <= ENOUGH:
        yield at, at + len(old)
        overlapping += at - last < len(old)
        last, at = at, text.find(old, at + 1)


# --- the same lines


def by_line(key: Key, *, trimmed: bool = False) -> Callable[[Quote, Sheet], tuple[Place, ...]]:
    """Whole lines that are the same under `key`; `trimmed`: but for blank ones around them."""

    def places(quote: Quote, sheet: Sheet) -> tuple[Place, ...]:
        if not sheet.holds(quote.old):
            return ()
        olds, ended = lines_of(quote.old)
        above, below = blank_edges(olds) if trimmed else (0, 0)
        if trimmed and not above + below:
            return ()
        wanted = olds[above : len(olds) - below]
        return tuple(
            Place.of_block(sheet, first, len(wanted), (above, below), ended=ended)
            for first in sheet.windows(wanted, key)
        )

    return places


TRAILING, TRAILING_PLAIN = Key(str.rstrip), Key(str.rstrip, plain=True)
STRIPPED, STRIPPED_PLAIN = Key(str.strip), Key(str.strip, plain=True)


# --- the same text but for blanks


def any_blanks(quote: Quote, sheet: Sheet) -> tuple[Place, ...]:
    """Whole lines that hold the same characters, however they are spaced, wrapped or set apart."""
    if not sheet.holds(quote.old):
        return ()
    olds, ended = lines_of(quote.old)
    parts = [bare(line) for line in olds]
    needle = b"".join(parts)
    stream = sheet.stream
    found: list[Place] = []
    for start, end in _occurrences(needle, stream.text):
        if stream.edge(start) and stream.edge(end):
            first, past = stream.line_at(start), stream.line_at(end - 1) + 1
            lines = tuple(_rows(parts, stream, start, (first, past)))
            found.append(Place.of_lines(sheet, first, past, lines, ended=ended))
    return tuple(found)


def _rows(parts: list[bytes], stream: Stream, at: int, block: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Of each quoted line, the lines that hold its characters; of a blank one, a blank line there, if there is one."""
    first, end = block
    past = 0
    for part in parts:
        if part:
            start, past = stream.line_at(at) - first, stream.line_at(at + len(part) - 1) + 1 - first
            yield start, past
        elif past and first + past < end and first + past < stream.line_at(at):
            yield past, past + 1
            past += 1
        else:
            yield past, past
        at += len(part)


# --- the same text but for what was left out


def left_out(quote: Quote, sheet: Sheet) -> tuple[Place, ...]:
    """`...` on a line of its own stands for some lines; the parts around it are each in one place, in this order."""
    olds, ended = lines_of(quote.old)
    dots = [at for at, line in enumerate(olds) if ELLIPSIS.fullmatch(line)]
    if not dots or dots[0] == 0 or dots[-1] == len(olds) - 1:
        return ()
    rows: list[tuple[int, int]] = []
    for above, below in zip([-1, *dots], [*dots, len(olds)], strict=True):
        start = _only(olds[above + 1 : below], sheet)
        if start is None:
            return ()
        if rows:
            if not 0 <= start - rows[-1][1] <= LEFT_OUT_MOST:
                return ()
            rows.append((rows[-1][1], start))
        rows += ((start + n, start + n + 1) for n in range(below - above - 1))
    first, past = rows[0][0], rows[-1][1]
    lines = tuple((a - first, b - first) for a, b in rows)
    return (Place.of_lines(sheet, first, past, lines, ended=ended),)


def _only(part: list[str], sheet: Sheet) -> int | None:
    """Where these lines stand, if that is one place by the strictest key that finds any."""
    if all(map(blank, part)):
        return None
    for key in (TRAILING_PLAIN, STRIPPED_PLAIN):
        if starts := sheet.windows(part, key):
            return starts[0] if len(starts) == 1 else None
    return None


LADDER = (
    Rung("exact", literal, "exact"),
    Rung("line endings", carriage_returns, "safe"),
    Rung("punctuation", typography, "safe"),
    Rung("trailing space", by_line(TRAILING), "safe"),
    Rung("trailing space and punctuation", by_line(TRAILING_PLAIN), "safe"),
    Rung("indentation", by_line(STRIPPED), "safe"),
    Rung("indentation and punctuation", by_line(STRIPPED_PLAIN), "safe"),
    Rung("blank lines around it", by_line(STRIPPED_PLAIN, trimmed=True), "safe"),
    Rung("blanks", any_blanks, "safe"),
    Rung("lines left out", left_out, "safe"),
)
NEARLY = (
    Rung("a slip in one line", near.slip, "safe"),
    Rung("one line that is not to be changed", near.outdated, "bold"),
)
"""Rungs that take a text for another one: tried when no guess about the texts has found them."""

BOLDNESS: dict[Matching, int] = {"exact": 0, "safe": 1, "bold": 2}


def find(old: str, text: str, matching: Matching, *, new: str = "") -> Found | None:
    """Where `old` is in `text`, by the strictest rung that finds it.

    Blank text is everywhere, so it is nowhere. What is nearly right can only be judged with the `new` text.
    """
    return search(old, Sheet(text), matching, new=new)


def search(old: str, sheet: Sheet, matching: Matching, *, new: str = "") -> Found | None:
    """The same on a text that is laid out already."""
    if blank(old):
        return None
    meant = [Quote(unified(old), unified(new))] if matching == "exact" else list(quotes(old, new))
    for rungs in (LADDER, NEARLY):
        for quote in meant:
            for rung in rungs:
                if BOLDNESS[rung.level] <= BOLDNESS[matching] and (places := _places(rung, quote, sheet)):
                    return Found(_named(quote, rung), places, quote)
    return None


def _places(rung: Rung, quote: Quote, sheet: Sheet) -> tuple[Place, ...]:
    """Lines that were numbered are whole lines; if it was only one, it must be the one with that number."""
    places = rung.places(quote, sheet)
    if quote.line is None:
        return places
    whole = [place for place in places if place.whole_lines_of(sheet.text)]
    if "\n" in quote.old.strip():
        return tuple(whole)
    return tuple(place for place in whole if number_at(sheet.text, place.span.start) == quote.line)


def _named(quote: Quote, rung: Rung) -> str:
    return ", ".join((*quote.repaired, rung.name) if rung.name != "exact" else quote.repaired) or rung.name
