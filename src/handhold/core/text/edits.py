"""Replacements on a text, in order, each on the result of the one before: a new text, or an error.

Pure, so that Edit, MultiEdit and patch can be sure of the end before anything begins.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from handhold.core.choices import Matching
from handhold.core.errors import Ambiguous, NoChange, Overlapping, UnexpectedCount
from handhold.core.requests import Replacement
from handhold.core.results import Step
from handhold.core.text.encoding import Text, must_fit
from handhold.core.text.indentation import Unfit
from handhold.core.text.lines import numbers_at, unified
from handhold.core.text.match import Found, search
from handhold.core.text.nearest import no_match
from handhold.core.text.sheet import Sheet
from handhold.core.text.splice import splice


@dataclass(frozen=True)
class Applied:
    text: Text
    steps: tuple[Step, ...]


def apply(text: Text, edits: Sequence[Replacement], *, path: str, matching: Matching) -> Applied:
    steps: list[Step] = []
    for edit in edits:
        text, step = _one(text, edit, path, matching)
        steps.append(step)
    return Applied(text, tuple(steps))


def _one(text: Text, edit: Replacement, path: str, matching: Matching) -> tuple[Text, Step]:
    if unified(edit.old) == unified(edit.new):
        raise NoChange(path)
    found = locate(text.body, edit, path, matching)
    must_fit(found.quote.new, text.coding, path)
    try:
        spliced = splice(text.body, found.places, found.quote, literal=matching == "exact")
    except Unfit:
        raise no_match(path, edit.old, Sheet(text.body)) from None
    if spliced.text == text.body:
        raise NoChange(path)
    repaired = (*found.quote.repaired, *spliced.repaired)
    step = Step(edit.old, edit.new, edit.every, len(found.places), found.rung, repaired)
    return text.with_body(spliced.text), step


def locate(body: str, edit: Replacement, path: str, matching: Matching) -> Found:
    """The place, or with `every` the places, that the edit is about."""
    sheet = Sheet(body)
    found = search(edit.old, sheet, matching, new=edit.new)
    if found is None:
        miss = no_match(path, edit.old, sheet)
        miss.every = edit.every
        miss.longer = unified(edit.old).strip().count("\n") > unified(body).count("\n")
        raise miss
    lines = numbers_at(body, [span.start for span in found.spans])
    if edit.count is not None and len(lines) != edit.count:
        raise UnexpectedCount(path, edit.old, edit.count, lines)
    if len(lines) > 1 and not edit.every:
        raise Ambiguous(path, edit.old, lines, found.rung)
    if found.overlapping:
        raise Overlapping(path, edit.old, lines)
    return found
