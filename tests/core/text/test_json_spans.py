import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.core.text.json_spans import MAX_VALUES, BadJson, JsonNode, estimate_value_count, parse_json
from tests.suites.notebooks import written

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**17), 10**17) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


def nodes(node: JsonNode):
    yield node
    for part in node.children:
        yield from nodes(part.node)


@given(VALUES, st.integers(0, 4), st.data())
def test_it_reads_what_the_standard_decoder_reads_and_every_value_stands_where_it_says(value, depth, data):
    text = data.draw(written(value))
    found = parse_json(text, depth=depth)
    assert found.value == json.loads(text) == value
    for node in nodes(found):
        assert json.loads(text[node.start : node.end]) == node.value


@given(VALUES, st.data())
def test_gaps_and_parts_together_are_the_text(value, data):
    text = data.draw(written(value))
    for node in nodes(parse_json(text, depth=5)):
        if node.children:
            gaps = node.read_gaps(text)
            inner = "".join(
                gap + text[part.start : part.node.end] for gap, part in zip(gaps, node.children, strict=False)
            )
            assert text[node.start + 1 : node.end - 1] == inner + gaps[-1]
            assert not "".join(gaps).replace(",", "").strip(" \t\r\n")


@given(st.text(alphabet='[]{}",:1 \\a\n', max_size=12))
def test_what_the_standard_decoder_refuses_is_refused(text):
    try:
        json.loads(text)
    except ValueError:
        with pytest.raises(BadJson):
            parse_json(text, depth=3)
    else:
        assert parse_json(text, depth=3).value == json.loads(text)


def test_a_name_that_stands_twice_is_told():
    assert parse_json('{"a": 1, "b": 2, "a": 3}', depth=1).duplicate_name == "a"
    assert parse_json('{"a": 1, "": 2, "": 3}', depth=1).duplicate_name == ""
    assert parse_json('{"a": 1, "b": 2}', depth=1).duplicate_name is None


def test_what_python_writes_is_read():
    assert str(parse_json("[NaN, Infinity, -Infinity]", depth=1).value) == "[nan, inf, -inf]"
    assert parse_json('"\\ud800"', depth=1).value == "\ud800"


def test_a_number_that_nobody_counts_to_is_left_as_it_is_spelled():
    assert parse_json(f"[{'9' * 9000}]", depth=1).value == ["9" * 9000]


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 100_000 + "]" * 100_000])
def test_deep_nesting_is_refused(text):
    with pytest.raises(BadJson, match="deep"):
        parse_json(text, depth=3)


def test_more_values_than_memory_should_hold_are_refused_before_they_are_read():
    with pytest.raises(BadJson, match="values"):
        parse_json("[" + "[]," * MAX_VALUES + "0]", depth=1)


def test_commas_in_strings_are_no_values():
    text = json.dumps(["," * 2 * MAX_VALUES, '\\",'])
    assert estimate_value_count(text) == 2
    assert len(parse_json(text, depth=1).children) == 2


def test_a_string_without_an_end_is_gone_through_once():
    text = "[" + "," * 2 * MAX_VALUES + '"' + '\\"' * 5_000_000
    assert estimate_value_count(text) == 2 * MAX_VALUES + 1
    assert estimate_value_count(text + "\\") == 2 * MAX_VALUES + 1
