"""JSON that remembers where each value stands, so that one can be changed and the rest stays as it was written.

The outer objects and arrays are walked, as deep as somebody asks for; what lies below them the standard decoder reads
in one step. It takes what Python writes: NaN and infinities too.
"""

import re
from collections.abc import Iterator
from json import JSONDecodeError, JSONDecoder
from typing import Any, NamedTuple

MOST_VALUES = 1_000_000  # each costs up to two hundred bytes of memory, and a comma in a file only one
_LONG_NUMBER = 20  # characters; a longer one stays as it is spelled: nobody counts so far, and to read it may take long
_BLANKS = (" ", "\n", "\t", "\r")
_BLANK = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(
    r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL
)  # one without an end is the rest: no " in it is tried
_OPENERS = ",[{"


class BadJson(ValueError):
    """What is wrong with a text, and on which of its lines."""

    def __init__(self, because: str, line: int) -> None:
        super().__init__(f"line {line}: {because}")
        self.because = because
        self.line = line


class Node(NamedTuple):
    """A value, its first character and the one past its last; its parts, if it was walked into."""

    value: Any
    start: int
    end: int
    parts: "tuple[Part, ...]" = ()

    def part(self, name: str) -> "Part | None":
        return next((part for part in self.parts if part.name == name), None)

    @property
    def doubled(self) -> str | None:
        """A name that stands here twice; which of the two counts, every reader decides for itself."""
        names = [part.name for part in self.parts]
        if len(set(names)) == len(names):
            return None
        return next(name for at, name in enumerate(names) if name in names[:at])

    def gaps(self, text: str) -> tuple[str, ...]:
        """What stands before, between and after the parts: blanks, and commas."""
        edges = [self.start + 1, *(edge for part in self.parts for edge in (part.start, part.node.end)), self.end - 1]
        return tuple(text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True))


class Part(NamedTuple):
    """An item of an array, or a member of an object: then it has a name, and starts with it."""

    name: str
    start: int
    node: Node
    name_end: int = 0  # past the quotation mark behind the name


def read(text: str, *, depth: int) -> Node:
    """The one value that the text holds, walked `depth` levels deep; BadJson."""
    if values(text) > MOST_VALUES:
        raise BadJson(f"it holds more than {MOST_VALUES:,} values", 1)
    node = walked(text, _after_blanks(text, 0), depth)
    end = _after_blanks(text, node.end)
    if end < len(text):
        raise BadJson("something follows the end", _line(text, end))
    return node


def values(text: str) -> int:
    """About how many values a text holds, or fewer than MOST_VALUES if it is quickly seen."""
    most = sum(map(text.count, _OPENERS))
    return most if most <= MOST_VALUES else sum(map(_STRING.sub("", text).count, _OPENERS))


def walked(text: str, at: int, depth: int) -> Node:
    """The value that starts here."""
    opener = text[at : at + 1]
    if not depth or opener not in ("{", "["):
        return _leaf(text, at)
    parts = tuple(_parts(text, at, depth, named=opener == "{"))
    end = _after_blanks(text, parts[-1].node.end if parts else at + 1) + 1
    value = {part.name: part.node.value for part in parts} if opener == "{" else [part.node.value for part in parts]
    return Node(value, at, end, parts)


def _parts(text: str, at: int, depth: int, *, named: bool) -> Iterator[Part]:
    closer = "}" if named else "]"
    at = _after_blanks(text, at + 1)
    if text[at : at + 1] == closer:
        return
    while True:
        start = at
        if named:
            name = _name(text, at)
            node = walked(text, _after_colon(text, name.end), depth - 1)
            yield Part(name.value, start, node, name.end)
        else:
            node = walked(text, at, depth - 1)
            yield Part("", start, node)
        at = _after_blanks(text, node.end)
        found = text[at : at + 1]
        if found == closer:
            return
        if found != ",":
            raise BadJson(f"a comma or {closer} is missing", _line(text, at))
        at = _after_blanks(text, at + 1)


def _name(text: str, at: int) -> Node:
    if text[at : at + 1] != '"':
        raise BadJson("a name in quotes is missing", _line(text, at))
    return _leaf(text, at)


def _after_colon(text: str, at: int) -> int:
    colon = _after_blanks(text, at)
    if text[colon : colon + 1] != ":":
        raise BadJson("a colon is missing", _line(text, colon))
    return _after_blanks(text, colon + 1)


def _leaf(text: str, at: int) -> Node:
    try:
        value, end = _DECODER.raw_decode(text, at)
    except JSONDecodeError as error:
        raise BadJson(error.msg, error.lineno) from None
    except RecursionError:
        raise BadJson("it is nested too deeply", _line(text, at)) from None
    return Node(value, at, end)


def _whole_number(digits: str) -> int | str:
    return int(digits) if len(digits) <= _LONG_NUMBER else digits


_DECODER = JSONDecoder(parse_int=_whole_number)


def _after_blanks(text: str, at: int) -> int:
    if text[at : at + 1] not in _BLANKS:
        return at
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
