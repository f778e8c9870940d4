"""Changes how the dialects of the sources behave, and expects the tests of that dialect to notice each change.

    python checks/mutate_behaviour.py                   all dialects
    python checks/mutate_behaviour.py --dialect tiny    one dialect only

Limits are moved by one, flags flipped, arguments disconnected and refusals left out, wherever the code of a dialect
has one; folders that its source ignores are entered. A refusal of the core is a dialect's behaviour if the dialect has
words of its own for it, and an option if the dialect sets it: all else is the same for all, and has tests of its own.
Prints each mutant that no test notices, and fails if there is one that EQUIVALENT does not explain.
"""

import argparse
import ast
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any

import pytest
from mutants import (
    BEHAVIOUR,
    CODE,
    PROJECT,
    Mutant,
    Operator,
    Session,
    find_functions,
    mutate_function,
    mutate_values,
    parse,
    run_with_items,
    silent_refusal,
)

from handhold.core import errors

SCENARIOS = "tests/scenarios/test_scenarios.py"
DIALECTS: Mapping[str, Sequence[str]] = {
    "deepagents": ("tests/dialects/test_deepagents.py",),
    "codex": ("tests/dialects/test_codex.py",),
    "tiny": ("tests/dialects/test_tiny.py",),
    "claude": ("tests/dialects/test_claude.py", "tests/dialects/test_seed_002.py"),
    "hello": ("tests/dialects/test_hello.py",),
    "mycode": ("tests/dialects/test_mycode.py",),
}
REFUSING = ("core/read_tracker.py", "core/tools/edit.py", "core/tools/write.py", "core/text/edits.py")
EQUIVALENT: Mapping[str, str] = {
    r"tiny\.LIMITS\.(lines|line_chars)": "a page ends by its bytes before",
    r"(hello|claude): .* _apply_edit: refusal": "where text is matched exactly, the first of two checks finds all",
}
"""Mutants that no test can notice, by a regular expression for their name, and why."""


def list_mutants(dialect: str) -> Iterator[Mutant]:
    package = f"handhold.dialects.{dialect}"
    own = [module for name, module in list(sys.modules.items()) if f"{name}.".startswith(f"{package}.")]
    for function in find_functions(own).values():
        yield from mutate_function(function, BEHAVIOUR)
    yield from mutate_values(own)
    worded = tuple(find_worded_errors(own))
    core = [module for name, module in list(sys.modules.items()) if name.startswith("handhold.core.")]
    for code, function in find_functions(core).items():
        if code.co_filename in [f"{CODE}/{file}" for file in REFUSING]:
            yield from mutate_function(function, [make_refusal_operator(function, worded)])
    if dialect == "mycode":
        yield from enter_ignored_folders()


def find_worded_errors(modules: Sequence[ModuleType]) -> Iterator[type]:
    """The errors for which these modules have words of their own."""
    for module in modules:
        for node in ast.walk(parse(str(module.__file__))):
            if isinstance(node, ast.MatchClass) and isinstance(node.cls, ast.Attribute):
                yield getattr(errors, node.cls.attr)


def make_refusal_operator(function: FunctionType, worded: tuple[type, ...]) -> Operator:
    """Leaves out the refusals of a function that raise one of these errors, or one that was made before."""

    def refusal(node: Any) -> ast.AST | None:
        call: Any = node.exc if isinstance(node, ast.Raise) else None
        kind = function.__globals__.get(ast.unparse(call.func)) if isinstance(call, ast.Call) else None
        kind = kind if isinstance(kind, type) or kind is None else kind.__annotations__["return"]
        return silent_refusal(node) if kind is None or issubclass(kind, worded) else None

    return refusal


def enter_ignored_folders() -> Iterator[Mutant]:
    """One mutant for each folder that source 004 names: searches enter it."""
    from handhold.core.text import default_ignores
    from tests.dialects.sources import piece

    for folder in piece("004", "ls.heavy"):

        def plant(folder: str = folder) -> None:
            others = default_ignores.DEFAULT_IGNORED_FOLDERS - {folder}
            for module in list(sys.modules.values()):
                if vars(module).get("DEFAULT_IGNORED_FOLDERS") is not None:
                    vars(module)["DEFAULT_IGNORED_FOLDERS"] = others

        yield Mutant(f"{folder} is entered", plant)


def check(dialect: str, items: Sequence[pytest.Item]) -> bool:
    own = [item for item in items if not item.nodeid.startswith(SCENARIOS) or f"[{dialect}_" in item.name]
    session = Session(own)
    called = frozenset[object]().union(*session.calls.values())
    planted = unnoticed = 0
    for mutant in list_mutants(dialect):
        if mutant.code is not None and mutant.code not in called and "core/" in mutant.name:
            continue  # this dialect has no tool that does this
        planted += 1
        if not session.is_noticed(mutant, session.items):
            shown = f"{dialect}: {mutant.name}"
            why = next((why for name, why in EQUIVALENT.items() if re.search(name, shown)), "")
            unnoticed += not why
            sys.stdout.write(f"not noticed: {shown}{why and f' ({why})'}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{dialect}: {planted} changes of behaviour, {unnoticed} not noticed\n")
    sys.stdout.flush()
    return not unnoticed


def run_in_child(dialect: str) -> bool:
    """Check a dialect in a process of its own: pytest collects once in a process."""
    child = os.fork()
    if child == 0:
        sys.path[:0] = [str(PROJECT)]
        results: list[bool] = []
        run_with_items([*DIALECTS[dialect], SCENARIOS], lambda items: results.append(check(dialect, items)))
        os._exit(not results[0])
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dialect", choices=DIALECTS, action="append")
    options, _ = parser.parse_known_args()  # the others are those of mutate_sources.py
    outcomes = [run_in_child(dialect) for dialect in options.dialect or DIALECTS]
    return int(not all(outcomes))


if __name__ == "__main__":
    sys.exit(main())
