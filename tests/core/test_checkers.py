"""What checkers print is read: the formats of programs that people use."""

import pytest

from handhold import Checker
from handhold.core.checkers import Report, parse_reports

LINES = {
    "src/a.py:3:7: F401 `os` imported but unused": Report("src/a.py", 3, 7, "F401 `os` imported but unused"),
    "a.py:3: error: Name 'x' is not defined": Report("a.py", 3, 0, "error: Name 'x' is not defined"),
    "  /ws/a.py:3:5 - error: \"x\" is not defined": Report("a.py", 3, 5, 'error: "x" is not defined'),
    "src/a.ts(4,2): error TS2304: Cannot find name 'x'.": Report("src/a.ts", 4, 2, "error TS2304: Cannot find name 'x'."),
    "src/main.rs:2:5: error[E0425]: cannot find value": Report("src/main.rs", 2, 5, "error[E0425]: cannot find value"),
    "./a.go:5:2: undefined: x": Report("a.go", 5, 2, "undefined: x"),
    "vet: ./a.go:5:2: undefined: x": Report("a.go", 5, 2, "undefined: x"),
}  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_a_known_program_is_read(line: str):
    assert parse_reports(f"Checking…\n{line}\n\nFound 1 error.\n", "/ws") == [LINES[line]]


@pytest.mark.parametrize("text", ["", "All good: 3 files", "a.py:3:1: note: see here", "12:30:05 started", '{"a": 1}'])
def test_other_output_is_no_report(text: str):
    assert parse_reports(text, "/ws") == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "", "globs": ("*",), "command": "x"},
        {"name": "a", "globs": "*.py", "command": "x"},
        {"name": "a", "globs": ("*",), "command": "x", "timeout_seconds": 0},
        {"name": "a", "globs": ("[",), "command": "x"},
    ],
)
def test_a_checker_that_makes_no_sense_is_refused(wrong: dict[str, object]):
    with pytest.raises(ValueError, match="checker"):
        Checker(**wrong)  # pyright: ignore[reportArgumentType]
