from collections.abc import Mapping
from typing import Any

import pytest

from handhold.core.errors import (
    Ambiguous,
    BadArguments,
    BadPath,
    NoMatch,
    NotFound,
    PartlyRead,
    PastEnd,
    Region,
    Stale,
    TooLarge,
    Unencodable,
)
from handhold.core.facts import PageLine
from handhold.core.ports.dialect import Dialect
from handhold.core.requests import (
    Edit,
    Glob,
    Grep,
    JobOutput,
    ListFiles,
    MultiEdit,
    PageLimits,
    Read,
    Replacement,
    Run,
    Write,
)
from handhold.core.results import AppliedReplacement, EditResult, Snippet, TextResult, WriteResult
from handhold.dialects.claude import LIMITS, dialect, edit
from handhold.dialects.claude.messages import REMINDER
from handhold.testing import DialectSuite

READ = Read("/a", LIMITS)


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
    return TextResult(path="/a", lines=rows, **{**given, **facts})


def edited(*steps: AppliedReplacement, rows=((1, "x"),), created=False) -> EditResult:
    return EditResult("/a", "/a", created, steps, "utf-8", "", Snippet(tuple(rows)))


def said(request, result, *, hints=False) -> str:
    return dialect.encode("", request, result, hints=hints)


class TestClaude(DialectSuite):
    dialect = dialect
    calls = (
        ("LS", {"path": "src", "ignore": ["*.md"]}),
        ("Glob", {"pattern": "**/*.py"}),
        ("Grep", {"pattern": "greet", "output_mode": "content", "-A": 1}),
        ("Read", {"file_path": "src/app.py", "offset": 1, "limit": 50}),
        ("Edit", {"file_path": "src/app.py", "old_string": "'Hello, '", "new_string": "'Hi, '", "replace_all": True}),
        ("MultiEdit", {"file_path": "src/app.py", "edits": [{"old_string": "world", "new_string": "all"}]}),
        ("Write", {"file_path": "notes.txt", "content": "one\n"}),
        ("Read", {"file_path": "book.ipynb"}),
        ("NotebookEdit", {"notebook_path": "book.ipynb", "cell_id": "first", "new_source": "# Hello"}),
        ("Bash", {"command": "cat src/app.py", "timeout": 5000}),
        ("Bash", {"command": "sleep 30", "run_in_background": True}),
        ("BashOutput", {"bash_id": "{job}"}),
        ("KillShell", {"shell_id": "{job}"}),
    )
    long_read = ("Read", {"file_path": "long.txt", "limit": 100})
    wide_search = ("Grep", {"pattern": "needle", "head_limit": 0})


def test_the_dialect_fulfils_its_port():
    port: Dialect = dialect
    assert (port.name, port.options.matching, port.options.hints) == ("claude", "exact", False)


def test_every_tool_has_a_title_and_says_what_it_may_do():
    for spec in dialect.specs:
        assert spec.title
        assert set(spec.annotations) == {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
        assert spec.annotations["readOnlyHint"] is (spec.name in ("Read", "Glob", "Grep", "LS", "BashOutput"))


def test_d12_read_has_no_pages():
    assert set(dialect.specs[0].input_schema["properties"]) == {"file_path", "offset", "limit"}


SEARCHED: Mapping[str, Any] = {"hidden": True, "chars": 69_000}
PAGE = PageLimits(2000, 2000, 60_000, count_rest=True, refuse_long=True, max_full_read_bytes=262_144)


@pytest.mark.parametrize(
    ("tool", "arguments", "request_"),
    [
        ("Read", {"file_path": "a"}, Read("a", PAGE)),
        ("Bash", {"command": "x"}, Run("x", 120, 80_000)),
        ("Bash", {"command": "x", "timeout": 600_000}, Run("x", 600, 80_000)),
        ("Bash", {"command": "x", "run_in_background": True}, Run("x", 3600, 80_000, background=True)),
        ("BashOutput", {"bash_id": "1"}, JobOutput("1", 80_000)),
        ("Glob", {"pattern": "*"}, Glob(pattern="*", limit=100, **SEARCHED)),
        ("LS", {"path": "/"}, ListFiles(limit=1000, **SEARCHED)),
        ("Grep", {"pattern": "x"}, Grep(pattern="x", regex=True, limit=100, **SEARCHED)),
        ("Grep", {"pattern": "x", "head_limit": 0}, Grep(pattern="x", regex=True, limit=1000, **SEARCHED)),
        ("Grep", {"pattern": "x", "head_limit": 1}, Grep(pattern="x", regex=True, limit=1, **SEARCHED)),
        ("Grep", {"pattern": "x", "head_limit": 1001}, Grep(pattern="x", regex=True, limit=1000, **SEARCHED)),
        ("Grep", {"pattern": "x", "-C": 40}, Grep(pattern="x", regex=True, limit=100, before=40, after=40, **SEARCHED)),
        (
            "Grep",
            {"pattern": "x", "-C": 3, "-A": 0, "-B": 1},
            Grep(pattern="x", regex=True, limit=100, before=1, after=0, **SEARCHED),
        ),
    ],
)
def test_limits_are_those_of_the_dialect(tool: str, arguments: Mapping[str, Any], request_: object):
    assert dialect.decode(tool, arguments) == request_


@pytest.mark.parametrize(
    ("tool", "arguments", "argument"),
    [
        ("Bash", {"command": "x", "timeout": 600_001}, "timeout"),
        ("Bash", {"command": "x", "timeout": 3_600_001, "run_in_background": True}, "timeout"),
        ("Grep", {"pattern": "x", "glob": "*.py", "type": "py"}, "type"),
        ("Grep", {"pattern": "x", "head_limit": -1}, "head_limit"),
        ("Grep", {"pattern": "x", "-C": -1}, "-C"),
        ("Grep", {"pattern": "x", "-A": 41}, "-A"),
        ("NotebookEdit", {"notebook_path": "a", "new_source": "x", "edit_mode": "insert"}, "cell_type"),
        ("NotebookEdit", {"notebook_path": "a", "new_source": "x"}, "cell_id"),
    ],
)
def test_what_goes_beyond_them_is_refused(tool: str, arguments: Mapping[str, Any], argument: str):
    with pytest.raises(BadArguments) as refused:
        dialect.decode(tool, arguments)
    assert refused.value.argument == argument


# --- Read


def test_d1_lines_are_numbered_and_the_reminder_follows():
    text = said(READ, shown("a", "", "c", first=999_999, total=None))
    assert text == f"999999→a\n1000000→\n1000001→c\n\n{REMINDER}"


def test_d2_what_was_cut_is_counted():
    text = said(READ, shown(PageLine("aa", 500), "b", omitted_lines=7, has_more=True, total=9))
    assert text.split("\n")[:3] == [
        "     1→aa... (more 500 characters in this line are truncated)",
        "     2→b",
        "... (more 7 lines are truncated)",
    ]


def test_d9_an_empty_file_counts_as_one_line():
    warning = "<system-reminder>Warning: the file exists but is shorter than the provided offset (1). The file has 1 lines.</system-reminder>"
    assert dialect.refuse("Read", PastEnd("/a", 1, 0), hints=False) == warning
    assert said(READ, shown()) == said(READ, shown(total=None)) == warning


def test_too_large_to_edit_is_not_too_large_to_read():
    error = TooLarge("/a", 65 * 2**20, 64 * 2**20)
    assert "offset and limit" in dialect.refuse("Read", error, hints=False)
    assert dialect.refuse("Edit", error, hints=False).startswith("<tool_use_error>/a is too large (65.0 MB")


# --- Edit


def test_d11_the_snippet_or_the_list_by_what_was_asked():
    one = AppliedReplacement("a", "b", every=True, match_count=1, matched_by="exact")
    two = AppliedReplacement("a", "b", every=True, match_count=2, matched_by="exact")
    request = Edit("/a", Replacement("a", "b", every=True))
    assert said(request, edited(one)).endswith("snippet of the edited file:\n     1→x")
    assert "All occurrences of 'a' were successfully replaced with 'b'." in said(request, edited(two))
    made = edited(AppliedReplacement("", "x", every=False, match_count=1, matched_by="exact"), one, created=True)
    assert said(MultiEdit("/a", ()), made).split("\n")[1:] == ['1. Replaced "" with "x"', '2. Replaced "a" with "b"']
    assert said(request, made) == "File created successfully at: /a"


def test_an_echo_of_over_2000_characters_is_cut_with_a_count():
    text = dialect.refuse("Edit", NoMatch("/a", "x" * 2007), hints=False)
    assert text.endswith(f"String: {'x' * 2000}... (more 7 characters are truncated)</tool_use_error>")
    assert dialect.refuse("Edit", NoMatch("/a", "x" * 2000), hints=False).endswith("x</tool_use_error>")


@pytest.mark.parametrize("rows", [[(n, "x") for n in range(1, 30_000)], [(n, "x" * 10_000) for n in range(1, 100)]])
def test_an_edit_never_exceeds_the_budget(rows):
    text = said(
        Edit("/a", Replacement("a", "b")),
        edited(AppliedReplacement("a", "b", every=False, match_count=1, matched_by="exact"), rows=rows),
    )
    assert len(text) < 62_000
    assert "lines are truncated)" in text


@pytest.mark.parametrize("longer", [0, 1])
def test_a_snippet_has_60_000_characters(longer: int):
    rows = [*((n, "x" * 1992) for n in range(1, 30)), (30, "x" * (1992 + longer))]  # 2,000 with number and line break
    step = AppliedReplacement("a", "b", every=False, match_count=1, matched_by="exact")
    text = said(Edit("/a", Replacement("a", "b")), edited(step, rows=rows))
    assert text.endswith("... (more 1 lines are truncated)") is bool(longer)


@pytest.mark.parametrize(("count", "end"), [(2000, "  2000→x"), (2001, "... (more 1 lines are truncated)")])
def test_a_snippet_has_2000_lines(count: int, end: str):
    step = AppliedReplacement("a", "b", every=False, match_count=1, matched_by="exact")
    text = said(Edit("/a", Replacement("a", "b")), edited(step, rows=[(n, "x") for n in range(1, count + 1)]))
    assert text.rpartition("\n")[2] == end


def test_a_list_of_edits_never_exceeds_the_budget():
    step = AppliedReplacement("o" * 5000, "n" * 5000, every=False, match_count=1, matched_by="exact")
    text = said(MultiEdit("/a", ()), edited(*[step] * 500))
    assert len(text) < 62_000
    assert text.startswith("Applied 500 edits to /a:\n1. Replaced")
    assert text.endswith("edits are truncated)")


@pytest.mark.parametrize(
    ("content", "old", "new", "every", "message"),
    [
        ("a b a", "a", "a", False, "No changes to make: old_string and new_string are exactly the same."),
        ("a b a", "c", "d", False, "String to replace not found in file.\nString: c"),
        ("a b a", "", "d", False, "Cannot create new file - file already exists."),
    ],
)
def test_d6_valid_says_why_not(content, old, new, every, message):
    assert edit.valid(content, old, new, every) == f"<tool_use_error>{message}</tool_use_error>"


def test_d6_what_is_valid_can_be_executed():
    assert "Found 2 matches" in (edit.valid("a b a", "a", "c", False) or "")
    assert edit.valid("a b a", "a", "c", True) is None
    assert edit.execute("a b a", "a", "c", True) == "c b c"
    assert edit.execute("a b a", "b", "c", False) == "a c a"


# --- Write


def test_write_confirms_and_does_not_echo():
    made = WriteResult("/a", "/a", True, 2, 1, "utf-8", "")
    assert said(Write("/a", "x\n"), made) == "File created successfully at: /a"
    assert (
        said(Write("/a", "x\n"), WriteResult("/a", "/a", False, 2, 1, "utf-8", "")) == "The file /a has been updated."
    )


# --- beyond the source


def test_hints_follow_the_message_after_a_blank_line():
    cases = [
        (
            NoMatch("/a", "x\ny", Region(4, ("x", "z"))),
            "[Not in the file as quoted. The nearest lines are:]\n     4→x\n     5→z",
        ),
        (
            NoMatch("/a", "x y", Region(4, ("x  y",)), "whitespace"),
            "[Only whitespace differs from these lines:]\n     4→x  y",
        ),
        (NoMatch("/a", "x"), "[Not in the file: none of the quoted lines is there.]"),
        (Ambiguous("/a", "x", (1, 3), "exact"), "[Ambiguous: it starts on lines 1, 3.]"),
        (NotFound("/a", ("b.py",)), "[Did you mean b.py?]"),
        (PartlyRead("/a", ((1, 20), (30, 30))), "[Lines read so far: 1-20, 30.]"),
    ]
    for error, block in cases:
        without = dialect.refuse("Edit", error, hints=False)
        assert dialect.refuse("Edit", error, hints=True) == f"{without}\n\n{block}"


def test_hints_show_what_made_a_file_stale():
    diff = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n"
    text = dialect.refuse("Edit", Stale("/a", diff, complete=True, writer="other"), hints=True)
    assert "by the session other" in text
    assert diff in text
    assert "call again" in text
    assert "call again" not in dialect.refuse("Edit", Stale("/a", diff), hints=True)


def test_hints_name_the_next_offset_and_the_rung():
    assert "offset=3" in said(READ, shown("a", "b", has_more=True, total=9), hints=True)
    loose = edited(AppliedReplacement("a", "b", every=False, match_count=1, matched_by="indentation"))
    assert "except for indentation" in said(Edit("/a", Replacement("a", "b")), loose, hints=True)


def test_hints_are_bounded():
    error = NoMatch("/a", "x", Region(1, ("x" * 5000,) * 5000))
    assert len(dialect.refuse("Edit", error, hints=True)) < 7000
    assert len(dialect.refuse("Edit", Ambiguous("/a", "x", tuple(range(5000)), "exact"), hints=True)) < 1000


def test_every_reply_can_be_sent():
    for error in (NoMatch("/a", "\ud800"), BadPath("/\udcff", "because"), Unencodable("/a", "utf-8", "\ud800")):
        dialect.refuse("Edit", error, hints=True).encode()
    assert "U+D800" in dialect.refuse("Edit", Unencodable("/a", "utf-8", "\ud800"), hints=False)
