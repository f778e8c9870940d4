"""The page that maps promises to tests is correct: every test exists, and no row is empty."""

import ast
import re
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs/contract.md").read_text("utf-8")
SEEDS = re.findall(r"^## Seed (\d{3}): .*\(`(\S+\.txt)`\)$", PAGE, re.MULTILINE)
HEAD = "| place | promise | held by |"


def rows(page: str = PAGE) -> list[tuple[str, str, str]]:
    """Place, promise, and the tests for it."""
    lines = [line for line in page.splitlines() if line.startswith("|") and line != HEAD and "---" not in line]
    return [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in lines]  # pyright: ignore[reportReturnType]


def named(held: str) -> list[str]:
    return re.findall(r"`((?:tests|src)/\S+)`", held)


@cache
def names_in(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text("utf-8")) if file.is_file() else ast.Module([], [])
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in functions)


def missing(name: str) -> bool:
    path, _, test = name.partition("::")
    if test:
        return test not in names_in(PROJECT / path)
    return not (PROJECT / path / "call.json").is_file()


def test_all_five_sources_are_there():
    assert [number for number, _ in SEEDS] == ["000", "001", "002", "003", "004"]
    assert PAGE.count(HEAD) == 5
    extracted = sorted(file.stem for file in (PROJECT / "tests/sources").glob("*.json"))
    assert extracted == [file.removesuffix(".txt") for _, file in SEEDS]


def test_no_row_is_empty():
    assert len(rows()) > 60
    for row in rows():
        assert len(row) == 3, row
        place, promise, held = row
        assert place
        assert promise.endswith("."), promise
        assert named(held) or re.match(r"\*Not ours\*.{20,}", held), promise


def test_what_is_not_ours_would_harm_a_user_or_lies_outside_this_layer():
    for _, promise, held in rows():
        if "*Not ours*" in held:
            assert ("would harm" in held) != ("lies outside this layer" in held), promise


def test_every_test_that_is_named_exists():
    absent = [name for _, _, held in rows() for name in named(held) if missing(name)]
    assert absent == []


def test_a_name_that_is_wrong_would_be_found():
    assert missing("tests/meta/test_contract.py::test_that_nobody_wrote")
    assert missing("tests/meta/test_nothing.py::test_every_test_that_is_named_exists")
    assert missing("tests/scenarios/claude_nothing")
    assert not missing("tests/meta/test_contract.py::test_no_row_is_empty")
