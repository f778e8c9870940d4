"""Insert, replace or remove one table of a TOML file, or one key of a table, and leave every other character as it is.

As in `jsonc`, the result is parsed again: unless it says what was intended, nothing is changed.
"""

import json
import re
import tomllib
from collections.abc import Sequence
from typing import Any

from handhold.core.text.jsonc import TextEdit, apply_text_edits

_HEADER = re.compile(r"^[ \t]*\[.*$", re.MULTILINE)
_KEY_PATTERN = r"""[ \t]*(?:{0}|"{0}"|'{0}')[ \t]*"""


class BadToml(ValueError):
    """What is wrong with a text."""


def parse_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise BadToml(str(error)) from None


def put(text: str, path: Sequence[str], new: Any) -> list[TextEdit]:
    """The edits that make `new` the table or the value at `path`, which has two names. Values are strings, booleans and
    lists of strings."""
    before = parse_toml(text)
    expected = {**before, path[0]: {**get_table(before, path[0]), path[1]: new}}
    if before == expected:
        return []
    line = "\r\n" if "\r\n" in text else "\n"
    if not isinstance(new, dict):
        return _verify_edits(text, _plan_key(text, path, f"{path[1]} = {json.dumps(new)}", line), expected)
    members: dict[str, Any] = new  # pyright: ignore[reportUnknownVariableType]
    rows = (f"{name} = {json.dumps(each, ensure_ascii=False)}" for name, each in members.items())
    table = line.join([f"[{path[0]}.{path[1]}]", *rows, ""])
    span = _find_table_span(text, path)
    if span:
        return _verify_edits(text, [TextEdit(span[0], text[slice(*span)], table)], expected)
    return _verify_edits(text, _plan_table(text, table, line), expected)


def _plan_table(text: str, table: str, line: str) -> list[TextEdit]:
    gap = "" if not text.strip("\ufeff") else line if text.endswith("\n") else line * 2
    return [TextEdit(len(text), "", gap + table)]


def _plan_key(text: str, path: Sequence[str], row: str, line: str) -> list[TextEdit]:
    found = _find_key_line(text, path)
    if found:
        return [TextEdit(found.start(), found.group(), row + line)]
    header = _find_own_header(text, path[0])
    if header is None:
        return _plan_table(text, f"[{path[0]}]{line}{row}{line}", line)
    gap = "" if header.group().endswith("\n") else line
    return [TextEdit(header.end(), "", gap + row + line)]


def remove(text: str, path: Sequence[str]) -> list[TextEdit]:
    """The edits that remove the table or the value at `path`; none if it does not exist."""
    before = parse_toml(text)
    inner = {**get_table(before, path[0])}
    if path[1] not in inner:
        return []
    del inner[path[1]]
    expected = {**before, path[0]: inner}
    if (found := _find_key_line(text, path)) is not None:
        return _verify_edits(text, [TextEdit(found.start(), found.group(), "")], expected)
    start, end = _find_table_span(text, path) or (0, 0)
    start = len(text[:start].rstrip()) if end == len(text) else start
    kept = "\n" if start and end == len(text) else ""
    edits = [TextEdit(start, text[start:end], kept)]
    # The parent table may have its own header, or may have existed only for this one.
    return _verify_edits(
        text,
        edits,
        expected if inner or path[0] in parse_toml(apply_text_edits(text, edits)) else omit_key(expected, path[0]),
    )


def omit_key(table: dict[str, Any], name: str) -> dict[str, Any]:
    return {each: value for each, value in table.items() if each != name}


def get_table(outer: dict[str, Any], name: str) -> dict[str, Any]:
    inner = outer.get(name, {})
    if not isinstance(inner, dict):
        raise BadToml(f"{name} is not a table")
    return inner  # pyright: ignore[reportUnknownVariableType]


def _find_own_header(text: str, table: str) -> re.Match[str] | None:
    return re.search(rf"^[ \t]*\[{_KEY_PATTERN.format(table)}\][^\n]*\n?", text, re.MULTILINE)


def _find_key_line(text: str, path: Sequence[str]) -> re.Match[str] | None:
    """The line of a value in a table that has a header of its own."""
    header = _find_own_header(text, path[0])
    if header is None:
        return None
    following = _HEADER.search(text, header.end())
    line = re.compile(rf"^{_KEY_PATTERN.format(path[1])}=[^\n]*\n?", re.MULTILINE)
    return line.search(text, header.end(), following.start() if following else len(text))


def _find_table_span(text: str, path: Sequence[str]) -> tuple[int, int] | None:
    """From the table's header to the next header outside the table; comments above that one stay."""
    own = re.compile(rf"[ \t]*\[{_KEY_PATTERN.format(path[0])}\.{_KEY_PATTERN.format(path[1])}[.\]]")
    headers = [(found.start(), bool(own.match(found.group()))) for found in _HEADER.finditer(text)]
    first = next((start for start, ours in headers if ours), None)
    if first is None:
        return None
    end = next((start for start, ours in headers if start > first and not ours), len(text))
    lines = text[first:end].splitlines(keepends=True)
    while end < len(text) and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
        lines.pop()
    return first, first + len("".join(lines))


def _verify_edits(text: str, edits: list[TextEdit], expected: dict[str, Any]) -> list[TextEdit]:
    if parse_toml(apply_text_edits(text, edits)) != expected:
        raise BadToml("it is written in a way that cannot be edited safely")
    return edits
