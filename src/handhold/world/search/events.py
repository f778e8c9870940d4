"""What ripgrep says in JSON, line by line; of a line that is too long, only what is needed to find it again.

In ripgrep's JSON a quotation mark inside a text is escaped. So `,"line_number":` stands nowhere but where the text of
a line has ended, and `,"start":` nowhere but behind the text of a match: both are found without reading the text.
"""

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from typing import Any, NamedTuple

from handhold.world.search.running import Late

BOM = b"\xef\xbb\xbf"
WIDE = (b"\xff\xfe", b"\xfe\xff")  # the program reads such a file as UTF-8, and counts bytes in that
MOST_WIDE = 16 * 1024 * 1024
LONG = 1 << 16  # bytes of JSON that are held for one line
MARKS = (
    (b',"line_number":', re.compile(rb',"line_number":(\d+),"absolute_offset":(\d+),')),
    (b',"start":', re.compile(rb',"start":(\d+),"end":(\d+)\}')),
)


class Begin(NamedTuple):
    path: bytes


class Found(NamedTuple):
    """A line: its number, where it begins in the file, and the first match in it, -1 for context.

    `data` is the line itself with its end; None if it is too long to be held.
    """

    number: int
    offset: int
    start: int
    end: int
    data: bytes | None


class End(NamedTuple):
    """A file is through; `binary` tells where a NUL was seen in it."""

    binary: int | None


Event = Begin | Found | End


def events(pieces: Iterator[bytes]) -> Iterator[Event]:
    rest = b""
    long: Long | None = None
    for piece in pieces:
        if long:
            if (over := long.read(piece)) is None:
                continue
            if event := long.event():
                yield event
            long, piece = None, over
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if event := event_of(line):
                yield event
        if len(rest) > LONG:
            long = Long()
            long.read(rest)
            rest = b""


def by_file(pieces: Iterator[bytes], *, named: bool) -> Iterator[tuple[bytes, list[Found]]]:
    """Each file with its lines. Unless the file was `named`, nothing counts that stands behind a NUL.

    When the time is over, the lines that have come of the last file are given before Late goes on.
    """
    path, lines = b"", list[Found]()
    try:
        for event in events(pieces):
            match event:
                case Begin():
                    path, lines = event.path, []
                case Found():
                    lines.append(event)
                case End():
                    nul = event.binary
                    yield path, lines if named or nul is None else [line for line in lines if line.offset < nul]
                    lines = []
    except Late:
        if lines:
            yield path, lines
        raise


def event_of(line: bytes) -> Event | None:
    said: dict[str, Any] = json.loads(line)
    data: dict[str, Any] = said["data"]
    match said["type"]:
        case "match":
            first: dict[str, Any] = data["submatches"][0] if data["submatches"] else {"start": 0, "end": 0}
            return Found(data["line_number"], data["absolute_offset"], first["start"], first["end"], raw(data["lines"]))
        case "context":
            return Found(data["line_number"], data["absolute_offset"], -1, -1, raw(data["lines"]))
        case "begin":
            return Begin(raw(data["path"]))
        case "end":
            return End(data["binary_offset"])
        case _:
            return None


def raw(said: dict[str, str]) -> bytes:
    """Text as it is, and what is no UTF-8 in base 64."""
    return said["text"].encode() if "text" in said else b64decode(said["bytes"])


class Long:
    """An over-long line of JSON, of which only the numbers are kept."""

    def __init__(self) -> None:
        self._tail = b""
        self._numbers: list[tuple[int, int]] = []

    def read(self, piece: bytes) -> bytes | None:
        """What stands behind the end of the line; None if that has not come yet."""
        end = piece.find(b"\n")
        self._look(piece if end < 0 else piece[:end])
        return None if end < 0 else piece[end + 1 :]

    def event(self) -> Found | None:
        match self._numbers:
            case [(number, offset)]:
                return Found(number, offset, -1, -1, None)
            case [(number, offset), (start, end)]:
                return Found(number, offset, start, end, None)
            case _:
                return None

    def _look(self, piece: bytes) -> None:
        window = self._tail + piece
        for mark, numbers in MARKS[len(self._numbers) :]:
            at = window.find(mark)
            found = numbers.match(window, at) if at >= 0 else None
            if not found:
                self._tail = window[at if at >= 0 else -len(mark) :]
                return
            self._numbers.append((int(found[1]), int(found[2])))
            window = window[found.end() :]
        self._tail = b""
