"""What models really send: shifted blocks, wraps, glued lines, half indentations, and edits that were made before."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handhold import Toolbox
from handhold.backends.checks.syntax import LanguageSyntax
from handhold.core.errors import AlreadyApplied, BreaksSyntax, NoMatch
from handhold.core.requests import Replacement
from handhold.core.text.edits import apply_edits
from handhold.core.text.encoding import Text
from handhold.core.text.match import find
from tests.scale import examples


def edited(body: str, old: str, new: str) -> str:
    return apply_edits(Text(body), (Replacement(old, new),), path="a", matching="safe").text.body


# --- shifts


@dataclass(frozen=True)
class Shift:
    name: str
    body: str
    old: str
    new: str
    after: str


SHIFTS = (
    Shift(
        "a wrap moves as a whole",
        "def f():\n    if a:\n        x()\n        y()\n    z()\n",
        "    x()\n    y()\n",
        "    if b:\n        x()\n        y()\n",
        "def f():\n    if a:\n        if b:\n            x()\n            y()\n    z()\n",
    ),
    Shift(
        "an unwrap moves as a whole",
        "def f():\n    if a:\n        if b:\n            x()\n    z()\n",
        "    if b:\n        x()\n",
        "    x()\n",
        "def f():\n    if a:\n        x()\n    z()\n",
    ),
    Shift(
        "an unwrap that is indented like the file stays",
        "def f():\n    while a:\n        if b:\n            x()\n    z()\n",
        "    if b:\n        x()\n",
        "        x()\n",
        "def f():\n    while a:\n        x()\n    z()\n",
    ),
    Shift(
        "a wrap that is indented like the file stays",
        "def f():\n    if a:\n        x()\n    z()\n",
        "x()\n",
        "        if b:\n            x()\n",
        "def f():\n    if a:\n        if b:\n            x()\n    z()\n",
    ),
    Shift(
        "one tab too few, with a deeper block inside",
        "{\n\t\t\ta();\n\t\t\tb();\n}\n",
        "\t\ta();\n\t\tb();",
        "\t\tif (x) {\n\t\t\ta();\n\t\t}\n\t\tb();",
        "{\n\t\t\tif (x) {\n\t\t\t\ta();\n\t\t\t}\n\t\t\tb();\n}\n",
    ),
    Shift(
        "one column too many, with a comment",
        "  a: 1,\n  z: 3,\n",
        "   a: 1,\n",
        "   a: 1,\n   /**\n    * b\n    */\n   b: 2,\n",
        "  a: 1,\n  /**\n   * b\n   */\n  b: 2,\n  z: 3,\n",
    ),
    Shift(
        "one column too many, in what is shared only",
        "  a();\n  z();\n",
        "   a();\n",
        "  b();\n   a();\n",
        "  b();\n  a();\n  z();\n",
    ),
    Shift(
        "an uneven shift: an added line moves as the nearest line of its depth",
        "  private a;\n  private b;\n\n  void f(\n      int a,\n      int b) {\n    this.a = a;\n    this.b = b;\n  }\n",
        "  private a;\n  private b;\n\n   void f(\n       int a,\n       int b) {\n     this.a = a;\n     this.b = b;\n   }\n",
        "  private a;\n  private b;\n  private c;\n\n   void f(\n       int a,\n       int b) {\n     this.a = a;\n     this.b = b;\n     this.c = 0;\n   }\n",
        "  private a;\n  private b;\n  private c;\n\n  void f(\n      int a,\n      int b) {\n    this.a = a;\n    this.b = b;\n    this.c = 0;\n  }\n",
    ),
    Shift(
        "blank lines get no indentation",
        "if x:\n    a()\n    b()\n",
        "a()\nb()\n",
        "a()\n\nc()\n\nb()\n",
        "if x:\n    a()\n\n    c()\n\n    b()\n",
    ),
    Shift(
        "M-1: the line below is not glued to the last one",
        "if x:\n    a()\n    b()\n\n    c()\n",
        "a()\nb()\n\n",
        "z()",
        "if x:\n    z()\n    c()\n",
    ),
    Shift(
        "M-1: nor if only the blanks at line ends differ",
        "a \nb\nc\n",
        "a\nb\n",
        "z",
        "z\nc\n",
    ),
    Shift(
        "M-1: nor if that line is like the last one",
        "a {\n    b {\n        c(1);\n    }\n}\n",
        "    c(1);\n}\n",
        "    c(2);\n}",
        "a {\n    b {\n        c(2);\n    }\n}\n",
    ),
    Shift(
        "M-1: nor if the quote starts in an indentation",
        "if x:\n    f(a)\n    b\n",
        "f(a)\n",
        "f(c)",
        "if x:\n    f(c)\n    b\n",
    ),
    Shift(
        "M-2: half an indentation",
        "def f():\n        x = 1\n",
        "    x = 1",
        "        x = 2",
        "def f():\n        x = 2\n",
    ),
    Shift(
        "M-2: half an indentation, moved on",
        "def f():\n    if q:\n        x = 1\n",
        "    x = 1",
        "    if a:\n        x = 1",
        "def f():\n    if q:\n        if a:\n            x = 1\n",
    ),
    Shift(
        "M-2: a deletion leaves no blanks",
        "def f():\n        x = 1\n        y\n",
        "    x = 1\n",
        "",
        "def f():\n        y\n",
    ),
    Shift("M-2: without any indentation neither", "def f():\n    x = 1\n    y\n", "x = 1\n", "", "def f():\n    y\n"),
)


@pytest.mark.parametrize("shift", SHIFTS, ids=lambda shift: shift.name)
def test_an_added_line_is_indented_as_its_place_wants(shift: Shift):
    assert edited(shift.body, shift.old, shift.new) == shift.after


# --- made before


def applied_at(body: str, old: str, new: str) -> int:
    with pytest.raises(AlreadyApplied) as error:
        edited(body, old, new)
    return error.value.line


def test_an_edit_that_was_made_is_not_made_again():
    assert (
        applied_at(
            "a\nfor row in rows:\n    stay(row)\n", "for row in rows:\n    go(row)", "for row in rows:\n    stay(row)"
        )
        == 2
    )


def test_a_wrap_that_was_made_is_not_made_again():
    """The old text is still there, deeper: without a look around it, the wrap would be doubled."""
    body = "def f():\n    if ready:\n        go(1)\n        go(2)\n    end()\n"
    old, new = "    go(1)\n    go(2)\n", "    if ready:\n        go(1)\n        go(2)\n"
    assert applied_at(body, old, new) == 2


@pytest.mark.parametrize(
    ("body", "old", "new"),
    [
        ("a\n}\nb\n", "foo()", "}"),
        ("a = 1\nreturn True\nb\n", "if never(said): stop(now)", "return True"),
        (
            "first_line_here\nthe_same\nfirst_line_here\nthe_same\n",
            "first_line_here\nother_one",
            "first_line_here\nthe_same",
        ),
        ("kept_line_one\nb\n", "kept_line_one\nremoved_line", "kept_line_one"),
    ],
    ids=["a bracket", "a line with nothing in common", "two places", "a part of the old text"],
)
def test_what_says_too_little_is_not_taken_for_made(body: str, old: str, new: str):
    with pytest.raises(NoMatch):
        edited(body, old, new)


def test_c53_what_the_old_text_is_still_as_quoted_is_edited():
    assert edited("a \nb\n", "a\nb", "a\nb\na\nb") == "a \nb\na\nb\n"


# --- the syntax checker, as judge of last resort


def call(body: str, old: str, new: str, *, path: str = "a.py", check_syntax: bool = True) -> tuple[str | None, str]:
    box = Toolbox.in_memory({path: body}, check_syntax=check_syntax)
    box.call("read_file", {"path": path})
    reply = box.call("edit_file", {"path": path, "old_string": old, "new_string": new})
    return reply.code, box.files.read(path).data.decode()


def test_of_two_readings_the_one_that_parses_is_taken():
    """The shared line is as quoted, and the line around it as in the file: only as in the file it fits."""
    body = "def f():\n    x()\n    z()\n"
    code, after = call(body, "        x()\n", "    if b:\n        x()\n")
    assert (code, after) == (None, "def f():\n    if b:\n        x()\n    z()\n")


def test_an_approximate_match_that_would_break_the_file_is_refused():
    body = "def f():\n    if a:\n        x()\n    z()\n"
    code, after = call(body, "if a:\n        x() \n", "if a:\n")
    assert (code, after) == (BreaksSyntax.code, body)


def test_an_exact_match_may_break_the_file():
    """It is what was asked for; the reply reports the error."""
    code, after = call("a = (1)\n", "(1)", "(1")
    assert (code, after) == (None, "a = (1\n")


def test_without_the_check_nothing_is_judged():
    body = "def f():\n    if a:\n        x()\n    z()\n"
    assert call(body, "if a:\n        x() \n", "if a:\n", check_syntax=False)[0] is None


BLOCKS = {
    "a.py": ("def f():\n", "{i}if a{n}:\n", "{i}x{n} = [1, 2]\n", "", 4),
    "a.js": ("function f() {{\n", "{i}if (a{n}) {{\n", "{i}x{n} = [1, 2];\n", "{i}}}\n", 2),
    "a.go": ("func f() {{\n", "{i}if a{n} {{\n", "{i}x{n} := 1\n", "{i}}}\n", "\t"),
    "a.yaml": ("f:\n", "{i}a{n}:\n", "{i}x{n}: [1, 2]\n", "", 2),
    "a.json": ("{{\n", '{i}"a{n}": {{\n', '{i}"x{n}": [1, 2],\n', '{i}"z": 0\n', 2),
}


@st.composite
def misquoted(draw: st.DrawFn) -> tuple[str, str, str, str]:
    """A file of nested blocks, and an edit of some of its lines, shifted, wrapped, cut or glued."""
    path = draw(st.sampled_from(sorted(set(BLOCKS) - {"a.json"})))
    first, opener, plain, closer, unit = BLOCKS[path]
    unit = unit if isinstance(unit, str) else " " * unit
    rows = [first.format()]
    depths = draw(st.lists(st.integers(1, 4), min_size=3, max_size=9))
    depth = 1
    for number, wanted in enumerate(depths):
        while depth < wanted:
            rows.append(opener.format(i=unit * depth, n=f"{number}{depth}"))
            depth += 1
        if depth > wanted:
            rows += [closer.format(i=unit * at) for at in range(depth - 1, wanted - 1, -1) if closer]
            depth = wanted
        rows.append(plain.format(i=unit * depth, n=number))
    rows += [closer.format(i=unit * at) for at in range(depth - 1, 0, -1) if closer]
    rows += [closer.format(i="")] if closer else []
    start = draw(st.integers(1, len(rows) - 1))
    part = rows[start : start + draw(st.integers(1, 4))]
    moved = draw(st.sampled_from(["", " ", "  ", unit, "less", "half"]))

    def shift(line: str) -> str:
        if moved == "less":
            return line.removeprefix(unit)
        return line[len(unit) // 2 :] if moved == "half" and line.startswith(unit) else moved * (moved != "half") + line

    kept = draw(st.lists(st.sampled_from(["keep", "drop", "change", "wrap"]), min_size=len(part), max_size=len(part)))
    new: list[str] = []
    for line, what in zip(part, kept, strict=True):
        indent = line[: len(line) - len(line.lstrip())]
        if what == "wrap" and closer:
            new += [opener.format(i=indent, n="w"), unit + line, closer.format(i=indent)]
        elif what == "wrap":
            new += [opener.format(i=indent, n="w"), unit + line]
        elif what != "drop":
            new.append(line.replace("1", "7") if what == "change" else line)
    old_text, new_text = "".join(map(shift, part)), "".join(map(shift, new))
    if draw(st.booleans()):
        new_text = new_text.removesuffix("\n")
    if draw(st.booleans()):
        old_text = old_text.removesuffix("\n")
    return path, "".join(rows), old_text, new_text


@settings(max_examples=examples(320), deadline=None)
@given(misquoted())
def test_what_parsed_parses_or_the_refusal_says_why(case: tuple[str, str, str, str]):
    path, body, old, new = case
    syntax = LanguageSyntax()
    if not syntax.get_max_bytes(path) or syntax.find_new_errors(path, None, body.encode()):
        return
    code, after = call(body, old, new, path=path)
    if code is not None:
        assert after == body
        return
    found = find(old, body, "safe", new=new)
    assert found is not None
    if not found.is_exact:
        assert not syntax.find_new_errors(path, body.encode(), after.encode())


def test_the_words_of_both_refusals_say_what_to_do():
    box = Toolbox.in_memory({"a.py": "def f():\n    if a:\n        x()\n    if ready:\n        go(row)\n"})
    box.call("read_file", {"path": "a.py"})
    broken = box.call("edit_file", {"path": "a.py", "old_string": "if a:\n        x() \n", "new_string": "if a:\n"})
    made = box.call(
        "edit_file",
        {"path": "a.py", "old_string": "if ready:\n        go(x)\n", "new_string": "if ready:\n        go(row)\n"},
    )
    assert "Quote the text exactly" in broken.text
    assert "already applied at line 4 of a.py" in made.text


# --- refusals that save a turn


def refusal(files: dict[str, str], old: str, *read: str, dialect: str = "handhold") -> str:
    box = Toolbox.in_memory(files, dialect=dialect)
    for path in ("a.py", *read):
        box.call("read_file", {"path": path})
    return box.call("edit_file", {"path": "a.py", "old_string": old, "new_string": "other = 1"}).text


def test_a_refusal_names_the_file_read_in_which_the_quoted_lines_are():
    files = {"a.py": "x = 1\n", "lib/b.py": "y\n    for row in table:\n        go(row)\n", "c.py": "z\n"}
    old = "for row in table:\n    go(row)\n"
    note = "[The quoted lines are in lib/b.py, from line 2.]"
    assert note in refusal(files, old, "lib/b.py", "c.py")
    assert "lib/b.py" not in refusal(files, old, "c.py"), "the session does not know that file"
    files["c.py"] = files["lib/b.py"]
    assert "quoted lines are in" not in refusal(files, old, "lib/b.py", "c.py"), "one of two files is a guess"
    assert "quoted lines are in" not in refusal({"a.py": "x\n", "c.py": "}\n"}, "}\n", "c.py")


def test_a_refusal_shows_the_line_that_is_most_like_the_quoted_one():
    text = refusal({"a.py": "one = 1\ntotal = compute_all(rows, 3)\nz = 2\n"}, "total = compute_all(rows, limit=3)")
    assert "2→total = compute_all(rows, 3)" in text
    assert "where you quoted 'total = compute_all(rows, limit=3)'" in text
    assert "none of the quoted lines is there" in refusal({"a.py": "one = 1\n"}, "completely_different(text)")
