"""Parse JSON with the position of each value, so that one can be changed and the rest stays exactly as written.

The outer objects and arrays are parsed to the requested depth; the standard decoder parses what is below in one step.
NaN and infinities are accepted, as Python writes them.
"""

import re
from collections.abc import Iterator
from json import JSONDecodeError, JSONDecoder
from typing import Any, NamedTuple

MAX_VALUES = 1_000_000  # each takes up to two hundred bytes of memory, but a comma in the file only one
_MAX_INT_CHARS = 20  # a longer number is kept as text: parsing it may take long
_WHITESPACE_CHARS = (" ", "\n", "\t", "\r")
_WHITESPACE = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(
    r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL
)  # an unterminated string takes the rest, without backtracking
_OPENERS = ",[{"


class BadJson(ValueError):
    """What is wrong with a text, and on which line."""

    def __init__(self, because: str, line: int) -> None:
        super().__init__(f"line {line}: {because}")
        self.because = because
        self.line = line


class JsonNode(NamedTuple):
    """A value with its start and end; with its children, if it was parsed into."""

    value: Any
    start: int
    end: int
    children: "tuple[JsonChild, ...]" = ()

    def find_child(self, name: str) -> "JsonChild | None":
        return next((part for part in self.children if part.name == name), None)

    @property
    def duplicate_name(self) -> str | None:
        """A name that occurs twice; JSON readers differ on which one wins."""
        names = [part.name for part in self.children]
        if len(set(names)) == len(names):
            return None
        return next(name for at, name in enumerate(names) if name in names[:at])

    def read_gaps(self, text: str) -> tuple[str, ...]:
        """The text before, between and after the children: blanks and commas."""
        edges = [
            self.start + 1,
            *(edge for part in self.children for edge in (part.start, part.node.end)),
            self.end - 1,
        ]
        return tuple(text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True))


class JsonChild(NamedTuple):
    """An array item or an object member; a member has a name and starts with it."""

    name: str
    start: int
    node: JsonNode
    name_end: int = 0  # after the name's closing quotation mark


def parse_json(text: str, *, depth: int) -> JsonNode:
    """Parse the only value of the text, `depth` levels deep; raise BadJson if it is invalid."""
    if estimate_value_count(text) > MAX_VALUES:
        raise BadJson(f"it contains more than {MAX_VALUES:,} values", 1)
    node = parse_value(text, _skip_whitespace(text, 0), depth)
    end = _skip_whitespace(text, node.end)
    if end < len(text):
        raise BadJson("something follows the end", _find_line_number(text, end))
    return node


def estimate_value_count(text: str) -> int:
    """Roughly how many values a text has; exact counting is skipped if the bound is not reached."""
    most = sum(map(text.count, _OPENERS))
    return most if most <= MAX_VALUES else sum(map(_STRING.sub("", text).count, _OPENERS))


def parse_value(text: str, at: int, depth: int) -> JsonNode:
    """Parse the value that starts here."""
    opener = text[at : at + 1]
    if not depth or opener not in ("{", "["):
        return _decode_leaf(text, at)
    children = tuple(_iter_children(text, at, depth, named=opener == "{"))
    end = _skip_whitespace(text, children[-1].node.end if children else at + 1) + 1
    value = (
        {part.name: part.node.value for part in children} if opener == "{" else [part.node.value for part in children]
    )
    return JsonNode(value, at, end, children)


def _iter_children(text: str, at: int, depth: int, *, named: bool) -> Iterator[JsonChild]:
    closer = "}" if named else "]"
    at = _skip_whitespace(text, at + 1)
    if text[at : at + 1] == closer:
        return
    while True:
        start = at
        if named:
            name = _parse_name(text, at)
            node = parse_value(text, _skip_colon(text, name.end), depth - 1)
            yield JsonChild(name.value, start, node, name.end)
        else:
            node = parse_value(text, at, depth - 1)
            yield JsonChild("", start, node)
        at = _skip_whitespace(text, node.end)
        found = text[at : at + 1]
        if found == closer:
            return
        if found != ",":
            raise BadJson(f"a comma or {closer} is missing", _find_line_number(text, at))
        at = _skip_whitespace(text, at + 1)


def _parse_name(text: str, at: int) -> JsonNode:
    if text[at : at + 1] != '"':
        raise BadJson("a name in quotes is missing", _find_line_number(text, at))
    return _decode_leaf(text, at)


def _skip_colon(text: str, at: int) -> int:
    colon = _skip_whitespace(text, at)
    if text[colon : colon + 1] != ":":
        raise BadJson("a colon is missing", _find_line_number(text, colon))
    return _skip_whitespace(text, colon + 1)


def _decode_leaf(text: str, at: int) -> JsonNode:
    try:
        value, end = _DECODER.raw_decode(text, at)
    except JSONDecodeError as error:
        raise BadJson(error.msg, error.lineno) from None
    except RecursionError:
        raise BadJson("it is nested too deeply", _find_line_number(text, at)) from None
    return JsonNode(value, at, end)


def _parse_int(digits: str) -> int | str:
    return int(digits) if len(digits) <= _MAX_INT_CHARS else digits


_DECODER = JSONDecoder(parse_int=_parse_int)


def _skip_whitespace(text: str, at: int) -> int:
    if text[at : at + 1] not in _WHITESPACE_CHARS:
        return at
    found = _WHITESPACE.match(text, at)
    return found.end() if found else at


def _find_line_number(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
