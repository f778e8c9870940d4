"""Recognize an edit that was made before: the new text is in the file where the edit would put it.

Repeating such an edit would double what it adds. A text that says too little to be recognized, like a lone bracket,
is never taken for one.
"""

import re

from handhold.core.text.match_location import MatchLocation
from handhold.core.text.quote_repair import Quote
from handhold.core.text.text_index import LineKey, TextIndex, count_blank_edges, is_blank, split_quote, to_bare_bytes

MIN_CHARS = 12  # of the new text without blanks, for it to be recognizable
WORD = re.compile(r"\w\w")
_AS_WRITTEN = LineKey(str.rstrip, ignore_typography=True)
_INDENTED = LineKey(str.strip, ignore_typography=True)


def find_applied(quote: Quote, index: TextIndex) -> int | None:
    """The line of the only place of the new text, if the old text is nowhere: else None."""
    lines = _trim(split_quote(quote.new)[0])
    if len(to_bare_bytes(quote.new)) < MIN_CHARS or not WORD.search(quote.new):
        return None
    if not index.contains(quote.new) or _is_run_of(lines, split_quote(quote.old)[0]):
        return None  # it stands wherever a part of the old text does
    if "\n" not in quote.new.strip() and not _shares_most(quote):
        return None  # a line that has nothing to do with the old one may be there for another reason
    for key in (_AS_WRITTEN, _INDENTED):
        if starts := index.find_runs(lines, key):
            return starts[0] + 1 if len(starts) == 1 else None
    return None


def find_repeated(block: str, location: MatchLocation, index: TextIndex) -> int | None:
    """The line where these lines are already, around the place that they would replace; None if they are not."""
    lines = _trim(split_quote(block)[0])
    first = index.text.count("\n", 0, location.span.start)
    replaced = index.text[location.span.start : location.span.end]
    past = first + len(_trim(split_quote(replaced)[0]))
    if len(lines) <= past - first:
        return None
    return next(
        (at + 1 for at in index.find_runs(lines, _AS_WRITTEN) if at <= first and past <= at + len(lines)),
        None,
    )


def is_written(old: str, index: TextIndex) -> bool:
    """Whether whole lines of the file are the old text as quoted, so that the edit was not made there yet."""
    lines = _trim(split_quote(old)[0])
    return bool(lines) and bool(index.find_runs(lines, _AS_WRITTEN))


def _trim(lines: list[str]) -> list[str]:
    """Without blank lines around them."""
    above, below = count_blank_edges(lines)
    return lines[above : len(lines) - below]


def _is_run_of(lines: list[str], others: list[str]) -> bool:
    wanted, there = [line.strip() for line in lines], [line.strip() for line in others]
    return any(there[at : at + len(wanted)] == wanted for at in range(len(there) - len(wanted) + 1))


def _shares_most(quote: Quote) -> bool:
    """Whether most words of the new text are in the old one."""
    olds, news = (set(re.findall(r"\w+", text)) for text in (quote.old, quote.new))
    return len(olds & news) * 2 > len(news) and not is_blank(quote.old)
