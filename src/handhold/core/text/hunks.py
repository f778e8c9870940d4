"""Hunks on a text: each found in its scope, after the one before it, and put in place, or none of them.

The format has no line numbers, so its lines must say where they stand: in one place of the scope, by the
strictest rung that finds any. Lines that stay keep the file's own characters.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from handhold.core.choices import Matching
from handhold.core.errors import HunkAmbiguous, HunkMismatch
from handhold.core.requests import Hunk
from handhold.core.text.encoding import Text, must_fit
from handhold.core.text.indentation import Reindent, Unfit, unit_of
from handhold.core.text.lines import pieces, prevailing_ending
from handhold.core.text.nearest import nearest
from handhold.core.text.sheet import indent, plain

MOST_PLACES = 100  # told of a hunk that fits in more


@dataclass(frozen=True)
class Rung:
    """Lines that are the same under `key` are taken for the same."""

    name: str
    key: Callable[[str], str]


RUNGS = (
    Rung("exact", str),
    Rung("trailing space", str.rstrip),
    Rung("surrounding space", str.strip),
    Rung("punctuation", lambda line: plain(line).strip()),
)

OPENS = re.compile(
    r"(?:[\w@]+\s+)*?(?:class|def|fn|func|function|impl|struct|enum|trait|interface|module|namespace|record|sub)\b"
    r"|(?!(?:import|export|from|return)\b)[^=]*[:{)]\s*$"
)
"""A line that opens a block. Other lines may stand behind `@@` too, and then mean everything below them."""

CONTINUES = re.compile(
    r"\W"  # a closing bracket, a preprocessor line, a comment
    r"|(?:else|elif|except|finally|catch|case|default|when|rescue|ensure|end|fi|done|esac|then|do|begin|where)\b"
)
"""A line that stands no deeper than the head of a block and still belongs to the block."""

LABEL = re.compile(r"\w+:\s*$")  # to be jumped to, where heads do not end with a colon themselves


class Row(NamedTuple):  # not a dataclass: there are as many as the file has lines
    """A line of a file. A line that the patch brings has no `own` ending: the last line of a file may have none."""

    text: str
    ending: str
    own: bool = True


@dataclass(frozen=True)
class Place:
    """Lines `start` to `end`, counted from 0."""

    start: int
    end: int
    rung: Rung


@dataclass(frozen=True)
class Applied:
    text: Text
    rungs: tuple[str, ...]
    added: int
    removed: int


def apply(text: Text, hunks: Sequence[Hunk], *, path: str, matching: Matching) -> Applied:
    """HunkMismatch or HunkAmbiguous for the first hunk that has no one place."""
    lines = Lines(text.body)
    rungs = RUNGS[:1] if matching == "exact" else RUNGS
    places: list[Place] = []
    changes: list[tuple[int, int, list[Row]]] = []
    newline: bool | None = None
    after = 0
    for number, hunk in enumerate(hunks, 1):
        place = _Search(lines, hunk, after, rungs, path, number).place()
        must_fit("\n".join(new for sign, new in hunk.rows if sign == "+"), text.coding, path)
        try:
            changes.append((place.start, place.end, fitted(hunk, lines, place)))
        except Unfit:
            raise mismatch(lines, hunk, path, number) from None
        places.append(place)
        if hunk.old or hunk.scopes:  # else it goes to the end, whatever comes after it in the patch
            after = place.end
        if hunk.newline is not None:
            newline = hunk.newline
    return Applied(
        text.with_body(lines.changed(changes, newline=newline)),
        tuple(place.rung.name for place in places),
        added=sum(sign == "+" for hunk in hunks for sign, _ in hunk.rows),
        removed=sum(sign == "-" for hunk in hunks for sign, _ in hunk.rows),
    )


def mismatch(lines: "Lines", hunk: Hunk, path: str, number: int, scope: str = "") -> HunkMismatch:
    old = "\n".join(hunk.old)
    near = nearest(scope or old, lines.body)
    return HunkMismatch(path, number, hunk.line, old, scope, near)


class Lines:
    """The lines of a text, to be found by rung and to be put together again."""

    def __init__(self, body: str) -> None:
        self.body = body
        self.rows = [Row(line, ending) for line, ending in pieces(body) if line or ending]
        self._keys: dict[str, list[str]] = {}
        self._spots: dict[str, dict[str, list[int]]] = {}

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def ending(self) -> str:
        return prevailing_ending(self.body)

    @property
    def open(self) -> bool:
        """Whether the last line has no ending."""
        return bool(self.rows) and not self.rows[-1].ending

    def keys(self, rung: Rung) -> list[str]:
        if rung.name not in self._keys:
            self._keys[rung.name] = [rung.key(row.text) for row in self.rows]
        return self._keys[rung.name]

    def spots(self, rung: Rung) -> dict[str, list[int]]:
        """Where each line stands, under this rung."""
        if rung.name not in self._spots:
            keys = self.keys(rung)
            known = next((name for name in self._spots if self._keys[name] == keys), None)
            self._spots[rung.name] = self._spots[known] if known else positions(keys)
        return self._spots[rung.name]

    def find(self, old: Sequence[str], rung: Rung, start: int, end: int) -> Iterator[int]:
        """Where these lines stand between two others."""
        wanted = [rung.key(line) for line in old]
        spots, keys = self.spots(rung), self.keys(rung)
        probe = min(range(len(wanted)), key=lambda n: len(spots.get(wanted[n], ())))
        there = spots.get(wanted[probe], [])
        for at in there[bisect_left(there, start + probe) :]:
            first = at - probe
            if first + len(wanted) > end:
                return
            if keys[first : first + len(wanted)] == wanted:
                yield first

    def block_end(self, head: int) -> int:
        """Where the block ends that a line opens, by indentation; the end of the file if it opens none."""
        first = self.rows[head].text.strip()
        depth = indent(self.rows[head].text)
        if not OPENS.match(first):
            return len(self)
        inside = False
        for at in range(head + 1, len(self)):
            text = self.rows[at].text
            if not text.strip():
                continue
            if len(indent(text)) > len(depth):
                inside = True
            elif CONTINUES.match(text.strip()) or (LABEL.match(text.strip()) and not first.endswith(":")):
                inside = inside or text.strip() == "{"
            else:
                return at if inside else len(self)
        return len(self)

    def changed(self, changes: Sequence[tuple[int, int, list[Row]]], *, newline: bool | None) -> str:
        """The text with these lines in place of those. Numbers are those of the text as it is."""
        out: list[Row] = []
        at = 0
        for start, end, rows in sorted(changes, key=lambda change: change[:2]):
            out += [*self.rows[at:start], *rows]
            at = end
        out += self.rows[at:]
        if not out:
            return ""
        last = out.pop()
        body = "".join(row.text + (row.ending or self.ending) for row in out)
        return body + last.text + self._last(last, newline=newline)

    def _last(self, row: Row, *, newline: bool | None) -> str:
        """The ending of the last line: as the patch says, else its own, else as the file's last line was."""
        if newline is None and row.own:
            return row.ending
        ends = not self.open if newline is None else newline
        return (row.ending or self.ending) if ends else ""


def positions(keys: list[str]) -> dict[str, list[int]]:
    spots: defaultdict[str, list[int]] = defaultdict(list)
    for at, key in enumerate(keys):
        spots[key].append(at)
    return dict(spots)


@dataclass(frozen=True)
class _Search:
    """Where one hunk goes."""

    lines: Lines
    hunk: Hunk
    after: int  # the end of the hunk before
    rungs: Sequence[Rung]
    path: str
    number: int

    def place(self) -> Place:
        regions = self._regions()
        if not self.hunk.old:
            return self._between(regions)
        for rung in self.rungs:
            if starts := self._starts(regions, rung):
                return self._only(starts, len(self.hunk.old), rung)
        raise mismatch(self.lines, self.hunk, self.path, self.number)

    def _starts(self, regions: list[tuple[int, int]], rung: Rung) -> list[int]:
        old, count = self.hunk.old, len(self.lines)
        found: set[int] = set()
        for start, end in joined(regions):
            start = max(start, self.after, count - len(old) if self.hunk.at_end else 0)
            for at in self.lines.find(old, rung, start, end):
                found.add(at)
                if len(found) >= MOST_PLACES:
                    break
        return sorted(found)

    def _between(self, regions: list[tuple[int, int]]) -> Place:
        """A hunk that only adds: behind the line that its scope names, else at the end."""
        if self.hunk.at_end or not self.hunk.scopes:
            return Place(len(self.lines), len(self.lines), self.rungs[0])
        starts = [head + 1 for head, _ in regions if head + 1 >= self.after]
        if not starts:
            raise mismatch(self.lines, self.hunk, self.path, self.number, self.hunk.scopes[-1])
        return self._only(starts, 0, self.rungs[0])

    def _only(self, starts: list[int], count: int, rung: Rung) -> Place:
        if len(starts) > 1:
            lines = tuple(start + (1 if count else 0) for start in starts)
            raise HunkAmbiguous(self.path, self.number, self.hunk.line, lines, rung.name)
        return Place(starts[0], starts[0] + count, rung)

    def _regions(self) -> list[tuple[int, int]]:
        """What the scopes leave: from each head, which may be quoted again, to the end of its block."""
        regions = [(-1, len(self.lines))]
        for scope in self.hunk.scopes:
            heads = self._heads(scope, joined(regions))
            if not heads:
                raise mismatch(self.lines, self.hunk, self.path, self.number, scope)
            regions = [(head, min(self.lines.block_end(head), end)) for head, end in heads.items()]
        return regions

    def _heads(self, scope: str, regions: list[tuple[int, int]]) -> dict[int, int]:
        """The lines that a scope names, with the end of the region that each is in."""
        for rung in self.rungs:
            if found := {at: end for start, end in regions for at in self.lines.find([scope], rung, start + 1, end)}:
                return found
        head = re.compile(re.escape(scope.strip()) + r"(?!\w)")
        return {
            at: end
            for start, end in regions
            for at in range(start + 1, end)
            if len(self.rungs) > 1 and head.match(self.lines.rows[at].text.strip())
        }


def joined(regions: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same lines, each in one region."""
    out: list[tuple[int, int]] = []
    for start, end in sorted(regions):
        if out and start < out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((start, end))
    return out


def fitted(hunk: Hunk, lines: Lines, place: Place) -> list[Row]:
    """The lines that come to stand at the place. Unfit if the indentation there has no relation to the hunk's."""
    there = lines.rows[place.start : place.end]
    comes = [text for sign, text in hunk.rows if sign == "+"]
    pairs = [(indent(old), indent(row.text)) for old, row in zip(hunk.old, there, strict=True) if comes and old.strip()]
    shift = Reindent(pairs, comes, unit_of([row.text for row in there]))
    out: list[Row] = []
    freed: list[tuple[str, Row]] = []  # lines that went, as quoted and as they were: those that come take their place
    at = place.start
    for sign, text in hunk.rows:
        if sign == "+":
            usual = lines.rows[at - 1].ending if at else ""
            quoted, gone = freed.pop(0) if freed else ("", None)
            if gone is None and len({real for depth, real in pairs if depth == indent(text)}) > 1:
                raise Unfit
            moved = shift(text, (quoted, gone.text) if gone else None)
            out.append(Row(moved, (gone.ending if gone else usual) or lines.ending, own=False))
            continue
        row = lines.rows[at]
        at += 1
        if sign == "-":
            freed.append((text, row))
        else:
            freed.clear()
            out.append(row)
    return out
