"""Finding lines in the bytes of one file, as ripgrep does.

A file that nobody named by its path is binary if a NUL is among its first bytes; one behind them ends the search of
it. In a file that was named, a NUL ends a line. UTF-16 with a mark is read as what it says.
"""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

from handhold.core.requests import Grep
from handhold.core.text.regex import compiled
from handhold.world.search.events import BOM, LONG, MOST_WIDE, WIDE, Found

WINDOW = 4 << 20  # bytes that are looked at together, if no line is longer
BUFFER = 1 << 16
FIRST = BUFFER  # bytes; ripgrep looks as far, though not always to the byte

Bytes = bytes | bytearray
Span = tuple[int, int]  # of a match
Finds = Callable[[Bytes, int], Span | None]


@dataclass(frozen=True)
class Seen:
    """What a search of one file came to."""

    lines: list[Found] = field(default_factory=list[Found])
    count: int = 0
    binary: bool = False


NOTHING, ONLY_BINARY = Seen(), Seen(binary=True)


class Needle:
    """What is looked for, made ready once. BadRegex."""

    def __init__(self, request: Grep) -> None:
        self.mode = request.mode
        self.before, self.after = (request.before, request.after) if request.mode == "content" else (0, 0)
        self._finder = finder(request)
        self._literal = b"" if request.regex or request.ignore_case else request.pattern.encode()

    def search(self, read: Callable[[int], bytes], *, named: bool, most: int, is_hit: bool = False) -> Seen:
        """The first `most` matching lines of what `read` gives piece by piece, with the lines around them.

        With `is_hit`, ripgrep has found one in it: whether it is binary was for ripgrep to say.
        """
        pieces = [read(WINDOW)]
        if self._literal not in pieces[0] and not pieces[0].startswith(WIDE):  # nearly every file: in the fewest steps
            pieces.append(read(WINDOW))
            if not pieces[1]:
                return ONLY_BINARY if b"\0" in pieces[0] and not named else NOTHING
        lines = Lines(self, most)
        binary = False
        for window in windows(lambda size: pieces.pop(0) if pieces else read(size), named=named, first=not is_hit):
            binary = window.binary
            if window.data:
                lines.look(window.data, self._finder(window.data))
            if lines.full:
                break
        if self.mode == "count" and binary:
            return ONLY_BINARY
        return Seen(lines.found, lines.count, binary)


@dataclass
class Lines:
    """The lines found so far, and what is needed to go on in the next window."""

    needle: Needle
    most: int
    found: list[Found] = field(default_factory=list[Found])
    count: int = 0
    full: bool = False
    number: int = 1  # of the next line
    offset: int = 0  # where it begins
    owed: int = 0  # lines that are still to be shown behind the last match
    recent: list[Found] = field(default_factory=list[Found])  # the last ones, in case the next one matches

    def look(self, data: Bytes, find: Finds) -> None:
        keeps = self.needle.mode == "content"
        at = 0  # the start of the next line that nobody has looked at
        number = self.number
        while found := find(data, at):
            start = data.rfind(b"\n", at, found[0]) + 1 or at
            end = data.find(b"\n", found[0]) + 1 or len(data)
            if self.count == self.most:
                self.full = True
                if keeps:
                    self._around(data, at, start, number)
                break
            self.count += 1
            if keeps:
                number = self._around(data, at, start, number)
                self.found.append(self._line(data, start, end, number, found[0] - start, found[1] - start))
                self.owed = self.needle.after
                number += 1
            elif self.needle.mode != "count":
                self.full = True
                break
            at = end
            if at >= len(data):
                break
        else:
            if keeps:
                number = self._around(data, at, len(data), number, last=True)
        self.number = number
        self.offset += len(data)

    def _around(self, data: Bytes, at: int, past: int, number: int, *, last: bool = False) -> int:
        """Show what is owed behind the match before, and what belongs before the one at `past`. The number there."""
        end = at
        while self.owed and end < past:
            stop = data.find(b"\n", end, past) + 1 or past
            self.found.append(self._line(data, end, stop, number, -1, -1))
            number, end = number + 1, stop
            self.owed -= 1
        back = self._back(data, end, past)
        number += data.count(b"\n", end, back)
        if not last:
            missing = self.needle.before - data.count(b"\n", back, past)
            if end == 0 and missing > 0:
                self.found += self.recent[-missing:]
            self.recent = []
        for line in self._split(data, back, past):
            kept = self.recent if last else self.found
            kept.append(self._line(data, *line, number, -1, -1))
            number += 1
        if last:
            self.recent = self.recent[-self.needle.before :] if self.needle.before else []
        return number

    def _back(self, data: Bytes, at: int, past: int) -> int:
        """Where the last `before` lines begin that end at `past`."""
        back = past
        for _ in range(self.needle.before):
            if back <= at:
                break
            back = data.rfind(b"\n", at, back - 1) + 1 or at
        return back

    def _split(self, data: Bytes, at: int, past: int) -> Iterator[Span]:
        while at < past:
            end = data.find(b"\n", at, past) + 1 or past
            yield at, end
            at = end

    def _line(self, data: Bytes, start: int, end: int, number: int, first: int, past: int) -> Found:
        held = bytes(data[start:end]) if end - start <= LONG else None
        return Found(number, self.offset + start, first, past, held)


# --- what to find


def finder(request: Grep) -> Callable[[Bytes], Finds]:
    if request.regex:
        return by_regex(compiled(request.pattern, ignore_case=request.ignore_case))
    needle = request.pattern.encode()
    if request.ignore_case:
        return by_bytes(re.compile(any_case(request.pattern)))

    def find(data: Bytes, at: int) -> Span | None:
        found = data.find(needle, at)
        return (found, found + len(needle)) if found >= 0 else None

    return lambda _: find


def by_bytes(pattern: "re.Pattern[bytes]") -> Callable[[Bytes], Finds]:
    def find(data: Bytes, at: int) -> Span | None:
        found = pattern.search(data, at)
        return found.span() if found else None

    return lambda _: find


def by_regex(pattern: "re.Pattern[str]") -> Callable[[Bytes], Finds]:
    """Characters, where a file is text; and back to the bytes that they stand for."""

    def prepared(data: Bytes) -> Finds:
        text = data.decode("utf-8", "surrogateescape")
        plain = len(text) == len(data) and data.isascii()
        known = [0, 0]  # a character and the byte where it begins

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

        def find(_: Bytes, at: int) -> Span | None:
            found = pattern.search(text, char_at(at))
            if not found or (found.start() == len(text) and text.endswith("\n")):  # behind the last line there is none
                return None
            return byte_at(found.start()), byte_at(found.end())

        return find

    return prepared


def any_case(text: str) -> bytes:
    """A text in bytes, in whatever case each of its letters is written."""
    return b"".join(map(_any_case, text))


def _any_case(char: str) -> bytes:
    same = [re.escape(letter.encode()) for letter in same_letters(char)]
    return same[0] if len(same) == 1 else b"(?:" + b"|".join(same) + b")"


def same_letters(char: str) -> list[str]:
    if char.isascii():
        return sorted({char, char.lower(), char.upper(), *{"k": "\u212a", "s": "\u017f"}.get(char.lower(), "")})
    return alike().get(folded(char), [char])


@cache
def alike() -> dict[str, list[str]]:
    """Letters that differ in case only, by what they are folded to."""
    found: dict[str, list[str]] = {}
    for char in map(chr, range(0x20000)):  # behind them no letter has two cases
        if char.upper() != char or char.lower() != char or char.casefold() != char:
            found.setdefault(folded(char), []).append(char)
    return {to: sorted({to, *chars}) for to, chars in found.items()}


def folded(char: str) -> str:
    """Without its case, and one letter still: some become two when they are folded fully."""
    return next((to for to in (char.casefold(), char.lower()) if len(to) == 1), char)


# --- the pieces of a file


@dataclass(frozen=True)
class Window:
    """Some whole lines; the last may lack its end. `binary` tells that nothing behind them counts."""

    data: Bytes
    binary: bool = False


def windows(read: Callable[[int], bytes], *, named: bool, first: bool) -> Iterator[Window]:
    """A file in pieces of whole lines, up to where it turns out to be binary: as a whole, if that is in its first."""
    data = read(WINDOW)
    if data.startswith(WIDE):
        whole = bytearray(data)
        while len(whole) < MOST_WIDE and (more := read(WINDOW)):
            whole += more
        if len(whole) > len(WIDE[0]):
            yield wide(whole, named=named, first=first)
        return
    data = data.removeprefix(BOM)
    held = bytearray()  # a line whose end has not come yet
    while data:
        more = read(WINDOW)
        end = data.rfind(b"\n") + 1 if more else len(data)
        if end:
            piece = data[:end] if end < len(data) else data
            if held:
                held += piece
            window = bounded(held or piece, named=named, first=first)
            yield window
            if window.binary:
                return
            held = bytearray(data[end:])
            first = False
        else:
            held += data
        data = more


def wide(raw: Bytes, *, named: bool, first: bool) -> Window:
    """Text in UTF-16, as UTF-8: that is what is searched, and where its bytes are counted."""
    return bounded(raw.decode("utf-16", "replace").encode("utf-8", "replace"), named=named, first=first)


def bounded(data: Bytes, *, named: bool, first: bool) -> Window:
    nul = data.find(b"\0")
    if nul < 0:
        return Window(data)
    if named:
        return Window(data.replace(b"\0", b"\n"))
    return Window(b"" if first and nul < FIRST else data[: data.rfind(b"\n", 0, nul) + 1], binary=True)


def reading(fd: int, size: int) -> Callable[[int], bytes]:
    """Reads a file to its end, as large as it was, or until nothing more comes where nobody knows its size."""
    left = size

    def read(most: int) -> bytes:
        nonlocal left
        if size and left <= 0:
            return b""
        data = os.read(fd, min(most, left) if size else BUFFER)  # room that is asked for costs time, used or not
        left -= len(data)
        return data

    return read
