"""Apply hunks to a text: each is found in its scope after the previous one; all are applied, or none.

The format has no line numbers, so the lines themselves must identify one place in the scope, by the strictest strategy
that finds any. Unchanged lines keep the file's own characters.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from handhold.core.choices import Matching
from handhold.core.errors import HunkAmbiguous, HunkMismatch
from handhold.core.requests import PatchHunk
from handhold.core.text.encoding import Text, check_encodable
from handhold.core.text.indentation import CannotFit, Reindenter, detect_indent_unit
from handhold.core.text.lines import detect_line_ending, iter_lines_with_endings
from handhold.core.text.nearest_region import find_nearest_region
from handhold.core.text.text_index import get_indent, to_plain_text

MAX_CANDIDATES = 100  # reported if a hunk matches in several places


@dataclass(frozen=True)
class LineStrategy:
    """Lines with the same `key` are treated as equal."""

    name: str
    key: Callable[[str], str]


LINE_STRATEGIES = (
    LineStrategy("exact", str),
    LineStrategy("trailing space", str.rstrip),
    LineStrategy("surrounding space", str.strip),
    LineStrategy("punctuation", lambda line: to_plain_text(line).strip()),
)

BLOCK_OPENER = re.compile(
    r"(?:[\w@]+\s+)*?(?:class|def|fn|func|function|impl|struct|enum|trait|interface|module|namespace|record|sub)\b"
    r"|(?!(?:import|export|from|return)\b)[^=]*[:{)]\s*$"
)
"""A line that opens a block. Any other line after `@@` means everything below it."""

BLOCK_CONTINUATION = re.compile(
    r"\W"  # a closing bracket, a preprocessor line, a comment
    r"|(?:else|elif|except|finally|catch|case|default|when|rescue|ensure|end|fi|done|esac|then|do|begin|where)\b"
)
"""A line that is indented no deeper than the head of a block and still belongs to it."""

JUMP_LABEL = re.compile(r"\w+:\s*$")  # a goto label, unless block heads end with a colon themselves


class TargetLine(NamedTuple):  # not a dataclass: there are as many as lines in the file
    """A line of a file. A line from the patch has no ending of its own: the last line of a file may have none."""

    text: str
    ending: str
    has_own_ending: bool = True


@dataclass(frozen=True)
class HunkLocation:
    """Lines `start` to `end`, 0-based."""

    start: int
    end: int
    strategy: LineStrategy


@dataclass(frozen=True)
class AppliedHunks:
    text: Text
    matched_by: tuple[str, ...]
    added: int
    removed: int


def apply_hunks(text: Text, hunks: Sequence[PatchHunk], *, path: str, matching: Matching) -> AppliedHunks:
    """Raise HunkMismatch or HunkAmbiguous for the first hunk that does not match exactly one place."""
    target = PatchTarget(text.body)
    strategies = LINE_STRATEGIES[:1] if matching == "exact" else LINE_STRATEGIES
    locations: list[HunkLocation] = []
    changes: list[tuple[int, int, list[TargetLine]]] = []
    newline: bool | None = None
    previous_end = 0
    for number, hunk in enumerate(hunks, 1):
        anchored = number > 1 and hunks[number - 2].is_context and not hunk.scopes
        repeats = sum(each.rows == hunk.rows and each.scopes == hunk.scopes for each in hunks[number - 1 :])
        locator = _HunkLocator(target, hunk, previous_end, strategies, path, number, repeats, is_anchored=anchored)
        location, hunk = locator.locate()
        check_encodable("\n".join(new for sign, new in hunk.rows if sign == "+"), text.encoding, path)
        try:
            changes.append((location.start, location.end, fit_hunk(hunk, target, location)))
        except CannotFit:
            raise build_mismatch(target, hunk, path, number) from None
        locations.append(location)
        if hunk.old or hunk.scopes:  # otherwise it goes to the end, whatever follows it in the patch
            previous_end = location.end
        if hunk.ends_with_newline is not None:
            newline = hunk.ends_with_newline
    return AppliedHunks(
        text.with_body(target.replace_lines(changes, newline=newline)),
        tuple(location.strategy.name for location in locations),
        added=sum(sign == "+" for hunk in hunks for sign, _ in hunk.rows),
        removed=sum(sign == "-" for hunk in hunks for sign, _ in hunk.rows),
    )


def build_mismatch(target: "PatchTarget", hunk: PatchHunk, path: str, number: int, scope: str = "") -> HunkMismatch:
    old = "\n".join(hunk.old)
    near = find_nearest_region(scope or old, target.body)
    return HunkMismatch(path, number, hunk.patch_line, old, scope, near)


class PatchTarget:
    """The lines of a text, searchable by strategy, to be changed and joined again."""

    def __init__(self, body: str) -> None:
        self.body = body
        self.lines = [TargetLine(line, ending) for line, ending in iter_lines_with_endings(body) if line or ending]
        self._keys_by_strategy: dict[str, list[str]] = {}
        self._positions_by_strategy: dict[str, dict[str, list[int]]] = {}

    def __len__(self) -> int:
        return len(self.lines)

    @cached_property
    def ending(self) -> str:
        return detect_line_ending(self.body)

    @cached_property
    def blank_end(self) -> int:
        """How many lines at the end are blank."""
        return next((n for n, row in enumerate(reversed(self.lines)) if row.text.strip()), len(self.lines))

    @property
    def is_unterminated(self) -> bool:
        """Whether the last line has no newline."""
        return bool(self.lines) and not self.lines[-1].ending

    def compute_keys(self, strategy: LineStrategy) -> list[str]:
        if strategy.name not in self._keys_by_strategy:
            self._keys_by_strategy[strategy.name] = [strategy.key(row.text) for row in self.lines]
        return self._keys_by_strategy[strategy.name]

    def index_positions(self, strategy: LineStrategy) -> dict[str, list[int]]:
        """The positions of each line under this strategy."""
        if strategy.name not in self._positions_by_strategy:
            keys = self.compute_keys(strategy)
            known = next((name for name in self._positions_by_strategy if self._keys_by_strategy[name] == keys), None)
            self._positions_by_strategy[strategy.name] = (
                self._positions_by_strategy[known] if known else group_positions(keys)
            )
        return self._positions_by_strategy[strategy.name]

    def find(self, old: Sequence[str], strategy: LineStrategy, start: int, end: int) -> Iterator[int]:
        """Where these lines occur between two positions."""
        wanted = [strategy.key(line) for line in old]
        positions_by_key, keys = self.index_positions(strategy), self.compute_keys(strategy)
        probe = min(range(len(wanted)), key=lambda n: len(positions_by_key.get(wanted[n], ())))
        candidates = positions_by_key.get(wanted[probe], [])
        for at in candidates[bisect_left(candidates, start + probe) :]:
            first = at - probe
            if first + len(wanted) > end:
                return
            if keys[first : first + len(wanted)] == wanted:
                yield first

    def find_block_end(self, head: int) -> int:
        """The end of the block that a line opens, by indentation; the end of the file if it opens none."""
        first = self.lines[head].text.strip()
        depth = get_indent(self.lines[head].text)
        if not BLOCK_OPENER.match(first):
            return len(self)
        inside = False
        for at in range(head + 1, len(self)):
            text = self.lines[at].text
            if not text.strip():
                continue
            if len(get_indent(text)) > len(depth):
                inside = True
            elif BLOCK_CONTINUATION.match(text.strip()) or (JUMP_LABEL.match(text.strip()) and not first.endswith(":")):
                inside = inside or text.strip() == "{"
            else:
                return at if inside else len(self)
        return len(self)

    def replace_lines(self, changes: Sequence[tuple[int, int, list[TargetLine]]], *, newline: bool | None) -> str:
        """The text after these changes. Positions refer to the original text."""
        out: list[TargetLine] = []
        at = 0
        for start, end, rows in sorted(changes, key=lambda change: change[:2]):
            out += [*self.lines[at:start], *rows]
            at = end
        out += self.lines[at:]
        if not out:
            return ""
        last = out.pop()
        body = "".join(row.text + (row.ending or self.ending) for row in out)
        return body + last.text + self._choose_final_ending(last, newline=newline)

    def _choose_final_ending(self, row: TargetLine, *, newline: bool | None) -> str:
        """The ending of the last line: as the patch says, otherwise its own, otherwise that of the file's last line."""
        if newline is None and row.has_own_ending:
            return row.ending
        ends = not self.is_unterminated if newline is None else newline
        return (row.ending or self.ending) if ends else ""


def group_positions(keys: list[str]) -> dict[str, list[int]]:
    grouped: defaultdict[str, list[int]] = defaultdict(list)
    for at, key in enumerate(keys):
        grouped[key].append(at)
    return dict(grouped)


@dataclass(frozen=True)
class _HunkLocator:
    """Finds the place of one hunk."""

    target: PatchTarget
    hunk: PatchHunk
    previous_end: int  # the end of the previous hunk
    strategies: Sequence[LineStrategy]
    path: str
    number: int
    repeats: int  # how often the same hunk comes from here on: it may fit in so many places
    is_anchored: bool  # the previous hunk only says where this one comes

    def locate(self) -> tuple[HunkLocation, PatchHunk]:
        """The place, and the hunk without what the end of the file lacks."""
        regions = self._resolve_scopes()
        if not self.hunk.old:
            return self._locate_insertion(regions), self.hunk
        for hunk, slack in self._iter_readings():
            for strategy in self.strategies:
                if starts := self._find_starts(hunk, slack, regions, strategy):
                    return self._choose_start(starts, len(hunk.old), strategy), hunk
        raise build_mismatch(self.target, self.hunk, self.path, self.number)

    def _iter_readings(self) -> Iterator[tuple[PatchHunk, int]]:
        """The hunk, and how many lines may be below it at the end of the file.

        If it is nowhere else: above blank lines that it does not show, or without a last blank line that it shows.
        """
        yield self.hunk, 0
        if len(self.strategies) == 1:
            return
        if self.hunk.is_at_end:
            yield self.hunk, self.target.blank_end
        sign, text = self.hunk.rows[-1]
        if sign == " " and not text.strip() and len(self.hunk.old) > 1:
            yield replace(self.hunk, rows=self.hunk.rows[:-1], is_at_end=True), 0

    def _find_starts(
        self, hunk: PatchHunk, slack: int, regions: list[tuple[int, int]], strategy: LineStrategy
    ) -> list[int]:
        old, count = hunk.old, len(self.target) - slack
        found: set[int] = set()
        for start, end in merge_regions(regions):
            start = max(start, self.previous_end, count - len(old) if hunk.is_at_end else 0)
            for at in self.target.find(old, strategy, start, end):
                found.add(at)
                if len(found) >= MAX_CANDIDATES:
                    break
        return sorted(found)

    def _locate_insertion(self, regions: list[tuple[int, int]]) -> HunkLocation:
        """Place a hunk that only adds lines: after the line that its scope names, otherwise at the end."""
        if self.hunk.is_at_end or not self.hunk.scopes:
            return HunkLocation(len(self.target), len(self.target), self.strategies[0])
        starts = [head + 1 for head, _ in regions if head + 1 >= self.previous_end]
        if not starts:
            raise build_mismatch(self.target, self.hunk, self.path, self.number, self.hunk.scopes[-1])
        return self._require_single(starts, 0, self.strategies[0])

    def _choose_start(self, starts: list[int], count: int, strategy: LineStrategy) -> HunkLocation:
        """The first place after an anchor, or if the patch has as many equal hunks as there are places."""
        separate = all(later - sooner >= count for sooner, later in pairwise(starts))
        if self.is_anchored or (len(starts) == self.repeats and separate):
            starts = starts[:1]
        return self._require_single(starts, count, strategy)

    def _require_single(self, starts: list[int], count: int, strategy: LineStrategy) -> HunkLocation:
        if len(starts) > 1:
            lines = tuple(start + (1 if count else 0) for start in starts)
            raise HunkAmbiguous(self.path, self.number, self.hunk.patch_line, lines, strategy.name)
        return HunkLocation(starts[0], starts[0] + count, strategy)

    def _resolve_scopes(self) -> list[tuple[int, int]]:
        """The regions that the scopes select: from each head, which the hunk may repeat, to the end of its block."""
        regions = [(-1, len(self.target))]
        for scope in self.hunk.scopes:
            heads = self._find_scope_heads(scope, merge_regions(regions))
            if not heads:
                raise build_mismatch(self.target, self.hunk, self.path, self.number, scope)
            regions = [(head, min(self.target.find_block_end(head), end)) for head, end in heads.items()]
        return regions

    def _find_scope_heads(self, scope: str, regions: list[tuple[int, int]]) -> dict[int, int]:
        """The lines that a scope names, each with the end of its region."""
        for strategy in self.strategies:
            if found := {
                at: end for start, end in regions for at in self.target.find([scope], strategy, start + 1, end)
            }:
                return found
        head = re.compile(re.escape(scope.strip()) + r"(?!\w)")
        return {
            at: end
            for start, end in regions
            for at in range(start + 1, end)
            if len(self.strategies) > 1 and head.match(self.target.lines[at].text.strip())
        }


def merge_regions(regions: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge overlapping regions."""
    out: list[tuple[int, int]] = []
    for start, end in sorted(regions):
        if out and start < out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((start, end))
    return out


def fit_hunk(hunk: PatchHunk, target: PatchTarget, location: HunkLocation) -> list[TargetLine]:
    """The new lines for the place. Raise CannotFit if its indentation is unrelated to that of the hunk."""
    replaced = target.lines[location.start : location.end]
    added = [text for sign, text in hunk.rows if sign == "+"]
    pairs = [
        (get_indent(old), get_indent(row.text))
        for old, row in zip(hunk.old, replaced, strict=True)
        if added and old.strip()
    ]
    shift = Reindenter(pairs, added, detect_indent_unit("\n".join(row.text for row in replaced)))
    out: list[TargetLine] = []
    removed: list[
        tuple[str, TargetLine]
    ] = []  # removed lines, as quoted and as in the file: added lines replace them in order
    at = location.start
    for sign, text in hunk.rows:
        if sign == "+":
            usual = target.lines[at - 1].ending if at else ""
            quoted, removed_line = removed.pop(0) if removed else ("", None)
            if removed_line is None and len({real for depth, real in pairs if depth == get_indent(text)}) > 1:
                raise CannotFit
            moved = shift(text, (quoted, removed_line.text) if removed_line else None)
            out.append(
                TargetLine(
                    moved, (removed_line.ending if removed_line else usual) or target.ending, has_own_ending=False
                )
            )
            continue
        row = target.lines[at]
        at += 1
        if sign == "-":
            removed.append((text, row))
        else:
            removed.clear()
            out.append(row)
    return out
