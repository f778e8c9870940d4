"""The `*** Begin Patch` grammar: text to operations, or the line that breaks it.

Lenient where only one thing can be meant: a wrapping, an empty line that lost its sign, CRLF. A patch without
its last line may be one that was cut off, so that is no such thing.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from handhold.core.errors import BadPatch
from handhold.core.requests import AddFile, DeleteFile, Hunk, Operation, Sign, UpdateFile

BEGIN, END = "*** Begin Patch", "*** End Patch"
ADD, DELETE, UPDATE = "*** Add File:", "*** Delete File:", "*** Update File:"
MOVE, END_OF_FILE, SCOPE = "*** Move to:", "*** End of File", "@@"
NO_NEWLINE = "\\ No newline at end of file"

A_FILE = f'"{ADD} …", "{DELETE} …" or "{UPDATE} …"'
AN_ADDED_LINE = 'a line that starts with "+", or the next "*** …"'
A_HUNK_LINE = 'a line that starts with " ", "-" or "+", the next "@@", or the next "*** …"'
A_CHANGE = 'a hunk with lines that start with "-" or "+" and change something'

SIGNS: dict[str, Sign] = {" ": " ", "-": "-", "+": "+"}

_FENCE = re.compile(r"```[\w+-]*")
_HEREDOC = re.compile(r"""(?:apply_patch\s*|applypatch\s*)?<<-?\s*(['"]?)(\w+)\1""")
_NUMBERS = re.compile(r"-\d+(?:,\d+)? \+\d+(?:,\d+)? @@ ?(.*)")  # as a unified diff has them behind its first @@


@dataclass(frozen=True)
class Line:
    number: int  # in the text as it came
    text: str


def parse(text: str) -> tuple[Operation, ...]:
    """BadPatch with the first line that does not fit."""
    lines = unwrapped(text)
    first, last = lines[0], lines[-1]
    if first.text.strip() != BEGIN:
        raise BadPatch(first.number, first.text, f'"{BEGIN}"')
    for line, after in pairwise(lines):
        if line.text.rstrip() == END:
            raise BadPatch(after.number, after.text, f'nothing after "{END}"')
    if len(lines) == 1 or last.text.strip() != END:
        raise BadPatch(last.number, last.text, f'"{END}" as the last line')
    operations = tuple(_Reader(lines[1:-1]).operations())
    if not operations:
        raise BadPatch(last.number, last.text, A_FILE)
    return operations


# --- wrapping


def unwrapped(text: str) -> list[Line]:
    """The lines of the patch itself, at least one, without what models put around it."""
    lines = [Line(number, line) for number, line in enumerate(_spelled_out(text).split("\n"), 1)]
    if all(line.text.endswith("\r") for line in lines[:-1]):  # the whole text came so: it says nothing about files
        lines = [Line(line.number, line.text.removesuffix("\r")) for line in lines]
    while True:
        lines = _trimmed(lines)
        peeled = next((inner for peel in WRAPPINGS if (inner := peel(lines)) is not None), None)
        if peeled is None:
            return lines
        lines = peeled


def _spelled_out(text: str) -> str:
    """A patch on one line, with `\\n` for its newlines, is JSON that nobody read."""
    line = text.strip()
    if "\n" in line or "\\n" not in line:
        return text
    try:
        found = json.loads(line if line.startswith('"') else f'"{line}"')
    except ValueError:
        return text
    return found if isinstance(found, str) else text


def _trimmed(lines: list[Line]) -> list[Line]:
    start, end = 0, len(lines)
    while start < end - 1 and not lines[start].text.strip():
        start += 1
    while end > start + 1 and not lines[end - 1].text.strip():
        end -= 1
    return lines[start:end]


def _in_fence(lines: list[Line]) -> list[Line] | None:
    fits = len(lines) > 2 and _FENCE.fullmatch(lines[0].text.strip()) and lines[-1].text.strip() == "```"
    return lines[1:-1] if fits else None


def _in_heredoc(lines: list[Line]) -> list[Line] | None:
    opened = _HEREDOC.fullmatch(lines[0].text.strip())
    return lines[1:-1] if opened and len(lines) > 2 and lines[-1].text.strip() == opened[2] else None


def _in_quotes(lines: list[Line]) -> list[Line] | None:
    first, last = lines[0], lines[-1]
    start, end = first.text.lstrip(), last.text.rstrip()
    if len(lines) < 2 or start[:1] not in ("'", '"') or not end.endswith(start[0]) or start[1:].strip() != BEGIN:
        return None
    return [Line(first.number, start[1:]), *lines[1:-1], Line(last.number, end[:-1])]


WRAPPINGS: tuple[Callable[[list[Line]], list[Line] | None], ...] = (_in_fence, _in_heredoc, _in_quotes)


# --- the grammar


class _Reader:
    def __init__(self, lines: list[Line]) -> None:
        self.lines = lines
        self.at = 0

    @property
    def line(self) -> Line | None:
        return self.lines[self.at] if self.at < len(self.lines) else None

    def operations(self) -> Iterator[Operation]:
        while line := self._past_blanks():
            self.at += 1
            if (path := self._path(line, ADD)) is not None:
                yield AddFile(path, self._content())
            elif (path := self._path(line, DELETE)) is not None:
                yield DeleteFile(path)
            elif (path := self._path(line, UPDATE)) is not None:
                yield self._update(line, path)
            else:
                raise BadPatch(line.number, line.text, A_FILE)

    def _past_blanks(self) -> Line | None:
        while self.line and not self.line.text.strip():
            self.at += 1
        return self.line

    def _path(self, line: Line, header: str) -> str | None:
        """The path behind a header; None if it is another header."""
        found = line.text.strip()
        if not found.startswith(header):
            return None
        if path := found.removeprefix(header).strip():
            return path
        raise BadPatch(line.number, line.text, f'a path behind "{header}"')

    def _content(self) -> str:
        out: list[str] = []
        blank, newline = 0, True
        while (line := self.line) and not line.text.startswith("***"):
            self.at += 1
            if not line.text.strip():
                blank += 1
            elif line.text.startswith("+") and newline:
                out += [""] * blank  # between added lines it is one that lost its sign; at the end it is layout
                out.append(line.text[1:])
                blank = 0
            elif line.text.rstrip() == NO_NEWLINE and out:
                newline = False
            else:
                raise BadPatch(line.number, line.text, AN_ADDED_LINE)
        return "\n".join(out) + ("\n" if out and newline else "")

    def _update(self, header: Line, path: str) -> UpdateFile:
        move_to = ""
        if (line := self._past_blanks()) and (found := self._path(line, MOVE)) is not None:
            self.at += 1
            move_to = found
        hunks = tuple(self._hunks())
        if not move_to and all(hunk.old == hunk.new and hunk.newline is None for hunk in hunks):
            raise BadPatch(header.number, header.text, A_CHANGE)
        return UpdateFile(path, hunks, move_to)

    def _hunks(self) -> Iterator[Hunk]:
        first = True
        while (line := self._past_blanks()) and not line.text.startswith("***"):
            if not first and not line.text.startswith(SCOPE):  # something stands behind `*** End of File`
                raise BadPatch(line.number, line.text, '"@@" or the next "*** …"')
            yield self._hunk(line)
            first = False

    def _hunk(self, start: Line) -> Hunk:
        scopes = tuple(self._scopes())
        rows: list[tuple[Sign, str]] = []
        bare: set[int] = set()  # rows that lost their sign
        old_open = new_open = at_end = False
        while (line := self.line) and not line.text.startswith((SCOPE, "***")):
            self.at += 1
            text = line.text.removesuffix("\r")
            if sign := SIGNS.get(text[:1]):
                rows.append((sign, text[1:]))
            elif not text.strip():
                bare.add(len(rows))
                rows.append((" ", text))
            elif text.rstrip() == NO_NEWLINE and rows:
                old_open |= rows[-1][0] != "+"
                new_open |= rows[-1][0] != "-"
            else:
                raise BadPatch(line.number, line.text, A_HUNK_LINE)
        if line and line.text.rstrip() == END_OF_FILE:
            self.at += 1
            at_end = True
        if not any(n not in bare for n in range(len(rows))):
            raise BadPatch(start.number, start.text, A_HUNK_LINE)
        newline = not new_open if old_open or new_open else None
        ends = at_end or newline is not None
        return Hunk(start.number, scopes, tuple(_without_layout(rows, bare, ends=ends)), ends, newline)

    def _scopes(self) -> Iterator[str]:
        while (line := self.line) and line.text.startswith(SCOPE):
            self.at += 1
            scope = line.text.removesuffix("\r").removeprefix(SCOPE).removeprefix(" ")
            numbers = _NUMBERS.fullmatch(scope)
            scope = numbers[1] if numbers else scope
            if scope.strip():
                yield scope


def _without_layout(rows: list[tuple[Sign, str]], bare: set[int], *, ends: bool) -> list[tuple[Sign, str]]:
    """Empty lines at the edges of a hunk are taken for layout, unless they are all that says where it goes."""
    start, end = 0, len(rows)
    while start in bare:
        start += 1
    while not ends and end - 1 in bare:
        end -= 1
    kept = rows[start:end]
    return kept if any(sign != "+" for sign, _ in kept) else rows
