"""Replacements on a text, in order, each on the result of the one before: a new text, or an error.

Pure, so that Edit, MultiEdit and patch can be sure of the end before anything begins.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from handhold.core.errors import Ambiguous, NoChange, NoMatch, Overlapping
from handhold.core.requests import Matching, Replacement
from handhold.core.results import Step
from handhold.core.text.encoding import Text, must_fit
from handhold.core.text.lines import number_at, unified
from handhold.core.text.match import Found, find, nearest
from handhold.core.text.splice import Unfit, splice


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
    must_fit(edit.new, text.coding, path)
    try:
        body = splice(text.body, found.spans, edit.old, edit.new)
    except Unfit:
        raise NoMatch(path, edit.old, nearest(edit.old, text.body)) from None
    return text.with_body(body), Step(edit.old, edit.new, edit.every, len(found.spans), found.rung)


def locate(body: str, edit: Replacement, path: str, matching: Matching) -> Found:
    """The place, or with `every` the places, that the edit is about."""
    found = find(edit.old, body, matching) if edit.old else None
    if found is None:
        raise NoMatch(path, edit.old, nearest(edit.old, body))
    lines = tuple(number_at(body, span.start) for span in found.spans)
    if len(lines) > 1 and not edit.every:
        raise Ambiguous(path, edit.old, lines, found.rung)
    if found.overlapping:
        raise Overlapping(path, edit.old, lines)
    return found
