"""Invisible characters: what a person approves must be what the shell reads."""

import unicodedata

from handhold.core.text.path_escaping import is_visible

ALLOWED_WHITESPACE = frozenset("\n\t ")
EMOJI_JOINERS = frozenset("\u200d\ufe0f")  # parts of emoji, between characters that are not letters
MAX_LISTED_CHARS = 5


def find_invisible(text: str) -> str:
    """The invisible characters of a text, as code points; empty if there are none."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return ""
    found = dict.fromkeys(char for at, char in enumerate(text) if not _is_seen(char, text, at))
    names = [f"U+{ord(char):04X}" for char in found]
    more = f" and {len(names) - MAX_LISTED_CHARS} more" if len(names) > MAX_LISTED_CHARS else ""
    return ", ".join(names[:MAX_LISTED_CHARS]) + more


def _is_seen(char: str, text: str, at: int) -> bool:
    if char in ALLOWED_WHITESPACE:
        return True
    if char in EMOJI_JOINERS:  # between letters it would be hidden
        return at > 0 and unicodedata.category(text[at - 1]) in ("So", "Sk", "Mn")
    return is_visible(char)
