"""A text split into lines, with cached keys: strategies share what they compute about the same file."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import AnyStr

from handhold.core.text.lines import normalize_newlines

PLAIN_EQUIVALENTS = (
    {char: "'" for char in "‘’‚‛"}
    | {char: '"' for char in "“”„‟"}
    | {char: "-" for char in "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"}
    | {char: " " for char in "\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"}
)
"""Typographic characters, and the plain ones that models write instead."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_TYPOGRAPHIC_PREFIXES = (b"\xe2\x80", b"\xe2\x81", b"\xe2\x88", b"\xc2\xa0", b"\xe3\x80\x80")  # their UTF-8 prefixes
_BLANK_BYTES = b" \t\r\x0b\x0c\x1c\x1d\x1e\x1f"
MAX_OVERLAPPING_MATCHES = 50  # with more overlapping places, the edit is rejected anyway


def to_plain_text(text: str) -> str:
    """The text without typography, character for character.

    Undecodable bytes are shown as U+FFFD, so they are quoted like that, too.
    """
    if text.isascii():
        return text
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        text = _SURROGATE.sub("\ufffd", text)
        encoded = text.encode()
    if any(start in encoded for start in _TYPOGRAPHIC_PREFIXES):
        for char in [char for char in PLAIN_EQUIVALENTS if char in text]:
            text = text.replace(char, PLAIN_EQUIVALENTS[char])
    return text


def to_bare_bytes(text: str) -> bytes:
    """The text without typography and blanks. Bytes, because removing blanks from them is fast."""
    return _remove_blanks(to_plain_text(text)).replace(b"\n", b"")


def _remove_blanks(text: str) -> bytes:
    return text.encode().translate(None, _BLANK_BYTES)


def collapse_whitespace(line: str) -> str:
    """The line without typography and indentation, with each run of blanks collapsed to a space."""
    return " ".join(to_plain_text(line).split())


def get_indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def is_blank(line: str) -> bool:
    return not line or line.isspace()


def split_quote(old: str) -> tuple[list[str], bool]:
    """The lines of a text, and whether it ends with a newline."""
    lines = old.split("\n")
    ended = len(lines) > 1 and not lines[-1]
    return lines[:-1] if ended else lines, ended


def count_blank_edges(lines: Sequence[str]) -> tuple[int, int]:
    """The number of blank lines above and below the others."""
    nonblank = [at for at, line in enumerate(lines) if not is_blank(line)]
    return (nonblank[0], len(lines) - 1 - nonblank[-1]) if nonblank else (0, 0)


@dataclass(frozen=True)
class LineKey:
    """How lines are compared: stripped at which ends, and with or without typography."""

    trim: Callable[[str], str]
    ignore_typography: bool = False

    def __call__(self, line: str) -> str:
        return self.trim(to_plain_text(line) if self.ignore_typography else line)


class TextIndex:
    """A text and its lines; a line does not include its ending."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._keyed_lines: dict[LineKey, list[str]] = {}
        self._contains_cache: dict[str, bool] = {}

    @cached_property
    def normalized(self) -> str:
        return normalize_newlines(self.text)

    @cached_property
    def plain(self) -> str:
        return to_plain_text(self.normalized)

    @cached_property
    def lines(self) -> list[str]:
        return self.normalized.split("\n")

    @cached_property
    def bare_lines(self) -> list[bytes]:
        return _remove_blanks(self.plain).split(b"\n")

    @cached_property
    def bare(self) -> bytes:
        return _remove_blanks(self.plain).replace(b"\n", b"")

    @cached_property
    def joined_lines(self) -> "JoinedLines":
        return JoinedLines(self.bare_lines)

    def contains(self, old: str) -> bool:
        """Whether the characters of `old` occur in this order, ignoring blanks: cheap, and usually False."""
        if old not in self._contains_cache:
            self._contains_cache[old] = to_bare_bytes(old) in self.bare
        return self._contains_cache[old]

    def find_runs(self, wanted: Sequence[str], key: LineKey) -> list[int]:
        """The start of each run of lines that equals `wanted` under `key`."""
        return list(find_line_runs([key(line) for line in wanted], self._get_keyed_lines(key)))

    def _get_keyed_lines(self, key: LineKey) -> list[str]:
        if key not in self._keyed_lines:
            lines = self.plain.split("\n") if key.ignore_typography and not self.text.isascii() else self.lines
            self._keyed_lines[key] = list(map(key.trim, lines))
        return self._keyed_lines[key]

    @cached_property
    def _cumulative_lengths(self) -> list[int]:
        """The total length of the lines before each one, without the newlines between them."""
        return list(accumulate(map(len, self.text.split("\n")), initial=0))

    def get_span(self, first: int, past: int, *, ended: bool = False) -> tuple[int, int]:
        """The character span of lines `first` to `past`, with the last ending if `ended`."""
        start = self._cumulative_lengths[first] + first
        last = self._cumulative_lengths[past - 1] + past - 1
        end = min(self._cumulative_lengths[past] + past, len(self.text)) if ended else last + len(self.lines[past - 1])
        return start, end


def find_line_runs(wanted: list[str], lines: list[str]) -> Iterator[int]:
    """Search by the rarest line."""
    where = find_positions(wanted, lines)
    lead = min(range(len(wanted)), key=lambda at: len(where[wanted[at]]))
    overlapping, last = 0, -len(wanted)
    for first in (at - lead for at in where[wanted[lead]]):
        if first >= 0 and lines[first : first + len(wanted)] == wanted:
            yield first
            overlapping += first - last < len(wanted)
            last = first
        if overlapping > MAX_OVERLAPPING_MATCHES:
            return


def find_positions(wanted: Sequence[AnyStr], lines: Sequence[AnyStr]) -> dict[AnyStr, list[int]]:
    """The positions of each of the wanted lines."""
    where: dict[AnyStr, list[int]] = {line: [] for line in wanted}
    for at, line in enumerate(lines):
        if line in where:
            where[line].append(at)
    return where


class JoinedLines:
    """Joined lines, and which line each character comes from."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        self.text = b"".join(lines)
        self.starts = list(accumulate(map(len, lines), initial=0))

    def find_line(self, offset: int) -> int:
        """The line that contains this offset."""
        return bisect_right(self.starts, offset) - 1

    def is_line_boundary(self, offset: int) -> bool:
        """Whether a line starts or ends here."""
        found = bisect_left(self.starts, offset)
        return found < len(self.starts) and self.starts[found] == offset
