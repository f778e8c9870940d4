"""Adjust a quote to the place where it was found, if that is not whole lines.

A model may quote a line without its indentation and write the new lines with it, or the other way round, or with a part
of it; and it may leave out the newline at the end of one of the two texts.
"""

from collections.abc import Sequence
from dataclasses import replace

from handhold.core.text.match_location import MatchLocation, TextSpan
from handhold.core.text.quote_repair import Quote
from handhold.core.text.text_index import get_indent, is_blank

BLOCK_OPENERS = (":", "{", "(", "[", "=>", "->", "then", "do", "begin")


def widen_to_line_start(text: str, location: MatchLocation, quote: Quote) -> MatchLocation:
    """The place with the indentation before it, if the quote starts inside that and says how the line is indented.

    What is quoted without any indentation stays as it is, unless nothing is left of the line.
    """
    start, end = location.span.start, location.span.end
    before = get_indent_before(text, start)
    if not before or not quote.old.strip():
        return location
    leaves_blank = is_blank(quote.new.partition("\n")[0]) and (
        "\n" in quote.old or text[end : end + 1] in ("", "\r", "\n")
    )
    if not get_indent(quote.old) and not leaves_blank:
        return location
    return replace(location, span=TextSpan(start - len(before), end))


def get_indent_before(text: str, place: int) -> str:
    """The part of a line's indentation before this place; empty unless the place is inside or right after one."""
    before = text[text.rfind("\n", 0, place) + 1 : place]
    return before if is_blank(before) else ""


def end_last_line(text: str, span: TextSpan, quote: Quote) -> Quote:
    """End the new text as the old one ends, so that it is not glued to the line below."""
    if not quote.old.endswith("\n") or not quote.new or quote.new.endswith("\n"):
        return quote
    below = text[span.end : end if (end := text.find("\n", span.end)) != -1 else len(text)]
    return quote if is_blank(below) else replace(quote, new=quote.new + "\n")


def fit_quote_to_span(text: str, span: TextSpan, quote: Quote) -> Quote:
    """Adjust the quote for a place that starts or ends inside a line, so that the rest of that line is not duplicated.

    A model may quote a line without its indentation and write the new lines with it, or the other way round.
    """
    before = text[text.rfind("\n", 0, span.start) + 1 : span.start]
    after = text[span.end : end if (end := text.find("\n", span.end)) != -1 else len(text)].removesuffix("\r")
    old_lines, new_lines = quote.old.split("\n"), quote.new.split("\n")
    if before and (new_lines[0] == before + old_lines[0] or _has_file_indent(before, old_lines, new_lines)):
        new_lines[0] = new_lines[0].removeprefix(before)
    elif is_blank(before) and all(map(is_blank, old_lines[1:])) and _is_outdented(before, old_lines[0], new_lines):
        new_lines[1:] = [line if is_blank(line) else before + line for line in new_lines[1:]]
    if after.strip() and new_lines[-1] == old_lines[-1] + after:
        new_lines[-1] = old_lines[-1]
    return quote if new_lines == old_lines else replace(quote, new="\n".join(new_lines))


def _has_file_indent(before: str, old_lines: Sequence[str], new_lines: Sequence[str]) -> bool:
    """Whether the new lines have the indentation that precedes the old ones in the file."""
    first, *rest = new_lines
    return (
        is_blank(before)
        and get_indent(first) == before
        and not get_indent(old_lines[0])
        and all(line.startswith(before) for line in rest if not is_blank(line))
    )


def _is_outdented(before: str, old: str, new_lines: Sequence[str]) -> bool:
    """Whether the lines after the first lack the indentation that the first one has in the file."""
    first, *rest = new_lines
    solid = [line for line in rest if not is_blank(line)]
    if not before or not solid:
        return False
    if get_indent(old) or not all(line.startswith(before) for line in solid):
        return True
    return first.rstrip().endswith(BLOCK_OPENERS) and get_indent(solid[0]) == before
