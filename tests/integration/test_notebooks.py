"""Notebooks on the road: shown by cells, changed by one, and nothing else in the file."""

import json
import re
import subprocess
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nbformat import v4

from handhold import Toolbox
from handhold.core.text.encoding import Text
from handhold.core.text.notebook import Cell, parse_notebook
from handhold.dialects.handhold import MAX_REPLY_CHARS
from tests.scale import examples, sampled
from tests.suites.notebooks import MANNERS, MINORS, PICTURE, book, cells, old_book

JUPYTER = MANNERS["jupyter"]
WHOLE = JUPYTER(book(5, *cells()))
CELLS = len(cells())


def box_of(text: str | bytes, dialect: str = "handhold") -> Toolbox:
    return Toolbox.in_memory({"n.ipynb": text}, dialect=dialect)


def now(box: Toolbox) -> bytes:
    return box.files.read("n.ipynb").data


def cells_of(data: str | bytes) -> tuple[Cell, ...]:
    return parse_notebook(Text.decode(data if isinstance(data, bytes) else data.encode())).cells


def edit(box: Toolbox, **arguments: str):
    return box.call("notebook_edit", {"path": "n.ipynb", **arguments})


# --- 200 shapes and more: every version × every manner of writing × every action; the cells go round

ACTIONS = ("replace", "kind", "insert_before", "insert_after", "append", "delete")


def shapes(manner: str) -> Iterator[tuple[int, str, int]]:
    start = list(MANNERS).index(manner)
    for minor, (n, action) in product(MINORS, enumerate(ACTIONS)):
        yield minor, action, (start + minor + n) % CELLS + 1


def test_c29_the_shapes_are_more_than_200_with_each_action_on_each_kind_of_cell():
    assert sum(len(list(shapes(manner))) for manner in MANNERS) == 360
    for manner in MANNERS:
        done = {(action, number) for _, action, number in shapes(manner)}
        assert done == set(product(ACTIONS, range(1, CELLS + 1)))


@pytest.mark.parametrize("manner", MANNERS)
def test_c29_an_edit_of_one_cell_touches_only_the_lines_of_that_cell(manner: str, tmp_path: Path):
    """As git sees it; and what comes of it is a notebook that nbformat takes."""
    for n, (minor, action, number) in enumerate(sampled(list(shapes(manner)), 6, lambda shape: shape[1])):
        text = MANNERS[manner](book(minor, *cells())).encode()
        before, after = tmp_path / f"{n}-before.ipynb", tmp_path / f"{n}-after.ipynb"
        before.write_bytes(text)
        after.write_bytes(edited(text, number, action))
        valid(after, minor)
        found = list(hunks(before, after))
        assert found
        if text.count(b"\n") < 3:
            assert found == [(1, 1, 1, 1)]  # all cells are on one line
        elif action in ("replace", "kind"):
            old, new = lines_of_cell(text, number), lines_of_cell(after.read_bytes(), number)
            assert all(old[0] <= first and first + count - 1 <= old[1] for first, count, _, _ in found)
            assert all(new[0] <= first and first + count - 1 <= new[1] for _, _, first, count in found)
        elif action == "delete":
            first, last = lines_of_cell(text, number)
            assert [gone for _, gone, _, _ in found] == [last - first + 1]
            assert [come for _, _, _, come in found] == [0]
        else:
            at = {"append": CELLS + 1, "insert_after": number + 1}.get(action, number)
            first, last = lines_of_cell(after.read_bytes(), at)
            assert [come for _, _, _, come in found] == [last - first + 1]
            assert [gone for _, gone, _, _ in found] == [0]


def edited(text: bytes, number: int, action: str) -> bytes:
    cell = cells_of(text)[number - 1]
    source = {"source": "fresh\nlines é", "kind": "code"}
    arguments = {
        "kind": {"action": "replace", "cell": cell.name, "kind": "raw" if cell.kind == "code" else "code"},
        "append": {"action": action, **source},
        "delete": {"action": action, "cell": cell.name},
    }.get(action, {"action": action, "cell": cell.name, **source})
    with box_of(text) as box:
        assert box.call("read_file", {"path": "n.ipynb"}).status != "error"
        reply = edit(box, **arguments)
        assert reply.status == "success", reply.text
        return now(box)


def valid(path: Path, minor: int) -> None:
    made = nbformat.reads(path.read_text("utf-8-sig"), as_version=nbformat.NO_CONVERT)
    nbformat.validate(made)
    assert (made.nbformat, made.nbformat_minor) == (4, minor)


def lines_of_cell(data: bytes, number: int) -> tuple[int, int]:
    text, node = Text.decode(data).body, cells_of(data)[number - 1].node
    return text.count("\n", 0, node.start) + 1, text.count("\n", 0, node.end) + 1


def hunks(before: Path, after: Path) -> Iterator[tuple[int, ...]]:
    """First line and how many lines, in the file before and in the one after."""
    command = ["git", "diff", "--no-index", "--no-color", "--unified=0", "--", before.name, after.name]
    ran = subprocess.run(command, cwd=before.parent, capture_output=True, text=True, check=False, timeout=30)
    for found in re.finditer(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", ran.stdout, re.MULTILINE):
        yield tuple(1 if each is None else int(each) for each in found.groups())


# --- the same road as every change


def test_c11_a_notebook_must_be_read_before_a_cell_is_changed():
    with box_of(WHOLE) as box:
        reply = edit(box, action="delete", cell="id-0")
        assert (reply.code, now(box)) == ("UNREAD", WHOLE.encode())


def test_c12_a_notebook_that_changed_is_not_edited_and_the_change_is_shown():
    with box_of(WHOLE) as box:
        box.call("read_file", {"path": "n.ipynb"})
        box.files.put("n.ipynb", WHOLE.replace("as it is", "as it was").encode())  # pyright: ignore[reportAttributeAccessIssue]
        reply = edit(box, action="delete", cell="id-0")
        assert reply.code == "STALE"
        assert "as it was" in reply.text
        assert edit(box, action="delete", cell="id-0").status == "success"  # all that changed was shown


def test_c30_a_notebook_that_changed_says_so_when_it_is_read():
    with box_of(WHOLE) as box:
        box.call("read_file", {"path": "n.ipynb"})
        box.files.put("n.ipynb", WHOLE.replace("as it is", "as it was").encode())  # pyright: ignore[reportAttributeAccessIssue]
        reply = box.call("read_file", {"path": "n.ipynb"})
        assert reply.data["changed_since_last_read"] is True


def test_c92_an_edit_of_a_cell_is_shown_and_taken_back(ground):
    land = ground({"n.ipynb": WHOLE})
    with land.open() as box:
        box.call("read_file", {"path": "n.ipynb"})
        reply = edit(box, action="replace", cell="id-1", source="pass")
        assert '+    "pass"' in reply.ui_extra
        assert reply.data["outputs_cleared"] is True
        assert cells_of(land.read("n.ipynb"))[1].raw["outputs"] == []
        assert box.undo().status == "success"
        assert land.read("n.ipynb") == WHOLE.encode()
        assert box.redo().status == "success"
        assert cells_of(land.read("n.ipynb"))[1].source == "pass"


def test_after_an_edit_of_a_cell_the_next_needs_no_read():
    with box_of(WHOLE) as box:
        box.call("read_file", {"path": "n.ipynb"})
        for number in range(3):
            assert edit(box, action="append", source=f"{number}").status == "success"
        assert edit(box, action="delete", cell="id-0").status == "success"
        assert [cell.source for cell in cells_of(now(box))][-3:] == ["0", "1", "2"]


def test_u18_numbers_that_have_changed_are_not_taken_for_the_old_ones():
    """Two calls from one look at a notebook without ids: the second would mean another cell than it did."""
    with box_of(JUPYTER(book(4, *cells()))) as box:
        shown = box.call("read_file", {"path": "n.ipynb"})
        assert [cell["cell"] for cell in shown.data["cells"]] == [f"cell-{n}" for n in range(1, 7)]
        gone = edit(box, action="delete", cell="cell-2")
        assert gone.data["renumbered"] is True
        assert edit(box, action="replace", cell="cell-3", source="x").code == "UNREAD"
        box.call("read_file", {"path": "n.ipynb"})
        assert edit(box, action="replace", cell="cell-3", source="x").status == "success"
        assert edit(box, action="append", source="no number changes").status == "success"
        assert edit(box, action="delete", cell="cell-6").status == "success"


def test_u18_without_a_cell_a_new_one_goes_to_the_end():
    with box_of(WHOLE, dialect="claude") as box:
        box.call("Read", {"file_path": "/ws/n.ipynb"})
        made = {"notebook_path": "/ws/n.ipynb", "new_source": "last", "edit_mode": "insert", "cell_type": "markdown"}
        assert box.call("NotebookEdit", made).status == "success"
        assert cells_of(now(box))[-1].source == "last"
        assert box.call("NotebookEdit", {**made, "cell_id": "id-0", "new_source": "second"}).status == "success"
        assert [cell.source for cell in cells_of(now(box))[:2]] == [cells()[0].source, "second"]


def test_the_cells_of_a_claude_notebook_without_ids_count_from_zero():
    with box_of(JUPYTER(book(4, *cells())), dialect="claude") as box:
        assert '<cell id="cell-0">' in box.call("Read", {"file_path": "/ws/n.ipynb"}).text
        assert (
            box.call("NotebookEdit", {"notebook_path": "/ws/n.ipynb", "cell_id": "cell-0", "new_source": "x"}).data[
                "number"
            ]
            == 1
        )


def test_an_id_that_two_cells_have_means_neither():
    twice = WHOLE.replace('"id-1"', '"id-0"')
    with box_of(twice) as box:
        box.call("read_file", {"path": "n.ipynb"})
        reply = edit(box, action="delete", cell="id-0")
        assert (reply.code, reply.data["names"]) == ("CELL_AMBIGUOUS", ["cell-1", "cell-2"])
        assert edit(box, action="replace", cell="cell-2", source="x").status == "success"
        assert [cell.source for cell in cells_of(now(box))][:2] == [cells()[0].source, "x"]


def test_a_cell_that_is_not_there_is_told_with_those_that_are():
    with box_of(WHOLE) as box:
        box.call("read_file", {"path": "n.ipynb"})
        reply = edit(box, action="delete", cell="cell-1")
        assert (reply.code, reply.data["known"][0]) == ("NO_SUCH_CELL", "id-0")
        assert now(box) == WHOLE.encode()


def test_what_would_change_nothing_is_refused():
    with box_of(WHOLE) as box:
        box.call("read_file", {"path": "n.ipynb"})
        assert edit(box, action="replace", cell="id-3", source="2 + 2").code == "NO_CHANGE"
        assert edit(box, action="replace", cell="id-3", kind="code").code == "NO_CHANGE"


@pytest.mark.parametrize(
    "arguments",
    [
        {"action": "replace", "source": "x"},
        {"action": "replace", "cell": "id-0"},
        {"action": "insert_after", "cell": "id-0"},
        {"action": "append"},
        {"action": "append", "source": "x", "cell": "id-0"},
        {"action": "delete"},
        {"action": "delete", "cell": "id-0", "source": "x"},
        {"action": "move", "cell": "id-0"},
    ],
)
def test_a_call_that_makes_no_sense_is_refused_before_anything_is_looked_at(arguments):
    with box_of(WHOLE) as box:
        assert edit(box, **arguments).code == "BAD_ARGUMENTS"


def test_a_new_cell_with_half_a_character_is_refused():
    with box_of(WHOLE) as box:
        box.call("read_file", {"path": "n.ipynb"})
        assert edit(box, action="append", source="\ud800").code == "UNENCODABLE"


def test_a_notebook_is_still_a_text_to_the_other_tools():
    with box_of(WHOLE) as box:
        box.call("read_file", {"path": "n.ipynb"})
        change = {"path": "n.ipynb", "old_string": '"as it is: ü"', "new_string": '"as it was"'}
        assert box.call("edit_file", change).status == "success"
        assert now(box) == WHOLE.replace("as it is: ü", "as it was").encode()


def test_c11_a_notebook_of_which_all_cells_were_shown_may_be_overwritten():
    small = JUPYTER(book(5, *cells()[:1], *cells()[5:]))
    with box_of(small) as box:
        box.call("read_file", {"path": "n.ipynb", "limit": 1})
        assert box.call("write_file", {"path": "n.ipynb", "content": "x"}).code == "PARTLY_READ"
        box.call("read_file", {"path": "n.ipynb", "offset": 2})
        assert box.call("write_file", {"path": "n.ipynb", "content": "x"}).status == "success"


# --- strange notebooks


TOP = b'"kernelspec": {'
ODD = {
    "NaN": (TOP, b'"x": NaN, "y": [-Infinity, 1E400], ' + TOP),
    "a huge number": (TOP, b'"x": ' + b"9" * 5000 + b", " + TOP),
    "half a character": (b"as it is", b"as \\ud800 is"),
    "bytes that are no text": (b"as it is", b"as \xff\xfe is"),
    "a name twice, elsewhere": (TOP, b'"a": 1, "a": 2, ' + TOP),
    "slashes spelled out": (b"as it is", b"as \\/ is"),
    "a mark": (b"{\n", b"\xef\xbb\xbf{\n"),
    "no newline at the end": (b"\n}\n", b"\n}"),
    "other ends of lines": (b"as it is", "as\u2028it\u2029is\u0085".encode()),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("action", ["replace", "insert_before", "delete"])
def test_c29_what_is_strange_outside_the_cell_comes_back_byte_for_byte(odd: str, action: str):
    data = WHOLE.encode().replace(*ODD[odd], 1)
    assert data != WHOLE.encode()
    text = Text.decode(data)
    _, cell, behind, *_ = cells_of(data)
    with box_of(data) as box:
        box.call("read_file", {"path": "n.ipynb"})
        reply = edit(box, action=action, cell=cell.name, **({} if action == "delete" else {"source": "fresh"}))
        assert reply.status == "success", reply.text
        assert now(box).startswith(text.with_body(text.body[: cell.node.start]).encode())
        assert now(box).endswith(text.body[behind.node.start :].encode("utf-8", "surrogateescape"))


def test_c26_a_notebook_is_utf_8_whatever_is_declared_for_its_folder():
    files = {"n.ipynb": JUPYTER(book(5, v4.new_raw_cell("plain"))), ".editorconfig": "[*]\ncharset = latin1\n"}
    with Toolbox.in_memory(files) as box:
        assert box.call("read_file", {"path": "n.ipynb"}).data["total_cells"] == 1
        assert edit(box, action="append", source="é").status == "success"
        assert cells_of(now(box))[1].source == "é"


BROKEN = {
    "cut off": WHOLE[: len(WHOLE) // 2],
    "two sources": WHOLE.replace('"source": [', '"source": [], "source": [', 1),
    "cells twice": WHOLE.replace('"cells": [', '"cells": [], "cells": [', 1),
    "no cells": '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}}',
    "deep": "[" * 100_000,
    "a merge": WHOLE.replace(' "cells"', '<<<<<<< ours\n "cells"', 1),
    "empty": " ",
}


@pytest.mark.parametrize("broken", BROKEN)
def test_c29_a_broken_notebook_is_shown_as_text_and_says_why(broken: str):
    with box_of(BROKEN[broken]) as box:
        reply = box.call("read_file", {"path": "n.ipynb"})
        assert reply.code is None
        assert "total_lines" in reply.data
        refused = edit(box, action="append", source="x")
        assert (refused.code, now(box)) == ("NOT_NOTEBOOK", BROKEN[broken].encode())


def test_c29_an_old_notebook_is_shown_and_not_edited():
    text = JUPYTER(old_book())
    with box_of(text) as box:
        reply = box.call("read_file", {"path": "n.ipynb"})
        assert [cell["kind"] for cell in reply.data["cells"]] == ["heading", "markdown", "code"]
        refused = edit(box, action="append", source="x")
        assert (refused.code, now(box)) == ("NOT_NOTEBOOK", text.encode())


def test_c57_a_notebook_over_64_mib_is_not_edited(tmp_path: Path):
    (tmp_path / "n.ipynb").write_bytes(WHOLE.encode() + b" " * 64 * 1024 * 1024)
    with Toolbox.open(tmp_path, state=tmp_path / "state") as box:
        assert "too large" in box.call("read_file", {"path": "n.ipynb", "limit": 5}).text
        assert edit(box, action="append", source="x").code == "TOO_LARGE"


def test_an_empty_notebook_takes_its_first_cell():
    with box_of(JUPYTER(book(5))) as box:
        assert box.call("read_file", {"path": "n.ipynb"}).data["total_cells"] == 0
        assert edit(box, action="append", source="x").status == "success"
        assert [cell.source for cell in cells_of(now(box))] == ["x"]


# --- what is shown


def test_c29_pictures_are_blocks_in_the_order_of_their_numbers():
    with box_of(WHOLE) as box:
        reply = box.call("read_file", {"path": "n.ipynb"}, call_id="1")
        assert [(block.type, block.mime, block.base64) for block in reply.blocks[1:]] == [
            ("image", "image/png", PICTURE)
        ]
        assert "image 1 below" in reply.text


def test_c29_offset_and_limit_count_cells():
    with box_of(WHOLE) as box:
        reply = box.call("read_file", {"path": "n.ipynb", "offset": 2, "limit": 2})
        assert [cell["number"] for cell in reply.data["cells"]] == [2, 3]
        assert (reply.data["next_offset"], reply.data["left_out"]) == (4, 0)
        past = box.call("read_file", {"path": "n.ipynb", "offset": 7})
        assert (past.code, past.data["unit"]) == ("PAST_END", "cell")


def test_c29_a_page_goes_on_where_the_last_one_ended_until_all_was_seen():
    many = JUPYTER(book(5, *(cells()[1] for _ in range(30)), v4.new_raw_cell("x" * 200_000), *cells()))
    with box_of(many) as box:
        seen, offset = [], 1
        while offset:
            reply = box.call("read_file", {"path": "n.ipynb", "offset": offset, "limit": 10})
            assert len(reply.text) <= MAX_REPLY_CHARS
            seen += [cell["number"] for cell in reply.data["cells"]]
            offset = reply.data["next_offset"]
        assert seen == list(range(1, 38))


SIZES = st.integers(0, 100_000)


@settings(max_examples=examples(40))
@given(
    st.lists(st.tuples(st.sampled_from("ab\n\té"), SIZES, SIZES, st.integers(0, 60)), min_size=1, max_size=5), st.data()
)
def test_c23_a_page_of_cells_never_exceeds_its_budget(shape, data):
    made = [
        v4.new_code_cell(
            letter * size,
            outputs=[
                v4.new_output("stream", name=f"{'stdout' if n % 2 else 'stderr'}", text=letter * put)
                for n in range(count)
            ],
        )
        for letter, size, put, count in shape
    ]
    dialect, tool, name = data.draw(
        st.sampled_from([("handhold", "read_file", "path"), ("claude", "Read", "file_path")])
    )
    with box_of(json.dumps(v4.new_notebook(cells=made)), dialect=dialect) as box:
        reply = box.call(tool, {name: "/ws/n.ipynb"})
        assert reply.data["cells"]
        assert len(reply.text) <= MAX_REPLY_CHARS
