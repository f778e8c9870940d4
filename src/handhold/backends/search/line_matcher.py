"""Find lines in one file, as ripgrep does.

A file that was not given explicitly is binary if there is a NUL among its first bytes; a later NUL ends its search. In
an explicit file, a NUL ends a line. UTF-16 with a BOM is decoded.
"""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

from handhold.backends.search.events import BOM, MAX_HELD_LINE_BYTES, MAX_UTF16_BYTES, UTF16_BOMS, FoundLine
from handhold.core.requests import Grep
from handhold.core.text.regex import compile_regex

WINDOW_BYTES = 4 << 20  # searched at once, unless a line is longer
READ_BUFFER_BYTES = 1 << 16
BINARY_CHECK_BYTES = READ_BUFFER_BYTES  # ripgrep checks about as many

BytesLike = bytes | bytearray
MatchSpan = tuple[int, int]  # of a match
FindMatch = Callable[[BytesLike, int], MatchSpan | None]


@dataclass(frozen=True)
class FileMatches:
    """The result of searching one file."""

    lines: list[FoundLine] = field(default_factory=list[FoundLine])
    count: int = 0
    is_binary: bool = False


NO_MATCHES, BINARY_WITHOUT_MATCHES = FileMatches(), FileMatches(is_binary=True)


class LineMatcher:
    """A compiled query. Raise BadRegex for an invalid pattern."""

    def __init__(self, request: Grep) -> None:
        self.mode = request.mode
        self.before, self.after = (request.before, request.after) if request.mode == "content" else (0, 0)
        self._finder = make_finder(request)
        self._literal = b"" if request.regex or request.ignore_case else request.pattern.encode()

    def search(
        self, read: Callable[[int], bytes], *, explicit: bool, max_lines: int, is_hit: bool = False
    ) -> FileMatches:
        """The first `max_lines` matching lines of what `read` returns piece by piece, with their context.

        With `is_hit`, ripgrep has found a match, so it has already decided whether the file is binary.
        """
        pieces = [read(WINDOW_BYTES)]
        # Fast path for nearly every file.
        if self._literal not in pieces[0] and not pieces[0].startswith(UTF16_BOMS):
            pieces.append(read(WINDOW_BYTES))
            if not pieces[1]:
                return BINARY_WITHOUT_MATCHES if b"\0" in pieces[0] and not explicit else NO_MATCHES
        collector = MatchCollector(self, max_lines)
        binary = False
        for window in read_windows(
            lambda size: pieces.pop(0) if pieces else read(size), explicit=explicit, is_start=not is_hit
        ):
            binary = window.is_binary
            if window.data:
                collector.collect(window.data, self._finder(window.data))
            if collector.is_full:
                break
        if self.mode == "count" and binary:
            return BINARY_WITHOUT_MATCHES
        return FileMatches(collector.lines, collector.count, binary)


@dataclass
class MatchCollector:
    """The lines found so far, and the state needed for the next window."""

    matcher: LineMatcher
    max_matches: int
    lines: list[FoundLine] = field(default_factory=list[FoundLine])
    count: int = 0
    is_full: bool = False
    next_number: int = 1  # of the next line
    offset: int = 0  # of the next line
    trailing_context_left: int = 0  # lines still to be shown after the last match
    # The last lines, in case the next one matches.
    leading_context: list[FoundLine] = field(default_factory=list[FoundLine])

    def collect(self, data: BytesLike, find: FindMatch) -> None:
        keeps = self.matcher.mode == "content"
        at = 0  # the start of the next unprocessed line
        number = self.next_number
        while found := find(data, at):
            start = data.rfind(b"\n", at, found[0]) + 1 or at
            end = data.find(b"\n", found[0]) + 1 or len(data)
            if self.count == self.max_matches:
                self.is_full = True
                if keeps:
                    self._add_context(data, at, start, number)
                break
            self.count += 1
            if keeps:
                number = self._add_context(data, at, start, number)
                self.lines.append(self._make_line(data, start, end, number, found[0] - start, found[1] - start))
                self.trailing_context_left = self.matcher.after
                number += 1
            elif self.matcher.mode != "count":
                self.is_full = True
                break
            at = end
            if at >= len(data):
                break
        else:
            if keeps:
                number = self._add_context(data, at, len(data), number, last=True)
        self.next_number = number
        self.offset += len(data)

    def _add_context(self, data: BytesLike, at: int, past: int, number: int, *, last: bool = False) -> int:
        """Add the context after the previous match and before the one at `past`. Return the line number there."""
        end = at
        while self.trailing_context_left and end < past:
            stop = data.find(b"\n", end, past) + 1 or past
            self.lines.append(self._make_line(data, end, stop, number, -1, -1))
            number, end = number + 1, stop
            self.trailing_context_left -= 1
        back = self._find_context_start(data, end, past)
        number += data.count(b"\n", end, back)
        if not last:
            missing = self.matcher.before - data.count(b"\n", back, past)
            if end == 0 and missing > 0:
                self.lines += self.leading_context[-missing:]
            self.leading_context = []
        for line in self._split_lines(data, back, past):
            kept = self.leading_context if last else self.lines
            kept.append(self._make_line(data, *line, number, -1, -1))
            number += 1
        if last:
            self.leading_context = self.leading_context[-self.matcher.before :] if self.matcher.before else []
        return number

    def _find_context_start(self, data: BytesLike, at: int, past: int) -> int:
        """The start of the last `before` lines that end at `past`."""
        back = past
        for _ in range(self.matcher.before):
            if back <= at:
                break
            back = data.rfind(b"\n", at, back - 1) + 1 or at
        return back

    def _split_lines(self, data: BytesLike, at: int, past: int) -> Iterator[MatchSpan]:
        while at < past:
            end = data.find(b"\n", at, past) + 1 or past
            yield at, end
            at = end

    def _make_line(self, data: BytesLike, start: int, end: int, number: int, first: int, past: int) -> FoundLine:
        held = bytes(data[start:end]) if end - start <= MAX_HELD_LINE_BYTES else None
        return FoundLine(number, self.offset + start, first, past, held)


# --- finders


def make_finder(request: Grep) -> Callable[[BytesLike], FindMatch]:
    if request.regex:
        return make_regex_finder(compile_regex(request.pattern, ignore_case=request.ignore_case))
    literal = request.pattern.encode()
    if request.ignore_case:
        return make_bytes_finder(re.compile(build_ignore_case_pattern(request.pattern)))

    def find(data: BytesLike, at: int) -> MatchSpan | None:
        found = data.find(literal, at)
        return (found, found + len(literal)) if found >= 0 else None

    return lambda _: find


def make_bytes_finder(pattern: "re.Pattern[bytes]") -> Callable[[BytesLike], FindMatch]:
    def find(data: BytesLike, at: int) -> MatchSpan | None:
        found = pattern.search(data, at)
        return found.span() if found else None

    return lambda _: find


def make_regex_finder(pattern: "re.Pattern[str]") -> Callable[[BytesLike], FindMatch]:
    """Match decoded characters, and map positions back to bytes."""

    def prepare(data: BytesLike) -> FindMatch:
        text = data.decode("utf-8", "surrogateescape")
        plain = len(text) == len(data) and data.isascii()
        known = [0, 0]  # a character and its byte offset

        def byte_at(char: int) -> int:
            if plain:
                return char
            known[1] += len(text[known[0] : char].encode("utf-8", "surrogateescape"))
            known[0] = char
            return known[1]

        def char_at(byte: int) -> int:
            if plain:
                return byte
            known[0] += len(data[known[1] : byte].decode("utf-8", "surrogateescape"))
            known[1] = byte
            return known[0]

        def find(_: BytesLike, at: int) -> MatchSpan | None:
            found = pattern.search(text, char_at(at))
            if not found or (found.start() == len(text) and text.endswith("\n")):  # no line follows the last newline
                return None
            return byte_at(found.start()), byte_at(found.end())

        return find

    return prepare


def build_ignore_case_pattern(text: str) -> bytes:
    """A bytes pattern that matches the text in any case."""
    return b"".join(map(_build_char_pattern, text))


def _build_char_pattern(char: str) -> bytes:
    same = [re.escape(letter.encode()) for letter in list_case_variants(char)]
    return same[0] if len(same) == 1 else b"(?:" + b"|".join(same) + b")"


def list_case_variants(char: str) -> list[str]:
    if char.isascii():
        return sorted({char, char.lower(), char.upper(), *{"k": "\u212a", "s": "\u017f"}.get(char.lower(), "")})
    return build_case_groups().get(fold_case(char), [char])


@cache
def build_case_groups() -> dict[str, list[str]]:
    """Letters that differ only in case, by their folded form."""
    found: dict[str, list[str]] = {}
    for char in map(chr, range(0x20000)):  # no letter above has two cases
        if char.upper() != char or char.lower() != char or char.casefold() != char:
            found.setdefault(fold_case(char), []).append(char)
    return {to: sorted({to, *chars}) for to, chars in found.items()}


def fold_case(char: str) -> str:
    """Fold to a single letter: full folding turns some letters into two."""
    return next((to for to in (char.casefold(), char.lower()) if len(to) == 1), char)


# --- windows


@dataclass(frozen=True)
class TextWindow:
    """Some whole lines; the last may have no newline. With `is_binary`, nothing after them is searched."""

    data: BytesLike
    is_binary: bool = False


def read_windows(read: Callable[[int], bytes], *, explicit: bool, is_start: bool) -> Iterator[TextWindow]:
    """A file in windows of whole lines, up to a NUL; it is binary as a whole if that is in the first window."""
    data = read(WINDOW_BYTES)
    if data.startswith(UTF16_BOMS):
        whole = bytearray(data)
        while len(whole) < MAX_UTF16_BYTES and (more := read(WINDOW_BYTES)):
            whole += more
        if len(whole) > len(UTF16_BOMS[0]):
            yield decode_utf16(whole, explicit=explicit, is_start=is_start)
        return
    data = data.removeprefix(BOM)
    held = bytearray()  # an incomplete line
    while data:
        more = read(WINDOW_BYTES)
        end = data.rfind(b"\n") + 1 if more else len(data)
        if end:
            piece = data[:end] if end < len(data) else data
            if held:
                held += piece
            window = cut_at_nul(held or piece, explicit=explicit, is_start=is_start)
            yield window
            if window.is_binary:
                return
            held = bytearray(data[end:])
            is_start = False
        else:
            held += data
        data = more


def decode_utf16(raw: BytesLike, *, explicit: bool, is_start: bool) -> TextWindow:
    """UTF-16 text as UTF-8, in which it is searched and its bytes are counted."""
    return cut_at_nul(raw.decode("utf-16", "replace").encode("utf-8", "replace"), explicit=explicit, is_start=is_start)


def cut_at_nul(data: BytesLike, *, explicit: bool, is_start: bool) -> TextWindow:
    nul = data.find(b"\0")
    if nul < 0:
        return TextWindow(data)
    if explicit:
        return TextWindow(data.replace(b"\0", b"\n"))
    return TextWindow(
        b"" if is_start and nul < BINARY_CHECK_BYTES else data[: data.rfind(b"\n", 0, nul) + 1], is_binary=True
    )


def make_reader(fd: int, size: int) -> Callable[[int], bytes]:
    """Read a file up to its size, or to the end if its size is unknown."""
    left = size

    def read(max_bytes: int) -> bytes:
        nonlocal left
        if size and left <= 0:
            return b""
        # A larger buffer costs time, used or not.
        data = os.read(fd, min(max_bytes, left) if size else READ_BUFFER_BYTES)
        left -= len(data)
        return data

    return read
