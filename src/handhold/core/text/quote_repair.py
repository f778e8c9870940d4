"""Repair quotes: try a model's texts as sent, then with a systematic mistake reverted.

Tools show files with decorations, and models quote those too: fences, line numbers, escapes, entities. A repair is a
guess about both texts at once. Repairs can be combined: a fence around numbered lines.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from handhold.core.text.lines import normalize_newlines
from handhold.core.text.text_index import is_blank


@dataclass(frozen=True)
class Quote:
    """An old text and its replacement, with the repairs that led to them."""

    old: str
    new: str
    repaired: tuple[str, ...] = ()
    first_line_number: int | None = None  # the number that was quoted before its first line


@dataclass(frozen=True)
class QuoteRepair:
    name: str
    apply: Callable[[Quote], Quote | None]  # None: not applicable


FENCE = re.compile(r"\s*(```+|~~~+)[^\n`]*\n(.*?)\n?[ \t]*\1\s*", re.DOTALL)
NUMBERED_LINE_STYLES = (
    re.compile(r"[ \t]*(\d+)→(.*)"),
    re.compile(r" *(\d+)\t(.*)"),
    re.compile(r" *(\d+) ?\|(?: (.*)|)"),
    re.compile(r" *(\d+):(?: (.*)|)"),
)
ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'", "nbsp": "\u00a0", "#39": "'", "#x27": "'"}
ENTITY = re.compile(f"&({'|'.join(ENTITIES)});")
UNICODE_ESCAPE = re.compile(r"\\u(?!d[89a-f])([0-9a-f]{4})", re.IGNORECASE)
ESCAPED_QUOTE = re.compile(r"""\\(["'`])""")


def strip_fence(quote: Quote) -> Quote | None:
    inside = FENCE.fullmatch(quote.old)
    if not inside:
        return None
    other = FENCE.fullmatch(quote.new)
    return replace(quote, old=inside[2], new=other[2] if other else quote.new)


def strip_line_numbers(quote: Quote) -> Quote | None:
    """The numbers of the old lines must be consecutive; the new lines may have any numbers, or none."""
    for style in NUMBERED_LINE_STYLES:
        found = [style.fullmatch(line) for line in quote.old.removesuffix("\n").split("\n")]
        numbers = [int(each[1]) for each in found if each]
        if len(numbers) == len(found) and numbers == list(range(numbers[0], numbers[0] + len(numbers))):
            others = [style.fullmatch(line) for line in quote.new.removesuffix("\n").split("\n")]
            if any(others) and not all(others):
                return None
            new = _strip_prefixes(others, quote.new) if all(others) else quote.new
            return replace(quote, old=_strip_prefixes(found, quote.old), new=new, first_line_number=numbers[0])
    return None


def _strip_prefixes(found: Sequence[re.Match[str] | None], text: str) -> str:
    ended = "\n" if text.endswith("\n") else ""
    return "\n".join(each[2] or "" for each in found if each) + ended


def unescape_json(quote: Quote) -> Quote | None:
    """Both texts were JSON-escaped once too often."""
    if "\\" not in quote.old or "\n" in quote.old:
        return None
    unescaped, other = _decode_json_escapes(quote.old), _decode_json_escapes(quote.new)
    if unescaped is None or (other is None and "\\" in quote.new):
        return None
    return replace(quote, old=unescaped, new=quote.new if other is None else other)


def _decode_json_escapes(text: str) -> str | None:
    try:
        return json.loads(f'"{text}"')
    except ValueError:
        return None


def unescape_quotes(quote: Quote) -> Quote | None:
    if not ESCAPED_QUOTE.search(quote.old):
        return None
    return replace(quote, old=ESCAPED_QUOTE.sub(r"\1", quote.old), new=ESCAPED_QUOTE.sub(r"\1", quote.new))


def decode_entities(quote: Quote) -> Quote | None:
    if not ENTITY.search(quote.old):
        return None
    old, new = (ENTITY.sub(lambda found: ENTITIES[found[1]], text) for text in (quote.old, quote.new))
    return replace(quote, old=old, new=new)


def double_backslashes(quote: Quote) -> Quote | None:
    """Both texts were unescaped once too often."""
    if "\\" not in quote.old:
        return None
    return replace(quote, old=quote.old.replace("\\", "\\\\"), new=quote.new.replace("\\", "\\\\"))


def decode_unicode_escapes(quote: Quote) -> Quote | None:
    """The old text has `\\uXXXX` for a character. In the new one, only the same escapes stand for theirs."""
    codes = set(UNICODE_ESCAPE.findall(quote.old))
    if not codes:
        return None

    def decode(found: re.Match[str]) -> str:
        return chr(int(found[1], 16)) if found[1] in codes else found[0]

    return replace(quote, old=UNICODE_ESCAPE.sub(decode, quote.old), new=UNICODE_ESCAPE.sub(decode, quote.new))


REPAIRS = (
    QuoteRepair("code fence", strip_fence),
    QuoteRepair("line numbers", strip_line_numbers),
    QuoteRepair("escapes", unescape_json),
    QuoteRepair("escaped quotes", unescape_quotes),
    QuoteRepair("entities", decode_entities),
    QuoteRepair("unicode escapes", decode_unicode_escapes),
    QuoteRepair("single backslashes", double_backslashes),
)


def iter_repaired_quotes(old: str, new: str) -> Iterator[Quote]:
    """Candidate quotes, starting with the unchanged one. Each repair is applied at most once."""
    pending = [Quote(normalize_newlines(old), normalize_newlines(new))]
    seen: set[tuple[str, str]] = set()
    while pending:
        quote = pending.pop(0)
        if (quote.old, quote.new) in seen or is_blank(quote.old):
            continue
        seen.add((quote.old, quote.new))
        yield quote
        for repair in REPAIRS:
            if repair.name not in quote.repaired and (fixed := repair.apply(quote)):
                repaired = (*quote.repaired, repair.name)
                pending.append(
                    replace(
                        fixed, old=normalize_newlines(fixed.old), new=normalize_newlines(fixed.new), repaired=repaired
                    )
                )
