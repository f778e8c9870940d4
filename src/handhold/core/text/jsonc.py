"""Insert, replace or remove one member of a JSON file, and leave every other character as it is.

Comments and trailing commas are allowed, as editors allow them in their settings. The change is a list of text edits,
so that it can be undone exactly. The result is parsed again: unless it says what was intended, nothing is changed.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from handhold.core.text.json_spans import BadJson, JsonChild, JsonNode, parse_json

_STRING = r'"(?:[^"\\]|\\.)*+"'
_STRING_OR_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_STRING_OR_TRAILING_COMMA = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)
_DEFAULT_INDENT = "  "


@dataclass(frozen=True)
class TextEdit:
    """What was at a position of the old text, and what replaces it."""

    start: int
    old: str
    new: str


def apply_text_edits(text: str, edits: Sequence[TextEdit]) -> str:
    """The text after these edits, which are ordered by position."""
    out, at = "", 0
    for edit in edits:
        out, at = out + text[at : edit.start] + edit.new, edit.start + len(edit.old)
    return out + text[at:]


def revert_text_edits(text: str, edits: Sequence[TextEdit]) -> str:
    """The text before these edits."""
    inverse: list[TextEdit] = []
    shift = 0
    for edit in edits:
        inverse.append(TextEdit(edit.start + shift, edit.new, edit.old))
        shift += len(edit.new) - len(edit.old)
    return apply_text_edits(text, inverse)


def parse_jsonc(text: str) -> Any:
    """Parse the text; raise BadJson if it is invalid. Only blanks and comments mean an empty object."""
    plain = to_plain_json(text)
    return parse_json(plain, depth=0).value if plain.strip() else {}


def put(text: str, path: Sequence[str], new: Any) -> list[TextEdit]:
    """The edits that make `new` the member at `path`. Raise BadJson if there is no place for it."""
    return verify_edits(text, _plan_put(text, path, new), _with_member(parse_object(text), path, lambda _: new))


def append(text: str, path: Sequence[str], item: Any) -> list[TextEdit]:
    """The edits that add `item` to the array at `path`; none if it is there."""
    items = get_member(text, path, default=[])
    if not isinstance(items, list):
        raise BadJson(f"{path[-1]} is not an array", 1)
    if item in items:
        return []
    expected = _with_member(parse_object(text), path, lambda old: [*(old or []), item])
    return verify_edits(text, _plan_put(text, path, [item], appends=True), expected)


def remove(text: str, path: Sequence[str]) -> list[TextEdit]:
    """The edits that remove the member at `path`; none if it does not exist."""
    expected = parse_object(text)
    parent = get_member(text, path[:-1], default={})
    if not isinstance(parent, dict):
        raise BadJson(f"{path[-2]} is not an object", 1)
    if path[-1] not in parent:
        return []
    node = _find_node(text, path[:-1])
    _find_unique(node, path[-1])
    at = next(n for n, part in enumerate(node.children) if part.name == path[-1])
    return verify_edits(text, _plan_removal(text, node, at), _without_member(expected, path))


def remove_item(text: str, path: Sequence[str], item: Any) -> list[TextEdit]:
    """The edits that remove an item of the array at `path`; none if it is not there."""
    items = get_member(text, path)
    if not isinstance(items, list) or item not in items:
        return []
    at = items.index(item)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    expected = _with_member(parse_object(text), path, lambda old: [*old[:at], *old[at + 1 :]])
    return verify_edits(text, _plan_removal(text, _find_node(text, path), at), expected)


def get_member(text: str, path: Sequence[str], default: Any = None) -> Any:
    """The value at `path`."""
    outer = parse_object(text)
    for name in path[:-1]:
        outer = get_object(outer, name)
    return outer.get(path[-1], default) if path else outer


def _with_member(outer: dict[str, Any], path: Sequence[str], change: Callable[[Any], Any]) -> dict[str, Any]:
    name, *inner = path
    old = outer.get(name)
    return {**outer, name: _with_member(get_object(outer, name), inner, change) if inner else change(old)}


def _without_member(outer: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    name, *inner = path
    if inner:
        return {**outer, name: _without_member(outer[name], inner)}
    return {each: value for each, value in outer.items() if each != name}


def parse_object(text: str) -> dict[str, Any]:
    found = parse_jsonc(text)
    if not isinstance(found, dict):
        raise BadJson("it is not a JSON object", 1)
    return found  # pyright: ignore[reportUnknownVariableType]


def get_object(outer: dict[str, Any], name: str) -> dict[str, Any]:
    inner = outer.get(name, {})
    if not isinstance(inner, dict):
        raise BadJson(f"{name} is not an object", 1)
    return inner  # pyright: ignore[reportUnknownVariableType]


def verify_edits(text: str, edits: list[TextEdit], expected: Any) -> list[TextEdit]:
    if parse_jsonc(apply_text_edits(text, edits)) != expected:
        raise BadJson("it is written in a way that cannot be edited safely", 1)
    return edits


def to_plain_json(text: str) -> str:
    """The same text with comments, trailing commas and a BOM replaced by blanks: plain JSON with all positions
    unchanged."""
    bare = _STRING_OR_TRAILING_COMMA.sub(
        lambda found: found.group() if found.group()[0] == '"' else " ", _blank_comments(text)
    )
    return " " + bare[1:] if bare.startswith("\ufeff") else bare


def _blank_comments(text: str) -> str:
    return _STRING_OR_COMMENT.sub(
        lambda found: found.group() if found.group()[0] == '"' else _blank_out(found.group()), text
    )


def _blank_out(comment: str) -> str:
    return re.sub(r"[^\r\n]", " ", comment)


# --- position and style


def _plan_put(text: str, path: Sequence[str], new: Any, *, appends: bool = False) -> list[TextEdit]:
    """With `appends`, `new` is an array whose only item is added to one that exists."""
    plain = to_plain_json(text)
    style = JsonStyle.detect(text, plain)
    if not plain.strip():
        at = len(text.rstrip())
        begin = style.newline if text[:at].strip("\ufeff") else ""
        return [TextEdit(at, "", begin + style.format(_nest(path, new), "") + style.newline)]
    node = parse_json(plain, depth=len(path) + 1)
    start = node.start
    for depth, name in enumerate(path, 1):
        child = _find_unique(node, name)
        if child is None:
            return _plan_insertion(text, node, name, _nest(path[depth:], new), style)
        start, node = child.start, child.node
    if appends:
        return _plan_insertion(text, node, None, new[0], style)
    old = text[node.start : node.end]
    return [TextEdit(node.start, old, style.format(new, _read_indent(text, start)))] if node.value != new else []


def _nest(path: Sequence[str], new: Any) -> Any:
    for name in reversed(path):
        new = {name: new}
    return new


def _find_node(text: str, path: Sequence[str]) -> JsonNode:
    node = parse_json(to_plain_json(text), depth=len(path) + 1)
    for name in path:
        child = _find_unique(node, name)
        assert child is not None
        node = child.node
    return node


def _find_unique(node: JsonNode, name: str) -> JsonChild | None:
    """The member of that name; raise BadJson if there are two, since JSON readers differ on which one wins."""
    if sum(part.name == name for part in node.children) > 1:
        raise BadJson(f"{name} appears twice", 1)
    return node.find_child(name)


def _plan_insertion(text: str, parent: JsonNode, name: str | None, new: Any, style: "JsonStyle") -> list[TextEdit]:
    """Insert after the last member or item, on a new line unless all are on one line."""
    closer = parent.end - 1
    body = text[parent.start + 1 : closer]
    at = parent.start + 1 + len(body.rstrip())  # after a trailing comment, if there is one
    tail = text[at:closer]
    outside = _read_indent(text, parent.start)
    indent = _read_indent(text, parent.children[-1].start) if parent.children else outside + style.indent_unit
    key = "" if name is None else json.dumps(name, ensure_ascii=False) + ": "
    if parent.children and "\n" not in body:
        return [TextEdit(parent.children[-1].node.end, "", f", {key}{json.dumps(new, ensure_ascii=False)}")]
    member = f"{style.newline}{indent}{key}{style.format(new, indent)}"
    end = "" if "\n" in tail else style.newline + outside
    if not parent.children:
        return [TextEdit(at, "", member + end)]
    last = parent.children[-1].node.end
    comma = _find_comma(text, last, closer)
    if comma is not None:  # a trailing comma: end the new member with one, too
        return [TextEdit(at, "", f"{member},{end}")]
    if last == at:
        return [TextEdit(at, "", f",{member}{end}")]
    return [TextEdit(last, "", ","), TextEdit(at, "", member + end)]


def _find_comma(text: str, start: int, end: int) -> int | None:
    """The position of a comma outside comments."""
    at = _blank_comments(text).find(",", start, end)
    return at if at != -1 else None


def _plan_removal(text: str, parent: JsonNode, at: int) -> list[TextEdit]:
    members = parent.children
    member = members[at]
    closer = parent.end - 1
    if len(members) == 1 and not (text[parent.start + 1 : member.start] + text[member.node.end : closer]).strip():
        return [TextEdit(parent.start + 1, text[parent.start + 1 : closer], "")]
    following = _find_comma(text, member.node.end, members[at + 1].start if at + 1 < len(members) else closer)
    start = _find_removal_start(text, member, member.node.end if following is None else following + 1)
    if following is not None:
        return _remove_with_comma(text, start, member, following)
    if at == 0:
        return [TextEdit(start, text[start : member.node.end], "")]
    before = _find_comma(text, members[at - 1].node.end, member.start)
    assert before is not None
    if before == start - 1:
        return [TextEdit(before, text[before : member.node.end], "")]
    return [TextEdit(before, ",", ""), TextEdit(start, text[start : member.node.end], "")]


def _find_removal_start(text: str, member: JsonChild, end: int) -> int:
    """Where to start removing: at the blanks before a member, but never join what follows to a line comment."""
    start = len(text[: member.start].rstrip())
    after_comment = not _blank_comments(text)[:start].endswith(text[:start][-1:])
    if after_comment and text[end:].partition("\n")[0].strip():
        return text.find("\n", start, member.start) + 1 or start
    return start


def _remove_with_comma(text: str, start: int, member: JsonChild, comma: int) -> list[TextEdit]:
    if comma == member.node.end:
        return [TextEdit(start, text[start : comma + 1], "")]
    return [TextEdit(start, text[start : member.node.end], ""), TextEdit(comma, ",", "")]


def _read_indent(text: str, at: int) -> str:
    """The indentation of the line."""
    line = text[text.rfind("\n", 0, at) + 1 : at].lstrip("\ufeff")
    return line[: len(line) - len(line.lstrip())]


@dataclass(frozen=True)
class JsonStyle:
    """How this file is written: its newline and its indentation unit."""

    newline: str
    indent_unit: str

    @classmethod
    def detect(cls, text: str, plain: str) -> "JsonStyle":
        line = "\r\n" if "\r\n" in text else "\n"
        indented = re.search(r'^([ \t]+)"', plain, re.MULTILINE)
        return cls(line, indented.group(1) if indented else _DEFAULT_INDENT)

    def format(self, new: Any, indent: str) -> str:
        lines = _format_lines(new, self.indent_unit)
        return (self.newline + indent).join(lines)


def _format_lines(new: Any, unit: str) -> list[str]:
    """Objects with one member per line, everything else on one line."""
    if not isinstance(new, dict) or not new:
        return [json.dumps(new, ensure_ascii=False)]
    out = ["{"]
    members: dict[str, Any] = new  # pyright: ignore[reportUnknownVariableType]
    for n, (name, each) in enumerate(members.items()):
        first, *rest = _format_lines(each, unit)
        out += [f"{unit}{json.dumps(name, ensure_ascii=False)}: {first}", *(unit + line for line in rest)]
        out[-1] += "," if n < len(members) - 1 else ""
    return [*out, "}"]
