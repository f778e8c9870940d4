"""Keep results within a token budget, so that the client does not truncate them.

Dialects limit results by characters, which works for most text. Text with many tokens per character (Chinese, digits,
symbols) can still exceed the budget. Then the beginning is sent, and the whole text is kept in a file that the tools
can read.
"""

import re
from pathlib import Path

from handhold.backends.shell.result_store import ResultStore
from handhold.core.text.encoding import replace_undecodable

NOTE_TOKENS = 200  # reserved for the note about the truncation
# Short pieces: a text can be cut between any two of them.
PIECE_PATTERN = re.compile(r"([A-Za-z]{1,64})|([0-9]{1,64})|([ \t\n]{1,64})|([^\x00-\x7f]{1,64})|([\x00-\x7f])")
LETTERS_PER_TOKEN, DIGITS_PER_TOKEN = 4, 2  # the worst case in ordinary text


def estimate_tokens(text: str) -> int:
    """An upper estimate that holds for current tokenizers."""
    return sum(_estimate_piece(*piece) for piece in PIECE_PATTERN.findall(text))


def _estimate_piece(word: str, digits: str, space: str, other: str, _: str) -> int:
    if word:
        return -(-len(word) // LETTERS_PER_TOKEN)
    if digits:
        return -(-len(digits) // DIGITS_PER_TOKEN)
    if space:
        return int(space != " ")  # a single space belongs to the next word
    return sum(1 if char < "\U00010000" else 2 for char in other) or 1


def is_within_budget(text: str, budget: int) -> bool:
    """A character is at most two tokens, so most replies need no counting."""
    return len(text) <= budget // 2 or estimate_tokens(text) <= budget


def truncate_to_budget(text: str, budget: int, folder: Path) -> str:
    """The first lines of a text that does not fit, and a note with the file in `folder` that has all of it."""
    head = _take_head(text, budget - NOTE_TOKENS)
    shown_lines, all_lines = head.count("\n") + 1, text.count("\n") + 1
    results = ResultStore(folder)
    spill = results.create()
    if spill is None:
        return f"{head}\n[Truncated: the rest of this result is too long and could not be saved. Request less at once.]"
    spill.write(text.encode("utf-8", "replace"))
    results.finish(spill)
    return (
        f"{head}\n[Truncated: these are the first {shown_lines:,} of {all_lines:,} lines. "
        f"The full result is in {spill.handle}; read the rest there.]"
    )


def _take_head(text: str, budget: int) -> str:
    for piece in PIECE_PATTERN.finditer(text):
        budget -= _estimate_piece(*piece.groups(""))
        if budget < 0:
            text = text[: piece.start()]
            break
    end = text.rfind("\n")
    return replace_undecodable(text[:end] if end > 0 else text)
