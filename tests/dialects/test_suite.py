"""The published suite asks for everything that there is: what comes to be and is not asked for is found here."""

from ast import Assert, JoinedStr, parse, walk
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import pytest

from handhold import testing
from handhold.core.choices import DIALECTS
from handhold.core.requests import Request
from handhold.core.results import ImageResult, NotebookResult, PdfResult, Result
from handhold.testing import RESULT_TYPES, VARIANTS, DialectSuite, iter_result_types, make_value


def suite_of(dialect: str) -> Any:
    """The class by which a dialect is tested."""
    tests = vars(import_module(f"tests.dialects.test_{dialect}")).values()
    (found,) = (each for each in tests if isinstance(each, type) and issubclass(each, DialectSuite) and each is not DialectSuite)  # fmt: skip
    return found


def test_every_request_is_in_the_table():
    assert set(RESULT_TYPES) == set(get_args(Request))


def test_every_result_is_asked_of_some_dialect():
    suites = [suite_of(dialect) for dialect in DIALECTS]
    kinds = {
        kind
        for suite in suites
        for tool, arguments in suite.calls
        for kind in iter_result_types(suite.dialect.decode(tool, arguments), suite.dialect.options)
    }
    assert kinds == set(get_args(Result))


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name != "codex"])
def test_c27_c28_c29_every_dialect_that_reads_is_asked_for_what_is_not_text(dialect: str):
    suite = suite_of(dialect)
    kinds = {
        kind
        for tool, arguments in suite.calls
        for kind in iter_result_types(suite.dialect.decode(tool, arguments), suite.dialect.options)
    }
    assert {ImageResult, PdfResult, NotebookResult} <= kinds


def test_a_kind_is_made_in_each_of_its_ways():
    assert {make_value(PdfResult, variant).stop_reason for variant in VARIANTS} == {
        "",
        "room",
        "time",
        "memory",
        "broken",
    }
    assert not make_value(PdfResult, 0).pages
    assert make_value(PdfResult, 2).pages[0].picture


def test_a_dialect_without_words_for_a_result_does_not_pass():
    class Mute(type(suite_of("tiny").dialect)):
        def format_result(self, request: Any, result: Any) -> str:
            if isinstance(result, PdfResult):
                raise AssertionError("no words")
            return super().format_result(request, result)

    suite = suite_of("tiny")()
    suite.dialect = Mute(import_module("handhold.dialects.tiny").__file__)
    with pytest.raises(AssertionError, match="no words"):
        suite.test_every_result_has_words()


def test_r39_a_failing_suite_says_what_failed():
    """pytest explains the asserts of test files only, so each of these explains itself."""
    source = parse(Path(testing.__file__).read_text())
    bare = [node.lineno for node in walk(source) if isinstance(node, Assert) and not isinstance(node.msg, JoinedStr)]
    assert not bare
