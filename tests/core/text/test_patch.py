"""C-60: the grammar whole, what is taken leniently, and where exactly a broken patch breaks."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.core.errors import BadPatch
from handhold.core.requests import AddFile, DeleteFile, PatchHunk, UpdateFile
from handhold.core.text.patch import (
    EXPECTED_ADDED_LINE,
    EXPECTED_CHANGE,
    EXPECTED_FILE_HEADER,
    EXPECTED_HUNK_LINE,
    parse_patch,
)

SEED = """\
*** Begin Patch
*** Add File: hello.txt
+Hello world
*** Update File: src/app.py
*** Move to: src/main.py
@@ def greet():
-print("Hi")
+print("Hello, world!")
*** Delete File: obsolete.txt
*** End Patch
"""
MEANT = (
    AddFile("hello.txt", "Hello world\n"),
    UpdateFile(
        "src/app.py",
        (PatchHunk(6, ("def greet():",), (("-", 'print("Hi")'), ("+", 'print("Hello, world!")'))),),
        "src/main.py",
    ),
    DeleteFile("obsolete.txt"),
)


def body(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def update(*lines: str) -> tuple[PatchHunk, ...]:
    (operation,) = parse_patch(body("*** Update File: a", *lines))
    assert isinstance(operation, UpdateFile)
    return operation.hunks


def bare(operations) -> list[object]:
    """Operations without the lines of the patch they stand on."""
    return [
        (each.path, each.move_to, [(hunk.scopes, hunk.rows) for hunk in each.hunks])
        if isinstance(each, UpdateFile)
        else each
        for each in operations
    ]


def test_the_whole_example_of_the_source():
    assert parse_patch(SEED) == MEANT


@pytest.mark.parametrize(
    "wrapped",
    [
        SEED.rstrip("\n"),
        f"\n\n  \n{SEED}\n\n",
        SEED.replace("\n", "\r\n"),
        f"<<'EOF'\n{SEED}EOF",
        f"<<EOF\n{SEED}EOF\n",
        f'<<"PATCH"\n{SEED}PATCH\n',
        f"apply_patch <<'EOF'\n{SEED}EOF\n",
        f"```\n{SEED}```",
        f"```diff\n{SEED}```\n",
        f"```bash\napply_patch <<'EOF'\n{SEED}EOF\n```\n",
        f"'{SEED}'",
        f'"{SEED.strip()}"',
        json.dumps(SEED),
        json.dumps(SEED)[1:-1],
        f"  {SEED.strip()}  ",
        SEED.replace("*** Begin Patch", "*** Begin Patch  ").replace("*** Add File: hello.txt", " *** Add File:  hello.txt "),
    ],
)  # fmt: skip
def test_c60_what_models_put_around_a_patch_is_taken_off(wrapped: str):
    assert bare(parse_patch(wrapped)) == bare(MEANT)


@pytest.mark.parametrize(
    ("text", "line", "found", "wanted"),
    [
        ("", 1, "", '"*** Begin Patch"'),
        ("hello\n", 1, "hello", '"*** Begin Patch"'),
        ("\n\n--- a/x\n+++ b/x\n", 3, "--- a/x", '"*** Begin Patch"'),
        ("*** Begin Patch", 1, "*** Begin Patch", '"*** End Patch" as the last line'),
        ("*** Begin Patch\n*** Delete File: a\n", 2, "*** Delete File: a", '"*** End Patch" as the last line'),
        ("*** Begin Patch\n*** End Patch", 2, "*** End Patch", EXPECTED_FILE_HEADER),
        (SEED + "thanks", 11, "thanks", 'nothing after "*** End Patch"'),
        (SEED + SEED, 11, "*** Begin Patch", 'nothing after "*** End Patch"'),
        (body("*** Rename File: a"), 2, "*** Rename File: a", EXPECTED_FILE_HEADER),
        (body("hello"), 2, "hello", EXPECTED_FILE_HEADER),
        (body("*** Delete File: a", "x"), 3, "x", EXPECTED_FILE_HEADER),
        (body("*** Delete File:"), 2, "*** Delete File:", 'a path after "*** Delete File:"'),
        (body("*** Add File: a", "+x", "y"), 4, "y", EXPECTED_ADDED_LINE),
        (body("*** Add File: a", "\\ No newline at end of file"), 3, "\\ No newline at end of file", EXPECTED_ADDED_LINE),
        (body("*** Update File: a"), 2, "*** Update File: a", EXPECTED_CHANGE),
        (body("*** Update File: a", "@@", " x"), 2, "*** Update File: a", EXPECTED_CHANGE),
        (body("*** Update File: a", "@@", "-x", "+x"), 2, "*** Update File: a", EXPECTED_CHANGE),
        (body("*** Update File: a", "@@"), 3, "@@", EXPECTED_HUNK_LINE),
        (body("*** Update File: a", "@@ def f():", "", "@@", "-x"), 3, "@@ def f():", EXPECTED_HUNK_LINE),
        (body("*** Update File: a", "@@", "-x", "y"), 5, "y", EXPECTED_HUNK_LINE),
        (body("*** Update File: a", "-x", "*** End of File", "+y"), 5, "+y", '"@@" or the next "*** …"'),
        (body("*** Update File: a", "-x", "*** Move to: b"), 4, "*** Move to: b", EXPECTED_FILE_HEADER),
        ("<<'EOF'\n" + body("*** Delete File: a", "x") + "\nEOF", 4, "x", EXPECTED_FILE_HEADER),
    ],
)  # fmt: skip
def test_c60_a_broken_patch_names_the_line(text: str, line: int, found: str, wanted: str):
    with pytest.raises(BadPatch) as raised:
        parse_patch(text)
    assert (raised.value.line, raised.value.text, raised.value.wanted) == (line, found, wanted)


# --- files


def test_an_added_file_ends_with_a_newline_unless_the_patch_says_otherwise():
    assert parse_patch(body("*** Add File: a", "+x", "+", "+  y")) == (AddFile("a", "x\n\n  y\n"),)
    assert parse_patch(body("*** Add File: a", "+x", "\\ No newline at end of file")) == (AddFile("a", "x"),)
    assert parse_patch(body("*** Add File: a")) == (AddFile("a", ""),)


def test_an_empty_line_between_added_lines_lost_its_sign_and_one_behind_them_is_layout():
    first, second = parse_patch(body("*** Add File: a", "+x", "", "+y", "", "*** Add File: b", "+z", ""))
    assert (first, second) == (AddFile("a", "x\n\ny\n"), AddFile("b", "z\n"))


def test_a_carriage_return_is_content_unless_the_whole_patch_came_with_them():
    assert parse_patch("*** Begin Patch\n*** Add File: a\n+x\r\n*** End Patch\n") == (AddFile("a", "x\r\n"),)
    assert parse_patch("*** Begin Patch\r\n*** Add File: a\r\n+x\r\n*** End Patch\r\n") == (AddFile("a", "x\n"),)


def test_a_file_is_moved_without_hunks():
    assert parse_patch(body("*** Update File: a", "*** Move to: b")) == (UpdateFile("a", (), "b"),)


# --- hunks


def test_the_first_hunk_may_lack_its_mark():
    first, second = update("-x", "+y", "@@", "-z")
    assert (first.patch_line, first.scopes, first.rows) == (3, (), (("-", "x"), ("+", "y")))
    assert (second.patch_line, second.rows) == (5, (("-", "z"),))


def test_scopes_in_a_row_belong_to_one_hunk():
    (hunk,) = update("@@ class BaseClass", "@@   def method():", "-x")
    assert hunk.scopes == ("class BaseClass", "  def method():")


def test_the_numbers_of_a_unified_diff_are_no_scope():
    assert [hunk.scopes for hunk in update("@@ -1,3 +1,4 @@", "-x", "@@ -9 +9 @@ def f():", "-y")] == [
        (),
        ("def f():",),
    ]


def test_the_end_of_the_file_is_said_by_its_mark_or_by_its_missing_newline():
    assert update("-x", "*** End of File")[0].is_at_end
    gains, loses, keeps = (
        update("-x", "\\ No newline at end of file", "+y")[0],
        update("-x", "+y", "\\ No newline at end of file")[0],
        update("-x", "\\ No newline at end of file", "+y", "\\ No newline at end of file")[0],
    )
    assert [(hunk.is_at_end, hunk.ends_with_newline) for hunk in (gains, loses, keeps)] == [
        (True, True),
        (True, False),
        (True, False),
    ]


def test_an_empty_line_in_a_hunk_lost_its_space():
    (hunk,) = update("@@", " a", "", "-b", "")
    assert hunk.rows == ((" ", "a"), (" ", ""), ("-", "b"))


def test_an_empty_line_that_alone_says_where_a_hunk_goes_is_kept():
    assert update("@@ x", "+a", "")[0].rows == (("+", "a"), (" ", ""))
    assert update("-a", "", "*** End of File")[0].rows == (("-", "a"), (" ", ""))


# --- whatever comes


@given(st.lists(st.sampled_from([
    "*** Begin Patch", "*** End Patch", "*** Add File: a", "*** Delete File: a", "*** Update File: a", "*** Move to: b",
    "*** End of File", "@@", "@@ f", "+x", "-x", " x", "", "x", "```", "<<'EOF'", "EOF", '"', "\r", "\\ No newline at end of file",
]), max_size=12))  # fmt: skip
def test_any_text_is_a_patch_or_names_a_line_of_it(lines: list[str]):
    text = "\n".join(lines)
    try:
        operations, broken = parse_patch(text), None
    except BadPatch as error:
        operations, broken = (), error
    assert operations or (broken and broken.text.strip() in text.split("\n")[broken.line - 1])
