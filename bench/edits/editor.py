"""Handhold as the benchmark sees it: a file and an edit in, its text or a refusal out."""

from typing import get_args

from bench.edits.score import Editor
from handhold.core.choices import Matching
from handhold.core.requests import Replacement
from handhold.core.tools.edit import apply_edit
from handhold.factory import load_syntax_checker

MATCHINGS: tuple[Matching, ...] = ("safe", "bold")  # every tool has exact matching
ALL_MATCHINGS: tuple[Matching, ...] = get_args(Matching)


def editor(matching: Matching) -> Editor:
    """With the syntax checker that an agent's edits have."""
    return lambda path, before, old, new: apply_edit(
        before, Replacement(old, new), matching=matching, path=path, load_syntax_checker=load_syntax_checker
    )
