"""Handhold as the benchmark sees it: text in, and text or a refusal out."""

from typing import get_args

from bench.edits.score import Editor
from handhold.core.choices import Matching
from handhold.core.requests import Replacement
from handhold.core.tools.edit import apply_edit

MATCHINGS: tuple[Matching, ...] = ("safe", "bold")  # every tool has exact matching
ALL_MATCHINGS: tuple[Matching, ...] = get_args(Matching)


def editor(matching: Matching) -> Editor:
    return lambda before, old, new: apply_edit(before, Replacement(old, new), matching=matching)
