from hypothesis import given
from hypothesis import strategies as st

from handhold.core.text.page_layout import TextPiece, lay_out


def at(left: float, top: float, text: str, size: float = 10) -> TextPiece:
    return TextPiece(left, top, left + len(text) * size / 2, top + size, text)


def column(left: float, name: str, count: int = 6, top: float = 100) -> list[TextPiece]:
    return [at(left, top + 14 * n, f"line {n} of the {name} column of a page") for n in range(count)]


def test_c28_columns_are_read_one_after_the_other():
    lines = lay_out([*column(300, "right"), *column(50, "left")]).splitlines()
    assert [("left" in line) for line in lines] == [True] * 6 + [False] * 6


def test_c28_columns_need_not_stand_on_the_same_lines():
    lines = lay_out([*column(300, "right", top=105), *column(50, "left")]).splitlines()
    assert [("left" in line) for line in lines] == [True] * 6 + [False] * 6


def test_c28_what_runs_over_both_columns_stands_before_and_after_them():
    over = "a long line that runs over both of the columns and leaves no room between them at all"
    pieces = [at(50, 60, over), *column(50, "left"), *column(300, "right"), at(50, 300, over)]
    lines = [line for line in lay_out(pieces).splitlines() if line]
    assert lines[0] == lines[-1] == over
    assert len(lines) == 14


def test_c28_three_columns_too():
    pieces = [*column(700, "third"), *column(350, "second"), *column(0, "first")]
    names = [line.split()[4] for line in lay_out(pieces).splitlines()]
    assert names == ["first"] * 6 + ["second"] * 6 + ["third"] * 6


def test_c28_a_table_is_read_row_by_row_and_keeps_its_columns():
    rows = [("Apples", "12", "0.40"), ("Pears", "7", "1.10"), ("Quinces", "120", "2.05")]
    pieces = [at(50 + 100 * n, 100 + 14 * row, cell) for row, cells in enumerate(rows) for n, cell in enumerate(cells)]
    lines = lay_out(pieces).splitlines()
    assert [line.split() for line in lines] == [list(cells) for cells in rows]
    assert len({line.index(cells[2]) for line, cells in zip(lines, rows, strict=True)}) == 1


def test_a_gap_between_lines_is_an_empty_line():
    assert lay_out([at(0, 0, "one"), at(0, 14, "two"), at(0, 60, "three")]) == "one\ntwo\n\nthree"


def test_indentation_is_kept():
    assert lay_out([at(0, 0, "def f():"), at(20, 14, "return 1")]) == "def f():\n    return 1"


def test_nothing_is_nothing():
    assert lay_out([]) == ""


numbers = st.floats(-1e6, 1e6) | st.floats(0, 100)
words = st.text("abc", min_size=1, max_size=30)
pieces = st.lists(st.builds(lambda x, y, w, h, text: TextPiece(x, y, x + abs(w), y + abs(h), text), numbers, numbers, numbers, numbers, words), max_size=40)  # fmt: skip


@given(pieces)
def test_every_piece_is_always_there_once(pieces: list[TextPiece]):
    assert sorted("".join(lay_out(pieces).split())) == sorted("".join(piece.text for piece in pieces))
