"""The dialect `gemini`: the tools of the vendor's command line, as it documents them."""

from pathlib import Path

import pytest

from handhold import Toolbox
from handhold.core.requests import Edit, Read, Replacement, Run
from handhold.dialects.gemini import LIMITS, dialect
from handhold.dialects.gemini.messages import make_case_insensitive
from handhold.testing import DialectSuite
from tests.suites.machine import has_shadows


class TestGemini(DialectSuite):
    dialect = dialect
    calls = (
        ("list_directory", {"dir_path": "src", "ignore": ["*.md"]}),
        ("glob", {"pattern": "**/*.PY", "case_sensitive": False}),
        ("search_file_content", {"pattern": r"def \w+", "include": "*.py"}),
        ("read_file", {"file_path": "src/app.py", "offset": 0, "limit": 50}),
        (
            "replace",
            {"file_path": "src/app.py", "old_string": "greet", "new_string": "hail", "expected_replacements": 2},
        ),
        ("write_file", {"file_path": "notes.txt", "content": "one\n"}),
        ("run_shell_command", {"command": "ls", "dir_path": "src"}),
    )
    long_read = ("read_file", {"file_path": "long.txt"})
    wide_search = ("search_file_content", {"pattern": "needle"})


@pytest.fixture
def box() -> Toolbox:
    return Toolbox.in_memory({"a.py": "x = 1\ny = 1\nx = 1\n", "b/C.py": "y = 2\n"}, dialect="gemini", root="/ws")


def replace(box: Toolbox, old: str, new: str, **more: object):
    return box.call("replace", {"file_path": "/ws/a.py", "old_string": old, "new_string": new, **more})


@pytest.mark.parametrize(
    ("tool", "arguments", "meant"),
    [
        ("read_file", {"absolute_path": "/a"}, Read("/a", LIMITS)),
        ("read_file", {"path": "/a", "offset": 4, "limit": 2}, Read("/a", LIMITS, 5, 2)),
        ("replace", {"file_path": "/a", "old_str": "x", "new_str": "y"}, Edit("/a", Replacement("x", "y"))),
        ("run_shell_command", {"command": "ls", "directory": "src"}, Run("cd -- src || exit\nls", 300, 69_000)),
    ],
)
def test_names_of_other_versions_and_families_are_known(tool, arguments, meant):
    assert dialect.decode(tool, arguments) == meant
    assert dialect.decode_and_repair(tool, arguments)[1]


@pytest.mark.parametrize("name", ["dir_path", "path", "directory", "absolute_path"])
@pytest.mark.parametrize("tool", ["list_directory", "glob", "search_file_content"])
def test_a_directory_is_meant_under_any_of_its_names(tool: str, name: str):
    request = dialect.decode(tool, {"pattern": "x", name: "src"} if tool != "list_directory" else {name: "src"})
    assert request.paths == ("src",)


def test_bare_lines_and_which_they_are_where_they_are_not_all(box: Toolbox):
    assert box.call("read_file", {"file_path": "/ws/a.py"}).text == "x = 1\ny = 1\nx = 1"
    part = box.call("read_file", {"file_path": "/ws/a.py", "offset": 1, "limit": 1}).text
    assert part.startswith("[File content truncated: showing lines 2-2 of 3 total lines.]\ny = 1")


def test_as_many_places_are_replaced_as_were_expected(box: Toolbox):
    box.call("read_file", {"file_path": "/ws/a.py"})
    many = replace(box, "x = 1", "z")
    assert (many.code, many.text[:52]) == ("AMBIGUOUS", "Failed to edit, expected 1 occurrences but found 2 f")
    assert replace(box, "x = 1", "z", expected_replacements=3).code == "UNEXPECTED_COUNT"
    assert replace(box, "nothing", "z").text.startswith(
        "Failed to edit, 0 occurrences found for old_string in /ws/a.py"
    )
    done = replace(box, "x = 1", "z = 1", expected_replacements=2)
    assert done.text == "Successfully modified file: /ws/a.py (2 replacements)."
    assert box.files.read("a.py").data == b"z = 1\ny = 1\nz = 1\n"
    assert replace(box, " = 1", " = 2", allow_multiple=True).text.endswith("(3 replacements).")


def test_files_are_made_by_writing_and_by_an_empty_old_string(box: Toolbox):
    made = box.call("write_file", {"file_path": "/ws/n.py", "content": "n\n"}).text
    assert made == "Successfully created and wrote to new file: /ws/n.py"
    new = box.call("replace", {"file_path": "/ws/m.py", "old_string": "", "new_string": "m\n"}).text
    assert new == "Created new file: /ws/m.py with provided content."
    over = box.call("write_file", {"file_path": "/ws/n.py", "content": "o\n"}).text
    assert over == "Successfully overwrote file: /ws/n.py"


def test_searches_answer_as_the_vendor_shows_them(box: Toolbox):
    listing = box.call("list_directory", {"dir_path": "/ws"}).text
    assert listing.startswith("Directory listing for /ws:\n[DIR] b\na.py")
    found = box.call("glob", {"pattern": "**/c.py"}).text
    assert found.startswith('Found 1 file(s) matching "')
    assert "/ws/b/C.py" in found
    assert box.call("glob", {"pattern": "**/c.py", "case_sensitive": True}).data["paths"] == []
    lines = box.call("search_file_content", {"pattern": "Y = [12]", "include": "*.py"}).text
    assert lines.startswith('Found 2 matches for pattern "Y = [12]" in path "/ws" (filter: "*.py"):\n---\nFile: /ws/')
    assert "L2: y = 1" in lines


@pytest.mark.parametrize(
    ("pattern", "any_of"), [("a*.Py", "[aA]*.[Pp][yY]"), ("[ab]/ß", "[ab]/ß"), ("1?", "1?"), ("{a,B}", "{[aA],[Bb]}")]
)
def test_a_glob_without_regard_to_case(pattern: str, any_of: str):
    assert make_case_insensitive(pattern) == any_of


@pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")
def test_a_command_runs_in_its_directory_or_not_at_all(tmp_path: Path):
    (tmp_path / "ws/my src").mkdir(parents=True)
    with Toolbox.open(tmp_path / "ws", state=tmp_path / "state", dialect="gemini") as here:
        assert here.call("run_shell_command", {"command": 'basename "$PWD"', "dir_path": "my src"}).text.startswith(
            "my src"
        )
        missing = here.call("run_shell_command", {"command": "touch made", "dir_path": "nowhere"})
        assert missing.data["exit_status"] == 1
        assert not (tmp_path / "ws/made").exists()
