"""The dialect `anthropic`: two tools whose names and arguments the vendor's models know."""

from pathlib import Path
from typing import Any

import pytest

from handhold import Toolbox
from handhold.core.errors import BadArguments
from handhold.core.requests import Edit, Insert, Read, Replacement, RestartShell, Run, Write
from handhold.dialects.anthropic import LIMITS, dialect
from handhold.testing import DialectSuite
from tests.suites.machine import has_shadows

EDITOR = "str_replace_based_edit_tool"


class TestAnthropic(DialectSuite):
    dialect = dialect
    calls = (
        (EDITOR, {"command": "view", "path": "src/app.py", "view_range": [1, 3]}),
        (EDITOR, {"command": "view", "path": "src/app.py", "view_range": [1, -1]}),
        (EDITOR, {"command": "str_replace", "path": "src/app.py", "old_str": "'Hello, '", "new_str": "'Hi, '"}),
        (EDITOR, {"command": "insert", "path": "src/app.py", "insert_line": 0, "insert_text": "import sys\n"}),
        (EDITOR, {"command": "create", "path": "notes.txt", "file_text": "one\n"}),
        ("bash", {"command": "ls src"}),
        ("bash", {"restart": True}),
    )
    long_read = (EDITOR, {"command": "view", "path": "long.txt"})
    wide_search = ("bash", {"command": "ls many"})


@pytest.fixture
def box() -> Toolbox:
    return Toolbox.in_memory({"a.py": "x = 1\ny = 1\nx = 1\n", "b/c.py": "y = 2\n"}, dialect="anthropic", root="/ws")


def call(box: Toolbox, command: str, path: str = "/ws/a.py", **more: Any):
    return box.call(EDITOR, {"command": command, "path": path, **more})


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ({"command": "view", "path": "a"}, Read("a", LIMITS)),
        ({"command": "view", "path": "a", "view_range": [3, 5]}, Read("a", LIMITS, 3, 3)),
        ({"command": "view", "path": "a", "view_range": "[3, -1]"}, Read("a", LIMITS, 3)),
        ({"command": "create", "path": "a", "file_text": "x"}, Write("a", "x")),
        ({"command": "create", "path": "a", "content": "x"}, Write("a", "x")),
        ({"command": "str_replace", "path": "a", "old_str": "x"}, Edit("a", Replacement("x", ""))),
        (
            {"command": "str_replace", "file_path": "a", "old_string": "x", "new_string": "y"},
            Edit("a", Replacement("x", "y")),
        ),
        ({"command": "insert", "path": "a", "insert_line": "2", "insert_text": "x"}, Insert("a", 2, "x")),
        ({"command": "insert", "path": "a", "insert_line": 0, "new_str": "x"}, Insert("a", 0, "x")),
    ],
    ids=str,
)
def test_each_command_becomes_its_request(arguments, meant):
    assert dialect.decode(EDITOR, arguments) == meant


def test_the_shell_is_asked_to_run_or_to_begin_anew():
    assert isinstance(dialect.decode("bash", {"command": "ls"}), Run)
    assert dialect.decode("bash", {"restart": "true"}) == RestartShell()


@pytest.mark.parametrize(
    ("tool", "arguments", "wrong", "example"),
    [
        (EDITOR, {"command": "str_replace", "path": "a"}, "old_str", '{"command": "str_replace", "path": "a", "old_str": "before"}'),
        (EDITOR, {"command": "view", "path": "a", "view_range": [5, 3]}, "view_range", '{"command": "view", "path": "a", "view_range": [1, 40]}'),
        (EDITOR, {"command": "insert", "path": "a", "insert_text": "x"}, "insert_line", '{"command": "insert", "path": "a", "insert_text": "x", "insert_line": 1}'),
        (EDITOR, {"command": "undo_edit", "path": "a"}, "command", '{"command": "view", "path": "a"}'),
        ("bash", {}, "command", '{"command": "ls"}'),
    ],
    ids=str,
)  # fmt: skip
def test_what_one_command_needs_is_asked_for_with_an_example(tool, arguments, wrong, example):
    with pytest.raises(BadArguments) as caught:
        dialect.decode(tool, arguments)
    assert (caught.value.argument, caught.value.example) == (wrong, example)
    dialect.decode(tool, example)


def test_a_file_is_viewed_with_line_numbers(box: Toolbox):
    assert call(box, "view").text == "     1\tx = 1\n     2\ty = 1\n     3\tx = 1"


def test_a_folder_is_viewed_two_levels_deep_and_says_what_is_left_out():
    deep = {"a.py": "x\n", "b/c/d.py": "y\n", "b/.hidden": "z\n", **{f"many/{n:03}": "" for n in range(300)}}
    box = Toolbox.in_memory(deep, dialect="anthropic", root="/ws")
    text = call(box, "view", "/ws").text
    assert text.startswith("/ws/\n  b/\n    c/\n  many/\n    000\n")
    assert "d.py" not in text
    assert "there may be more. View a subfolder, or list the folder with bash.]" in text
    inside = call(box, "view", "/ws/b").text
    assert inside.startswith("/ws/b/\n  c/\n    d.py\n\n[Not shown: 1 hidden entry.")
    assert "Use bash to list hidden files.]" in inside


def test_a_change_needs_a_look_and_answers_with_the_lines_around_it(box: Toolbox):
    assert call(box, "str_replace", old_str="y = 1", new_str="y = 2").code == "UNREAD"
    call(box, "view")
    assert call(box, "str_replace", old_str="x = 1", new_str="z").code == "AMBIGUOUS"
    absent = call(box, "str_replace", old_str="y = 1\nx = 2", new_str="z")
    assert absent.code == "NO_MATCH"
    assert "     2\ty = 1" in absent.text  # hints are on: the nearest place is shown
    done = call(box, "str_replace", old_str="y = 1", new_str="y = 2")
    assert done.text.split("\n")[2] == "     2\ty = 2"
    inserted = call(box, "insert", insert_line=1, insert_text="w = 0")
    assert "     2\tw = 0" in inserted.text
    assert box.files.read("a.py").data == b"x = 1\nw = 0\ny = 2\nx = 1\n"
    assert call(box, "insert", insert_line=9, insert_text="w").code == "PAST_END"


def test_create_makes_a_file_and_writes_over_one_that_was_seen(box: Toolbox):
    assert call(box, "create", "/ws/n/new.py", file_text="n\n").text == "File created successfully at: /ws/n/new.py"
    assert call(box, "create", file_text="z\n").code == "UNREAD"
    call(box, "view")
    assert call(box, "create", file_text="z\n").text == "File overwritten: /ws/a.py"


@pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")
def test_c86_folder_and_exports_last_until_the_shell_is_restarted(tmp_path: Path):
    (tmp_path / "ws/src").mkdir(parents=True)
    with Toolbox.open(tmp_path / "ws", state=tmp_path / "state", dialect="anthropic") as here:
        here.call("bash", {"command": "cd src; export WORD=kept"})
        assert here.call("bash", {"command": "echo $WORD; basename $PWD"}).text.startswith("kept\nsrc\n")
        assert here.call("bash", {"restart": True}).text == "The shell was restarted."
        assert here.call("bash", {"command": "echo [$WORD]; basename $PWD"}).text.startswith("[]\nws\n")
