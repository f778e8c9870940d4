"""Apply replacements to a text in order, each to the result of the previous one: a new text, or an error.

Pure functions, so that Edit, MultiEdit and patch know the outcome before they write anything.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from handhold.core.choices import Matching
from handhold.core.errors import Ambiguous, NoChange, OverlappingMatches, UnexpectedCount
from handhold.core.requests import Replacement
from handhold.core.results import AppliedReplacement
from handhold.core.text.encoding import Text, check_encodable
from handhold.core.text.indentation import CannotFit
from handhold.core.text.kept_spans import KeptSpan, combine
from handhold.core.text.lines import find_line_numbers, normalize_newlines
from handhold.core.text.match import QuoteMatch, find_in_index
from handhold.core.text.nearest_region import build_no_match
from handhold.core.text.splice import SpliceResult, splice
from handhold.core.text.text_index import TextIndex


@dataclass(frozen=True)
class AppliedEdits:
    text: Text
    steps: tuple[AppliedReplacement, ...]
    kept: tuple[KeptSpan, ...]  # what they left as it was


def apply_edits(text: Text, edits: Sequence[Replacement], *, path: str, matching: Matching) -> AppliedEdits:
    steps: list[AppliedReplacement] = []
    kept: tuple[KeptSpan, ...] = (KeptSpan(0, 0, len(text.body)),)
    for edit in edits:
        spliced, step = _apply_edit(text, edit, path, matching)
        text, kept = text.with_body(spliced.text), tuple(combine(kept, spliced.kept))
        steps.append(step)
    return AppliedEdits(text, tuple(steps), kept)


def _apply_edit(
    text: Text, edit: Replacement, path: str, matching: Matching
) -> tuple[SpliceResult, AppliedReplacement]:
    if normalize_newlines(edit.old) == normalize_newlines(edit.new):
        raise NoChange(path)
    found = locate(text.body, edit, path, matching)
    check_encodable(found.quote.new, text.encoding, path)
    try:
        spliced = splice(text.body, found.locations, found.quote, literal=matching == "exact")
    except CannotFit:
        raise build_no_match(path, edit.old, TextIndex(text.body)) from None
    if spliced.text == text.body:
        raise NoChange(path)
    repaired = (*found.quote.repaired, *spliced.repaired)
    step = AppliedReplacement(edit.old, edit.new, edit.every, len(found.locations), found.strategy, repaired)
    return spliced, step


def locate(body: str, edit: Replacement, path: str, matching: Matching) -> QuoteMatch:
    """Find the place, or with `every` all places, of the edit."""
    index = TextIndex(body)
    found = find_in_index(edit.old, index, matching, new=edit.new)
    if found is None:
        error = build_no_match(path, edit.old, index)
        error.every = edit.every
        error.longer = normalize_newlines(edit.old).strip().count("\n") > normalize_newlines(body).count("\n")
        raise error
    lines = find_line_numbers(body, [span.start for span in found.spans])
    if edit.expected_count is not None and len(lines) != edit.expected_count:
        raise UnexpectedCount(path, edit.old, edit.expected_count, lines)
    if len(lines) > 1 and not edit.every:
        raise Ambiguous(path, edit.old, lines, found.strategy)
    if found.has_overlaps:
        raise OverlappingMatches(path, edit.old, lines)
    return found
