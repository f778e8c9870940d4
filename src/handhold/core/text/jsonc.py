"""One member of a JSON file put in, replaced or taken out, and every other character left as it was written.

Comments and commas before a closing bracket are allowed, as editors allow them in their settings. What is done is a
list of cuts, so that it can be undone exactly; and what comes of it is read again: unless it says what was meant,
nothing was done.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from handhold.core.text.json_spans import BadJson, Node, Part, read

_STRING = r'"(?:[^"\\]|\\.)*+"'
_SKIPPED = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LOOSE = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)
_UNIT = "  "


@dataclass(frozen=True)
class Cut:
    """What stood at a place of the old text, and what stands there now."""

    start: int
    old: str
    new: str


def done(text: str, cuts: Sequence[Cut]) -> str:
    """The text after these cuts, which are in the order of their places."""
    out, at = "", 0
    for cut in cuts:
        out, at = out + text[at : cut.start] + cut.new, cut.start + len(cut.old)
    return out + text[at:]


def undone(text: str, cuts: Sequence[Cut]) -> str:
    """What the text was before these cuts."""
    back: list[Cut] = []
    shift = 0
    for cut in cuts:
        back.append(Cut(cut.start + shift, cut.new, cut.old))
        shift += len(cut.new) - len(cut.old)
    return done(text, back)


def value(text: str) -> Any:
    """What the text says; BadJson. Nothing but blanks and comments says an empty object."""
    plain = blanked(text)
    return read(plain, depth=0).value if plain.strip() else {}


def put(text: str, path: tuple[str, str], new: Any) -> list[Cut]:
    """The cuts that make `new` the member at `path`. BadJson if there is no place for it."""
    wanted = {**value_of_object(text)}
    wanted[path[0]] = {**object_in(wanted, path[0]), path[1]: new}
    cuts = _put(text, path, new)
    return checked(text, cuts, wanted)


def take(text: str, path: tuple[str, str]) -> list[Cut]:
    """The cuts that take the member at `path` out; none if it is not there."""
    wanted = {**value_of_object(text)}
    inner = {**object_in(wanted, path[0])}
    if path[1] not in inner:
        return []
    del inner[path[1]]
    wanted[path[0]] = inner
    return checked(text, _taken(text, path), wanted)


def value_of_object(text: str) -> dict[str, Any]:
    found = value(text)
    if not isinstance(found, dict):
        raise BadJson("it holds no object", 1)
    return found  # pyright: ignore[reportUnknownVariableType]


def object_in(outer: dict[str, Any], name: str) -> dict[str, Any]:
    inner = outer.get(name, {})
    if not isinstance(inner, dict):
        raise BadJson(f"{name} is no object", 1)
    return inner  # pyright: ignore[reportUnknownVariableType]


def checked(text: str, cuts: list[Cut], wanted: Any) -> list[Cut]:
    if value(done(text, cuts)) != wanted:
        raise BadJson("it is written in a way that cannot be edited safely", 1)
    return cuts


def blanked(text: str) -> str:
    """The same text with blanks for comments, for loose commas and for a mark of byte order: plain JSON, every
    character at its place."""
    bare = _LOOSE.sub(lambda found: found.group() if found.group()[0] == '"' else " ", _uncommented(text))
    return " " + bare[1:] if bare.startswith("\ufeff") else bare


def _uncommented(text: str) -> str:
    return _SKIPPED.sub(lambda found: found.group() if found.group()[0] == '"' else _blank(found.group()), text)


def _blank(comment: str) -> str:
    return re.sub(r"[^\r\n]", " ", comment)


# --- where, and how it looks there


def _put(text: str, path: tuple[str, str], new: Any) -> list[Cut]:
    plain = blanked(text)
    style = Style.of(text, plain)
    if not plain.strip():
        at = len(text.rstrip())
        begin = style.line if text[:at].strip("\ufeff") else ""
        return [Cut(at, "", begin + style.written({path[0]: {path[1]: new}}, "") + style.line)]
    root = read(plain, depth=3)
    outer = _only(root, path[0])
    if outer is None:
        return _inserted(text, root, path[0], {path[1]: new}, style)
    inner = _only(outer.node, path[1])
    if inner is None:
        return _inserted(text, outer.node, path[1], new, style)
    indent = _indent_at(text, inner.start)
    old = text[inner.node.start : inner.node.end]
    return [Cut(inner.node.start, old, style.written(new, indent))] if inner.node.value != new else []


def _only(node: Node, name: str) -> Part | None:
    """The member of that name; which of two would count, every reader decides for itself."""
    if sum(part.name == name for part in node.parts) > 1:
        raise BadJson(f"{name} stands there twice", 1)
    return node.part(name)


def _inserted(text: str, into: Node, name: str, new: Any, style: "Style") -> list[Cut]:
    """Behind the last member, on a line of its own unless all stand on one."""
    closer = into.end - 1
    body = text[into.start + 1 : closer]
    at = into.start + 1 + len(body.rstrip())  # behind a comment too, if that is the last thing in it
    tail = text[at:closer]
    outside = _indent_at(text, into.start)
    indent = _indent_at(text, into.parts[-1].start) if into.parts else outside + style.unit
    said = json.dumps(name, ensure_ascii=False)
    if into.parts and "\n" not in body:
        return [Cut(into.parts[-1].node.end, "", f", {said}: {json.dumps(new, ensure_ascii=False)}")]
    member = f"{style.line}{indent}{said}: {style.written(new, indent)}"
    end = "" if "\n" in tail else style.line + outside
    if not into.parts:
        return [Cut(at, "", member + end)]
    last = into.parts[-1].node.end
    comma = _comma(text, last, closer)
    if comma is not None:  # a loose one: ours gets one like it
        return [Cut(at, "", f"{member},{end}")]
    if last == at:
        return [Cut(at, "", f",{member}{end}")]
    return [Cut(last, "", ","), Cut(at, "", member + end)]


def _comma(text: str, start: int, end: int) -> int | None:
    """Where a comma stands that counts: one in a comment does not."""
    at = _uncommented(text).find(",", start, end)
    return at if at != -1 else None


def _taken(text: str, path: tuple[str, str]) -> list[Cut]:
    outer = _only(read(blanked(text), depth=3), path[0])
    assert outer is not None
    _only(outer.node, path[1])
    members = outer.node.parts
    at = next(n for n, part in enumerate(members) if part.name == path[1])
    member = members[at]
    closer = outer.node.end - 1
    following = _comma(text, member.node.end, members[at + 1].start if at + 1 < len(members) else closer)
    start = _start(text, member, member.node.end if following is None else following + 1)
    if following is not None:
        return _without(text, start, member, following)
    if at == 0:
        return [Cut(start, text[start : member.node.end], "")]
    before = _comma(text, members[at - 1].node.end, member.start)
    assert before is not None
    if before == start - 1:
        return [Cut(before, text[before : member.node.end], "")]
    return [Cut(before, ",", ""), Cut(start, text[start : member.node.end], "")]


def _start(text: str, member: Part, end: int) -> int:
    """From where on a member goes: with the blanks before it, but for what ends a comment that something would join."""
    start = len(text[: member.start].rstrip())
    after_comment = not _uncommented(text)[:start].endswith(text[:start][-1:])
    if after_comment and text[end:].partition("\n")[0].strip():
        return text.find("\n", start, member.start) + 1 or start
    return start


def _without(text: str, start: int, member: Part, comma: int) -> list[Cut]:
    if comma == member.node.end:
        return [Cut(start, text[start : comma + 1], "")]
    return [Cut(start, text[start : member.node.end], ""), Cut(comma, ",", "")]


def _indent_at(text: str, at: int) -> str:
    """The blanks that the line begins with."""
    line = text[text.rfind("\n", 0, at) + 1 : at].lstrip("\ufeff")
    return line[: len(line) - len(line.lstrip())]


@dataclass(frozen=True)
class Style:
    """How this file is written: what ends a line, and what a level is indented by."""

    line: str
    unit: str

    @classmethod
    def of(cls, text: str, plain: str) -> "Style":
        line = "\r\n" if "\r\n" in text else "\n"
        indented = re.search(r'^([ \t]+)"', plain, re.MULTILINE)
        return cls(line, indented.group(1) if indented else _UNIT)

    def written(self, new: Any, indent: str) -> str:
        lines = _lines(new, self.unit)
        return (self.line + indent).join(lines)


def _lines(new: Any, unit: str) -> list[str]:
    """Objects a member a line, everything else on one."""
    if not isinstance(new, dict) or not new:
        return [json.dumps(new, ensure_ascii=False)]
    out = ["{"]
    members: dict[str, Any] = new  # pyright: ignore[reportUnknownVariableType]
    for n, (name, each) in enumerate(members.items()):
        first, *rest = _lines(each, unit)
        out += [f"{unit}{json.dumps(name, ensure_ascii=False)}: {first}", *(unit + line for line in rest)]
        out[-1] += "," if n < len(members) - 1 else ""
    return [*out, "}"]
