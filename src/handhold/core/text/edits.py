"""Apply replacements to a text in order, each to the result of the previous one: a new text, or an error.

Pure functions, so that Edit, MultiEdit and patch know the outcome before they write anything.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from handhold.core.choices import Matching
from handhold.core.errors import AlreadyApplied, Ambiguous, BreaksSyntax, NoChange, OverlappingMatches, UnexpectedCount
from handhold.core.requests import Replacement
from handhold.core.results import AppliedReplacement
from handhold.core.text.applied import find_applied, find_repeated, is_written
from handhold.core.text.encoding import Text, check_encodable
from handhold.core.text.indentation import CannotFit
from handhold.core.text.kept_spans import KeptSpan, combine
from handhold.core.text.lines import find_line_numbers, normalize_newlines
from handhold.core.text.match import QuoteMatch, find_in_index
from handhold.core.text.nearest_region import build_no_match
from handhold.core.text.quote_repair import iter_repaired_quotes
from handhold.core.text.splice import SpliceResult, splice
from handhold.core.text.text_index import TextIndex

FindSyntaxError = Callable[[Text, Text], tuple[int, str] | None]
"""Line and message of the first syntax error of the second text that the first does not have."""


@dataclass(frozen=True)
class AppliedEdits:
    text: Text
    steps: tuple[AppliedReplacement, ...]
    kept: tuple[KeptSpan, ...]  # what they left as it was


def apply_edits(
    text: Text,
    edits: Sequence[Replacement],
    *,
    path: str,
    matching: Matching,
    find_error: FindSyntaxError | None = None,
) -> AppliedEdits:
    steps: list[AppliedReplacement] = []
    kept: tuple[KeptSpan, ...] = (KeptSpan(0, 0, len(text.body)),)
    for edit in edits:
        spliced, step = _apply_edit(text, edit, path, matching, find_error)
        text, kept = text.with_body(spliced.text), tuple(combine(kept, spliced.kept))
        steps.append(step)
    return AppliedEdits(text, tuple(steps), kept)


def _apply_edit(
    text: Text, edit: Replacement, path: str, matching: Matching, find_error: FindSyntaxError | None
) -> tuple[SpliceResult, AppliedReplacement]:
    if normalize_newlines(edit.old) == normalize_newlines(edit.new):
        raise NoChange(path)
    index = TextIndex(text.body)
    found = locate(index, edit, path, matching)
    check_encodable(found.quote.new, text.encoding, path)
    try:
        spliced = splice(
            text.body, found.locations, found.quote, literal=matching == "exact", keeps_lines=not found.is_exact
        )
    except CannotFit:
        raise build_no_match(path, edit.old, index) from None
    if spliced.text == text.body:
        raise NoChange(path)
    if not found.is_exact:
        _reject_repetition(index, found, spliced, path)
    if find_error and matching != "exact" and (not found.is_exact or spliced.repaired):
        spliced = _choose_reading(text, found, spliced, path, find_error)
    repaired = (*found.quote.repaired, *spliced.repaired)
    step = AppliedReplacement(edit.old, edit.new, edit.every, len(found.locations), found.strategy, repaired)
    return spliced, step


def _reject_repetition(index: TextIndex, found: QuoteMatch, spliced: SpliceResult, path: str) -> None:
    """Raise AlreadyApplied if what the edit would write is already around the place, as written or as fitted."""
    place, *others = found.locations
    if others or is_written(found.quote.old, index):
        return
    start, end = place.span.start, place.span.end
    fitted = spliced.text[start : len(spliced.text) - (len(index.text) - end)]
    for block in (found.quote.new, fitted):
        line = find_repeated(normalize_newlines(block), place, index)
        if line is not None:
            raise AlreadyApplied(path, line)


def _choose_reading(
    text: Text, found: QuoteMatch, spliced: SpliceResult, path: str, find_error: FindSyntaxError
) -> SpliceResult:
    """The likelier reading, unless it breaks a file that parsed: then the other one, or an error."""
    error = find_error(text, text.with_body(spliced.text))
    if error is None:
        return spliced
    try:
        other = splice(text.body, found.locations, found.quote, keeps_lines=not found.is_exact, is_second=True)
    except CannotFit:
        other = spliced
    if other.text not in (spliced.text, text.body) and find_error(text, text.with_body(other.text)) is None:
        return other
    if found.is_exact:
        return spliced  # it was asked for in so many words; the reply reports the errors
    raise BreaksSyntax(path, *error, found.strategy)


def locate(index: TextIndex, edit: Replacement, path: str, matching: Matching) -> QuoteMatch:
    """Find the place, or with `every` all places, of the edit."""
    found = find_in_index(edit.old, index, matching, new=edit.new)
    if found is None:
        if matching != "exact":
            for quote in iter_repaired_quotes(edit.old, edit.new):
                if (line := find_applied(quote, index)) is not None:
                    raise AlreadyApplied(path, line)
        body = index.text
        error = build_no_match(path, edit.old, index)
        error.every = edit.every
        error.longer = normalize_newlines(edit.old).strip().count("\n") > normalize_newlines(body).count("\n")
        raise error
    lines = find_line_numbers(index.text, [span.start for span in found.spans])
    if edit.expected_count is not None and len(lines) != edit.expected_count:
        raise UnexpectedCount(path, edit.old, edit.expected_count, lines)
    if len(lines) > 1 and not edit.every:
        raise Ambiguous(path, edit.old, lines, found.strategy)
    if found.has_overlaps:
        raise OverlappingMatches(path, edit.old, lines)
    return found
