"""What a search says: what was found, and what was not looked at."""

from typing import Any

import pytest

from handhold.core.errors import BadArguments, BadRegex
from handhold.core.facts import MatchRow, SearchHit, SearchOutcome, SkippedFiles, SkipReason
from handhold.core.requests import Glob, Grep, ListFiles
from handhold.core.results import GlobResult, GrepResult, ListResult, SearchSummary
from handhold.dialects import claude, handhold
from handhold.dialects.base import BaseDialect
from handhold.dialects.claude import FILE_TYPE_GLOBS
from handhold.dialects.searches import MAX_LISTED_SKIPS, format_tree, normalize_folder

PLAIN = handhold.dialect
FAMILY = claude.dialect
ASKED = Glob(pattern="*", limit=1, chars=1)


def how(shown=0, *, path=".", start=0, has_more=False, cursor="", hint: Any = "", **facts: Any) -> SearchSummary:
    given: dict[str, Any] = {"order": "modified", **facts}
    return SearchSummary(path, SearchOutcome((), "the walk", **given), start, shown, has_more, cursor, "success", hint)


def said(result, dialect: BaseDialect = PLAIN, *, hints=True) -> str:
    return dialect.encode("", ASKED, result, hints=hints)


def globbed(*paths: str, **facts: Any) -> GlobResult:
    return GlobResult(how(len(paths), **facts), "*.py", paths)


def grepped(*files: tuple[str, SearchHit], mode: Any = "content", **facts: Any) -> GrepResult:
    shown = sum(sum(row.is_match for row in hit.rows) or 1 for _, hit in files)
    return GrepResult(how(shown, **facts), "needle", mode, files)


# --- what was found


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("", "/"),
        (".", "/"),
        ("./", "/"),
        ("/", "/"),
        ("src/", "src"),
        ("./src//web/.", "src/web"),
        ("/ws/src/", "/ws/src"),
        ("..", ".."),
        ("../a", "../a"),
    ],
)
def test_c4_a_folder_is_meant_however_it_is_spelled(given: str, meant: str):
    assert normalize_folder(given) == meant


def test_a_listing_is_a_tree():
    entries = (("src/core", "directory"), ("src/core/a.py", "file"), ("src/link", "link"), ("src/z.py", "file"))
    assert list(format_tree(ListResult(how(4, path="src"), entries))) == [
        "src/",
        "  core/",
        "    a.py",
        "  link (link)",
        "  z.py",
    ]


def test_a_later_page_of_a_tree_names_the_folders_again():
    entries = (("a/b/c", "file"), ("a/d", "file"), ("e", "file"))
    assert list(format_tree(ListResult(how(3, start=5), entries))) == [
        "./",
        "  a/",
        "    b/",
        "      c",
        "    d",
        "  e",
    ]
    absolute = ListResult(how(1, path="/ws", start=5), (("/ws/a/b", "file"),))
    assert list(format_tree(absolute)) == ["/ws/", "  a/", "    b"]


def test_lines_are_numbered_and_gaps_are_shown_where_there_are_lines_around():
    rows = (
        MatchRow(2, "c"),
        MatchRow(3, "m", 0, 1),
        MatchRow(9, "m", 0, 1, (4, 0)),
        MatchRow(10, "c", omitted_chars=(0, 1234)),
    )
    text = said(
        grepped(
            ("a.py", SearchHit("/ws/a.py", rows=rows)), ("b.py", SearchHit("/ws/b.py", rows=(MatchRow(7, "x", 0, 1),)))
        )
    )
    assert text.split("\n\n[")[0].split("\n") == [
        "a.py",
        "     2-c",
        "     3→m",
        "   ...",
        "     9→(4 characters before) ...m",
        "    10-c... (1,234 more characters)",
        "",
        "b.py",
        "     7→x",
    ]


def test_lines_without_others_around_them_have_no_gaps():
    rows = (MatchRow(3, "m", 0, 1), MatchRow(9, "m", 0, 1))
    assert "..." not in said(grepped(("a.py", SearchHit("/ws/a.py", rows=rows))))


@pytest.mark.parametrize(
    ("result", "note"),
    [
        (globbed("a"), "[1 file.]"),
        (globbed("a", "b"), "[2 files, newest first.]"),
        (globbed("a", "b", order="path"), "[2 files.]"),
        (
            globbed("a", has_more=True, cursor="abc"),
            '[File 1, newest first, and there may be more. Continue with cursor="abc".]',
        ),
        (globbed("a", "b", start=1000), "[Files 1,001-1,002, newest first. This is the last page.]"),
        (
            grepped(("a", SearchHit("/a", count=1200)), ("b", SearchHit("/b", count=1)), mode="count"),
            "[1,201 matching lines in 2 files, newest files first.]",
        ),
        (ListResult(how(1, start=2), (("a", "file"),)), "[Entry 3. This is the last page.]"),
    ],
)
def test_c74_a_page_says_which_it_is(result, note: str):
    assert said(result).split("\n\n")[-1] == note


def test_a_whole_listing_needs_no_note():
    assert said(ListResult(how(1), (("a", "file"),))) == "./\n  a"


# --- what was not


def test_c74_a_deadline_says_that_more_may_exist_and_how_to_narrow():
    late = globbed("a", has_more=True, abort_reason="deadline")
    assert said(late).endswith(
        "[File 1, newest first.]\n[The time limit was reached before everything was searched; these are the newest files "
        'found by then. Narrow the search with path or pattern. Or set sort="none" to page through all results.]'
    )
    nothing = globbed(has_more=True, abort_reason="deadline", order="path")
    assert said(nothing) == (
        "Nothing was found in the workspace before the time limit.\n\n"
        "[The time limit was reached before everything was searched. Narrow the search with path or pattern.]"
    )
    assert "sort" not in said(late, FAMILY)


def test_c73_a_weaker_engine_says_so():
    assert "[Searched by the walk instead of ripgrep: there is none.]" in said(
        globbed("a", fallback_reason="there is none")
    )


def test_what_moved_meanwhile_is_told():
    assert "[1 file changed or disappeared during the search and is not shown.]" in said(globbed("a", unstable_count=1))
    assert "[2 files changed or disappeared during the search and are not shown.]" in said(
        globbed("a", unstable_count=2)
    )
    assert "[Files have changed since the cursor was made" in said(globbed("a", changed_since_cursor=True))


@pytest.mark.parametrize(
    ("skipped", "told"),
    [
        (SkippedFiles("ignore file", 12, ".gitignore", 3, "*.log"), "12 files ignored by .gitignore:3 (*.log)"),
        (SkippedFiles("ignore file", 1), "1 file ignored by an ignore file"),
        (SkippedFiles("hidden", 4), "4 hidden files"),
        (SkippedFiles("hidden", 1000, at_least=True), "at least 1,000 hidden files"),
        (SkippedFiles("heavy folder", 2), "2 heavy folders such as node_modules"),
        (SkippedFiles("binary", 1), "1 binary file"),
        (SkippedFiles("too large", 1), "1 file over 1 GiB"),
        (SkippedFiles("denied", 3), "3 files hidden by the policy"),
        (SkippedFiles("unreadable", 1), "1 file that could not be read"),
        (SkippedFiles("too deep", 2), "2 files in folders nested too deeply"),
    ],
)
def test_u11_a_miss_names_every_rule(skipped: SkippedFiles, told: str):
    text = said(globbed(searched_count=7, skipped=(skipped,)))
    assert text.startswith("No match for *.py in the workspace. 7 files were searched.\n\n")
    assert f"[Not searched: {told}." in text


@pytest.mark.parametrize(
    ("rule", "way"),
    [("ignore file", "ignored=true"), ("heavy folder", "ignored=true"), ("hidden", "hidden=true"), ("binary", "path")],
)
def test_u11_a_miss_names_the_argument_that_includes_it(rule: Any, way: str):
    assert way in said(globbed(searched_count=7, skipped=(SkippedFiles(rule, 1),))).split("[Not searched: ")[1]


def test_u11_many_rules_are_told_in_part():
    many = tuple(SkippedFiles("ignore file", 50 - n, ".gitignore", n, "x") for n in range(MAX_LISTED_SKIPS + 5))
    text = said(globbed(searched_count=1, skipped=many))
    assert "[Not searched: 50 files ignored by .gitignore:0 (x), 49 files" in text
    assert " and 5 more." in text


def test_u11_what_was_found_is_not_cluttered_with_what_is_always_left_out():
    assert "Not searched" not in said(globbed("a", skipped=(SkippedFiles("hidden", 4), SkippedFiles("binary", 1))))
    assert "[Not searched: 1 file over 1 GiB." in said(globbed("a", skipped=(SkippedFiles("too large", 1),)))


def test_c70_a_listing_always_says_what_it_leaves_out():
    text = said(
        ListResult(how(1, skipped=(SkippedFiles("hidden", 2), SkippedFiles("heavy folder", 1))), (("a", "file"),))
    )
    assert "[Not shown: 2 hidden entries, 1 heavy folder such as node_modules." in text


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (
            globbed(searched_count=12),
            "No match for *.py in the workspace. 12 files were searched, and the files left out do not match either.",
        ),
        (
            grepped(searched_count=12),
            "No match for needle in the workspace. 12 files were searched, and none was left out.",
        ),
        (grepped(searched_count=1, path="a"), "No match for needle in a. 1 file was searched, and none was left out."),
        (globbed(), "No match for *.py in the workspace. The files that were left out were not all counted."),
        (globbed(searched_count=0), "Nothing was searched: the workspace has no file."),
        (globbed(start=9), "There are no more results."),
        (
            GrepResult(how(searched_count=0, path="src"), "x", "content", (), "*.rs"),
            "Nothing was searched: src has no file that matches *.rs.",
        ),
        (
            GrepResult(how(searched_count=2), "x", "content", (), "*.rs"),
            "No match for x in the workspace, among files that match *.rs. 2 files were searched, and none of them was left out.",
        ),
        (ListResult(how(path="src"), ()), "There is nothing in src."),
    ],
)
def test_u11_nothing_there_is_said_plainly(result, told: str):
    assert said(result) == told


def test_u11_everything_left_out_is_said_exactly():
    skipped = (SkippedFiles("ignore file", 2, ".gitignore", 1, "*"),)
    text = said(globbed(searched_count=0, skipped=skipped))
    assert text.startswith("Nothing was searched: every file in the workspace was left out.\n\n[Not searched: 2 files")
    assert said(ListResult(how(skipped=skipped), ())).startswith("Everything in the workspace was left out.")


def test_u6_a_filter_is_not_told_whether_it_matches_what_is_denied():
    text = said(GrepResult(how(searched_count=0, skipped=(SkippedFiles("denied", 2),)), "x", "content", (), "*.rs"))
    assert text.startswith("Nothing was searched: no file in the workspace that matches *.rs may be searched.")


@pytest.mark.parametrize("dialect", [PLAIN, FAMILY])
def test_what_was_left_out_is_told_with_hints_or_without(dialect):
    results = [
        globbed(searched_count=1, skipped=(SkippedFiles("hidden", 1),)),
        globbed("a", has_more=True, cursor="abc"),
        globbed("a", fallback_reason="there is none", unstable_count=1),
    ]
    for result in results:
        assert said(result, dialect, hints=False) == said(result, dialect, hints=True)
        assert said(result, dialect).endswith("]")


def test_hints_about_patterns():
    assert "Use **/*.py to search all folders below" in said(globbed(hint="deeper"))
    assert "Set regex=true" in said(GrepResult(how(hint="regex"), "a.*b", "content", ()))
    assert "Leave out regex" in said(GrepResult(how(hint="literal"), "a()", "content", ()))
    assert "with a backslash" in said(GrepResult(how(hint="literal"), "a()", "content", ()), FAMILY)


def test_a_regex_that_is_none_is_refused_with_what_the_engine_has_against_it():
    error = BadRegex("f(", "a ')' is missing")
    plain = "\"f(\" is not a valid regular expression: a ')' is missing."
    assert PLAIN.refuse("grep", error, hints=True) == f"{plain} If it is plain text, leave out regex."
    literal = "To match special characters literally, escape them with a backslash."
    assert FAMILY.refuse("Grep", error, hints=False) == f"<tool_use_error>{plain} {literal}</tool_use_error>"


def test_no_note_of_the_family_names_an_argument_that_it_has_not():
    rules: tuple[SkipReason, ...] = (
        "ignore file",
        "hidden",
        "heavy folder",
        "binary",
        "too large",
        "denied",
        "unreadable",
        "too deep",
    )
    skipped = tuple(SkippedFiles(rule, 1) for rule in rules)
    facts: dict[str, Any] = {
        "searched_count": 1,
        "skipped": skipped,
        "abort_reason": "deadline",
        "has_more": True,
        "cursor": "abc",
    }
    for result in (globbed(**facts), globbed("a", **facts), grepped(**facts), ListResult(how(**facts), ())):
        text = said(result, FAMILY)
        assert not [word for word in ("cursor=", "ignored=", "hidden=", "regex=", "sort=") if word in text]


# --- calls


def test_the_parameters_are_those_of_the_contract():
    tools = {spec.name: list(spec.input_schema["properties"]) for spec in PLAIN.specs}
    assert tools["list_files"] == ["path", "depth", "hidden", "ignored", "ignore", "limit", "cursor"]
    assert tools["glob"] == ["pattern", "path", "hidden", "ignored", "limit", "cursor", "sort"]
    assert set(tools["grep"]) == {"pattern", "path", "glob", "regex", "ignore_case", "mode", "before", "after", "hidden", "ignored", "limit", "cursor", "sort"}  # fmt: skip


def test_limits_are_given_or_the_dialects_own():
    assert [PLAIN.decode(tool, {"pattern": "x"}).limit for tool in ("glob", "grep")] == [100, 100]  # pyright: ignore[reportAttributeAccessIssue]
    listing = PLAIN.decode("list_files", {})
    assert isinstance(listing, ListFiles)
    assert (listing.limit, listing.depth, listing.path) == (200, 1, "/")
    assert PLAIN.decode("glob", {"pattern": "x", "limit": 99_999}).limit == 1000  # pyright: ignore[reportAttributeAccessIssue]


def test_names_of_other_families_are_understood():
    sent = {"query": "x", "directory": "src", "include": "*.py", "output_mode": "content", "-i": True, "-A": 2}
    request = PLAIN.decode("grep", sent)
    assert isinstance(request, Grep)
    assert (request.pattern, request.path, request.glob, request.mode) == ("x", "src", "*.py", "content")
    assert (request.ignore_case, request.before, request.after) == (True, 0, 2)


def test_the_family_searches_regular_expressions_and_hidden_files():
    request = FAMILY.decode("Grep", {"pattern": "x", "-C": "2", "-B": 5, "-n": True})
    assert isinstance(request, Grep)
    assert (request.regex, request.hidden, request.ignored, request.before, request.after) == (True, True, False, 5, 2)
    assert FAMILY.decode("Grep", {"pattern": "x", "head_limit": 0}).limit == 1000  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("kind", FILE_TYPE_GLOBS)
def test_every_type_of_the_family_is_a_glob(kind: str):
    request = FAMILY.decode("Grep", {"pattern": "x", "type": kind})
    assert isinstance(request, Grep)
    assert request.glob == FILE_TYPE_GLOBS[kind]


def test_the_types_are_those_of_the_schema():
    (grep,) = (spec for spec in FAMILY.specs if spec.name == "Grep")
    assert grep.input_schema["properties"]["type"]["enum"] == list(FILE_TYPE_GLOBS)
    with pytest.raises(BadArguments):
        FAMILY.decode("Grep", {"pattern": "x", "type": "py", "glob": "*.js"})
