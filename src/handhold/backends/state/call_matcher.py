"""Which calls a filter selects, once they are read."""

import json
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

from handhold.core.ports.journal import JournalEntry
from handhold.core.ports.records import CallFilter
from handhold.core.text.globs import compile_matcher, parse_glob

Matches = Callable[[JournalEntry], bool]


def build_matcher(wanted: CallFilter) -> Matches:
    tests: list[Matches] = []
    if wanted.session:
        tests.append(lambda entry: entry.call.session == wanted.session)
    if wanted.turn is not None:
        tests.append(lambda entry: entry.call.turn == wanted.turn)
    if wanted.tool:
        tests.append(lambda entry: entry.call.tool == wanted.tool)
    if wanted.decision:
        tests.append(lambda entry: entry.decision == wanted.decision)
    if wanted.path:
        is_named = _build_path_matcher(wanted.path)
        tests.append(lambda entry: any(map(is_named, _list_paths(entry))))
    if wanted.text:
        text = re.compile(re.escape(wanted.text), re.IGNORECASE)
        tests.append(lambda entry: any(text.search(part) for part in _list_texts(entry)))
    return lambda entry: all(test(entry) for test in tests)


def _build_path_matcher(pattern: str) -> Callable[[str], bool]:
    """Matches paths that a pattern describes, and everything below them. BadGlob if it is invalid."""
    below = pattern.strip("/") if pattern.startswith("/") else f"**/{pattern.strip('/')}"
    matchers = [compile_matcher(parse_glob(each)) for each in (below, f"{below}/**")]
    return lambda path: any(matches(os.fsencode(path).lstrip(b"/")) for matches in matchers)


def _list_paths(entry: JournalEntry) -> Iterator[str]:
    yield from entry.paths
    yield from _iter_strings(entry)


def _list_texts(entry: JournalEntry) -> Iterator[str]:
    yield entry.call.arguments
    yield from _iter_strings(entry)
    yield from entry.paths
    if entry.outcome and entry.outcome.reply:
        yield entry.outcome.reply


def _iter_strings(entry: JournalEntry) -> Iterator[str]:
    """The arguments that are strings."""
    try:
        arguments = json.loads(entry.call.arguments)
    except ValueError:
        return
    values: Any = arguments.values() if isinstance(arguments, dict) else [arguments]  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
    yield from (value for value in values if isinstance(value, str))
