"""Our diff is difflib's, only sooner done."""

import difflib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handhold.core.requests import Replacement
from handhold.core.text import diff as diff_module
from handhold.core.text.diff import build_snippet, compute_hunks, truncate_diff, unified_diff
from handhold.core.text.edits import apply_edits
from handhold.core.text.encoding import Text
from handhold.core.text.kept_spans import KeptSpan, combine
from tests.scale import examples

BODIES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "d\n"]), max_size=30).map("".join)


@given(BODIES, BODIES)
def test_d6_a_diff_turns_the_one_text_into_the_other(before: str, after: str):
    lines = before.splitlines(keepends=True)
    out: list[str] = []
    at = 0
    for hunk in compute_hunks(before, after):
        out += lines[at : hunk.old_start]
        out += [row.text for row in hunk.lines if row.sign != "-"]
        at = hunk.old_start + hunk.old_count
    assert "".join(out + lines[at:]) == after


@given(st.integers(0, 40), st.integers(1, 3))
def test_d6_an_edit_reads_as_difflib_writes_it(at: int, size: int):
    before = [f"line {n}\n" for n in range(41)]
    after = [*before[:at], *(f"new {n}\n" for n in range(size)), *before[at + 1 :]]
    theirs = "".join(difflib.unified_diff(before, after, "a/x", "b/x", n=3))
    assert unified_diff("x", "".join(before), "".join(after)) == theirs


TEXTS = st.text(alphabet="ab\n", max_size=60)
CUTS = st.tuples(st.integers(0, 60), st.integers(0, 8), st.text(alphabet="ab\n", max_size=6))


def cut(text: str, at: int, size: int, new: str) -> tuple[str, tuple[KeptSpan, KeptSpan]]:
    """The text with a part replaced, and what was kept."""
    start = min(at, len(text))
    end = min(start + size, len(text))
    return text[:start] + new + text[end:], (
        KeptSpan(0, 0, start),
        KeptSpan(end, start + len(new), len(text) - end),
    )


@given(TEXTS, st.lists(CUTS, min_size=1, max_size=4))
@settings(max_examples=examples(2000))
def test_g7_what_several_edits_kept_is_equal_and_its_diff_turns_the_one_text_into_the_other(
    before: str, cuts: list[tuple[int, int, str]]
):
    after, kept = before, (KeptSpan(0, 0, len(before)),)
    for each in cuts:
        after, own = cut(after, *each)
        kept = tuple(combine(kept, own))
    assert all(before[a : a + length] == after[b : b + length] for a, b, length in kept)
    lines, out, at = before.splitlines(keepends=True), list[str](), 0
    for hunk in compute_hunks(before, after, kept):
        assert hunk.old_start >= at
        rows = [row for row in hunk.lines if row.sign != "+"]
        assert [row.text for row in rows] == lines[hunk.old_start : hunk.old_start + hunk.old_count]
        out += lines[at : hunk.old_start]
        assert [row.number for row in hunk.lines if row.sign != "-"] == [
            *range(len(out) + 1, len(out) + hunk.new_count + 1)
        ]
        out += [row.text for row in hunk.lines if row.sign != "-"]
        at = hunk.old_start + hunk.old_count
    assert "".join(out + lines[at:]) == after


@given(TEXTS, CUTS)
def test_g7_the_diff_of_an_edit_does_not_depend_on_whether_its_span_is_known(before: str, one: tuple[int, int, str]):
    after, kept = cut(before, *one)
    assert [*compute_hunks(before, after, kept)] == [*compute_hunks(before, after)]


def test_g7_only_lines_around_the_edits_are_compared(monkeypatch: pytest.MonkeyPatch):
    body = "".join(f"line {n}\n" for n in range(20_000))
    edits = (Replacement("line 0\n", "first\n"), Replacement("line 19999\n", "last\n"))
    applied = apply_edits(Text(body), edits, path="a", matching="exact")
    split: list[str] = []
    whole = diff_module._split_lines
    monkeypatch.setattr(diff_module, "_split_lines", lambda text: split.append(text) or whole(text))
    assert len([*compute_hunks(body, applied.text.body, applied.kept)]) == 2
    assert sum(map(len, split)) < 200


def test_d11_the_snippet_shows_context_and_added_lines_as_numbered_in_the_new_file():
    before = "".join(f"{n}\n" for n in range(1, 11))
    after = before.replace("5\n", "five\nand a half\n")
    assert build_snippet(compute_hunks(before, after)).rows == (
        (2, "2"), (3, "3"), (4, "4"), (5, "five"), (6, "and a half"), (7, "6"), (8, "7"), (9, "8"),
    )  # fmt: skip


@given(st.integers(2001, 2500), st.sets(st.integers(0, 2000), min_size=1, max_size=50))
@settings(max_examples=examples(20))
def test_d6_a_name_replaced_everywhere_reads_as_difflib_would_write_it(size: int, changed: set[int]):
    before = [f"line {n}\n" for n in range(size)]
    after = [f"new {n}\n" if n in changed or n in (0, size - 1) else line for n, line in enumerate(before)]
    theirs = "".join(difflib.unified_diff(before, after, "a/x", "b/x", n=3))
    assert unified_diff("x", "".join(before), "".join(after)) == theirs


def test_a_missing_final_newline_is_said():
    assert "\\ No newline at end of file" in unified_diff("x", "a", "a\n")


@given(st.text(alphabet="a\n", max_size=300))
def test_a_bounded_diff_never_exceeds_its_bound_and_says_whether_it_is_whole(diff: str):
    head, whole = truncate_diff(diff, max_lines=5, max_chars=50)
    assert diff.startswith(head)
    assert whole == (head == diff)
    assert len(head) <= 50
    assert head.count("\n") <= 6
