import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from handhold.core.text.lines import count_lines, iter_lines_with_endings, merge_ranges, split_lines

TEXTS = st.text(alphabet="ab\r\n", max_size=40)


@given(TEXTS, st.booleans())
def test_c20_the_pieces_of_a_text_give_it_back(text: str, lone_cr: bool):
    assert "".join(line + ending for line, ending in iter_lines_with_endings(text, lone_cr=lone_cr)) == text


@given(TEXTS)
def test_c20_a_line_ends_with_a_newline_and_a_carriage_return_before_it(text: str):
    assert [ending for _, ending in iter_lines_with_endings(text)] == [*re.findall("\r?\n", text), ""]


@given(TEXTS)
def test_c20_lines_are_counted_as_grep_and_git_count_them(text: str):
    assert (
        count_lines(text) == len(split_lines(text)) == len(text.encode().removesuffix(b"\n").split(b"\n")) - (not text)
    )


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 5)), max_size=8))
def test_c11_what_was_seen_in_pieces_is_seen(parts: list[tuple[int, int]]):
    ranges = [(first, first + size) for first, size in parts]
    seen = {n for first, last in ranges for n in range(first, last + 1)}
    joined = merge_ranges(ranges)
    assert {n for first, last in joined for n in range(first, last + 1)} == seen
    assert all(later[0] > sooner[1] + 1 for sooner, later in pairwise(joined))
