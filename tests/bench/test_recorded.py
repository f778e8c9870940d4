"""Edits that models really sent: a sample of the corpus, whose figures are in bench/recorded.json."""

import json
from pathlib import Path

import pytest

from bench import recorded
from bench.edits.editor import editor
from handhold.core.errors import NoMatch

PATCHES = recorded.SAMPLE.with_name("patches.jsonl.xz")
RIGHT_MISSES = 24  # of 76: what is refused or not judged stays so, unless more is certain


def test_recorded_edits_are_applied_as_they_were_meant():
    by_family, by_kind, failures = recorded.score(recorded.SAMPLE, editor("safe"))
    assert failures == []
    assert by_family["all, exact"]["right"] == by_family["all, exact"].total() == 32
    assert by_family["all, misses"]["right"] >= RIGHT_MISSES
    made = by_kind["already applied: new text is in the file"]
    assert made["refused"] == made.total() == 6


def test_recorded_patches_are_applied_as_they_were_meant():
    by_family, _, failures = recorded.score(PATCHES, editor("safe"))
    assert (by_family["all, patch"]["right"], failures) == (10, [])


@pytest.mark.parametrize("damage", ["at the end", "twice"])
def test_a_wrong_result_is_called_wrong(damage: str):
    def damaged(_path: str, before: str, old: str, new: str) -> str:
        if old not in before:
            raise NoMatch("a", old)
        after = before.replace(old, new, 1)
        return after + "more\n" if damage == "at the end" else after.replace(new, new + new, 1)

    _, _, failures = recorded.score(recorded.SAMPLE, damaged)
    assert len(failures) >= 30


def test_the_corpus_had_no_failure():
    """Its figures are kept: the corpus itself is too large for a repository."""
    kept = json.loads(Path(recorded.RESULTS).read_text())
    for results in kept.values():
        assert not any(row.get(verdict) for row in results["families"].values() for verdict in recorded.FAILURES)
