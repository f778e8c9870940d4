"""Results that fit: nothing is sent that the client would have to cut.

Dialects page what they show by characters, which is right for most text. Text in which characters are dear (Chinese,
digits, symbols) can still be too much: then the beginning is shown, and all of it is kept where the same tools read
it.
"""

import re
from pathlib import Path

from handhold.backends.shell.result_store import ResultStore
from handhold.core.text.encoding import replace_undecodable

NOTE_TOKENS = 200  # tokens that are left for saying so
# In short pieces, so that a text can be cut between any two of them.
PIECE_PATTERN = re.compile(r"([A-Za-z]{1,64})|([0-9]{1,64})|([ \t\n]{1,64})|([^\x00-\x7f]{1,64})|([\x00-\x7f])")
LETTERS_PER_TOKEN, DIGITS_PER_TOKEN = 4, 2  # that are a token, at worst, in ordinary text


def estimate_tokens(text: str) -> int:
    """At most about so many, by any tokenizer of today: rather too many than too few."""
    return sum(_estimate_piece(*piece) for piece in PIECE_PATTERN.findall(text))


def _estimate_piece(word: str, digits: str, space: str, other: str, _: str) -> int:
    if word:
        return -(-len(word) // LETTERS_PER_TOKEN)
    if digits:
        return -(-len(digits) // DIGITS_PER_TOKEN)
    if space:
        return int(space != " ")  # one belongs to the word behind it
    return sum(1 if char < "\U00010000" else 2 for char in other) or 1


def is_within_budget(text: str, budget: int) -> bool:
    """No character is more than two tokens, so most replies need no counting."""
    return len(text) <= budget // 2 or estimate_tokens(text) <= budget


def truncate_to_budget(text: str, budget: int, folder: Path) -> str:
    """Of what does not fit, the beginning, in whole lines if it has any, and where the rest is: kept in `folder`."""
    head = _take_head(text, budget - NOTE_TOKENS)
    shown_lines, all_lines = head.count("\n") + 1, text.count("\n") + 1
    results = ResultStore(folder)
    spill = results.create()
    if spill is None:
        return f"{head}\n[The rest of this result is too long to be shown, and could not be kept. Ask for less.]"
    spill.write(text.encode("utf-8", "replace"))
    results.finish(spill)
    return (
        f"{head}\n[These are the first {shown_lines:,} of {all_lines:,} lines of this result; more would be too long. "
        f"All of it is in {spill.handle}: read on there.]"
    )


def _take_head(text: str, budget: int) -> str:
    for piece in PIECE_PATTERN.finditer(text):
        budget -= _estimate_piece(*piece.groups(""))
        if budget < 0:
            text = text[: piece.start()]
            break
    end = text.rfind("\n")
    return replace_undecodable(text[:end] if end > 0 else text)
