"""Example calls to show with arguments that were refused."""

import re
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, cast

from handhold.dialects.arguments import JSON_TYPES, is_array, normalize_name

SAMPLE_VALUES: Mapping[str, Any] = {
    "path": "src/app.py",
    "filepath": "src/app.py",
    "dirpath": "src",
    "pattern": "greet",
    "glob": "*.py",
    "command": "ls",
    "oldstring": "before",
    "oldstr": "before",
    "oldtext": "before",
    "newstring": "after",
    "newstr": "after",
    "newtext": "after",
    "patch": "*** Begin Patch\n*** Add File: hello.txt\n+Hello, world!\n*** End Patch\n",
    "input": "*** Begin Patch\n*** Add File: hello.txt\n+Hello, world!\n*** End Patch\n",
    "viewrange": [1, 40],
}
"""Values for arguments in examples, by name, where the schema has no example; other values are made from the type."""

MAX_EXAMPLE_CHARS = 200  # of a value in an example


def build_examples(given: Any, bad_argument: str, schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Calls to show with a refusal, the most helpful first: with the valid arguments of the call, then without them."""
    known: Mapping[str, Any] = schema.get("properties", {})
    needed = {name: _make_sample(name, known.get(name, {})) for name in schema.get("required", ())}
    named = re.split(r"[.\[]", bad_argument)[0]
    corrected = {named: _make_sample(named, known[named])} if named in known else {}
    right = {name: value for name, value in _iter_valid_arguments(given, known) if name != named}
    yield needed | right | corrected
    yield needed | right
    yield needed | corrected
    yield needed
    yield {
        name: _make_sample(name, part) for name, part in known.items()
    }  # where one argument decides which others are required


def _iter_valid_arguments(given: Any, known: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The arguments that are valid and short."""
    if isinstance(given, Mapping):
        for name, value in cast("Mapping[str, Any]", given).items():
            kind = JSON_TYPES.get(known[name].get("type", "")) if name in known else None
            if kind and kind.matches(value) and _is_plain(value) and len(str(value)) <= MAX_EXAMPLE_CHARS:
                yield name, value


def _is_plain(value: Any) -> bool:
    """Whether it has no nested values that would need a check of their own."""
    parts = cast("Sequence[Any]", value) if is_array(value) else (value,)
    return all(isinstance(part, str | bool | int) or (isinstance(part, float) and isfinite(part)) for part in parts)


def _make_sample(name: str, schema: Mapping[str, Any]) -> Any:
    match schema:
        case {"examples": [first, *_]} | {"enum": [first, *_]}:
            return first
        case {"default": value}:
            return value
        case {"type": "array", **rest} if normalize_name(name) not in SAMPLE_VALUES or not is_array(
            SAMPLE_VALUES[normalize_name(name)]
        ):
            return [_make_sample(name, rest.get("items", {}))]
        case {"type": "object", **rest}:
            known = rest.get("properties", {})
            return {each: _make_sample(each, known.get(each, {})) for each in rest.get("required", ())}
        case {"type": "integer" | "number"} if "timeout" in name:
            # One second or millisecond would be valid, but kill most commands.
            return 60_000 if name.endswith("ms") or "millisecond" in schema.get("description", "") else 60
        case {"type": "integer" | "number"}:
            return 1
        case {"type": "boolean"}:
            return False
        case _:
            return SAMPLE_VALUES.get(normalize_name(name), "text")
