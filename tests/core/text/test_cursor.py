"""A cursor fits the search it was given for, and no other."""

from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.core.errors import BadCursor
from handhold.core.facts import MatchRow, SearchHit
from handhold.core.text.cursor import Cursor, checksum, checksum_hit

NAMES = st.binary(max_size=12).map(lambda name: name.decode("utf-8", "surrogateescape"))
CURSORS = st.builds(Cursor, st.integers(0, 2**40), st.integers(0, 2**32 - 1), NAMES)
QUERIES = st.lists(st.text(max_size=5) | st.just("\ud800"), max_size=4).map(tuple)


@given(CURSORS, QUERIES)
def test_a_cursor_comes_back_as_it_was(cursor: Cursor, query: tuple[str, ...]):
    text = cursor.encode(*query)
    assert Cursor.decode(text, *query) == cursor
    assert Cursor.decode(f" {text}\n", *query) == cursor
    assert set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@given(CURSORS, QUERIES, QUERIES)
def test_a_cursor_of_another_search_is_refused(cursor: Cursor, query: tuple[str, ...], other: tuple[str, ...]):
    if query == other:
        return
    with pytest.raises(BadCursor):
        Cursor.decode(cursor.encode(*query), *other)


@given(CURSORS, st.data())
def test_a_damaged_cursor_is_refused(cursor: Cursor, data: st.DataObject):
    text = cursor.encode("q")
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from("Aa0-_="))
    for broken in (text[:at], text[:at] + text[at + 1 :], text[:at] + other + text[at + 1 :]):
        try:
            assert Cursor.decode(broken, "q") == cursor  # the last letter has bits that mean nothing
        except BadCursor:
            pass


@given(st.text(max_size=40) | st.binary(max_size=20).map(lambda data: urlsafe_b64encode(data).decode()))
def test_whatever_is_no_cursor_is_refused(text: str):
    with pytest.raises(BadCursor):
        Cursor.decode(text, "q")


def test_a_cursor_is_short():
    assert len(Cursor(100, 2**32 - 1).encode("q")) <= 16
    assert len(Cursor(1_000_000, 2**32 - 1).encode("q")) <= 16


@given(st.lists(NAMES, max_size=6), st.integers(0, 6))
def test_a_checksum_is_the_same_in_one_go_and_in_pieces(parts: list[str], at: int):
    assert checksum(checksum(0, *parts[:at]), *parts[at:]) == checksum(0, *parts)


def test_where_one_part_ends_and_the_next_begins_counts():
    assert len({checksum(0, "ab", "c"), checksum(0, "a", "bc"), checksum(0, "abc"), checksum(0, "abc", "")}) == 4


def test_a_page_may_end_between_two_lines_of_a_file():
    rows = [MatchRow(number, "x", 0, 1) for number in (3, 5, 9)]
    around = MatchRow(4, "context")
    whole = checksum_hit(0, SearchHit("/a", rows=(rows[0], around, *rows[1:])))
    assert (
        checksum_hit(checksum_hit(0, SearchHit("/a", rows=(rows[0], around))), SearchHit("/a", rows=tuple(rows[1:])))
        == whole
    )
    assert checksum_hit(0, SearchHit("/a")) != checksum_hit(0, SearchHit("/a", count=2))
