"""Cut a long line so that its match stays visible.

A cut never separates a letter from its accents, and never splits a sequence that is drawn as one character.
"""

from unicodedata import combining

ZERO_WIDTH_JOINER = "\u200d"
MAX_SHIFT_CHARS = 8  # how far a cut moves; a letter with more accents is not a real word


def clip(text: str, start: int, end: int, width: int) -> tuple[str, int, int, tuple[int, int]]:
    """At most `width` characters of `text` around `start` to `end`, the new positions of both, and what was cut off.

    A match longer than that is shown from its start.
    """
    if len(text) <= width:
        return text, start, end, (0, 0)
    room = max(0, width - (end - start))
    first = min(max(0, start - room // 2), len(text) - width)
    first = _shift_forward(text, first, start)
    past = min(first + width, len(text))
    past = _shift_back(text, past, min(end, past))
    return text[first:past], start - first, min(end, past) - first, (first, len(text) - past)


def _shift_forward(text: str, at: int, limit: int) -> int:
    """The next position where a cut splits no character; `at` itself if there is none nearby."""
    moved = at
    while moved < min(limit, at + MAX_SHIFT_CHARS) and _is_inside_grapheme(text, moved):
        moved += 1
    return at if _is_inside_grapheme(text, moved) else moved


def _shift_back(text: str, at: int, limit: int) -> int:
    moved = at
    while moved > max(limit, at - MAX_SHIFT_CHARS) and _is_inside_grapheme(text, moved):
        moved -= 1
    return at if _is_inside_grapheme(text, moved) else moved


def _is_inside_grapheme(text: str, at: int) -> bool:
    """Whether a cut before this character would split what is drawn as one character."""
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    return bool(combining(after)) or _is_joining(after) or before == ZERO_WIDTH_JOINER


def _is_joining(char: str) -> bool:
    """A joiner, a variation selector or a skin tone."""
    return char == ZERO_WIDTH_JOINER or "\ufe00" <= char <= "\ufe0f" or "\U0001f3fb" <= char <= "\U0001f3ff"
