"""JSON that remembers where each value stands, so that one can be changed and the rest stays as it was written.

The outer objects and arrays are walked, as deep as somebody asks for; what lies below them the standard decoder reads
in one step. It takes what Python writes: NaN and infinities too.
"""

import re
from collections.abc import Iterator
from json import JSONDecodeError, JSONDecoder
from typing import Any, NamedTuple

MAX_VALUES = 1_000_000  # each costs up to two hundred bytes of memory, and a comma in a file only one
_MAX_INT_CHARS = (
    20  # characters; a longer one stays as it is spelled: nobody counts so far, and to read it may take long
)
_WHITESPACE_CHARS = (" ", "\n", "\t", "\r")
_WHITESPACE = re.compile(r"[ \t\n\r]*")
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


class JsonNode(NamedTuple):
    """A value, its first character and the one past its last; its parts, if it was walked into."""

    value: Any
    start: int
    end: int
    children: "tuple[JsonChild, ...]" = ()

    def find_child(self, name: str) -> "JsonChild | None":
        return next((part for part in self.children if part.name == name), None)

    @property
    def duplicate_name(self) -> str | None:
        """A name that stands here twice; which of the two counts, every reader decides for itself."""
        names = [part.name for part in self.children]
        if len(set(names)) == len(names):
            return None
        return next(name for at, name in enumerate(names) if name in names[:at])

    def read_gaps(self, text: str) -> tuple[str, ...]:
        """What stands before, between and after the parts: blanks, and commas."""
        edges = [
            self.start + 1,
            *(edge for part in self.children for edge in (part.start, part.node.end)),
            self.end - 1,
        ]
        return tuple(text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True))


class JsonChild(NamedTuple):
    """An item of an array, or a member of an object: then it has a name, and starts with it."""

    name: str
    start: int
    node: JsonNode
    name_end: int = 0  # past the quotation mark behind the name


def parse_json(text: str, *, depth: int) -> JsonNode:
    """The one value that the text holds, walked `depth` levels deep; BadJson."""
    if estimate_value_count(text) > MAX_VALUES:
        raise BadJson(f"it holds more than {MAX_VALUES:,} values", 1)
    node = parse_value(text, _skip_whitespace(text, 0), depth)
    end = _skip_whitespace(text, node.end)
    if end < len(text):
        raise BadJson("something follows the end", _find_line_number(text, end))
    return node


def estimate_value_count(text: str) -> int:
    """About how many values a text holds, or fewer than MAX_VALUES if it is quickly seen."""
    most = sum(map(text.count, _OPENERS))
    return most if most <= MAX_VALUES else sum(map(_STRING.sub("", text).count, _OPENERS))


def parse_value(text: str, at: int, depth: int) -> JsonNode:
    """The value that starts here."""
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
