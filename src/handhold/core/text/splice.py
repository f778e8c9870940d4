"""Putting new text where old text stood, so that it fits there.

Three texts meet: the old one as quoted, the new one, and what the file says. Lines that stand in both the old
and the new text keep the file's own characters: their ending, their indentation, their typographic marks. Only
what really changed is written, and that is indented as the lines around it are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from handhold.core.text.encoding import REPLACEMENT
from handhold.core.text.indentation import Reindent, Unfit, off_unit, unit_of
from handhold.core.text.lines import pieces, prevailing_ending, unified
from handhold.core.text.places import Place, Span
from handhold.core.text.repair import Quote
from handhold.core.text.sheet import bare, blank, indent, plain

ALIGN_MOST = 4_000_000  # product of line counts beyond which only the edges are aligned
AROUND = 20_000  # characters around a place that show how the file is indented
OPENERS = (":", "{", "(", "[", "=>", "->", "then", "do", "begin")

Row = tuple[str, str]  # a line and its ending


@dataclass(frozen=True)
class Spliced:
    text: str
    repaired: tuple[str, ...]  # what was fitted


def splice(text: str, places: Sequence[Place], quote: Quote, *, literal: bool = False) -> Spliced:
    """`text` with the new text of the quote in place of the old one, at each place.

    `literal`: character for character, but for line endings.
    """
    out: list[str] = []
    repaired: set[str] = set()
    at = 0
    for place in places:
        meant = quote if literal else grounded(text, place.span, quote)
        if "\n" not in meant.old + meant.new and text[place.span.start : place.span.end] == meant.old:
            new, shifted = meant.new, False  # a piece of a line, as quoted: there is nothing to fit
        else:
            fit = Fit(text, place, meant)
            new, shifted = fit.text(), fit.shifted
        out += (text[at : place.span.start], new)
        if meant.new != quote.new or shifted:
            repaired.add("indentation")
        at = place.span.end
    out.append(text[at:])
    return Spliced("".join(out), tuple(sorted(repaired)))


def grounded(text: str, span: Span, quote: Quote) -> Quote:
    """The quote for a place that starts or ends inside a line: what stands beside it there is not written again.

    A model may quote a line from its first letter on and write the new lines whole, or the other way round.
    """
    before = text[text.rfind("\n", 0, span.start) + 1 : span.start]
    after = text[span.end : end if (end := text.find("\n", span.end)) != -1 else len(text)].removesuffix("\r")
    olds, news = quote.old.split("\n"), quote.new.split("\n")
    if before and (news[0] == before + olds[0] or _whole(before, olds, news)):
        news[0] = news[0].removeprefix(before)
    elif blank(before) and all(map(blank, olds[1:])) and _outdented(before, olds[0], news):
        news[1:] = [line if blank(line) else before + line for line in news[1:]]
    if after.strip() and news[-1] == olds[-1] + after:
        news[-1] = olds[-1]
    return quote if news == olds else replace(quote, new="\n".join(news))


def _whole(before: str, olds: Sequence[str], news: Sequence[str]) -> bool:
    """Whether the new lines have the indentation that stands before the old ones."""
    first, *rest = news
    return (
        blank(before)
        and indent(first) == before
        and not indent(olds[0])
        and all(line.startswith(before) for line in rest if not blank(line))
    )


def _outdented(before: str, old: str, news: Sequence[str]) -> bool:
    """Whether the lines after the first lack the indentation that the first one finds in the file."""
    first, *rest = news
    solid = [line for line in rest if not blank(line)]
    if not before or not solid:
        return False
    if indent(old) or not all(line.startswith(before) for line in solid):
        return True
    return first.rstrip().endswith(OPENERS) and indent(solid[0]) == before


class Fit:
    """One place, and the new text as it should stand there."""

    def __init__(self, whole: str, place: Place, quote: Quote) -> None:
        span = whole[place.span.start : place.span.end]
        self.lines = place.lines
        self.shifted = False  # a new line was indented otherwise than it was written
        self.olds = (quote.old.replace("\r", "\n") if place.lone_cr else quote.old).split("\n")
        self.news = quote.new.split("\n")
        self.there: list[Row] = list(pieces(span, lone_cr=place.lone_cr))
        if len(self.there) < max(past for _, past in self.lines):
            self._unended()
        self.ending = _ending_at(whole, place.span, self.there)
        self.verbatim = all(self._own(at) == line for at, line in enumerate(self.olds))
        around = whole[max(0, place.span.start - AROUND) : place.span.end + AROUND]
        self.unit = "" if self.verbatim else unit_of(around.split("\n"))
        self.on_files_footing = not self.verbatim and self._on_files_footing()
        pairs = [] if self.verbatim or self.on_files_footing else list(self._indents())
        self.reindent = Reindent(pairs, self.news, self.unit)

    def _unended(self) -> None:
        """The quote ends its last line, and the file does not."""
        if len(self.olds) > 1 and not self.news[-1] and len(self.news) > 1:
            self.olds, self.news, self.lines = self.olds[:-1], self.news[:-1], self.lines[:-1]
        else:
            self.there.append(("", ""))

    # --- what stands there

    def _own(self, at: int) -> str | None:
        """The file's own line for a quoted one; None if it is not just one line."""
        first, past = self.lines[at]
        return self.there[first][0] if past - first == 1 and not self._shared(at) else None

    def _shared(self, at: int) -> bool:
        """Whether the next or the last quoted line is on the same line of the file."""
        first, past = self.lines[at]
        before = max((each[1] for each in self.lines[max(0, at - 1) : at]), default=0)
        after = min((each[0] for each in self.lines[at + 1 : at + 2]), default=past)
        return first < past and (before > first or after < past)

    def _indents(self) -> Iterator[tuple[str, str]]:
        for at, line in enumerate(self.olds):
            first, past = self.lines[at]
            if first < past and not blank(line) and not self._shared(at):
                yield indent(line), indent(self.there[first][0])

    def _on_files_footing(self) -> bool:
        """Whether the new text is indented as the file is, though the old one is not: what both hold shows it."""
        olds, news = ([line.strip() for line in lines] for lines in (self.olds, self.news))
        shared = [
            (a + n, c + n)
            for kind, a, b, c, _ in aligned(olds, news)
            if kind == "equal"
            for n in range(b - a)
            if olds[a + n] and self._own(a + n) is not None
        ]
        indents = [(indent(self.olds[i]), indent(self._own(i) or ""), indent(self.news[j])) for i, j in shared]
        as_file = sum(new == own != old for old, own, new in indents)
        owns = {own for _, own, _ in indents}
        return as_file > sum(new == old != own for old, own, new in indents) and not any(
            off_unit(depth, self.unit) and depth not in owns for depth in map(indent, self.news)
        )

    # --- what is the same in the old and the new text

    def _sides(self) -> tuple[list[str], list[str]]:
        """The old and the new lines as they are compared: strictly where the file has the old line as quoted."""
        stated = {bare(line) for line in self.news} if not self.verbatim else set[bytes]()
        olds = [self._compared(at, line, stated) for at, line in enumerate(self.olds)]
        loose = {line for at, line in enumerate(olds) if self._own(at) != self.olds[at]}
        padded = {line for at, line in enumerate(olds) if _padded(self.olds[at]) or _padded(self._own(at) or "")}
        return olds, [_as_seen(line, loose, padded) for line in self.news]

    def _compared(self, at: int, line: str, stated: set[bytes]) -> str:
        own = self._own(at)
        if own == line:
            return line
        if own is not None and self.on_files_footing:
            line = own
        elif own is not None and bare(line) not in stated and bare(own) in stated:
            line = indent(line) + own.lstrip(" \t")  # the new text has it as the file has it: no change
        return plain(line).rstrip()

    # --- the merge

    def text(self) -> str:
        rows = list(self._rows())
        # Only the last line is without an ending, whichever line that was before.
        return "".join(line + (own or self.ending) for line, own in rows[:-1]) + "".join(row[0] for row in rows[-1:])

    def _rows(self) -> Iterator[Row]:
        at = 0  # the first of the file's lines that is not dealt with
        spaced = False  # the new text has just set blank lines of its own
        for kind, a, b, c, d in aligned(*self._sides()):
            if kind == "equal":
                for first, past in self.lines[a:b]:
                    if not spaced:
                        yield from self.there[at:first]  # blank lines that the model did not see
                    yield from self.there[max(at, first) : past]
                    spaced = spaced and all(blank(line) for line, _ in self.there[first:past])
                    at = max(at, past)
                continue
            fresh = self.news[c:d]
            first, past = self._gone(a, b, at)
            if first < past and not any(map(blank, self.news[c : c + 1])):
                yield from self.there[at:first]
            yield from self._written(fresh, a, b, first, past)
            spaced = bool(fresh) and (first == past or blank(fresh[-1]))
            at = past
        yield from self.there[at:]

    def _gone(self, a: int, b: int, at: int) -> tuple[int, int]:
        """The file's lines that quoted lines `a` to `b` are. They must be those lines, and no others' too."""
        spots = [self.lines[each] for each in range(a, b) if self.lines[each][0] < self.lines[each][1]]
        first, past = (spots[0][0], spots[-1][1]) if spots else (at, at)
        for each in range(a, b):
            rows = self.there[slice(*self.lines[each])]
            if rows and bare("".join(line for line, _ in rows)) != bare(self.olds[each]):
                raise Unfit
        if first < at or self._following(b, past) < past:
            raise Unfit
        return first, past

    def _following(self, b: int, past: int) -> int:
        """Where the next quoted line stands that stands somewhere."""
        return next((first for first, end in self.lines[b:] if first < end), past)

    def _written(self, fresh: list[str], a: int, b: int, first: int, past: int) -> Iterator[Row]:
        rows = self.there[first:past]
        fresh = decoded(fresh, "".join(line for line, _ in rows))
        for n, line in enumerate(fresh):
            stands_for = None
            if (len(fresh) == b - a or n == 0) and a + n < b and (own := self._own(a + n)) is not None:
                stands_for = self.olds[a + n], own
            fitted = line if self.on_files_footing else self.reindent(line, stands_for)
            self.shifted = self.shifted or fitted != line
            yield fitted, rows[n][1] if n < len(rows) else self.ending


def _padded(line: str) -> bool:
    return line != line.rstrip()


def _as_seen(line: str, loose: set[str], padded: set[str]) -> str:
    """A new line as the old ones are compared: as it is, unless it is one of those that the file has otherwise."""
    seen = plain(line)
    if seen.rstrip() in padded:
        return seen.rstrip()
    return seen if seen in loose else line


def decoded(fresh: list[str], there: str) -> list[str]:
    """Lines with U+FFFD where the file has bytes that stand for no character: those bytes, in their order."""
    if there.isascii() or not any(REPLACEMENT in line for line in fresh):
        return fresh
    broken = [char for char in there if char == REPLACEMENT or "\ud800" <= char <= "\udfff"]
    if all(char == REPLACEMENT for char in broken):
        return fresh
    if sum(line.count(REPLACEMENT) for line in fresh) != len(broken):
        raise Unfit
    own = iter(broken)
    return ["".join(next(own) if char == REPLACEMENT else char for char in line) for line in fresh]


def _ending_at(text: str, span: Span, there: list[Row]) -> str:
    """The line ending that a new line gets here: of the lines replaced, else of the line itself, else of the file."""
    if there and there[0][1]:
        return there[0][1]
    close = text.find("\n", span.end)
    if close != -1:
        return "\r\n" if text[close - 1 : close] == "\r" else "\n"
    return prevailing_ending(text)


def aligned(olds: list[str], news: list[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """Which lines of the one are which of the other, as difflib's opcodes.

    The edges are cheap and come first. A blank line is the same as another only beside lines that are.
    """
    head = 0
    while head < min(len(olds), len(news)) and olds[head] == news[head]:
        head += 1
    tail = 0
    while tail < min(len(olds), len(news)) - head and olds[-1 - tail] == news[-1 - tail]:
        tail += 1
    if head:
        yield "equal", 0, head, 0, head
    a, b = olds[head : len(olds) - tail], news[head : len(news) - tail]
    if a and b and len(a) * len(b) <= ALIGN_MOST:
        for kind, i, j, k, m in SequenceMatcher(blank, a, b, autojunk=False).get_opcodes():
            yield kind, i + head, j + head, k + head, m + head
    elif a or b:
        yield "replace", head, head + len(a), head, head + len(b)
    if tail:
        yield "equal", len(olds) - tail, len(olds), len(news) - tail, len(news)


def rewritten(before: str, content: str) -> str:
    """`content` as the new body of a file: its line endings are the file's own."""
    kinds = {ending for _, ending in pieces(before) if ending}
    plain = unified(content)
    if not kinds or kinds == {"\n"}:
        return plain
    if kinds == {"\r\n"}:
        return plain.replace("\n", "\r\n")
    return _keeping_each(before, plain)


def _keeping_each(before: str, plain: str) -> str:
    """In a file of mixed endings a line that stays keeps its own, and a new one takes the most common."""
    own = list(pieces(before))
    usual = prevailing_ending(before)
    news = plain.split("\n")
    endings = [usual] * len(news)
    for kind, a, b, c, d in aligned([line for line, _ in own], news):
        if kind == "equal" or b - a == d - c:
            endings[c:d] = [ending or usual for _, ending in own[a:b]]
    return "".join(line + ending for line, ending in zip(news[:-1], endings, strict=False)) + news[-1]
