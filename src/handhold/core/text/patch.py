"""Parse the `*** Begin Patch` format into operations, or report the first invalid line.

Lenient where only one thing can be meant: a wrapper, an empty line that lost its sign, CRLF. A patch without its last
line is rejected, because it may have been truncated.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from handhold.core.errors import BadPatch
from handhold.core.requests import AddFile, DeleteFile, LineSign, Operation, PatchHunk, UpdateFile

BEGIN, END = "*** Begin Patch", "*** End Patch"
ADD, DELETE, UPDATE = "*** Add File:", "*** Delete File:", "*** Update File:"
MOVE, END_OF_FILE, SCOPE = "*** Move to:", "*** End of File", "@@"
NO_NEWLINE = "\\ No newline at end of file"

EXPECTED_FILE_HEADER = f'"{ADD} …", "{DELETE} …" or "{UPDATE} …"'
EXPECTED_ADDED_LINE = 'a line that starts with "+", or the next "*** …"'
EXPECTED_HUNK_LINE = 'a line that starts with " ", "-" or "+", the next "@@", or the next "*** …"'
EXPECTED_CHANGE = 'a hunk with lines that start with "-" or "+" and change something'

SIGNS: dict[str, LineSign] = {" ": " ", "-": "-", "+": "+"}

_FENCE = re.compile(r"```[\w+-]*")
_HEREDOC = re.compile(r"""(?:apply_patch\s*|applypatch\s*)?<<-?\s*(['"]?)(\w+)\1""")
_HUNK_RANGES = re.compile(r"-\d+(?:,\d+)? \+\d+(?:,\d+)? @@ ?(.*)")  # as in a unified diff after the first @@


@dataclass(frozen=True)
class PatchLine:
    number: int  # in the original text
    text: str


def parse_patch(text: str) -> tuple[Operation, ...]:
    """Raise BadPatch with the first invalid line."""
    lines = unwrap(text)
    first, last = lines[0], lines[-1]
    if first.text.strip() != BEGIN:
        raise BadPatch(first.number, first.text, f'"{BEGIN}"')
    for line, after in pairwise(lines):
        if line.text.rstrip() == END:
            raise BadPatch(after.number, after.text, f'nothing after "{END}"')
    if len(lines) == 1 or last.text.strip() != END:
        raise BadPatch(last.number, last.text, f'"{END}" as the last line')
    operations = tuple(_PatchParser(lines[1:-1]).parse_operations())
    if not operations:
        raise BadPatch(last.number, last.text, EXPECTED_FILE_HEADER)
    return operations


# --- wrapping


def unwrap(text: str) -> list[PatchLine]:
    """The lines of the patch itself, at least one, without what models wrap around it."""
    lines = [PatchLine(number, line) for number, line in enumerate(_decode_json_string(text).split("\n"), 1)]
    if all(line.text.endswith("\r") for line in lines[:-1]):  # CRLF throughout says nothing about the files
        lines = [PatchLine(line.number, line.text.removesuffix("\r")) for line in lines]
    while True:
        lines = _trim_blank_lines(lines)
        unwrapped_lines = next((inner for unwrapper in UNWRAPPERS if (inner := unwrapper(lines)) is not None), None)
        if unwrapped_lines is None:
            return lines
        lines = unwrapped_lines


def _decode_json_string(text: str) -> str:
    """Decode a patch on one line with `\\n` for its newlines: a JSON string that was not decoded."""
    line = text.strip()
    if "\n" in line or "\\n" not in line:
        return text
    try:
        found = json.loads(line if line.startswith('"') else f'"{line}"')
    except ValueError:
        return text
    return found if isinstance(found, str) else text


def _trim_blank_lines(lines: list[PatchLine]) -> list[PatchLine]:
    start, end = 0, len(lines)
    while start < end - 1 and not lines[start].text.strip():
        start += 1
    while end > start + 1 and not lines[end - 1].text.strip():
        end -= 1
    return lines[start:end]


def _unwrap_fence(lines: list[PatchLine]) -> list[PatchLine] | None:
    fits = len(lines) > 2 and _FENCE.fullmatch(lines[0].text.strip()) and lines[-1].text.strip() == "```"
    return lines[1:-1] if fits else None


def _unwrap_heredoc(lines: list[PatchLine]) -> list[PatchLine] | None:
    opened = _HEREDOC.fullmatch(lines[0].text.strip())
    return lines[1:-1] if opened and len(lines) > 2 and lines[-1].text.strip() == opened[2] else None


def _unwrap_quotes(lines: list[PatchLine]) -> list[PatchLine] | None:
    first, last = lines[0], lines[-1]
    start, end = first.text.lstrip(), last.text.rstrip()
    if len(lines) < 2 or start[:1] not in ("'", '"') or not end.endswith(start[0]) or start[1:].strip() != BEGIN:
        return None
    return [PatchLine(first.number, start[1:]), *lines[1:-1], PatchLine(last.number, end[:-1])]


UNWRAPPERS: tuple[Callable[[list[PatchLine]], list[PatchLine] | None], ...] = (
    _unwrap_fence,
    _unwrap_heredoc,
    _unwrap_quotes,
)


# --- the grammar


class _PatchParser:
    def __init__(self, lines: list[PatchLine]) -> None:
        self.lines = lines
        self.position = 0

    @property
    def current_line(self) -> PatchLine | None:
        return self.lines[self.position] if self.position < len(self.lines) else None

    def parse_operations(self) -> Iterator[Operation]:
        while line := self._skip_blank_lines():
            self.position += 1
            if (path := self._parse_path(line, ADD)) is not None:
                yield AddFile(path, self._parse_content())
            elif (path := self._parse_path(line, DELETE)) is not None:
                yield DeleteFile(path)
            elif (path := self._parse_path(line, UPDATE)) is not None:
                yield self._parse_update(line, path)
            else:
                raise BadPatch(line.number, line.text, EXPECTED_FILE_HEADER)

    def _skip_blank_lines(self) -> PatchLine | None:
        while self.current_line and not self.current_line.text.strip():
            self.position += 1
        return self.current_line

    def _parse_path(self, line: PatchLine, header: str) -> str | None:
        """The path after a header; None if the line has another header."""
        found = line.text.strip()
        if not found.startswith(header):
            return None
        if path := found.removeprefix(header).strip():
            return path
        raise BadPatch(line.number, line.text, f'a path after "{header}"')

    def _parse_content(self) -> str:
        out: list[str] = []
        blank, newline = 0, True
        while (line := self.current_line) and not line.text.startswith("***"):
            self.position += 1
            if not line.text.strip():
                blank += 1
            elif line.text.startswith("+") and newline:
                out += [""] * blank  # a blank between added lines lost its sign; at the end it is layout
                out.append(line.text[1:])
                blank = 0
            elif line.text.rstrip() == NO_NEWLINE and out:
                newline = False
            else:
                raise BadPatch(line.number, line.text, EXPECTED_ADDED_LINE)
        return "\n".join(out) + ("\n" if out and newline else "")

    def _parse_update(self, header: PatchLine, path: str) -> UpdateFile:
        move_to = ""
        if (line := self._skip_blank_lines()) and (found := self._parse_path(line, MOVE)) is not None:
            self.position += 1
            move_to = found
        hunks = tuple(self._parse_hunks())
        if not move_to and all(hunk.old == hunk.new and hunk.ends_with_newline is None for hunk in hunks):
            raise BadPatch(header.number, header.text, EXPECTED_CHANGE)
        return UpdateFile(path, hunks, move_to)

    def _parse_hunks(self) -> Iterator[PatchHunk]:
        first = True
        while (line := self._skip_blank_lines()) and not line.text.startswith("***"):
            if not first and not line.text.startswith(SCOPE):  # text after `*** End of File`
                raise BadPatch(line.number, line.text, '"@@" or the next "*** …"')
            yield self._parse_hunk(line)
            first = False

    def _parse_hunk(self, start: PatchLine) -> PatchHunk:
        scopes = tuple(self._parse_scopes())
        rows: list[tuple[LineSign, str]] = []
        unsigned: set[int] = set()  # rows that lost their sign
        old_open = new_open = at_end = False
        while (line := self.current_line) and not line.text.startswith((SCOPE, "***")):
            self.position += 1
            text = line.text.removesuffix("\r")
            if sign := SIGNS.get(text[:1]):
                rows.append((sign, text[1:]))
            elif not text.strip():
                unsigned.add(len(rows))
                rows.append((" ", text))
            elif text.rstrip() == NO_NEWLINE and rows:
                old_open |= rows[-1][0] != "+"
                new_open |= rows[-1][0] != "-"
            else:
                raise BadPatch(line.number, line.text, EXPECTED_HUNK_LINE)
        if line and line.text.rstrip() == END_OF_FILE:
            self.position += 1
            at_end = True
        if not any(n not in unsigned for n in range(len(rows))):
            raise BadPatch(start.number, start.text, EXPECTED_HUNK_LINE)
        newline = not new_open if old_open or new_open else None
        ends = at_end or newline is not None
        return PatchHunk(start.number, scopes, tuple(_trim_layout(rows, unsigned, is_file_end=ends)), ends, newline)

    def _parse_scopes(self) -> Iterator[str]:
        while (line := self.current_line) and line.text.startswith(SCOPE):
            self.position += 1
            scope = line.text.removesuffix("\r").removeprefix(SCOPE).removeprefix(" ")
            numbers = _HUNK_RANGES.fullmatch(scope)
            scope = numbers[1] if numbers else scope
            if scope.strip():
                yield scope


def _trim_layout(
    rows: list[tuple[LineSign, str]], unsigned: set[int], *, is_file_end: bool
) -> list[tuple[LineSign, str]]:
    """Drop unsigned empty lines at the edges of a hunk as layout, unless only they say where the hunk goes."""
    start, end = 0, len(rows)
    while start in unsigned:
        start += 1
    while not is_file_end and end - 1 in unsigned:
        end -= 1
    kept = rows[start:end]
    return kept if any(sign != "+" for sign, _ in kept) else rows
