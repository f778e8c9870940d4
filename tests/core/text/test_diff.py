"""Our diff is difflib's, only sooner done."""

import difflib

from hypothesis import given, settings
from hypothesis import strategies as st

from handhold.core.text.diff import build_snippet, compute_hunks, truncate_diff, unified_diff
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
