"""C-61: a hunk is put in the one place that its lines name, or nowhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.core.choices import Matching
from handhold.core.errors import HunkAmbiguous, HunkMismatch, Unencodable
from handhold.core.requests import UpdateFile
from handhold.core.text.encoding import Text, TextEncoding
from handhold.core.text.hunks import AppliedHunks, apply_hunks
from handhold.core.text.patch import parse_patch

CLASSES = """\
class A:
    def f(self):
        return 1

    def g(self):
        return 1


class B:
    def f(self):
        return 1

    def g(self):
        return 2
"""


def applied(body: str, *lines: str, matching: Matching = "safe") -> AppliedHunks:
    (operation,) = parse_patch("\n".join(["*** Begin Patch", "*** Update File: a", *lines, "*** End Patch"]))
    assert isinstance(operation, UpdateFile)
    return apply_hunks(Text(body), operation.hunks, path="a", matching=matching)


def result(body: str, *lines: str) -> str:
    return applied(body, *lines).text.body


# --- rungs


@pytest.mark.parametrize(
    ("there", "rung"),
    [
        ("    say('a') - b", "exact"),
        ("    say('a') - b  ", "trailing space"),
        ("\tsay('a') - b", "surrounding space"),
        ("    say(‘a’) – b", "punctuation"),
        ("    say('a')\u00a0- b", "punctuation"),
    ],
)
def test_c61_a_hunk_is_found_by_the_strictest_rung(there: str, rung: str):
    done = applied(f"one\n{there}\nlast\n", " one", "-    say('a') - b", "+    new", " last")
    assert done.matched_by == (rung,)
    assert done.text.body == f"one\n{there[: len(there) - len(there.lstrip())]}new\nlast\n"


def test_c61_a_looser_rung_is_not_tried_where_a_stricter_one_found_something():
    assert result("x \nx\n", "-x", "+y") == "x \ny\n"


def test_matching_exact_has_one_rung():
    with pytest.raises(HunkMismatch):
        applied("x \n", "-x", "+y", matching="exact")


def test_lines_that_stay_keep_the_files_characters():
    body = "“a”  \r\n\tb\r\nc\r\n"
    assert result(body, ' "a"', "     b", "-c", "+d", "+    e") == "“a”  \r\n\tb\r\nd\r\n\te\r\n"


def test_what_comes_is_indented_like_the_place():
    hunk = (" def f():", "-    return 1", "+    if x:", "+        return 2")
    assert result("def f():\n\treturn 1\n", *hunk) == "def f():\n\tif x:\n\t\treturn 2\n"
    assert result("  def f():\n      return 1\n", *hunk) == "  def f():\n      if x:\n          return 2\n"


def test_indentation_without_a_relation_is_refused():
    with pytest.raises(HunkMismatch):
        applied("  a\n      b\n c\n", " a", " b", "+d", " c")
    assert result("  a\n      b\n c\n", " a", " b", "-c", "+d") == "  a\n      b\n d\n"


# --- scopes


def test_c61_two_places_are_refused_with_their_lines():
    with pytest.raises(HunkAmbiguous) as raised:
        applied(CLASSES, "-        return 1", "+        return 3")
    assert (raised.value.hunk, raised.value.line, raised.value.lines) == (1, 3, (3, 6, 11))


def test_c61_a_scope_ends_where_its_block_does():
    done = result(CLASSES, "@@ class B:", "-        return 1", "+        return 3")
    assert done == CLASSES.replace(
        "class B:\n    def f(self):\n        return 1", "class B:\n    def f(self):\n        return 3"
    )
    with pytest.raises(HunkAmbiguous) as raised:
        applied(CLASSES, "@@ class A:", "-        return 1", "+        return 3")
    assert raised.value.lines == (3, 6)
    with pytest.raises(HunkMismatch):
        applied(CLASSES, "@@ class A:", "-        return 2", "+        return 3")  # that is in B


def test_c61_scopes_in_a_row_narrow_down():
    done = result(CLASSES, "@@ class A:", "@@     def g(self):", "-        return 1", "+        return 3")
    assert done == CLASSES.replace("    def g(self):\n        return 1", "    def g(self):\n        return 3")


def test_a_scope_may_be_the_start_of_its_line():
    done = result(
        "class BaseClass(Base):\n    x = 1\nclass BaseClassToo:\n    x = 1\n", "@@ class BaseClass", "-    x = 1"
    )
    assert done == "class BaseClass(Base):\nclass BaseClassToo:\n    x = 1\n"


def test_a_scope_that_stands_twice_is_told_apart_by_the_hunk():
    assert "return 9" in result(CLASSES, "@@     def g(self):", "-        return 2", "+        return 9")


def test_a_scope_may_be_quoted_again_in_its_hunk():
    assert result("def f():\n    x\n", "@@ def f():", " def f():", "-    x", "+    y") == "def f():\n    y\n"


def test_a_line_that_opens_no_block_means_all_below_it():
    assert result("a\n# part two\nx = {\n}\na\n", "@@ # part two", "-a", "+b") == "a\n# part two\nx = {\n}\nb\n"
    assert result("a\nx = {\n  1\n}\na\n", "@@ x = {", "-a", "+b") == "a\nx = {\n  1\n}\nb\n"


def test_a_block_goes_on_over_labels_directives_and_closing_brackets():
    body = "int f(\n    int a\n)\n{\n    a;\n#if X\n    b;\n#endif\nout:\n    c;\n}\nint g()\n{\n    c;\n}\n"
    assert result(body, "@@ int g()", "-    c;", "+    d;") == body[::-1].replace(";c", ";d", 1)[::-1]
    label = "int f()\n{\n    a;\nout:\n    c;\n}\nint g()\n{\n    c;\n}\n"
    assert result(label, "@@ int f()", "-    c;", "+    d;") == label.replace("c;", "d;", 1)


def test_a_missing_scope_is_named():
    with pytest.raises(HunkMismatch) as raised:
        applied(CLASSES, "@@ class A:", "@@     def h(self):", "-        return 1")
    assert raised.value.scope == "    def h(self):"


def test_two_hunks_may_name_the_same_scope():
    body = "def f():\n    a\n    b\n"
    assert result(body, "@@ def f():", "-    a", "@@ def f():", "-    b", "+    c") == "def f():\n    c\n"


# --- order


def test_c61_a_hunk_stands_after_the_one_before_it():
    assert result("x\na\nx\n", "-a", "+b", "@@", "-x", "+y") == "x\nb\ny\n"
    with pytest.raises(HunkMismatch) as raised:
        applied("x\na\n", "-a", "@@", "-x")
    assert (raised.value.hunk, raised.value.line) == (2, 4)


def test_c61_no_hunk_moves_another():
    body = "".join(f"{n}\n" for n in range(9))
    assert result(body, "-1", "+a", "+b", "+c", "@@", "-3", "-4", "@@", "-7", "+d") == "0\na\nb\nc\n2\n5\n6\nd\n8\n"


# --- only added lines


def test_added_lines_go_behind_their_scope_or_to_the_end():
    assert result("a\nb\n", "@@ a", "+x") == "a\nx\nb\n"
    assert result("a\nb\n", "@@", "+x") == "a\nb\nx\n"
    assert result("a\nb\n", "@@ a", "+x", "*** End of File") == "a\nb\nx\n"
    assert result("", "+x") == "x\n"
    assert result("a\nb\n", "+x", "@@", "-a", "@@", "+y") == "b\nx\ny\n"


def test_a_scope_that_stands_twice_does_not_say_where_added_lines_go():
    with pytest.raises(HunkAmbiguous) as raised:
        applied(CLASSES, "@@     def f(self):", "+        pass")
    assert raised.value.lines == (2, 10)


# --- the end


def test_c60_the_end_of_the_file_anchors():
    assert result("x\nx\n", "-x", "+y", "*** End of File") == "x\ny\n"
    with pytest.raises(HunkMismatch):
        applied("x\ny\n", "-x", "*** End of File")


def test_the_last_line_ends_as_it_did_unless_the_patch_says_otherwise():
    assert result("a\nb", "-b", "+c") == "a\nc"
    assert result("a\nb", " b", "+c") == "a\nb\nc"
    assert result("a\nb", "-b") == "a\n"
    assert result("a\nb", "-b", "\\ No newline at end of file", "+c") == "a\nc\n"
    assert result("a\nb\n", "-b", "+c", "\\ No newline at end of file") == "a\nc"


# --- endings and encodings


def test_what_comes_takes_the_endings_of_what_goes():
    assert result("a\r\nb\nc\r\n", "-a", "-b", "+x", "+y", "+z") == "x\r\ny\nz\nc\r\n"
    assert result("a\r\nb\r\n", " a", "+x") == "a\r\nx\r\nb\r\n"


def test_a_character_that_the_encoding_cannot_hold_is_refused():
    (operation,) = parse_patch("*** Begin Patch\n*** Update File: a\n-b\n+é😀\n*** End Patch")
    assert isinstance(operation, UpdateFile)
    with pytest.raises(Unencodable):
        apply_hunks(Text("b\n", TextEncoding("gbk")), operation.hunks, path="a", matching="safe")


# --- refusals


def test_a_refusal_shows_the_nearest_lines():
    with pytest.raises(HunkMismatch) as raised:
        applied("a\nb\nc\n", " a", "-B", " c")
    assert raised.value.nearest
    assert (raised.value.nearest.first, raised.value.nearest.lines[:3]) == (1, ("a", "b", "c"))


LINES = st.lists(st.sampled_from(["a", " a", "b", "a ", "", "def f():", "    a"]), max_size=12)


@given(LINES, LINES.filter(bool), st.sampled_from(["", "def f():", "a"]), st.integers(0, 11))
def test_c53_what_is_written_lies_where_the_old_lines_are(there: list[str], old: list[str], scope: str, cut: int):
    """Whatever is found, the file differs from before in these lines only."""
    rows = [f"{'-' if n == cut % len(old) else ' '}{line}" for n, line in enumerate(old)]
    body = "".join(f"{line}\n" for line in there)
    try:
        done = result(body, f"@@ {scope}".strip(), *rows, "+new")
    except (HunkMismatch, HunkAmbiguous):
        return
    kept = [line for line in done.split("\n") if line.strip() != "new"]
    gone = [n for n in range(len(there)) if [*there[:n], *there[n + 1 :], ""] == kept]
    assert any(there[n].strip() == old[cut % len(old)].strip() for n in gone)


# --- what recorded patches have


REPEATED = "a:\n  x\nb:\n  x\nc:\n  x\n"


def test_c61_as_many_equal_hunks_as_places_change_all_of_them():
    equal = ("@@", "-  x", "+  y")
    assert result(REPEATED, *equal * 3) == REPEATED.replace("x", "y")
    with pytest.raises(HunkAmbiguous) as raised:
        applied(REPEATED, *equal * 2)
    assert raised.value.lines == (2, 4, 6)


def test_c61_a_hunk_of_pure_context_says_where_the_next_one_comes():
    assert result(REPEATED, "@@", " b:", "@@", "-  x", "+  y") == "a:\n  x\nb:\n  y\nc:\n  x\n"
    with pytest.raises(HunkAmbiguous):
        applied(REPEATED, "@@", "   x", "@@", "-  x", "+  y")  # the context itself is in three places


def test_c60_a_blank_line_at_the_end_of_the_file_may_be_shown_or_not():
    assert result("a\nb\n", " a", "-b", "+c", " ") == "a\nc\n"
    assert result("a\nb\n\n", " a", "-b", "+c", "*** End of File") == "a\nc\n\n"
    with pytest.raises(HunkMismatch):
        applied("a\nb\nd\n", " a", "-b", "+c", " ")  # it is not the end
