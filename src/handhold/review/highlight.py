"""Syntax highlighting by Pygments, for the lines that are shown: bounded in size and time, and plain text beyond."""

import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

MAX_CHARS = 64 * 1024
MAX_SECONDS = 0.15
Span = tuple[str, int, int]  # class, start and end in its line


def highlight_lines(path: str, lines: Sequence[str]) -> list[list[Span]]:
    """The coloured spans of each line; none if the language is not known, or it takes too long."""
    plain: list[list[Span]] = [[] for _ in lines]
    text = "\n".join(lines)
    lexer = _find_lexer(path.rpartition("/")[2]) if len(text) <= MAX_CHARS else None
    if lexer is None:
        return plain
    spans: list[list[Span]] = [[] for _ in lines]
    until = time.monotonic() + MAX_SECONDS
    line = column = 0
    # `get_tokens_unprocessed` leaves the text as it is, so that positions stay valid.
    for _, kind, value in lexer.get_tokens_unprocessed(text):
        css = _css_class(kind)
        for n, part in enumerate(value.split("\n")):
            if n:
                line, column = line + 1, 0
            if line >= len(spans):
                return plain
            if css and part:
                spans[line].append((css, column, column + len(part)))
            column += len(part)
        if time.monotonic() > until:
            return plain
    return spans


@lru_cache(maxsize=256)
def _find_lexer(name: str) -> Any:
    import pygments.lexers as lexers
    from pygments.util import ClassNotFound

    try:
        return cast(Any, lexers).get_lexer_for_filename(name)
    except ClassNotFound:
        return None


@lru_cache(maxsize=1024)
def _css_class(kind: Any) -> str:
    """The short class of a token; empty for plain text, names and punctuation."""
    from pygments.token import STANDARD_TYPES

    while kind not in STANDARD_TYPES:
        kind = kind.parent
    css = STANDARD_TYPES[kind]
    return "" if css in ("", "n", "p", "w", "o", "err", "x") else css
