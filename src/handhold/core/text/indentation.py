"""Re-indent lines that a model wrote to fit the file.

The matched lines show how: each pairs the quoted indentation with the file's. A rule maps one to the other: first
another unit (tabs, spaces, another width), then the same shift for all lines. Where no rule explains all lines, a new
line moves as the nearest line of its depth does.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import gcd

from handhold.core.text.text_index import get_indent, is_blank

IndentPairs = Sequence[tuple[str, str]]  # (as quoted, as in the file)
INDENT: re.Pattern[str] = re.compile(r"^[ \t]*(?=\S)", re.MULTILINE)  # of lines that are not blank
INDENT_WIDTHS = (4, 2, 8, 3)


class CannotFit(Exception):
    """The quoted text and the file differ in a way that cannot be applied to the new text."""


@dataclass(frozen=True)
class IndentRule:
    """Convert the unit, then shift: add `prefix` to every line, or strip `removed_prefix`."""

    convert: Callable[[str], str | None]
    prefix: str = ""
    removed_prefix: str = ""

    def __call__(self, quoted: str) -> str | None:
        converted = self.convert(quoted)
        if converted is None or not converted.startswith(self.removed_prefix):
            return None
        return self.prefix + converted.removeprefix(self.removed_prefix)


def keep_indent(quoted: str) -> str | None:
    return quoted


def to_tabs(width: int) -> Callable[[str], str | None]:
    """Turn every `width` spaces into a tab."""

    def convert(quoted: str) -> str | None:
        columns = len(quoted.replace("\t", " " * width))
        return "\t" * (columns // width) + " " * (columns % width)

    return convert


def to_spaces(width: int) -> Callable[[str], str | None]:
    """Turn every tab into `width` spaces."""
    return lambda quoted: quoted.replace("\t", " " * width)


def scale(quoted_width: int, file_width: int) -> Callable[[str], str | None]:
    """Convert from one number of spaces per level to another."""

    def convert(quoted: str) -> str | None:
        if "\t" in quoted:
            return None
        levels, rest = divmod(len(quoted), quoted_width)
        return " " * (levels * file_width + rest) if rest < 2 else None  # " * " in a comment is off by one

    return convert


class Reindenter:
    """Finds the rule that explains most of the pairs, and applies it to new lines."""

    def __init__(self, pairs: IndentPairs, new_lines: Sequence[str], unit: str) -> None:
        """`new_lines` are the lines to indent; `unit` is the file's indentation unit."""
        self.pairs = pairs
        self.is_noop = all(quoted == real for quoted, real in pairs)
        self.rule: IndentRule | None = None
        if not self.is_noop:
            known = {quoted for quoted, _ in pairs}
            # The second line of a block comment is one column off any unit.
            added = {get_indent(line) for line in new_lines if not is_blank(line) and not line.lstrip().startswith("*")}
            self.rule = self._choose_rule(sorted(added - known), unit)

    @property
    def is_uniform(self) -> bool:
        """Whether one rule explains all pairs."""
        return self.rule is not None and not self._departing_count

    def __call__(self, line: str, replaced: tuple[str, str] | None = None, above: int | None = None) -> str:
        """The line re-indented.

        `replaced` is the line it replaces, as quoted and as in the file; `above` is how many of the pairs are above it.
        """
        if self.is_noop:
            return line
        if is_blank(line):
            return ""
        quoted = get_indent(line)
        if replaced and get_indent(replaced[0]) == quoted and not is_blank(replaced[0]):
            real = get_indent(replaced[1])
        else:
            real = self._map_indent(quoted, len(self.pairs) if above is None else above)
        return real + line[len(quoted) :]

    def _map_indent(self, quoted: str, above: int) -> str:
        near = [*reversed(self.pairs[:above]), *self.pairs[above:]]
        known = next((real for each, real in near if each == quoted), None)
        ruled = self.rule(quoted) if self.rule else None
        if known is None and ruled is None:
            raise CannotFit
        if known is None or (ruled is not None and self._is_stray(known, ruled)):
            return ruled or ""
        return known

    def _is_stray(self, known: str, ruled: str) -> bool:
        """Whether only one line departs from the rule, by a column: nothing else moves as it does."""
        return abs(len(known) - len(ruled)) == 1 and self._departing_count == 1

    @cached_property
    def _departing_count(self) -> int:
        """How many pairs the rule does not explain."""
        return sum(self.rule is None or self.rule(quoted) != real for quoted, real in self.pairs)

    def _choose_rule(self, new_indents: list[str], unit: str) -> IndentRule | None:
        """The best rule; None if it explains less than half of the lines."""
        ranked = [
            (self._count_faults(rule, new_indents, unit), n, rule)
            for n, rule in enumerate(self._iter_rules(new_indents))
        ]
        faults, _, rule = min(ranked, key=lambda each: each[:2])
        return rule if faults[0] * 2 <= len(self.pairs) else None

    def _iter_rules(self, new_indents: list[str]) -> Iterator[IndentRule]:
        """Candidate rules, likely ones first. A unit that needs no shift is likelier."""
        quoted = [each for each, _ in self.pairs] + new_indents
        reals = [real for _, real in self.pairs]
        yield from self._iter_shifts(keep_indent)
        if any(" " in each for each in quoted) and any("\t" in each for each in reals):
            yield from self._iter_unshifted_first([to_tabs(width) for width in _rank_widths(quoted)])
        if any("\t" in each for each in quoted):
            yield from self._iter_unshifted_first([to_spaces(width) for width in _rank_widths(reals)])
        if not any("\t" in each for each in quoted + reals):
            units = [(a, b) for a in (2, 4, 8, 3) for b in (4, 2, 8, 3) if a != b]
            yield from self._iter_unshifted_first([scale(a, b) for a, b in units])

    def _iter_unshifted_first(self, converts: list[Callable[[str], str | None]]) -> Iterator[IndentRule]:
        yield from map(IndentRule, converts)
        for convert in converts:
            yield from self._iter_shifts(convert)

    def _iter_shifts(self, convert: Callable[[str], str | None]) -> Iterator[IndentRule]:
        """The most common shift."""
        shifts: Counter[tuple[str, str]] = Counter()
        for quoted, real in self.pairs:
            converted = convert(quoted)
            if converted is not None and real.endswith(converted):
                shifts[real.removesuffix(converted), ""] += 1
            elif converted is not None and converted.endswith(real):
                shifts["", converted.removesuffix(real)] += 1
        if shifts:
            most = max(shifts.values())
            candidates = sorted(
                (shift for shift, count in shifts.items() if count == most), key=lambda each: each != ("", "")
            )
            yield IndentRule(convert, *candidates[0])

    def _count_faults(self, rule: IndentRule, new_indents: list[str], unit: str) -> tuple[int, int, int]:
        """Lines that the rule does not explain; results that mix tabs and spaces; results between two levels."""
        results = [result for each in new_indents if (result := rule(each)) is not None]
        reals = {real for _, real in self.pairs}
        missing = sum(rule(quoted) != real for quoted, real in self.pairs)
        mixed = sum(_is_mixed(result) and result not in reals for result in results)
        uneven = sum(is_off_unit(result, unit) and result not in reals for result in results)
        return missing, mixed + len(new_indents) - len(results), uneven


def is_off_unit(depth: str, unit: str) -> bool:
    """Whether this indentation is between two levels."""
    return "\t" not in unit + depth and len(depth) % len(unit) != 0


def _is_mixed(depth: str) -> bool:
    return " \t" in depth or ("\t" in depth and "  " in depth)


def _rank_widths(depths: Sequence[str]) -> list[int]:
    """Indentation widths, starting with the one that these depths suggest."""
    likely = gcd(*(len(each) for each in depths if each and "\t" not in each), 0)
    return [likely, *(width for width in INDENT_WIDTHS if width != likely)] if 1 < likely <= 8 else list(INDENT_WIDTHS)


def detect_indent_unit(text: str) -> str:
    """One level of indentation: a tab, or the most common step to a deeper line."""
    depths = INDENT.findall(text)
    if sum(depth.startswith("\t") for depth in depths) * 2 > sum(map(bool, depths)):
        return "\t"
    steps = Counter(len(later) - len(sooner) for sooner, later in pairwise(depths) if len(later) > len(sooner))
    return next((" " * width for width, _ in steps.most_common() if width in INDENT_WIDTHS), "    ")
