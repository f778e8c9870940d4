import pytest

from handhold.core.errors import Ambiguous, NoMatch, NotFound, PastEnd, Region, Stale
from handhold.core.facts import PageLine
from handhold.core.ports.dialect import Dialect
from handhold.core.requests import Edit, Read, Replacement, Write
from handhold.core.results import AppliedReplacement, EditResult, Snippet, TextResult, WriteResult
from handhold.dialects.handhold import LIMITS, MAX_REPLY_CHARS, dialect
from handhold.testing import DialectSuite

EXACT = AppliedReplacement("a", "b", every=False, match_count=1, matched_by="exact")
READ = Read("a.py", LIMITS)
EDIT = Edit("a.py", Replacement("a", "b"))


def shown(*lines: str | PageLine, **facts) -> TextResult:
    rows = tuple(line if isinstance(line, PageLine) else PageLine(line) for line in lines)
    given = {
        "first": 1,
        "omitted_lines": 0,
        "has_more": False,
        "total": len(rows),
        "encoding": "utf-8",
        "has_undecodable_bytes": False,
    }
    return TextResult(path="a.py", lines=rows, **{**given, **facts})


def edited(*steps: AppliedReplacement, rows=((1, "x"),), created=False) -> EditResult:
    return EditResult("a.py", "/ws/a.py", created, steps, "utf-8", "", Snippet(tuple(rows)))


def said(request, result, *, hints=True) -> str:
    return dialect.encode("", request, result, hints=hints)


def refused(error, *, hints=True) -> str:
    return dialect.refuse("edit_file", error, hints=hints)


class TestHandhold(DialectSuite):
    dialect = dialect
    calls = (
        ("list_files", {"path": "src", "depth": 2}),
        ("glob", {"pattern": "**/*.py", "limit": 5}),
        ("grep", {"pattern": "greet", "mode": "content", "after": 1}),
        ("read_file", {"path": "src/app.py", "offset": 1, "limit": 50}),
        ("edit_file", {"path": "src/app.py", "old_string": "'Hello, '", "new_string": "'Hi, '", "replace_all": False}),
        ("multi_edit", {"path": "src/app.py", "edits": [{"old_string": "world", "new_string": "all"}]}),
        ("read_file", {"path": "README.md"}),
        (
            "apply_patch",
            {
                "patch": "*** Begin Patch\n*** Update File: README.md\n@@\n-Say hello.\n+Say good morning.\n*** End Patch\n"
            },
        ),
        ("write_file", {"path": "notes.txt", "content": "one\n"}),
        ("read_files", {"paths": ["src/app.py", "notes.txt"]}),
        ("read_file", {"path": "book.ipynb"}),
        ("read_file", {"path": "notes.txt", "if_changed": True}),
        ("notebook_edit", {"path": "book.ipynb", "action": "replace", "cell": "first", "source": "# Hello"}),
        ("bash", {"command": "cat", "background": True}),
        ("bash_input", {"job": "{job}", "text": "said\n"}),
        ("bash_output", {"job": "{job}", "offset": 0}),
        ("bash_stop", {"job": "{job}"}),
    )
    long_read = ("read_file", {"path": "long.txt"})
    wide_search = ("grep", {"pattern": "needle", "limit": 1000})


def test_the_dialect_fulfils_its_port():
    port: Dialect = dialect
    assert (port.name, port.options.matching, port.options.hints) == ("handhold", "safe", True)
    reading, looking = ["read_file", "read_files"], ["list_files", "glob", "grep"]
    changing = ["write_file", "edit_file", "multi_edit", "notebook_edit", "apply_patch"]
    running = ["bash", "bash_output", "bash_input", "bash_stop"]
    assert [spec.name for spec in port.specs] == [*reading, *changing, *looking, *running]


def test_every_tool_has_a_title_and_says_what_it_may_do():
    for spec in dialect.specs:
        assert spec.title
        assert set(spec.annotations) == {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
        reading = ("read_file", "read_files", "list_files", "glob", "grep", "bash_output")
        assert spec.annotations["readOnlyHint"] is (spec.name in reading)


# --- pages


def test_a_whole_file_is_shown_without_notes():
    assert said(READ, shown("a", "b")) == "     1→a\n     2→b"


def test_a_page_says_what_was_left_out_and_where_to_go_on():
    text = said(READ, shown("a", "b", first=5, omitted_lines=3, has_more=True, total=9))
    assert text.endswith("[Lines 5-6 of 9. 3 more requested lines were left out. Continue with offset=7.]")
    assert said(READ, shown("a", has_more=True, total=None)).endswith("[Line 1. Continue with offset=2.]")


def test_a_page_says_what_is_strange_about_the_file():
    text = said(
        READ,
        shown("a", encoding="gbk", has_undecodable_bytes=True, is_stale=True, diff_since_read="@@ -1 +1 @@\n-x\n+a\n"),
    )
    assert "encoding of the file is gbk" in text
    assert "\ufffd" in text
    assert "changed since you last read it:]\n@@ -1 +1 @@\n-x\n+a" in text


def test_an_empty_file_is_said_to_be_empty():
    assert said(READ, shown()) == "[a.py is empty.]"
    assert refused(PastEnd("a.py", 1, 0)) == "[a.py is empty.]"
    assert refused(PastEnd("a.py", 9, 1)) == "a.py has 1 line; offset=9 is past its end. Use an offset up to 1."


@pytest.mark.parametrize("width", [1, 26, 33, 500, 2000])
def test_c23_a_page_stays_within_20_000_tokens(width):
    cut = 10**7 if width == 2000 else 0
    count = min(LIMITS.lines, LIMITS.chars // (width + 8))
    diff = "+x\n" * 1333
    page = shown(
        *[PageLine("x" * width, cut)] * count,
        first=12_345_678,
        omitted_lines=10**7,
        has_more=True,
        total=10**8,
        encoding="gbk",
        has_undecodable_bytes=True,
        is_stale=True,
        diff_since_read=diff,
    )
    assert len(said(READ, page)) <= MAX_REPLY_CHARS


# --- edits


def test_u17_a_one_line_edit_costs_under_500_tokens():
    rows = [(n, "x" * 100_000) for n in range(1_000_000, 1_000_007)]
    assert len(said(EDIT, edited(EXACT, rows=rows))) < 4 * 500


def test_a_snippet_is_bounded_and_shows_its_gaps():
    text = said(EDIT, edited(EXACT, rows=[(1, "a"), (2, "b"), (9, "c")]))
    assert text == "Edited a.py: 1 place.\n     1→a\n     2→b\n   ...\n     9→c"
    long = said(EDIT, edited(EXACT, rows=[(n, "x") for n in range(1, 101)]))
    assert long.endswith("    40→x\n[60 more lines around the changes are not shown.]")


def test_an_edit_says_which_rung_matched():
    loose = AppliedReplacement("a", "b", every=False, match_count=1, matched_by="trailing space")
    assert said(EDIT, edited(loose)).endswith("[The quoted text matched except for trailing space.]")
    assert "[Edit 2 matched except for trailing space.]" in said(EDIT, edited(EXACT, loose))
    assert "except" not in said(EDIT, edited(EXACT))


def test_several_edits_are_counted():
    assert said(EDIT, edited(EXACT, EXACT)).startswith("Edited a.py: 2 edits, 2 places.\n")
    assert said(EDIT, edited(EXACT, created=True)) == "Created a.py."
    assert said(EDIT, edited(EXACT, EXACT, created=True)) == "Created a.py and made 1 edit in it."


def test_write_confirms_with_size_and_lines():
    assert (
        said(Write("a.py", ""), WriteResult("a.py", "/ws/a.py", True, 1234, 56, "utf-8", ""))
        == "Created a.py: 56 lines, 1,234 bytes."
    )
    kept = said(Write("a.py", ""), WriteResult("a.py", "/ws/a.py", False, 1, 1, "gbk", ""))
    assert kept == "Wrote a.py: 1 line, 1 byte.\n\n[The file's encoding, gbk, was kept.]"


# --- refusals


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (NoMatch("a.py", "x y", Region(1, ("x\ty",)), "whitespace"), "Only whitespace"),
        (NoMatch("a.py", "x\ny", Region(1, ("x", "z"))), "Not in the file"),
        (NoMatch("a.py", "x"), "Not in the file"),
        (Stale("a.py", "diff"), "Changed since"),
        (Stale("a.py"), "It was changed"),
        (Ambiguous("a.py", "x", (1, 2), "exact"), "Ambiguous"),
    ],
)
def test_u1_every_miss_says_which_kind_it_is(error, word):
    words = ("Only whitespace", "Not in the file", "Changed since", "It was changed", "Ambiguous")
    text = refused(error)
    assert [each for each in words if f"[{each}" in text] == [word]


def test_a_stale_file_is_read_again_unless_all_that_changed_was_shown():
    whole = Stale("a.py", "-x\n+y\n", complete=True, writer="other")
    assert "Read it again" not in refused(whole)
    assert "by the session other" in refused(whole)
    assert "Read it again" in refused(whole, hints=False)
    assert "Read it again" in refused(Stale("a.py", "-x\n+y\n"))


def test_a_missing_file_names_near_ones():
    assert refused(NotFound("a.py", ("b.py", "c.py"))).endswith("[Did you mean one of b.py, c.py?]")
