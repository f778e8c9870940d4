"""Results that fit: nothing is sent that the client would have to cut.

Dialects page what they show by characters, which is right for most text. Text in which characters are dear (Chinese,
digits, symbols) can still be too much: then the beginning is shown, and all of it is kept where the same tools read
it.
"""

import re
from pathlib import Path

from handhold.core.text.encoding import shown
from handhold.world.shell.offload import Results

NOTE = 200  # tokens that are left for saying so
# In short pieces, so that a text can be cut between any two of them.
PIECES = re.compile(r"([A-Za-z]{1,64})|([0-9]{1,64})|([ \t\n]{1,64})|([^\x00-\x7f]{1,64})|([\x00-\x7f])")
LETTERS, DIGITS = 4, 2  # that are a token, at worst, in ordinary text


def tokens(text: str) -> int:
    """At most about so many, by any tokenizer of today: rather too many than too few."""
    return sum(_cost(*piece) for piece in PIECES.findall(text))


def _cost(word: str, digits: str, space: str, other: str, _: str) -> int:
    if word:
        return -(-len(word) // LETTERS)
    if digits:
        return -(-len(digits) // DIGITS)
    if space:
        return int(space != " ")  # one belongs to the word behind it
    return sum(1 if char < "\U00010000" else 2 for char in other) or 1


def fits(text: str, budget: int) -> bool:
    """No character is more than two tokens, so most replies need no counting."""
    return len(text) <= budget // 2 or tokens(text) <= budget


def fitted(text: str, budget: int, folder: Path) -> str:
    """Of what does not fit, the beginning, in whole lines if it has any, and where the rest is: kept in `folder`."""
    first = _beginning(text, budget - NOTE)
    shown_lines, all_lines = first.count("\n") + 1, text.count("\n") + 1
    results = Results(folder)
    spill = results.new()
    if spill is None:
        return f"{first}\n[The rest of this result is too long to be shown, and could not be kept. Ask for less.]"
    spill.write(text.encode("utf-8", "replace"))
    results.finish(spill)
    return (
        f"{first}\n[These are the first {shown_lines:,} of {all_lines:,} lines of this result; more would be too long. "
        f"All of it is in {spill.handle}: read on there.]"
    )


def _beginning(text: str, budget: int) -> str:
    for piece in PIECES.finditer(text):
        budget -= _cost(*piece.groups(""))
        if budget < 0:
            text = text[: piece.start()]
            break
    end = text.rfind("\n")
    return shown(text[:end] if end > 0 else text)
