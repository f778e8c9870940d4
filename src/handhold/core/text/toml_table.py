"""One table of a TOML file put in, replaced or taken out, and every other character left as it was written.

As with JSON (`jsonc`), what comes of it is read again: unless it says what was meant, nothing was done.
"""

import json
import re
import tomllib
from typing import Any

from handhold.core.text.jsonc import Cut, done

_HEADER = re.compile(r"^[ \t]*\[.*$", re.MULTILINE)
_KEY = r"""[ \t]*(?:{0}|"{0}"|'{0}')[ \t]*"""


class BadToml(ValueError):
    """What is wrong with a text."""


def value(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise BadToml(str(error)) from None


def put(text: str, path: tuple[str, str], new: dict[str, Any]) -> list[Cut]:
    """The cuts that make `new` the table at `path`; its values are strings and lists of them."""
    was = value(text)
    wanted = {**was, path[0]: {**table_in(was, path[0]), path[1]: new}}
    if was == wanted:
        return []
    line = "\r\n" if "\r\n" in text else "\n"
    rows = (f"{name} = {json.dumps(each, ensure_ascii=False)}" for name, each in new.items())
    table = line.join([f"[{path[0]}.{path[1]}]", *rows, ""])
    span = _span(text, path)
    if span:
        return _checked(text, [Cut(span[0], text[slice(*span)], table)], wanted)
    gap = "" if not text.strip("\ufeff") else line if text.endswith("\n") else line * 2
    return _checked(text, [Cut(len(text), "", gap + table)], wanted)


def take(text: str, path: tuple[str, str]) -> list[Cut]:
    """The cuts that take the table at `path` out; none if it is not there."""
    was = value(text)
    inner = {**table_in(was, path[0])}
    if path[1] not in inner:
        return []
    del inner[path[1]]
    wanted = {**was, path[0]: inner}
    start, end = _span(text, path) or (0, 0)
    start = len(text[:start].rstrip()) if end == len(text) else start
    kept = "\n" if start and end == len(text) else ""
    cuts = [Cut(start, text[start:end], kept)]
    # The table around it may have a header of its own, or have been there for ours only.
    return _checked(text, cuts, wanted if inner or path[0] in value(done(text, cuts)) else without(wanted, path[0]))


def without(table: dict[str, Any], name: str) -> dict[str, Any]:
    return {each: value for each, value in table.items() if each != name}


def table_in(outer: dict[str, Any], name: str) -> dict[str, Any]:
    inner = outer.get(name, {})
    if not isinstance(inner, dict):
        raise BadToml(f"{name} is no table")
    return inner  # pyright: ignore[reportUnknownVariableType]


def _span(text: str, path: tuple[str, str]) -> tuple[int, int] | None:
    """From the table's header to the next that is neither its own nor of a table in it; comments above that stay."""
    own = re.compile(rf"[ \t]*\[{_KEY.format(path[0])}\.{_KEY.format(path[1])}[.\]]")
    headers = [(found.start(), bool(own.match(found.group()))) for found in _HEADER.finditer(text)]
    first = next((start for start, ours in headers if ours), None)
    if first is None:
        return None
    end = next((start for start, ours in headers if start > first and not ours), len(text))
    lines = text[first:end].splitlines(keepends=True)
    while end < len(text) and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
        lines.pop()
    return first, first + len("".join(lines))


def _checked(text: str, cuts: list[Cut], wanted: dict[str, Any]) -> list[Cut]:
    if value(done(text, cuts)) != wanted:
        raise BadToml("it is written in a way that cannot be edited safely")
    return cuts
