"""Characters that nobody can see: what a person approves must be what the shell reads."""

import unicodedata

from handhold.core.text.names import is_visible

SEEN = frozenset("\n\t ")
JOINERS = frozenset("\u200d\ufe0f")  # parts of emoji, between signs that are no letters
MOST_NAMED = 5


def invisible(text: str) -> str:
    """The characters of this text that cannot be seen, by their code points; empty if there are none."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return ""
    found = dict.fromkeys(char for at, char in enumerate(text) if not _seen(char, text, at))
    names = [f"U+{ord(char):04X}" for char in found]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _seen(char: str, text: str, at: int) -> bool:
    if char in SEEN:
        return True
    if char in JOINERS:  # in a word of letters it would be hidden
        return at > 0 and unicodedata.category(text[at - 1]) in ("So", "Sk", "Mn")
    return is_visible(char)
