"""One case a rung, then what holds on every rung, whatever the texts are."""

import re
from dataclasses import dataclass

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from handhold.core.choices import Matching
from handhold.core.errors import Ambiguous, NoMatch, OverlappingMatches, ToolError
from handhold.core.requests import Replacement
from handhold.core.text.edits import apply_edits
from handhold.core.text.encoding import Text
from handhold.core.text.lines import normalize_newlines
from handhold.core.text.match import FUZZY_STRATEGIES, STRATEGIES, find
from handhold.core.text.quote_repair import REPAIRS


@dataclass(frozen=True)
class Row:
    matched_by: str
    body: str
    old: str
    new: str
    after: str
    matching: Matching = "safe"


TABLE = (
    Row("exact", "a\r\nb\r\n", "a\nb", "a\nc\nd", "a\r\nc\r\nd\r\n", "exact"),
    Row("exact", "if x:\n    go(1)\n", "go(1)", "if y:\n    go(1)", "if x:\n    if y:\n        go(1)\n"),
    Row("exact", "if x:\n    go(1)\n", "go(1)", "    go(1)\n    go(2)", "if x:\n    go(1)\n    go(2)\n"),
    Row("exact", "say(one)\nsay(two)\n", "ay(one)\nsay(two", "say(one)\nsay(three)\nsay(two)", "say(one)\nsay(three)\nsay(two)\n"),
    Row("line endings", "a\rb\rc", "a\nb", "a\nX", "a\rX\rc"),
    Row("punctuation", "say “hi” – now\nb\n", 'say "hi" - now\nb', 'say "hi" - now\nc', "say “hi” – now\nc\n"),
    Row("punctuation", "caf\udce9 = 1\nb\n", "caf\ufffd = 1\nb", "caf\ufffd = 1\nc", "caf\udce9 = 1\nc\n"),
    Row("punctuation", "caf\udce9 = 1\nb\n", "caf\ufffd = 1", "caf\ufffd = 2", "caf\udce9 = 2\nb\n"),
    Row("trailing space", "a  \nb\t\nc\n", "a\nb\nc", "a\nB\nc", "a  \nB\nc\n"),
    Row("trailing space", "a\nb\n", "a \nb", "a\nB", "a\nB\n"),
    Row("trailing space and punctuation", "it’s \nb\n", "it's\nb", "it's\nB", "it’s \nB\n"),
    Row("indentation", "if x:\n    go(1)\n    go(2)\n", "go(1)\ngo(2)", "go(1)\ngo(3)", "if x:\n    go(1)\n    go(3)\n"),
    Row("indentation", "  a:\n    b\n    c\n", "a:\n  b\n  c", "  a:\n    b\n    d\n    c", "  a:\n    b\n    d\n    c\n"),
    Row("indentation", "a:\n    b:\n        c\n", "a:\n  b:\n    c", "a:\n  b:\n    c\n    d\n  e", "a:\n    b:\n        c\n        d\n    e\n"),
    Row("indentation", "a:\n  b:\n    c\n", "a:\n\tb:\n\t\tc", "a:\n\tb:\n\t\tc\n\t\td", "a:\n  b:\n    c\n    d\n"),
    Row("indentation and punctuation", "x:\n    ‘a’\n    b\n", "'a'\nb", "'a'\nc", "x:\n    ‘a’\n    c\n"),
    Row("blank lines around it", "a\nb\nc\n", "\n\na\nb\n\n", "\n\na\nB\n\n", "a\nB\nc\n"),
    Row("spacing and wrapping", "a\n\nb\nc\n", "a\nb\nc", "a\nb\nd", "a\n\nb\nd\n"),
    Row("spacing and wrapping", "a\nb\nc\n", "a\n\nb\nc", "a\n\nb\nd", "a\nb\nd\n"),
    Row("spacing and wrapping", "x   =   1\nb\n", "x = 1\nb", "x = 1\nc", "x   =   1\nc\n"),
    Row("spacing and wrapping", "go(\n    1,\n)\nb\n", "go(1,)\nb", "go(1,)\nc", "go(\n    1,\n)\nc\n"),
    Row("lines left out", "def f():\n    a\n    b\n    c\n    d\n", "def f():\n    ...\n    d", "def f():\n    ...\n    D", "def f():\n    a\n    b\n    c\n    D\n"),
    Row("code fence", "a\nb\n", "```py\na\nb\n```", "```py\na\nc\n```", "a\nc\n"),
    Row("line numbers", "x\na\nb\n", "  2→a\n  3→b", "  2→a\n  3→c", "x\na\nc\n"),
    Row("escapes", 'say("a")\nb\n', 'say(\\"a\\")\\nb', 'say(\\"a\\")\\nc', 'say("a")\nc\n'),
    Row("escaped quotes", 'say("a")\nb\n', 'say(\\"a\\")\nb', 'say(\\"b\\")\nb', 'say("b")\nb\n'),
    Row("entities", "a < b\nc\n", "a &lt; b\nc", "a &lt; b\nd", "a < b\nd\n"),
    Row("code fence, line numbers, indentation", "if x:\n\ta\n\tb\n", "```\n2: a\n3: b\n```", "```\n2: a\n3: c\n```", "if x:\n\ta\n\tc\n"),
    Row("unicode escapes", "s = 'é'\ny = 1\n", "s = '\\u00e9'\ny = 1", "s = '\\u00e9'\ny = '\\u00e8'", "s = 'é'\ny = '\\u00e8'\n"),
    Row("single backslashes", "s = '\\\\d'\ny = 1\n", "s = '\\d'\ny = 1", "s = '\\d'\ny = 2", "s = '\\\\d'\ny = 2\n"),
    Row("table rules and icons", "| a |\n|-----|\n| 1 |\n", "| a |\n|---|\n| 1 |", "| a |\n|---|\n| 3 |", "| a |\n|-----|\n| 3 |\n"),
    Row("table rules and icons", "x = ' \ue0b0 go'\ny = 1\n", "x = '  go'\ny = 1", "x = '  go'\ny = 2", "x = ' \ue0b0 go'\ny = 2\n"),
    Row("a typo in one line", "s = 'it\\'s'\ndef f():\n    return y\n", "s = 'it's'\ndef f():\n    return y", "s = 'it's'\ndef f():\n    return z", "s = 'it\\'s'\ndef f():\n    return z\n"),
    Row("a typo in one line", "def total(self):\n    x\n    return y\n", "def toal(self):\n    x\n    return y", "def toal(self):\n    x\n    return z", "def total(self):\n    x\n    return z\n"),
    Row("one context line", "# says now\na = 1\nb = 2\nvalue = compute(3)\nd\n", "# said then\na = 1\nb = 2\nvalue = compute(3)\nd", "# said then\na = 1\nb = 2\nvalue = compute(4)\nd", "# says now\na = 1\nb = 2\nvalue = compute(4)\nd\n", "bold"),
)  # fmt: skip


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.matched_by.replace(" ", "_"))
def test_c52_each_rung_lands_and_what_it_inserts_fits(row: Row):
    applied = apply_edits(Text(row.body), (Replacement(row.old, row.new),), path="a", matching=row.matching)
    assert applied.text.body == row.after
    assert applied.steps[0].matched_by == row.matched_by


def test_the_table_has_a_row_for_every_rung_and_every_repair():
    told = {name for row in TABLE for name in row.matched_by.split(", ")}
    assert told == {each.name for each in (*STRATEGIES, *FUZZY_STRATEGIES, *REPAIRS)}


@pytest.mark.parametrize("row", [row for row in TABLE if row.matching != "exact" and row.matched_by != "exact"])
def test_d7_a_lower_level_refuses_what_a_higher_one_finds(row: Row):
    lower: Matching = "exact" if row.matching == "safe" else "safe"
    with pytest.raises(NoMatch):
        apply_edits(Text(row.body), (Replacement(row.old, row.new),), path="a", matching=lower)


def test_u2_a_quote_in_spaces_edits_a_file_in_tabs_and_the_new_lines_carry_tabs():
    body = "func f() {\n\tif x {\n\t\tgo()\n\t}\n}\n"
    old = "    if x {\n        go()\n    }"
    new = "    if x {\n        for y {\n            go()\n        }\n    }"
    after = apply_edits(Text(body), (Replacement(old, new),), path="a.go", matching="safe").text.body
    assert after == "func f() {\n\tif x {\n\t\tfor y {\n\t\t\tgo()\n\t\t}\n\t}\n}\n"


def test_the_result_says_what_was_repaired():
    edit = Replacement("2→go(1)\n3→go(2)", "2→go(1)\n3→go(3)")
    applied = apply_edits(Text("if x:\n    go(1)\n    go(2)\n"), (edit,), path="a", matching="safe")
    assert applied.steps[0].repairs == ("line numbers", "indentation")


# --- refusals


def refused(body: str, old: str, new: str, *, every: bool = False, matching: Matching = "safe") -> ToolError:
    with pytest.raises(ToolError) as error:
        apply_edits(Text(body), (Replacement(old, new, every),), path="a", matching=matching)
    return error.value


def test_c53_ambiguity_on_a_rung_ends_the_climb():
    """The second place would be unique further up."""
    error = refused("  a\n  b\n\n\ta\n\tb\n", "a\nb", "a\nc")
    assert isinstance(error, Ambiguous)
    assert error.lines == (1, 4)
    assert error.matched_by == "indentation"


def test_c53_a_name_that_differs_is_not_a_slip():
    body = "def get_x(self):\n    return 1\n    # end\n"
    assert isinstance(refused(body, "def get_y(self):\n    return 1", "def get_y(self):\n    return 2"), NoMatch)
    body = "port1 = open(8080)\nclose()\n"
    assert isinstance(refused(body, "port2 = open(8080)\nclose()", "port2 = open(8080)\nshut()"), NoMatch)


def test_c53_two_places_that_are_about_as_near_are_none():
    body = "def first():\n    go(value)\n    end\n\ndef frist():\n    go(value)\n    end\n"
    assert isinstance(
        refused(body, "def firt():\n    go(value)\n    end", "def firt():\n    go(value)\n    on"), NoMatch
    )


def test_c53_a_line_to_be_changed_is_never_guessed():
    body = "alpha = compute()\nbeta = compute()\ngamma = compute()\n"
    old, new = (f"alpha = compute()\nbetta = {verb}()\ngamma = compute()" for verb in ("compute", "guess"))
    assert isinstance(refused(body, old, new, matching="bold"), NoMatch)


def test_c53_lines_left_out_cannot_be_taken_away():
    assert isinstance(refused("a\nb\nc\nd\n", "a\n...\nd", "a\nD"), NoMatch)


def test_c53_one_numbered_line_must_be_that_line():
    assert isinstance(refused("a: 1\nb: 2\n", "7: b: 2", "7: b: 3"), NoMatch)


def test_c50_overlapping_places_of_a_loose_rung_are_refused():
    assert isinstance(refused("  x\n  x\n  x\n", "x\nx", "y\ny", every=True), OverlappingMatches)


@pytest.mark.parametrize(
    ("body", "old", "new", "after"),
    [
        ("  a\n  b\n\n\ta\n\tb\n", "a\nb", "a\nc", "  a\n  c\n\n\ta\n\tc\n"),
        ("‘a’\nb\n'a' \nb\n", "“a”\nb", "“a”\nc", None),
        ("a\n\nb\n--\na\n\n\nb\n", "a\nb", "a\nc", "a\n\nc\n--\na\n\n\nc\n"),
        ("a < b\r\na < b\n", "a &lt; b", "a &gt; b", "a > b\r\na > b\n"),
    ],
)
def test_c50_replace_all_works_on_every_rung(body: str, old: str, new: str, after: str | None):
    if after is None:
        assert isinstance(refused(body, old, new, every=True), NoMatch)
    else:
        applied = apply_edits(Text(body), (Replacement(old, new, every=True),), path="a", matching="safe")
        assert applied.text.body == after
        assert applied.steps[0].match_count == 2


@pytest.mark.parametrize(
    ("kind", "body", "old", "matching"),
    [
        ("whitespace", "if x:\n    a\n\tb\n", "if x:\n  a\n  b", "exact"),
        ("stale", "a\nb\nc\n", "a\nX\nc", "safe"),
        ("absent", "a\nb\nc\n", "x\ny\nz", "safe"),
        ("absent", "a\nb\nc\n", "a\ny\nz", "safe"),
    ],
)
def test_u1_a_miss_says_what_kind_it_is(kind: str, body: str, old: str, matching: Matching):
    error = refused(body, old, "new", matching=matching)
    assert isinstance(error, NoMatch)
    assert error.kind == kind


def test_c53_a_miss_shows_what_differs():
    error = refused("zero\none\ntwo\nthree\n", "one\n2\nthree", "x")
    assert isinstance(error, NoMatch)
    assert error.nearest is not None
    assert error.nearest.first == 2
    assert [(each.number, each.there, each.quoted) for each in error.differs] == [(3, "two", "2")]


# --- properties

NASTY = st.text(alphabet="ab(.,: \t\n\r’'\"\\\u00a0\ud83d\ufffd`1→&lt;…", max_size=40)
LEVELS = st.sampled_from(["exact", "safe", "bold"])


@given(NASTY, NASTY, NASTY, st.booleans(), LEVELS)
@example("a\n\n\nb", "a\nb\n", "a\n\nb", False, "safe")
@example("\r\n", "\r\r\n", "", True, "bold")
@example("a\nb c\n\n\nd\n", "a\nbc\n \n ", "a\nb c\n \n ", False, "safe")
def test_c53_nothing_is_written_outside_the_reported_spans(
    body: str, old: str, new: str, every: bool, matching: Matching
):
    try:
        after = apply_edits(Text(body), (Replacement(old, new, every),), path="a", matching=matching).text.body
    except ToolError:
        return
    found = find(old, body, matching, new=new)
    assert found is not None
    assert len(found.spans) == 1 or every
    at = where = 0
    for span in found.spans:  # what lies between the spans comes back, in order, byte for byte
        between = body[at : span.start]
        where = after.index(between, where) + len(between) if at else len(between)
        assert at or after.startswith(between)
        at = span.end
    assert after.endswith(body[at:])


LINES = st.lists(st.sampled_from(["a", "  b", "\tc", "", "d ", "“e”", "f(g, h)", "}"]), min_size=1, max_size=7)


@given(LINES, LINES, st.integers(0, 6), st.integers(1, 4), st.sampled_from(["\n", "\r\n"]))
def test_c50_what_stands_there_exactly_is_replaced_exactly(
    lines: list[str], new: list[str], start: int, size: int, ending: str
):
    body, quoted = ending.join(["head", *lines, "tail"]), "\n".join(lines[start : start + size])
    places = re.findall(f"(?={re.escape(quoted)})", normalize_newlines(body))
    if len(places) != 1 or not quoted.strip() or "\n".join(new) == quoted:
        return
    after = apply_edits(Text(body), (Replacement(quoted, "\n".join(new)),), path="a", matching="exact").text.body
    assert after == normalize_newlines(body).replace(quoted, "\n".join(new)).replace("\n", ending)


@given(LINES, st.integers(0, 6), st.integers(1, 4), st.sampled_from(["\n", "\r\n"]))
def test_c53_lines_that_are_only_quoted_keep_their_bytes(lines: list[str], start: int, size: int, ending: str):
    """Whatever the quote lost of their blanks and marks."""
    block = lines[start : start + size]
    quoted = [line.strip().replace("“", '"').replace("”", '"') for line in block]
    body = ending.join(["head", *lines, "tail"])
    try:
        applied = apply_edits(
            Text(body), (Replacement("\n".join(quoted), "\n".join([*quoted, "NEW"])),), path="a", matching="safe"
        )
    except ToolError:
        return
    if applied.steps[0].matched_by in ("exact", "punctuation"):
        return  # character for character: what follows the quote on its last line follows the new text
    after = applied.text.body.split(ending)
    assert [line for line in after if line.strip() != "NEW"] == ["head", *lines, "tail"]


@given(NASTY, NASTY, LEVELS)
def test_a_second_search_finds_the_same(body: str, old: str, matching: Matching):
    assert find(old, body, matching) == find(old, body, matching)
