"""Changes the code in small ways, and expects the test of each requirement that is met to notice one of them.

    python checks/mutate_contract.py                 all sources
    python checks/mutate_contract.py --source 004    one source only

The mutants are made by rule, in the functions that the test calls and in the dialect's values and tools; those in
functions that few tests call come first. Several requirements that one test shows need a mutant each. Prints how
many each test notices, and fails if one notices too few.
"""

import argparse
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest

import contract
import pytest
from mutants import (
    CODE,
    EVERYTHING,
    PROJECT,
    Mutant,
    Session,
    find_functions,
    mutate_function,
    mutate_tools,
    mutate_values,
    run_with_items,
)

DIALECTS: Mapping[str, Sequence[str]] = {
    "000": ("deepagents", "codex"),
    "001": ("tiny",),
    "002": ("claude",),
    "003": ("hello",),
    "004": ("mycode",),
}
INHERITED: Mapping[str, str] = {  # where tests of a base class run
    "src/handhold/testing.py": "tests/dialects/test_deepagents.py",
    "tests/suites/files_suite.py": "tests/backends/test_memory_files.py",
    "tests/suites/search_suite.py": "tests/backends/search/test_search_suite.py",
}
PARTS = ("core", "dialects", "backends")
SCENARIOS = "tests/scenarios/test_scenarios.py"


def list_tests(source: str) -> list[str]:
    """The tests of the requirements that are met, once for each requirement."""
    return [row["test"] for row in contract.read_rows(source) if contract.get_kind(row) == "met"]


def find_file(test: str) -> str:
    path, _, name = test.partition("::")
    return INHERITED.get(path, path) if name else SCENARIOS


def is_item_of(item: pytest.Item, test: str) -> bool:
    path, _, name = test.partition("::")
    if not name:
        return item.nodeid.startswith(SCENARIOS) and re.search(rf"\b{path.rpartition('/')[2]}\b", item.name) is not None
    return item.nodeid.startswith(find_file(test)) and item.name.partition("[")[0] == name


def rank_mutants(session: Session, items: Sequence[pytest.Item]) -> Iterator[Mutant]:
    """Mutants that these tests may notice: one of each function, the most specific function first, then another."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("handhold.")]
    functions = find_functions(modules)
    callers = Counter(chain.from_iterable(session.calls.values()))
    called = {code for item in items for code in session.calls[item.nodeid]} & functions.keys()
    ours = [each for each in called if each.co_filename.startswith(tuple(f"{CODE}/{part}" for part in PARTS))]
    ours.sort(key=lambda each: (callers[each], each.co_filename, each.co_firstlineno))
    for round_ in zip_longest(*(mutate_function(functions[each], EVERYTHING) for each in ours)):
        yield from (mutant for mutant in round_ if mutant)


def list_dialect_mutants(source: str) -> Iterator[Mutant]:
    for name in DIALECTS[source]:
        package = f"handhold.dialects.{name}"
        modules = [module for each, module in list(sys.modules.items()) if f"{each}.".startswith(f"{package}.")]
        yield from mutate_tools(sys.modules[package].dialect)
        yield from mutate_values(modules)


def check(source: str, items: Sequence[pytest.Item]) -> bool:
    wanted = Counter(list_tests(source))
    by_test = {test: [item for item in items if is_item_of(item, test)] for test in wanted}
    if absent := [test for test, some in by_test.items() if not some]:
        sys.exit(f"no test was collected for {absent}")
    needed = {item.nodeid: item for some in by_test.values() for item in some}
    session = Session(list(needed.values()))
    running = {item.nodeid for item in session.items}
    noticed: dict[str, list[str]] = defaultdict(list)
    tried = 0
    for test, number in wanted.items():
        some = [item for item in by_test[test] if item.nodeid in running]
        for mutant in chain(rank_mutants(session, some), list_dialect_mutants(source)) if some else ():
            if len(noticed[test]) == number:
                break
            tried += 1
            if session.is_noticed(mutant, some):
                noticed[test].append(mutant.name)
        why = "notices" if some else "does not run here, and notices"
        sys.stdout.write(f"{source}: {test} {why} {len(noticed[test])} of {number} mutants\n")
        sys.stdout.flush()
    missing = sum(number - len(noticed[test]) for test, number in wanted.items())
    total = wanted.total()
    sys.stdout.write(f"{source}: {total} requirements are met, {total - missing} noticed, {tried} mutants tried\n")
    return not missing


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", choices=DIALECTS, action="append")
    sources = parser.parse_args().source or [*DIALECTS]
    outcomes = [run_in_child(source) for source in sources]  # all of them, whatever the first says
    return int(not all(outcomes))


def run_in_child(source: str) -> bool:
    """Check a source in a process of its own: pytest collects once in a process."""
    child = os.fork()
    if child == 0:
        sys.path[:0] = [str(PROJECT)]
        results: list[bool] = []
        files = dict.fromkeys(map(find_file, list_tests(source)))
        run_with_items([*files], lambda items: results.append(check(source, items)))
        sys.stdout.flush()
        os._exit(not results[0])
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


if __name__ == "__main__":
    sys.exit(main())
