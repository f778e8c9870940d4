"""The page that lists what the sources require is made of rows that are complete, and every test that they name exists."""

import ast
import json
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]

spec = spec_from_file_location("contract", PROJECT / "checks/contract.py")
assert spec
assert spec.loader
contract = module_from_spec(spec)
spec.loader.exec_module(contract)

ROWS: list[tuple[str, dict[str, str]]] = [
    (source, row) for source in contract.SOURCES for row in contract.read_rows(source)
]


@cache
def names_in(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text("utf-8")) if file.is_file() else ast.Module([], [])
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in functions)


def is_missing(name: str) -> bool:
    path, _, test = name.partition("::")
    if test:
        return test not in names_in(PROJECT / path)
    return not (PROJECT / path / "call.json").is_file()


def test_m10_the_page_is_made_from_the_rows():
    assert contract.PAGE.read_text("utf-8") == "\n".join(contract.format_page()) + "\n", "run checks/contract.py"


def test_m10_every_row_is_met_or_says_why_it_is_not():
    for source, row in ROWS:
        assert set(row) <= {"section", "requirement", "test", "differs", "not_ours"}, row
        assert row["section"], row
        assert row["requirement"].endswith("."), row
        assert contract.get_kind(row) == "not ours" or row.get("test"), row
        assert not ("differs" in row and "not_ours" in row), row
        reason = row.get("differs", row.get("not_ours"))
        assert reason is None or (len(reason) > 20 and reason.endswith(".")), (source, row)


def test_m10_no_requirement_is_listed_twice():
    listed = [(source, row["section"], row["requirement"]) for source, row in ROWS]
    assert len(set(listed)) == len(listed)


@pytest.mark.parametrize("source", contract.SOURCES)
def test_m10_every_section_with_a_prescribed_text_has_rows(source: str):
    (file,) = (PROJECT / "tests/sources").glob(f"{source}_*.json")
    pieces: list[dict[str, Any]] = json.loads(file.read_text("utf-8"))
    sections = {row["section"] for each, row in ROWS if each == source}
    assert {piece["section"].partition(",")[0] for piece in pieces} <= sections


def test_m10_every_test_that_is_named_exists():
    assert [row["test"] for _, row in ROWS if "test" in row and is_missing(row["test"])] == []


def test_a_name_that_is_wrong_would_be_found():
    assert is_missing("tests/meta/test_contract.py::test_that_nobody_wrote")
    assert is_missing("tests/meta/test_nothing.py::test_every_test_that_is_named_exists")
    assert is_missing("tests/scenarios/claude_nothing")
    assert not is_missing("tests/meta/test_contract.py::test_m10_the_page_is_made_from_the_rows")
