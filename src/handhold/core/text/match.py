"""The ladder: where the text that a model quotes stands in a file.

A rung is tried only if all stricter ones found nothing. What is found is all the places of that rung: one
is an answer, more are a question, and the caller refuses.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from handhold.core.errors import Region
from handhold.core.requests import Matching
from handhold.core.text.lines import pieces, split, unified


@dataclass(frozen=True)
class Span:
    """Characters `start` to `end` of the file's own text."""

    start: int
    end: int


@dataclass(frozen=True)
class Found:
    rung: str
    spans: tuple[Span, ...]

    @property
    def overlapping(self) -> bool:
        return any(later.start < sooner.end for sooner, later in zip(self.spans, self.spans[1:], strict=False))


@dataclass(frozen=True)
class Rung:
    name: str
    spans: Callable[[str, str], tuple[Span, ...]]
    level: Matching


PLAIN = str.maketrans(
    {char: "'" for char in "‘’‚‛"}
    | {char: '"' for char in "“”„‟"}
    | {char: "-" for char in "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"}
    | {char: " " for char in "\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"}
)
"""Typographic characters and the plain ones that models write for them."""


def literal(old: str, text: str, *, unify: Callable[[str], str] = unified) -> tuple[Span, ...]:
    """Every place where `old` stands, overlapping ones too, CRLF and LF being the same."""
    carriage = [at for at, _ in _occurrences("\r\n", text)]
    moved = [at - n for n, at in enumerate(carriage)]  # where each CRLF stands once it is one character
    return tuple(
        Span(start + bisect_left(moved, start), end + bisect_left(moved, end))
        for start, end in _occurrences(unify(old), unify(text))
    )


def carriage_returns(old: str, text: str) -> tuple[Span, ...]:
    """As literal, with a lone CR being a line ending too."""
    if "\r" not in text and "\r" not in old:
        return ()
    return literal(old, text, unify=lambda some: unified(some).replace("\r", "\n"))


def _occurrences(old: str, text: str) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    at = text.find(old)
    while at != -1:
        found.append((at, at + len(old)))
        at = text.find(old, at + 1)
    return found


def by_line(key: Callable[[str], str]) -> Callable[[str, str], tuple[Span, ...]]:
    """Whole lines that are the same under `key`."""

    def spans(old: str, text: str) -> tuple[Span, ...]:
        wanted = [key(line) for line in split(old)]
        if not any(wanted):
            return ()
        rows = list(pieces(text))
        keys = [key(line) for line, _ in rows]
        starts = _starts(rows)
        probe = max(range(len(wanted)), key=lambda n: len(wanted[n]))
        ends_line = old.endswith("\n")
        found: list[Span] = []
        for at, line in enumerate(keys):
            first = at - probe
            if line == wanted[probe] and first >= 0 and keys[first : first + len(wanted)] == wanted:
                last = first + len(wanted) - 1
                end = starts[last + 1] if ends_line else starts[last] + len(rows[last][0])
                found.append(Span(starts[first], end))
        return tuple(found)

    return spans


def _starts(rows: list[tuple[str, str]]) -> list[int]:
    starts, at = [0], 0
    for line, ending in rows:
        at += len(line) + len(ending)
        starts.append(at)
    return starts


LADDER = (
    Rung("exact", literal, "exact"),
    Rung("line endings", carriage_returns, "safe"),
    Rung("trailing space", by_line(str.rstrip), "safe"),
    Rung("indentation", by_line(str.strip), "safe"),
    Rung("punctuation", by_line(lambda line: line.strip().translate(PLAIN)), "safe"),
)
BOLDNESS: dict[Matching, int] = {"exact": 0, "safe": 1, "bold": 2}


def find(old: str, text: str, matching: Matching) -> Found | None:
    """Where `old` is in `text`, by the strictest rung that finds it."""
    for rung in LADDER:
        if BOLDNESS[rung.level] <= BOLDNESS[matching] and (spans := rung.spans(old, text)):
            return Found(rung.name, spans)
    return None


def nearest(old: str, text: str, *, most: int = 12) -> Region | None:
    """The lines of `text` that share most lines with `old`, blanks aside; None if it shares none."""
    wanted = [line.strip() for line in split(old)]
    lines = split(text)
    at = {line: n for n, line in enumerate(wanted) if line}
    votes = Counter(n - at[line.strip()] for n, line in enumerate(lines) if line.strip() in at)
    if not votes:
        return None
    start = max(0, votes.most_common(1)[0][0])
    return Region(start + 1, tuple(lines[start : start + min(most, len(wanted) + 1)]))
