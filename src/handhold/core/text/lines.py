"""Lines: a line ends with \\n, and a \\r before it belongs to the ending. A lone \\r is text.

So line numbers agree with grep, git and compilers.
"""

import re
from collections.abc import Iterator, Sequence

_ANY_ENDING = re.compile(r"\r?\n|\r")


def normalize_newlines(text: str) -> str:
    """Text as Read shows it: every line ending is \\n."""
    return text.replace("\r\n", "\n")


def split_lines(text: str) -> list[str]:
    """The lines of a text without their endings. A final newline does not start another line."""
    lines = normalize_newlines(text).split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def count_lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n") and bool(text))


def find_line_number(text: str, offset: int) -> int:
    """The number of the line that contains this offset."""
    return text.count("\n", 0, offset) + 1


def find_line_numbers(text: str, offsets: Sequence[int]) -> tuple[int, ...]:
    """The line numbers of several offsets, in ascending order, in one pass."""
    numbers: list[int] = []
    line, last = 1, 0
    for offset in offsets:
        line += text.count("\n", last, offset)
        last = offset
        numbers.append(line)
    return tuple(numbers)


def detect_line_ending(text: str) -> str:
    """The most common line ending."""
    crlf = text.count("\r\n")
    return "\r\n" if crlf > text.count("\n") - crlf else "\n"


def iter_lines_with_endings(text: str, *, lone_cr: bool = False) -> Iterator[tuple[str, str]]:
    """Each line with its own ending; the last has none. Joined, they yield the text.

    With `lone_cr`, a lone \\r ends a line too.
    """
    at = 0
    if lone_cr:
        for ending in _ANY_ENDING.finditer(text):
            yield text[at : ending.start()], ending.group()
            at = ending.end()
    else:  # no regular expression, which is slow on lines of megabytes
        while (newline := text.find("\n", at)) >= 0:
            end = newline - 1 if newline > at and text[newline - 1] == "\r" else newline
            yield text[at:end], text[end : newline + 1]
            at = newline + 1
    yield text[at:], ""


def merge_ranges(ranges: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Ranges of line numbers, inclusive, sorted, and merged where they touch."""
    out: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if out and first <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(last, out[-1][1]))
        else:
            out.append((first, last))
    return tuple(out)
