"""Every promise is tested with every change: a test that runs only in `just nightly` names the test that samples it."""

import ast
from collections import Counter
from collections.abc import Hashable, Iterator
from pathlib import Path

import pytest

from tests.scale import each_value_once, spread

PROJECT = Path(__file__).parents[2]
FILES = sorted(path for path in (PROJECT / "tests").rglob("*.py") if not {"before", "after"} & set(path.parts))
HERE = {PROJECT / "tests/scale.py", PROJECT / "tests/conftest.py", Path(__file__)}


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in FILES:
        source = path.read_bytes()
        if b"nightly" in source.lower() and path not in HERE:
            yield path.relative_to(PROJECT).as_posix(), ast.parse(source)


def marks(node: ast.AST) -> Iterator[ast.Call]:
    """The calls of `nightly(…)` or `pytest.mark.nightly(…)` in this node."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call):
            name = each.func.id if isinstance(each.func, ast.Name) else getattr(each.func, "attr", "")
            if name == "nightly":
                yield each


def sampling_tests() -> list[tuple[str, str]]:
    """Where `nightly` is used, and the test it names."""
    found: list[tuple[str, str]] = []
    for file, tree in trees():
        for call in marks(tree):
            (word,) = call.keywords
            assert word.arg == "sampled_by", f"{file}:{call.lineno}"
            assert isinstance(word.value, ast.Constant), f"{file}:{call.lineno}: write the name out"
            found.append((f"{file}:{call.lineno}", str(word.value.value)))
    return found


def problem(test: str) -> str | None:
    """Why this test does not run with every change; None if it does."""
    file, *names = test.split("::")
    if not names or not (PROJECT / file).is_file():
        return "no such file"
    body: list[ast.stmt] = ast.parse((PROJECT / file).read_bytes()).body
    for each in body:
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "pytestmark" and list(marks(each)):
            return "its whole file runs in nightly only"
    for name in names:
        named = [
            each
            for each in body
            if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and each.name == name
        ]
        if not named:
            return f"no such test: {name}"
        if any(list(marks(decorator)) for decorator in named[0].decorator_list if not is_parametrize(decorator)):
            return "it runs in nightly only itself"
        body = named[0].body
    return None if names[-1].startswith("test") else "not a test"


def is_parametrize(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Call) and getattr(decorator.func, "attr", "") == "parametrize"


def test_each_test_of_the_night_names_one_that_runs_with_every_change():
    used = sampling_tests()
    assert used
    assert not {where: f"{test}: {why}" for where, test in used if (why := problem(test))}


def test_a_name_that_samples_nothing_is_noticed():
    assert problem("tests/meta/test_scale.py::test_a_name_that_samples_nothing_is_noticed") is None
    assert problem("tests/meta/test_absent.py::test_x") == "no such file"
    assert problem("tests/meta/test_scale.py::test_absent") == "no such test: test_absent"
    assert problem("tests/meta/test_scale.py::problem") == "not a test"
    where, _ = sampling_tests()[0]
    file, line = where.split(":")
    tree = ast.parse((PROJECT / file).read_bytes())
    test = next(
        each.name
        for each in ast.walk(tree)
        if isinstance(each, ast.FunctionDef) and any(call.lineno == int(line) for call in marks(each))
    )
    assert problem(f"{file}::{test}") == "it runs in nightly only itself"


def test_nothing_else_keeps_a_test_for_the_night():
    """A condition in a `skipif` would hide a test without naming the one that samples it."""
    for file, tree in trees():
        for call in (each for each in ast.walk(tree) if isinstance(each, ast.Call)):
            if getattr(call.func, "attr", "") in ("skipif", "skip"):
                assert "NIGHTLY" not in ast.unparse(call), f"{file}:{call.lineno}"


@pytest.mark.parametrize("many", [1, 4, 10, 30])
def test_a_sample_is_spread_and_has_one_of_each_kind(many: int):
    values = list(range(20))
    chosen = spread(values, many, lambda n: n // 7)
    assert len(chosen) == min(20, max(3, many))
    assert {n // 7 for n in chosen} == {0, 1, 2}
    assert chosen == sorted(set(chosen))
    assert chosen == spread(values, many, lambda n: n // 7)
    if many == 4:
        assert chosen[0] < 7
        assert chosen[-1] > 13


def test_every_value_of_every_parameter_is_tried():
    users, endings = ("root", "plain"), ("a", "b", "c", "d", "e", "f")
    combinations = [(user, ending) for user in users for ending in endings]
    chosen = [combinations[n] for n in each_value_once(combinations)]
    assert len(chosen) == 6
    assert {ending for _, ending in chosen} == set(endings)
    assert [user for user, _ in chosen].count("root") == 3
    assert each_value_once([("a",), ("b",), ("c",)]) == [0, 1, 2]
    assert each_value_once([("a", 1), ("a", 1)]) == [0]


def test_a_test_is_run_by_one_user_and_the_next_by_the_other():
    users, used = {"root", "plain"}, Counter[Hashable]()
    chosen = [each_value_once([("root",), ("plain",)], users, used) for _ in range(4)]
    assert chosen == [[0], [1], [0], [1]]
    combinations = [(user, ending) for user in sorted(users) for ending in "abcdef"]
    assert [combinations[n][1] for n in each_value_once(combinations, users, used)] == [*"ace", *"bdf"]
