import json
from typing import Any

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.core.text.encoding import Text, TextEncoding
from handhold.core.text.lines import detect_line_ending, normalize_newlines
from handhold.core.text.notebook import InvalidNotebook, Notebook, parse_notebook
from handhold.core.text.notebook_splice import delete_cell, insert_cell, replace_cell
from tests.suites.notebooks import MANNERS, book, cells, old_book, written

KINDS = st.sampled_from(["code", "markdown", "raw"])
SOURCES = st.text(max_size=30)
WORDS = st.text(max_size=6)


def notebook(made: Any, *, indent: int | None = 1) -> Notebook:
    return parse_notebook(Text(made if isinstance(made, str) else json.dumps(made, indent=indent)))


def bare(*cells: Any, minor: int = 5) -> dict[str, Any]:
    return {"cells": [*cells], "metadata": {}, "nbformat": 4, "nbformat_minor": minor}


def markdown(source: Any = "x", **more: Any) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source, **more}


@st.composite
def a_cell(draw: st.DrawFn, number: int) -> dict[str, Any]:
    """Of any kind, with things in it that nobody knows, in any order."""
    kind = draw(KINDS)
    source = draw(SOURCES)
    made: dict[str, Any] = {
        "cell_type": kind,
        "metadata": draw(st.dictionaries(WORDS, WORDS | st.lists(WORDS, max_size=2), max_size=2)),
        "source": source if draw(st.booleans()) else source.splitlines(keepends=True),
        "id": f"id{number}",
    }
    if kind == "code":
        made |= {
            "execution_count": draw(st.none() | st.integers(0, 9)),
            "outputs": draw(st.lists(st.just({}), max_size=2)),
        }
    if draw(st.booleans()):
        made["strange"] = draw(st.floats(allow_nan=False) | WORDS)
    return dict(draw(st.permutations(list(made.items()))))


@st.composite
def a_book(draw: st.DrawFn, least: int = 1) -> str:
    many = [draw(a_cell(number)) for number in range(draw(st.integers(least, 4)))]
    made = {"cells": many, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, "x": draw(WORDS)}
    return draw(written(dict(draw(st.permutations(list(made.items()))))))


# --- never a byte outside the cell


@given(a_book(), st.data(), SOURCES, st.none() | KINDS)
def test_a_replaced_cell_leaves_every_byte_outside_it_as_it_was(text, data, source, kind):
    before = notebook(text)
    cell = data.draw(st.sampled_from(before.cells))
    after = notebook(replace_cell(before, cell, source, kind))
    now = after.cells[cell.number - 1]
    end = len(after.text) - (len(text) - cell.node.end)
    assert after.text[: cell.node.start] == text[: cell.node.start]
    assert after.text[end:] == text[cell.node.end :]
    assert (now.node.start, now.node.end) == (cell.node.start, end)
    assert normalize_newlines(now.source) == normalize_newlines(
        normalize_newlines(source).replace("\n", detect_line_ending(cell.source))
    )
    assert (now.kind, now.id, now.raw["metadata"]) == (kind or cell.kind, cell.id, cell.raw["metadata"])
    assert now.raw.get("strange") == cell.raw.get("strange")
    assert ("outputs" in now.raw) is (now.kind == "code")


@given(a_book(), st.data(), SOURCES)
def test_in_a_replaced_cell_too_only_the_source_and_the_outputs_change(text, data, source):
    before = notebook(text)
    cell = data.draw(st.sampled_from(before.cells))
    now = notebook(replace_cell(before, cell, source, None))
    same = [part for part in cell.node.children if part.name not in ("source", "outputs", "execution_count")]
    there = {part.name: now.text[part.start : part.node.end] for part in now.cells[cell.number - 1].node.children}
    assert [there[part.name] for part in same] == [text[part.start : part.node.end] for part in same]
    assert list(there) == [part.name for part in cell.node.children]


@given(a_book(least=0), st.data(), SOURCES, KINDS)
def test_an_inserted_cell_leaves_every_byte_outside_it_as_it_was(text, data, source, kind):
    before = notebook(text)
    number = data.draw(st.integers(1, len(before.cells) + 1))
    made, name = insert_cell(before, number, source, kind)
    after = notebook(made)
    cell = after.cells[number - 1]
    assert (cell.source, cell.kind, cell.id) == (source.replace("\r\n", "\n"), kind, name)
    others = [each.raw for each in after.cells if each.number != number]
    assert others == [each.raw for each in before.cells]
    pieces = [text[each.node.start : each.node.end] for each in before.cells]
    assert [made[each.node.start : each.node.end] for each in after.cells if each.number != number] == pieces
    start, end = before.cells_node.start, before.cells_node.end
    assert made.startswith(text[: start + 1])
    assert made.endswith(text[end - 1 :])
    if before.cells:  # taken out again with one comma, it leaves the text that was there
        assert any(
            made[: cell.node.start - before_it] + made[cell.node.end + behind_it :] == text
            for before_it in range(8)
            for behind_it in range(8)
        )


@given(a_book(), st.data())
def test_a_deleted_cell_leaves_every_byte_outside_it_as_it_was(text, data):
    before = notebook(text)
    cell = data.draw(st.sampled_from(before.cells))
    made = delete_cell(before, cell)
    after = notebook(made)
    rest = [each for each in before.cells if each is not cell]
    assert [made[each.node.start : each.node.end] for each in after.cells] == [
        text[each.node.start : each.node.end] for each in rest
    ]
    assert made.startswith(text[: before.cells_node.start + 1])
    assert made.endswith(text[before.cells_node.end - 1 :])
    gone = len(text) - len(made)
    assert any(text[:at] + text[at + gone :] == made for at in range(cell.node.start - 7, cell.node.start + 1))


# --- in the manner of the file


@pytest.mark.parametrize("manner", MANNERS)
def test_a_cell_that_goes_and_comes_back_is_written_as_it_was(manner):
    """So the blanks, the spelling and the order of names are those of the file."""
    text = MANNERS[manner](book(4, *cells())).removeprefix("\ufeff")
    for number in range(1, len(cells()) + 1):
        before = notebook(text)
        cell = before.cells[number - 1]
        without = notebook(delete_cell(before, cell))
        again, _ = insert_cell(without, number, cell.source, cell.kind)  # pyright: ignore[reportArgumentType]
        if not cell.raw["metadata"] and not cell.raw.get("outputs") and "attachments" not in cell.raw:
            assert again == text
        assert notebook(again).cells[number - 1].source == cell.source


@pytest.mark.parametrize("manner", MANNERS)
def test_the_first_cell_of_an_empty_notebook_is_written_in_its_manner(manner):
    """As if it had been written with the cell in it, as far as an empty notebook shows how."""
    empty = MANNERS[manner](bare(minor=4)).removeprefix("\ufeff")
    made, name = insert_cell(notebook(empty), 1, "a\nb", "markdown")
    assert not name
    whole = MANNERS["jupyter" if manner in ("in one string", "unsorted") else manner](
        bare(markdown(["a\n", "b"]), minor=4)
    )
    if manner in ("jupyter", "two spaces", "tabs in ascii", "one line", "tight", "crlf"):
        assert made == whole
    assert notebook(made).cells[0].source == "a\nb"


def test_a_source_of_several_lines_is_written_as_others_of_several_lines():
    """Some writers put one line behind the bracket, and several below it."""
    text = '{"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": [\n{"cell_type": "raw", "metadata": {}, "source": ["a"]},\n{"cell_type": "raw", "metadata": {}, "source": [\n  "b\\n",\n  "c"\n]}]}'
    before = notebook(text)
    assert '"source": [\n  "x\\n",\n  "y"\n]}' in replace_cell(before, before.cells[0], "x\ny", None)
    assert '"source": ["z"]}]}' in replace_cell(before, before.cells[1], "z", None)


def test_characters_are_spelled_as_the_file_spells_them():
    plain, escaped = notebook(bare(markdown("a"))), notebook(bare(markdown("é")))
    assert '"ü"' in replace_cell(plain, plain.cells[0], "ü", None)
    assert '"\\u00fc"' in replace_cell(escaped, escaped.cells[0], "ü", None)
    code = notebook(bare(markdown("'\\u00e9'")))  # a backslash of the source itself
    assert '"ü"' in replace_cell(code, code.cells[0], "ü", None)


def test_line_endings_inside_a_source_are_kept():
    before = notebook(bare(markdown("a\r\nb\r\n")))
    assert notebook(replace_cell(before, before.cells[0], "c\nd\n", None)).cells[0].source == "c\r\nd\r\n"


def test_what_is_the_same_changes_nothing():
    before = notebook(bare({**markdown(), "cell_type": "code", "outputs": [{}], "execution_count": 3}))
    assert replace_cell(before, before.cells[0], "x", None) == before.text
    assert replace_cell(before, before.cells[0], None, "code") == before.text


def test_u18_a_cell_of_another_kind_has_what_that_kind_has():
    before = notebook(book(5, *cells()))
    pictured, ran = before.cells[4], before.cells[3]
    assert "attachments" in pictured.raw
    as_code = replace_cell(before, pictured, None, "code")
    as_text = replace_cell(before, ran, None, "markdown")
    for made in (as_code, as_text):
        nbformat.validate(json.loads(made))
    assert notebook(as_code).cells[4].raw["outputs"] == []
    assert "outputs" not in notebook(as_text).cells[3].raw


# --- names


def test_a_new_id_is_the_same_for_the_same_edit_and_no_other_cells():
    before = notebook(bare(markdown(id="a")))
    text, name = insert_cell(before, 2, "x", "raw")
    assert (text, name) == insert_cell(before, 2, "x", "raw")
    assert name != insert_cell(before, 2, "y", "raw")[1]
    assert notebook(text).cells[1].name == name
    assert insert_cell(notebook(bare(minor=4)), 1, "x", "raw")[1] == ""


def test_cells_without_an_id_of_their_own_are_called_by_number():
    ids = ["a", "", "b", "b", "cell-6", "", "has blanks", "x" * 65]
    names = [cell.name for cell in notebook(bare(*(markdown(id=each) for each in ids))).cells]
    assert names == ["a", "cell-2", "cell-3", "cell-4", "cell-6", "", "cell-7", "cell-8"]
    assert [
        cell.name for cell in parse_notebook(Text(json.dumps(bare(markdown(), markdown()))), first_number=0).cells
    ] == [
        "cell-0",
        "cell-1",
    ]


# --- what is no notebook


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("[" * 10_000, "deep"),
        ("[]", "not an object"),
        ("{}", "nbformat 0"),
        ('{"nbformat": "4"}', "nbformat"),
        ('{"nbformat": true}', "nbformat"),
        ('{"nbformat": 4}', "no list of cells"),
        ('{"nbformat": 4, "cells": {}}', "no list of cells"),
        ('{"nbformat": 4, "cells": [3]}', "cell 1"),
        ('{"nbformat": 4, "cells": [{}]}', "cell 1"),
        ('{"nbformat": 4, "cells": [{"cell_type": "code"}]}', "no source"),
        ('{"nbformat": 4, "cells": [{"cell_type": "code", "source": [1]}]}', "no source"),
        ('{"nbformat": 4, "cells": [], "cells": []}', '"cells" twice'),
        ('{"nbformat": 4, "cells": [{"cell_type": "raw", "source": "a", "source": "b"}]}', '"source" twice'),
        ('{"nbformat": 3, "worksheets": []}', "worksheet"),
        ('{"nbformat": 3, "worksheets": [{"cells": []}, {"cells": []}]}', "worksheet"),
        ('{"nbformat": 1, "cells": []}', "nbformat 1"),
    ],
)
def test_what_is_no_notebook_is_told(text, because):
    with pytest.raises(InvalidNotebook, match=because):
        notebook(text)


def test_a_notebook_in_another_encoding_is_none():
    with pytest.raises(InvalidNotebook, match="utf-16"):
        parse_notebook(Text(json.dumps(bare()), TextEncoding("utf-16-le", b"\xff\xfe")))


def test_an_old_notebook_is_read_and_not_edited():
    old = notebook(old_book())
    assert [(cell.kind, cell.source) for cell in old.cells] == [
        ("heading", "Head"),
        ("markdown", "text"),
        ("code", "print(1)"),
    ]
    assert not old.is_editable


def test_a_notebook_tells_its_language():
    assert notebook(book(5)).language == "python"
    assert notebook({**bare(), "metadata": {"language_info": {"name": "julia"}}}).language == "julia"
    assert notebook({**bare(), "metadata": []}).language == ""
