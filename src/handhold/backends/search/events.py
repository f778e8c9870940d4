"""Parse ripgrep's JSON output; of a line that is too long, keep only what is needed to find it again.

In JSON, quotation marks inside a text are escaped. So `,"line_number":` occurs only after the text of a line, and
`,"start":` only after the text of a match: both can be found without parsing the text.
"""

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from typing import Any, NamedTuple

from handhold.backends.search.search_process import DeadlineExceeded

BOM = b"\xef\xbb\xbf"
UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")  # ripgrep decodes such a file to UTF-8, and counts bytes in that
MAX_UTF16_BYTES = 16 * 1024 * 1024
MAX_HELD_LINE_BYTES = 1 << 16  # of JSON, for one line
NUMBER_PATTERNS = (
    (b',"line_number":', re.compile(rb',"line_number":(\d+),"absolute_offset":(\d+),')),
    (b',"start":', re.compile(rb',"start":(\d+),"end":(\d+)\}')),
)


class FileBegin(NamedTuple):
    path: bytes


class FoundLine(NamedTuple):
    """A line: its number, its offset in the file, and the first match in it, -1 for context.

    `data` is the line with its ending; None if it is too long to keep.
    """

    number: int
    offset: int
    start: int
    end: int
    data: bytes | None


class FileEnd(NamedTuple):
    """The end of a file; `binary_offset` is the position of a NUL, if there is one."""

    binary_offset: int | None


RipgrepEvent = FileBegin | FoundLine | FileEnd


def parse_events(chunks: Iterator[bytes]) -> Iterator[RipgrepEvent]:
    rest = b""
    long: LongLineParser | None = None
    for piece in chunks:
        if long:
            if (over := long.feed(piece)) is None:
                continue
            if event := long.to_event():
                yield event
            long, piece = None, over
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if event := parse_event(line):
                yield event
        if len(rest) > MAX_HELD_LINE_BYTES:
            long = LongLineParser()
            long.feed(rest)
            rest = b""


def group_by_file(chunks: Iterator[bytes], *, explicit: bool) -> Iterator[tuple[bytes, list[FoundLine]]]:
    """Each file with its lines. Unless the file was `explicit`, matches after a NUL are dropped.

    When time runs out, the lines of the last file so far are yielded before DeadlineExceeded is raised.
    """
    path, lines = b"", list[FoundLine]()
    try:
        for event in parse_events(chunks):
            match event:
                case FileBegin():
                    path, lines = event.path, []
                case FoundLine():
                    lines.append(event)
                case FileEnd():
                    nul = event.binary_offset
                    yield path, lines if explicit or nul is None else [line for line in lines if line.offset < nul]
                    lines = []
    except DeadlineExceeded:
        if lines:
            yield path, lines
        raise


def parse_event(line: bytes) -> RipgrepEvent | None:
    message: dict[str, Any] = json.loads(line)
    data: dict[str, Any] = message["data"]
    match message["type"]:
        case "match":
            first: dict[str, Any] = data["submatches"][0] if data["submatches"] else {"start": 0, "end": 0}
            return FoundLine(
                data["line_number"], data["absolute_offset"], first["start"], first["end"], decode_text(data["lines"])
            )
        case "context":
            return FoundLine(data["line_number"], data["absolute_offset"], -1, -1, decode_text(data["lines"]))
        case "begin":
            return FileBegin(decode_text(data["path"]))
        case "end":
            return FileEnd(data["binary_offset"])
        case _:
            return None


def decode_text(value: dict[str, str]) -> bytes:
    """UTF-8 text as is, anything else from base64."""
    return value["text"].encode() if "text" in value else b64decode(value["bytes"])


class LongLineParser:
    """Parses an overlong JSON line and keeps only its numbers."""

    def __init__(self) -> None:
        self._tail = b""
        self._numbers: list[tuple[int, int]] = []

    def feed(self, piece: bytes) -> bytes | None:
        """What follows the end of the line; None if it has not been reached."""
        end = piece.find(b"\n")
        self._find_numbers(piece if end < 0 else piece[:end])
        return None if end < 0 else piece[end + 1 :]

    def to_event(self) -> FoundLine | None:
        match self._numbers:
            case [(number, offset)]:
                return FoundLine(number, offset, -1, -1, None)
            case [(number, offset), (start, end)]:
                return FoundLine(number, offset, start, end, None)
            case _:
                return None

    def _find_numbers(self, piece: bytes) -> None:
        window = self._tail + piece
        for mark, numbers in NUMBER_PATTERNS[len(self._numbers) :]:
            at = window.find(mark)
            found = numbers.match(window, at) if at >= 0 else None
            if not found:
                self._tail = window[at if at >= 0 else -len(mark) :]
                return
            self._numbers.append((int(found[1]), int(found[2])))
            window = window[found.end() :]
        self._tail = b""
