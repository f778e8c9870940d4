"""The dialect of the tutorial: it works, it is short, and the tutorial shows it as it is."""

import re
from pathlib import Path

import pytest

from examples.cline_dialect import dialect
from handhold import Toolbox
from handhold.testing import DialectSuite

PROJECT = Path(__file__).parents[2]
FOLDER = PROJECT / "examples/cline_dialect"
TUTORIAL = (PROJECT / "docs/how-to/add-a-dialect.md").read_text("utf-8")


def block(old: str, new: str) -> str:
    return f"------- SEARCH\n{old}\n=======\n{new}\n+++++++ REPLACE\n"


class TestCline(DialectSuite):
    dialect = dialect
    calls = (
        ("list_files", {"path": ".", "recursive": True}),
        ("search_files", {"path": "src", "regex": r"def \w+", "file_pattern": "*.py"}),
        ("read_file", {"path": "src/app.py"}),
        ("replace_in_file", {"path": "src/app.py", "diff": block("print(greet('world'))", "print(greet('all'))")}),
        ("write_to_file", {"path": "notes.txt", "content": "one\n"}),
        ("execute_command", {"command": "cat notes.txt", "requires_approval": False}),
    )
    long_read = ("read_file", {"path": "long.txt"})
    wide_search = ("search_files", {"path": "many", "regex": "needle"})


@pytest.fixture
def box() -> Toolbox:
    return Toolbox.in_memory({"a.py": "x = 1\ny = 2\nz = 3\n"}, dialect=dialect)


def replace(box: Toolbox, diff: str):
    return box.call("replace_in_file", {"path": "a.py", "diff": diff})


def test_several_blocks_are_one_change(box: Toolbox):
    box.call("read_file", {"path": "a.py"})
    done = replace(box, block("x = 1", "x = 10") + block("z = 3", "z = 30\nw = 40"))
    assert done.text == "The content was successfully saved to a.py."
    assert box.files.read("a.py").data == b"x = 10\ny = 2\nz = 30\nw = 40\n"
    assert box.undo().status == "success"
    assert box.files.read("a.py").data == b"x = 1\ny = 2\nz = 3\n"


def test_a_block_that_does_not_match_changes_nothing(box: Toolbox):
    box.call("read_file", {"path": "a.py"})
    refused = replace(box, block("x = 1", "x = 10") + block("z = 3\nv = 9", "z"))
    assert refused.code == "NO_MATCH"
    assert "     3→z = 3" in refused.text
    assert box.files.read("a.py").data == b"x = 1\ny = 2\nz = 3\n"


def test_lines_may_be_deleted_and_marks_be_those_of_another_version(box: Toolbox):
    box.call("read_file", {"path": "a.py"})
    assert replace(box, "<<<<<<< SEARCH\ny = 2\n=======\n>>>>>>> REPLACE").status == "success"
    assert box.files.read("a.py").data == b"x = 1\nz = 3\n"


def test_what_is_no_block_is_refused_with_one(box: Toolbox):
    refused = replace(box, "x = 1 becomes x = 2")
    assert refused.code == "BAD_ARGUMENTS"
    assert "------- SEARCH" in refused.data["example"]


def test_it_took_less_than_150_lines():
    files = [file for file in FOLDER.iterdir() if file.is_file()]
    assert {file.name for file in files} == {"__init__.py", "specs.json", "instructions.md"}
    assert sum(len(file.read_text("utf-8").splitlines()) for file in files) < 150


def test_the_tutorial_shows_what_the_files_hold():
    shown = re.findall(r"```(python|json)\n(.*?)```", TUTORIAL, re.DOTALL)
    assert len(shown) >= 4
    sources = {"python": FOLDER / "__init__.py", "json": FOLDER / "specs.json"}
    own = Path(__file__).read_text("utf-8")
    for kind, text in shown:
        assert text in sources[kind].read_text("utf-8") or text in own, text
