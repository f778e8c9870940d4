"""What a search comes to when only a page of it is shown."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handhold import Toolbox
from handhold.core import tools
from handhold.core.facts import MatchRow, SearchHit, SearchOutcome, SkippedFiles
from handhold.core.plans import Search
from handhold.core.policy.guarded_view import GuardedView
from handhold.core.ports.dialect import Dialect
from handhold.core.requests import Glob, Grep, ListFiles
from handhold.core.results import GlobResult, GrepResult, ListResult
from handhold.core.text.cursor import Cursor, checksum_hit
from handhold.core.tools.grep import split_by_match, suggest_hint
from handhold.core.tools.list_files import count_entry_chars
from handhold.core.tools.paging import build_query_key
from handhold.dialects import claude, handhold
from handhold.dialects.searches import format_tree
from tests.scale import examples

GLOB = Glob(path="/", pattern="**", limit=100, chars=1000)
GREP = Grep(path="/", pattern="x", mode="content", limit=100, chars=1000)
LIST = ListFiles(path="/", limit=100, chars=1000)


def view(dialect: Dialect = handhold.dialect) -> GuardedView:
    box = Toolbox.in_memory({})
    return GuardedView(box.files, box.policy, box.tracker, dialect.options)


def concluded(request, *hits: SearchHit, start=0, **facts: Any) -> Any:
    search = Search(request, "/ws", 20.0, start)
    return tools.conclude(search, SearchOutcome(tuple(hits), "rg 14", **facts), view())


def match(number: int, text: str = "x", **facts) -> MatchRow:
    return MatchRow(number, text, 0, 1, **facts)


def files(count: int, width: int = 1) -> list[SearchHit]:
    return [SearchHit(f"/ws/{n:0{width}}") for n in range(count)]


# --- pages


def test_a_search_that_was_whole_is_a_success_without_a_cursor():
    found = concluded(GLOB, *files(3), order="modified", is_checksum_of_all=True, checksum=7)
    assert isinstance(found, GlobResult)
    assert (found.paths, found.status, found.summary.cursor) == (("0", "1", "2"), "success", "")


def test_c100_a_page_ends_where_its_characters_do_and_the_cursor_stands_there():
    found = concluded(replace(GLOB, chars=50), *files(10, width=9), start=5, checksum=9, is_checksum_of_all=True)
    assert (found.summary.shown_count, found.summary.has_more, found.status) == (5, True, "partial")
    cursor = Cursor.decode(found.summary.cursor, *build_query_key(replace(GLOB, chars=1), "/ws"))
    assert cursor == Cursor(10, 9)


def test_a_page_shows_its_first_item_whatever_it_costs():
    assert concluded(replace(GLOB, chars=3), *files(2, width=99)).summary.shown_count == 1


def test_of_a_search_that_stopped_the_cursor_stands_on_what_was_shown():
    hits = files(3)
    found = concluded(GLOB, *hits, has_more=True, abort_reason="limit", checksum=5)
    state = 5
    for hit in hits:
        state = checksum_hit(state, hit)
    assert Cursor.decode(found.summary.cursor, *build_query_key(GLOB, "/ws")) == Cursor(3, state)


def test_the_newest_of_those_seen_until_the_deadline_have_no_next_page():
    found = concluded(GLOB, *files(3), has_more=True, abort_reason="deadline", order="modified")
    assert (found.status, found.summary.cursor, found.summary.has_more) == ("partial", "", True)
    assert concluded(GLOB, *files(3), has_more=True, abort_reason="deadline", order="path").summary.cursor


def test_a_listing_remembers_the_last_name():
    found = concluded(LIST, SearchHit("/ws/src", "directory"), SearchHit("/ws/a\udcff"), has_more=True)
    assert isinstance(found, ListResult)
    assert found.entries == (("src", "directory"), ("a\\xff", "file"))
    assert Cursor.decode(found.summary.cursor, *build_query_key(LIST, "/ws")).last == "a\udcff"


@pytest.mark.parametrize(
    "other",
    [
        replace(GREP, pattern="y"),
        replace(GREP, regex=True),
        replace(GREP, ignore_case=True),
        replace(GREP, mode="count"),
        replace(GREP, glob="*.py"),
        replace(GREP, hidden=True),
        replace(GREP, ignored=True),
        replace(GREP, sort="none"),
    ],
)
def test_what_is_looked_for_belongs_to_a_cursor(other: Grep):
    assert build_query_key(other, "/ws") != build_query_key(GREP, "/ws")
    assert build_query_key(GREP, "/ws/src") != build_query_key(GREP, "/ws")


def test_how_much_is_shown_does_not():
    assert build_query_key(
        replace(GREP, limit=1, chars=1, width=1, before=2, after=2, path="."), "/ws"
    ) == build_query_key(GREP, "/ws")


# --- lines


def test_a_page_may_end_between_two_matches_of_a_file():
    hit = SearchHit("/ws/a", rows=(match(1), match(2), match(3)))
    found = concluded(replace(GREP, chars=45), hit, SearchHit("/ws/b", rows=(match(1),)), is_checksum_of_all=True)
    assert isinstance(found, GrepResult)
    assert [(path, [row.number for row in shown.rows]) for path, shown in found.files] == [("a", [1, 2])]
    assert (found.summary.shown_count, found.summary.has_more) == (2, True)
    assert Cursor.decode(found.summary.cursor, *build_query_key(GREP, "/ws")).start == 2


def test_lines_around_a_match_stay_with_it():
    rows = [
        MatchRow(1, "c"),
        match(2),
        MatchRow(3, "c"),
        MatchRow(6, "c"),
        match(7),
        match(8),
        MatchRow(9, "c"),
        match(10),
    ]
    pieces = [[row.number for row in piece] for piece in split_by_match(rows, 1)]
    assert pieces == [[1, 2, 3], [6, 7], [8, 9], [10]]


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=20), st.integers(0, 3))
def test_no_line_up_to_the_last_match_is_lost(steps: list[tuple[int, bool]], after: int):
    rows: list[MatchRow] = []
    number = 0
    for step, matches in steps:
        number += step
        rows.append(match(number) if matches else MatchRow(number, "c"))
    pieces = list(split_by_match(rows, after))
    together = [row for piece in pieces for row in piece]
    assert together == rows[: len(together)]
    assert all(sum(row.is_match for row in piece) == 1 for piece in pieces)
    assert not any(row.is_match for row in rows[len(together) :])


# --- status


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        ({}, "success"),
        ({"changed_since_cursor": True}, "success"),
        ({"skipped": (SkippedFiles("hidden", 3), SkippedFiles("binary", 1))}, "success"),
        ({"has_more": True}, "partial"),
        ({"abort_reason": "deadline"}, "partial"),
        ({"fallback_reason": "no rg"}, "partial"),
        ({"unstable_count": 1}, "partial"),
        ({"skipped": (SkippedFiles("unreadable", 1),)}, "partial"),
        ({"skipped": (SkippedFiles("too large", 1),)}, "partial"),
        ({"skipped": (SkippedFiles("too deep", 1),)}, "partial"),
    ],
)
def test_partial_is_what_is_not_whole(facts, status):
    assert concluded(GLOB, *files(1), **facts).status == status


def test_a_line_that_was_cut_is_not_whole():
    assert concluded(GREP, SearchHit("/ws/a", rows=(match(1, omitted_chars=(0, 9)),))).status == "partial"


# --- spelling


def test_an_ignore_file_is_spelled_as_other_paths_are():
    skipped = SkippedFiles("ignore file", 3, "/ws/sub/.gitignore", 2, "*.l\tog")
    found = concluded(GLOB, skipped=(skipped,))
    assert found.summary.outcome.skipped[0] == replace(skipped, source="sub/.gitignore", pattern="*.l\\tog")


def test_paths_outside_the_first_root_are_absolute_and_so_are_all_where_the_dialect_has_them_so():
    hits = (SearchHit("/ws/a"), SearchHit("/other/b"), SearchHit("/wsx/c"))
    assert concluded(GLOB, *hits).paths == ("a", "/other/b", "/wsx/c")
    found = tools.conclude(Search(GLOB, "/ws", 20.0), SearchOutcome(hits, "rg 14"), view(claude.dialect))
    assert isinstance(found, GlobResult)
    assert (found.paths, found.summary.path) == (("/ws/a", "/other/b", "/wsx/c"), "/ws")


# --- hints


@pytest.mark.parametrize(
    "pattern", ["foo.*bar", r"\bword\b", "a|b", "^import", "end$", r"f\(", "[a-z]", "(?i)x", "(ab)+"]
)
def test_a_literal_that_looks_like_a_regex(pattern: str):
    assert suggest_hint(replace(GREP, pattern=pattern)) == "regex"
    assert suggest_hint(replace(GREP, pattern=pattern, regex=True)) == ""


@pytest.mark.parametrize("pattern", ["main()", "a[0]", "print(x)", "$HOME", "x?.y", "i++", "{name}", "*ptr"])
def test_a_regex_that_looks_like_a_literal(pattern: str):
    assert suggest_hint(replace(GREP, pattern=pattern, regex=True)) == "literal"
    assert suggest_hint(replace(GREP, pattern=pattern)) == ""


@pytest.mark.parametrize("pattern", ["word", "two words", "a.b", "x = 1", "a || b", "100%", "#include <x.h>"])
def test_plain_words_look_like_nothing_else(pattern: str):
    assert suggest_hint(replace(GREP, pattern=pattern)) == ""
    assert suggest_hint(replace(GREP, pattern=pattern, regex=True)) == ""


def test_a_hint_comes_after_a_miss_alone():
    shallow = replace(GLOB, pattern="*.py")
    assert concluded(shallow).summary.hint == "deeper"
    assert concluded(GLOB).summary.hint == ""
    assert concluded(shallow, *files(1)).summary.hint == ""


# --- the budget


NAMES = st.builds(lambda char, width: char * width, st.sampled_from("a\\\n\u202e\udcffé"), st.integers(1, 255))
WAYS = st.lists(NAMES, min_size=1, max_size=10).map("/".join)
ROWS = st.builds(
    lambda number, width, cut: MatchRow(number, "x" * width, 0, 1, cut),
    st.integers(1, 10**9),
    st.integers(0, 500),
    st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)),
)
SKIPPED = st.builds(SkippedFiles, st.just("ignore file"), st.integers(1, 10**9), WAYS, st.integers(1, 999), NAMES)


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=9).map("/".join), min_size=1, max_size=20))
def test_a_tree_takes_no_more_than_was_reckoned(ways: list[str]):
    found = concluded(replace(LIST, chars=10**6), *[SearchHit(f"/ws/{way}", "link") for way in ways])
    assert len("\n".join(format_tree(found))) <= sum(count_entry_chars(found.entries, "."))


@given(
    st.lists(st.tuples(WAYS, st.lists(ROWS, min_size=1, max_size=3)), max_size=8),
    st.sampled_from([1, 5, 100]),
    st.lists(SKIPPED, max_size=12),
    st.sampled_from(["list", "glob", "files_with_matches", "content", "count"]),
    st.sampled_from([handhold.dialect, claude.dialect]),
)
@settings(max_examples=examples(40))
def test_c101_a_reply_stays_within_20_000_tokens(found, times, skipped, kind, dialect):
    hits = (
        tuple(
            SearchHit(
                f"/ws/{way}", rows=tuple(rows) if kind == "content" else (), count=10**9 if kind == "count" else 0
            )
            for way, rows in found
        )
        * times
    )
    hits = tuple(replace(hit, place=f"{hit.place}{n}") for n, hit in enumerate(hits[:200]))
    sizes: dict[str, Any] = {"limit": 1000, "chars": handhold.MAX_SEARCH_CHARS}
    request = {
        "list": ListFiles(**sizes),
        "glob": Glob(pattern="x" * 10_000, **sizes),
    }.get(kind) or Grep(pattern="x" * 10_000, mode=kind, **sizes)
    scan = SearchOutcome(
        hits,
        "rg 14",
        "no reason " * 20,
        "modified",
        "deadline",
        True,
        10**9,
        tuple(skipped),
        True,
        unstable_count=10**9,
    )
    result = tools.conclude(Search(request, "/ws", 20.0, 10**9), scan, view(dialect))
    assert len(dialect.encode("", request, result, hints=True)) <= handhold.MAX_REPLY_CHARS
