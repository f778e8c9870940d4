"""Edits change the bytes of their span and no others, or nothing at all."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from handhold.core.choices import Matching
from handhold.core.errors import Ambiguous, NoChange, NoMatch, OverlappingMatches, ToolError
from handhold.core.requests import Replacement
from handhold.core.text.edits import apply_edits
from handhold.core.text.encoding import Text, TextEncoding
from handhold.core.text.lines import normalize_newlines
from handhold.core.text.match import find

CODINGS = [
    TextEncoding("utf-8"),
    TextEncoding("utf-8", b"\xef\xbb\xbf"),
    TextEncoding("utf-16-le", b"\xff\xfe"),
    TextEncoding("utf-16-be", b"\xfe\xff"),
    TextEncoding("gbk"),
    TextEncoding("cp932"),
    TextEncoding("cp1252"),
]
WORDS = {
    "gbk": "文件内容修改",
    "cp932": "ファイル変更",
    "cp1252": "éàüñß€",
}
ENDINGS = st.sampled_from(["\n", "\r\n", "\r\n", "\n", "\r"])


def words(coding: TextEncoding) -> str:
    return "ab \t" + WORDS.get(coding.name, "é中あ€😀")


def edit(body: str, old: str, new: str, *, every: bool = False, matching: Matching = "safe") -> str:
    return apply_edits(Text(body), (Replacement(old, new, every),), path="a", matching=matching).text.body


@st.composite
def files(draw: st.DrawFn) -> tuple[TextEncoding, list[str], list[str]]:
    """A file of lines with endings of all kinds, each line unlike the others."""
    coding = draw(st.sampled_from(CODINGS))
    lines = draw(st.lists(st.text(alphabet=words(coding), max_size=8), min_size=3, max_size=12))
    lines = [f"{n}:{line}" for n, line in enumerate(lines)]
    endings = draw(st.lists(ENDINGS, min_size=len(lines), max_size=len(lines)))
    if draw(st.booleans()):
        endings[-1] = ""
    return coding, lines, endings


@given(files(), st.data())
def test_u4_u5_an_edit_of_one_line_leaves_every_other_byte_alone(
    file: tuple[TextEncoding, list[str], list[str]], data: st.DataObject
):
    coding, lines, endings = file
    rows = [line + ending for line, ending in zip(lines, endings, strict=True)]
    at = data.draw(st.integers(0, len(lines) - 1))
    new = data.draw(st.text(alphabet=words(coding), max_size=8)) + "X"
    assume(new != lines[at])
    assume("".join(rows).count(lines[at]) == 1)
    text = Text("".join(rows), coding)
    after = apply_edits(text, (Replacement(lines[at], new),), path="a", matching="exact").text.encode()
    head = text.with_body("".join(rows[:at])).encode()
    tail = (endings[at] + "".join(rows[at + 1 :])).encode(coding.name)
    assert after == head + new.encode(coding.name) + tail


@given(files(), st.data())
def test_u5_lines_that_an_edit_only_quotes_keep_their_endings(
    file: tuple[TextEncoding, list[str], list[str]], data: st.DataObject
):
    coding, lines, endings = file
    endings = [ending if ending != "\r" else "\n" for ending in endings]
    rows = [line + ending for line, ending in zip(lines, endings, strict=True)]
    at = data.draw(st.integers(1, len(lines) - 2))
    old = "\n".join(lines[at - 1 : at + 2])
    new = "\n".join([lines[at - 1], "changed", lines[at + 1]])
    assume(normalize_newlines("".join(rows)).count(old) == 1)
    after = apply_edits(Text("".join(rows), coding), (Replacement(old, new),), path="a", matching="exact").text.body
    assert after == "".join([*rows[:at], "changed", endings[at], *rows[at + 1 :]])


REPLACEMENTS = st.builds(
    Replacement,
    st.text(alphabet="ab\n ", min_size=1, max_size=3),
    st.text(alphabet="abc\n ", max_size=3),
    st.booleans(),
)


@given(st.text(alphabet="ab\n \r", max_size=30), st.lists(REPLACEMENTS, min_size=1, max_size=4))
def test_c55_multi_edit_equals_its_edits_in_sequence_or_changes_nothing(body: str, edits: list[Replacement]):
    text = Text(body)

    def in_sequence() -> str | type[ToolError]:
        now = text
        for one in edits:
            try:
                now = apply_edits(now, (one,), path="a", matching="safe").text
            except ToolError as error:
                return type(error)
        return now.body

    try:
        at_once: str | type[ToolError] = apply_edits(text, edits, path="a", matching="safe").text.body
    except ToolError as error:
        at_once = type(error)
    assert at_once == in_sequence()
    assert text.body == body


@given(st.text(alphabet="ab\r\n \t’'", max_size=40), st.text(alphabet="ab\r\n \t’'", min_size=1, max_size=8))
def test_c52_every_span_of_every_rung_lies_in_the_text_and_in_order(body: str, old: str):
    found = find(old, body, "bold")
    if found:
        assert all(0 <= span.start <= span.end <= len(body) for span in found.spans)
        assert list(found.spans) == sorted(found.spans, key=lambda span: span.start)
    if found and found.strategy == "exact":
        assert all(normalize_newlines(body[span.start : span.end]) == normalize_newlines(old) for span in found.spans)


def test_c50_none_or_many_is_an_error_that_says_where():
    with pytest.raises(NoMatch) as none:
        edit("one\ntwo\nthree\n", "two\nfour", "x")
    assert none.value.nearest is not None
    assert none.value.nearest.first == 2
    with pytest.raises(Ambiguous) as many:
        edit("a = 1\nb\na = 1\n", "a = 1", "x")
    assert many.value.lines == (1, 3)


def test_c50_overlapping_places_count_and_are_never_replaced():
    with pytest.raises(Ambiguous):
        edit("aaa", "aa", "b")
    with pytest.raises(OverlappingMatches):
        edit("aaa", "aa", "b", every=True)


def test_c51_equal_texts_are_refused():
    with pytest.raises(NoChange):
        edit("a\r\nb", "a\nb", "a\r\nb")


@pytest.mark.parametrize(
    ("rung", "body", "old", "new", "after"),
    [
        ("exact", "a\r\nb\r\n", "a\nb", "a\nc\nd", "a\r\nc\r\nd\r\n"),
        ("line endings", "a\rb\rc", "a\nb", "a\nX", "a\rX\rc"),
        ("trailing space", "a  \nb\t\nc\n", "a\nb\nc", "a\nB\nc", "a  \nB\nc\n"),
        ("indentation", "if x:\n    go(1)\n    go(2)\n", "go(1)\ngo(2)", "go(1)\ngo(3)", "if x:\n    go(1)\n    go(3)\n"),
        ("indentation", "f {\n\tif x {\n\t\tgo()\n\t}\n}\n", "    if x {\n        go()\n    }", "    if x {\n        go()\n        on()\n    }", "f {\n\tif x {\n\t\tgo()\n\t\ton()\n\t}\n}\n"),
        ("punctuation", "say “hi” – now\nb\n", 'say "hi" - now\nb', 'say "hi" - now\nc', "say “hi” – now\nc\n"),
    ],
)  # fmt: skip
def test_c52_each_rung_lands_and_fits_what_it_inserts(rung: str, body: str, old: str, new: str, after: str):
    applied = apply_edits(Text(body), (Replacement(old, new),), path="a", matching="safe")
    assert applied.steps[0].matched_by == rung
    assert applied.text.body == after


@pytest.mark.parametrize("body", ["if x:\n    go(1)\n", "a  \nb\n", "say “hi”\n"])
def test_d7_exact_matching_climbs_no_further(body: str):
    with pytest.raises(NoMatch):
        edit(
            body,
            normalize_newlines(body).strip().replace("“", '"').replace("”", '"').replace("  ", "") + "\n",
            "x",
            matching="exact",
        )


def test_c53_indentation_that_cannot_be_carried_over_is_refused():
    with pytest.raises(NoMatch):
        edit("  a\n      b\n    c\n", "a\n b\nc", "a\n b\n   d\nc")


@pytest.mark.parametrize("rung_body", ["x = 1\nx = 1\n", "  x = 1\n\tx = 1\n", "x = 1 \nx = 1  \n"])
def test_c50_replace_all_works_on_every_place_of_a_rung(rung_body: str):
    after = edit(rung_body, "x = 1", "y = 2", every=True)
    assert after == rung_body.replace("x = 1", "y = 2")
