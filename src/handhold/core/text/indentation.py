"""Indentation: how lines that a model wrote are indented to stand among the file's.

The lines that were found show it: each pairs an indentation as quoted with the file's. A rule turns the one
into the other: another unit first (tabs, spaces, another width), then a shift of all lines alike.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd

from handhold.core.text.sheet import blank, indent

Pairs = Sequence[tuple[str, str]]  # (as quoted, as in the file)
WIDTHS = (4, 2, 8, 3)


class Unfit(Exception):
    """The place and the quoted text are not related in a way that could be carried over to the new text."""


@dataclass(frozen=True)
class Rule:
    """Another unit, then a shift: `added` in front of every line, or `cut` from it."""

    convert: Callable[[str], str | None]
    added: str = ""
    cut: str = ""

    def __call__(self, quoted: str) -> str | None:
        converted = self.convert(quoted)
        if converted is None or not converted.startswith(self.cut):
            return None
        return self.added + converted.removeprefix(self.cut)


def same(quoted: str) -> str | None:
    return quoted


def tabs(width: int) -> Callable[[str], str | None]:
    """So many spaces are a tab."""

    def convert(quoted: str) -> str | None:
        columns = len(quoted.replace("\t", " " * width))
        return "\t" * (columns // width) + " " * (columns % width)

    return convert


def spaces(width: int) -> Callable[[str], str | None]:
    """A tab is so many spaces."""
    return lambda quoted: quoted.replace("\t", " " * width)


def scale(theirs: int, ours: int) -> Callable[[str], str | None]:
    """A level is so many spaces here, and so many there."""

    def convert(quoted: str) -> str | None:
        if "\t" in quoted:
            return None
        levels, rest = divmod(len(quoted), theirs)
        return " " * (levels * ours + rest) if rest < 2 else None  # " * " in a comment is one off

    return convert


class Reindent:
    """The rule that explains most of the pairs, and what it turns new lines into."""

    def __init__(self, pairs: Pairs, wanted: Sequence[str], unit: str) -> None:
        """`wanted` are the lines to be indented; `unit` is what the file indents by."""
        self.pairs = pairs
        self.needless = all(quoted == real for quoted, real in pairs)
        if not self.needless:
            known = {quoted for quoted, _ in pairs}
            self.rule = self._best(sorted({indent(line) for line in wanted if not blank(line)} - known), unit)

    def __call__(self, line: str, stands_for: tuple[str, str] | None = None) -> str:
        """The line as it should be. `stands_for` is the line it replaces, as quoted and as it is in the file."""
        if self.needless or blank(line):
            return line
        quoted = indent(line)
        if stands_for and indent(stands_for[0]) == quoted and not blank(stands_for[0]):
            real = indent(stands_for[1])
        else:
            real = self._real(quoted)
        return real + line[len(quoted) :]

    def _real(self, quoted: str) -> str:
        known = Counter(real for each, real in self.pairs if each == quoted).most_common(1)
        ruled = self.rule(quoted) if self.rule else None
        if known and (ruled is None or abs(len(known[0][0]) - len(ruled)) > 1):
            return known[0][0]
        if ruled is None:
            raise Unfit
        return ruled

    def _best(self, wanted: list[str], unit: str) -> Rule | None:
        """The rule to go by. One that explains less than half of the lines explains nothing."""
        ranked = [(self._faults(rule, wanted, unit), n, rule) for n, rule in enumerate(self._rules(wanted))]
        faults, _, rule = min(ranked, key=lambda each: each[:2])
        return rule if faults[0] * 2 <= len(self.pairs) else None

    def _rules(self, wanted: list[str]) -> Iterator[Rule]:
        """The likely first. Of two units, one that needs no shift is likelier."""
        quoted = [each for each, _ in self.pairs] + wanted
        reals = [real for _, real in self.pairs]
        yield from self._shifts(same)
        if any(" " in each for each in quoted) and any("\t" in each for each in reals):
            yield from self._unshifted_first([tabs(width) for width in _widths(quoted)])
        if any("\t" in each for each in quoted):
            yield from self._unshifted_first([spaces(width) for width in _widths(reals)])
        if not any("\t" in each for each in quoted + reals):
            units = [(a, b) for a in (2, 4, 8, 3) for b in (4, 2, 8, 3) if a != b]
            yield from self._unshifted_first([scale(a, b) for a, b in units])

    def _unshifted_first(self, converts: list[Callable[[str], str | None]]) -> Iterator[Rule]:
        yield from map(Rule, converts)
        for convert in converts:
            yield from self._shifts(convert)

    def _shifts(self, convert: Callable[[str], str | None]) -> Iterator[Rule]:
        """The shift that most lines show."""
        shifts: Counter[tuple[str, str]] = Counter()
        for quoted, real in self.pairs:
            converted = convert(quoted)
            if converted is not None and real.endswith(converted):
                shifts[real.removesuffix(converted), ""] += 1
            elif converted is not None and converted.endswith(real):
                shifts["", converted.removesuffix(real)] += 1
        if shifts:
            most = max(shifts.values())
            equally = sorted(
                (shift for shift, count in shifts.items() if count == most), key=lambda each: each != ("", "")
            )
            yield Rule(convert, *equally[0])

    def _faults(self, rule: Rule, wanted: list[str], unit: str) -> tuple[int, int, int]:
        """Lines that the rule does not explain; results that mix tabs and spaces; results between two levels."""
        results = [result for each in wanted if (result := rule(each)) is not None]
        reals = {real for _, real in self.pairs}
        missing = sum(rule(quoted) != real for quoted, real in self.pairs)
        mixed = sum(_mixed(result) and result not in reals for result in results)
        uneven = sum(off_unit(result, unit) and result not in reals for result in results)
        return missing, mixed + len(wanted) - len(results), uneven


def off_unit(depth: str, unit: str) -> bool:
    """Whether this depth lies between two levels."""
    return "\t" not in unit + depth and len(depth) % len(unit) != 0


def _mixed(depth: str) -> bool:
    return " \t" in depth or ("\t" in depth and "  " in depth)


def _widths(depths: Sequence[str]) -> list[int]:
    """Widths of a level, the one that these depths suggest first."""
    likely = gcd(*(len(each) for each in depths if each and "\t" not in each), 0)
    return [likely, *(width for width in WIDTHS if width != likely)] if 1 < likely <= 8 else list(WIDTHS)


def unit_of(lines: Sequence[str]) -> str:
    """What one level is indented by: a tab, or the most common step to a deeper line."""
    depths = [indent(line) for line in lines if not blank(line)]
    if sum(depth.startswith("\t") for depth in depths) * 2 > sum(map(bool, depths)):
        return "\t"
    steps = Counter(len(later) - len(sooner) for sooner, later in pairwise(depths) if len(later) > len(sooner))
    return next((" " * width for width, _ in steps.most_common() if width in WIDTHS), "    ")
